"""panestream: Flink's windows for PySpark, on streams and on batches, columnar and exactly once.

A query, from files to files::

    import panestream as pst
    from pyspark.sql import functions as F

    spark = pst.build_session("clicks")
    clicks = spark.readStream.schema("user STRING, price DOUBLE, ts TIMESTAMP").json("clicks")
    events = pst.stream(clicks, time="ts", out_of_orderness="5 seconds")
    totals = events.group_by("user", pst.tumbling("10 minutes")).agg(F.sum("price").alias("total"))
    totals.start(main=pst.ParquetSink("out"), checkpoint="checkpoint").await_termination()
    spark.read.parquet("out").show()

- Windows: ``pst.tumbling``, ``sliding``, ``session``, ``count``; ``cumulating`` for the day so far.
- Corrections by late rows: ``.allowed_lateness("5 minutes")``; rows that are even later: ``.side_output_late_data("late")``.
- The last window of a stream waits for newer rows. ``start(..., fire_at_end=True)`` closes it when the input ends.
- The largest of each window: ``.top(3, "total")``. A Python function over the rows of a window: ``.apply(function, schema)``.

Further names are in the namespaces ``pst.windows``, ``pst.triggers``, ``pst.evictors``, ``pst.functions``, ``pst.state``,
``pst.sinks``, ``pst.tools``, ``pst.order``, ``pst.datastream``, ``pst.metrics``, ``pst.testing`` and ``pst.errors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
"""As in pyproject.toml. A constant, since asking for the metadata of packages takes longer than importing this."""

if TYPE_CHECKING:
    from panestream import datastream as datastream
    from panestream import errors as errors
    from panestream import evictors as evictors
    from panestream import functions as functions
    from panestream import metrics as metrics
    from panestream import order as order
    from panestream import sinks as sinks
    from panestream import state as state
    from panestream import testing as testing
    from panestream import tools as tools
    from panestream import triggers as triggers
    from panestream import windows as windows
    from panestream.datastream import prepare as prepare
    from panestream.datastream import stream as stream
    from panestream.datastream.kafka import from_kafka as from_kafka
    from panestream.datastream.stored import from_panes as from_panes
    from panestream.spark.progress.micro_batch import BatchProgress as BatchProgress
    from panestream.spark.query import RunningQuery as RunningQuery
    from panestream.spark.savepoint.saved import savepoint as savepoint
    from panestream.spark.session import build_session as build_session
    from panestream.spark.sinks.debug_and_foreach import ConsoleSink as ConsoleSink
    from panestream.spark.sinks.debug_and_foreach import ForeachBatchSink as ForeachBatchSink
    from panestream.spark.sinks.debug_and_foreach import MemorySink as MemorySink
    from panestream.spark.sinks.files import FileSink as FileSink
    from panestream.spark.sinks.files import ParquetSink as ParquetSink
    from panestream.spark.sinks.kafka import KafkaSink as KafkaSink
    from panestream.spark.sinks.merging import MergeSink as MergeSink
    from panestream.spark.sinks.tables import TableSink as TableSink
    from panestream.windowing import aggregates as _aggregates
    from panestream.windowing.assigners import BusinessDays as BusinessDays
    from panestream.windowing.assigners import BusinessHours as BusinessHours
    from panestream.windowing.assigners import CalendarDays as CalendarDays
    from panestream.windowing.assigners import CalendarHours as CalendarHours
    from panestream.windowing.assigners import CalendarMonths as CalendarMonths
    from panestream.windowing.assigners import CalendarWeeks as CalendarWeeks
    from panestream.windowing.assigners import CalendarYears as CalendarYears
    from panestream.windowing.assigners import CumulatingEventTimeWindows as CumulatingEventTimeWindows
    from panestream.windowing.assigners import CumulatingProcessingTimeWindows as CumulatingProcessingTimeWindows
    from panestream.windowing.assigners import EventTimeSessionWindows as EventTimeSessionWindows
    from panestream.windowing.assigners import GlobalWindows as GlobalWindows
    from panestream.windowing.assigners import LookBackWindows as LookBackWindows
    from panestream.windowing.assigners import PredicateWindows as PredicateWindows
    from panestream.windowing.assigners import ProcessingTimeSessionWindows as ProcessingTimeSessionWindows
    from panestream.windowing.assigners import SlidingEventTimeWindows as SlidingEventTimeWindows
    from panestream.windowing.assigners import SlidingProcessingTimeWindows as SlidingProcessingTimeWindows
    from panestream.windowing.assigners import TumblingEventTimeWindows as TumblingEventTimeWindows
    from panestream.windowing.assigners import TumblingProcessingTimeWindows as TumblingProcessingTimeWindows
    from panestream.windowing.assigners import count as count
    from panestream.windowing.assigners import cumulating as cumulating
    from panestream.windowing.assigners import rolling as rolling
    from panestream.windowing.assigners import session as session
    from panestream.windowing.assigners import sliding as sliding
    from panestream.windowing.assigners import tumbling as tumbling
    from panestream.windowing.functions import AggregateFunction as AggregateFunction
    from panestream.windowing.functions import ProcessWindowFunction as ProcessWindowFunction
    from panestream.windowing.triggers import AfterWatermark as AfterWatermark
    from panestream.windowing.triggers import ContinuousEventTimeTrigger as ContinuousEventTimeTrigger
    from panestream.windowing.triggers import CountTrigger as CountTrigger
    from panestream.windowing.triggers import PurgingTrigger as PurgingTrigger
    from panestream.windowing.watermarks import WatermarkStrategy as WatermarkStrategy

    agg = _aggregates

_NAMESPACES = ("windows", "triggers", "evictors", "functions", "state", "sinks", "tools", "order", "datastream")
"""The modules with further public names. Not all are here: ``agg``, ``errors``, ``metrics`` and ``testing`` have their own
lists."""


if not TYPE_CHECKING:  # a type checker must refuse unknown names

    def __getattr__(name: str) -> Any:
        from panestream.lazy_names import LazyNames, in_namespaces

        names = LazyNames(__name__)
        return names.get(name) if name == "__all__" or name in names.homes else in_namespaces(names, name, _NAMESPACES)


def __dir__() -> list[str]:
    from panestream.lazy_names import LazyNames

    return LazyNames(__name__).names()
