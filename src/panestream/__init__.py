"""panestream: Flink's windows for PySpark, on streams and on batches, columnar and exactly once.

Names are loaded when they are first used: Spark starts fresh Pythons that need a single module of this package, and should
not wait for all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from panestream import errors
    from panestream.datastream import DataStream, KeyedStream, WindowedResult, WindowedStream, stream
    from panestream.spark.arrival import FILE_ORDER
    from panestream.spark.progress import BatchProgress
    from panestream.spark.query import RunningQuery
    from panestream.spark.session import build_session
    from panestream.spark.shipping import ship
    from panestream.spark.sinks.base import Sink
    from panestream.spark.sinks.files import FileSink, ParquetSink
    from panestream.spark.sinks.merging import MergeSink
    from panestream.spark.sinks.others import ConsoleSink, ForeachBatchSink, MemorySink
    from panestream.spark.sinks.tables import TableSink
    from panestream.windowing import aggregates as agg
    from panestream.windowing.assigners import (
        CumulatingEventTimeWindows,
        CumulatingProcessingTimeWindows,
        EventTimeSessionWindows,
        GlobalWindows,
        MergingWindowAssigner,
        ProcessingTimeSessionWindows,
        SlidingEventTimeWindows,
        SlidingProcessingTimeWindows,
        TumblingEventTimeWindows,
        TumblingProcessingTimeWindows,
        WindowAssigner,
        WindowStagger,
    )
    from panestream.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
    from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, WindowFunction, WindowFunctionError
    from panestream.windowing.state import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from panestream.windowing.triggers import (
        ContinuousEventTimeTrigger,
        ContinuousProcessingTimeTrigger,
        CountTrigger,
        DeltaTrigger,
        EndOfStreamTrigger,
        EventTimeTrigger,
        NeverTrigger,
        ProcessingTimeoutTrigger,
        ProcessingTimeTrigger,
        PurgingTrigger,
        Trigger,
        TriggerResult,
    )
    from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
    from panestream.windowing.windows import GlobalWindow, TimeWindow

__all__ = [
    "FILE_ORDER",
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "BatchProgress",
    "ConsoleSink",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountTrigger",
    "CumulatingEventTimeWindows",
    "CumulatingProcessingTimeWindows",
    "DataStream",
    "DeltaEvictor",
    "DeltaTrigger",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "FileSink",
    "ForeachBatchSink",
    "GlobalWindow",
    "GlobalWindows",
    "KeyedStream",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "MemorySink",
    "MergeSink",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ParquetSink",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "ReducingStateDescriptor",
    "RunningQuery",
    "Sink",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TableSink",
    "TimeEvictor",
    "TimeWindow",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "ValueStateDescriptor",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "WindowAssigner",
    "WindowFunction",
    "WindowFunctionError",
    "WindowStagger",
    "WindowedResult",
    "WindowedStream",
    "agg",
    "build_session",
    "errors",
    "ship",
    "stream",
]

_MODULES = {"agg": "panestream.windowing.aggregates", "errors": "panestream.errors"}
_HOMES = {
    "panestream.datastream": ("DataStream", "KeyedStream", "WindowedResult", "WindowedStream", "stream"),
    "panestream.spark.arrival": ("FILE_ORDER",),
    "panestream.spark.progress": ("BatchProgress",),
    "panestream.spark.query": ("RunningQuery",),
    "panestream.spark.session": ("build_session",),
    "panestream.spark.shipping": ("ship",),
    "panestream.spark.sinks.base": ("Sink",),
    "panestream.spark.sinks.files": ("FileSink", "ParquetSink"),
    "panestream.spark.sinks.merging": ("MergeSink",),
    "panestream.spark.sinks.others": ("ConsoleSink", "ForeachBatchSink", "MemorySink"),
    "panestream.spark.sinks.tables": ("TableSink",),
    "panestream.windowing.assigners": (
        "CumulatingEventTimeWindows",
        "CumulatingProcessingTimeWindows",
        "EventTimeSessionWindows",
        "GlobalWindows",
        "MergingWindowAssigner",
        "ProcessingTimeSessionWindows",
        "SlidingEventTimeWindows",
        "SlidingProcessingTimeWindows",
        "TumblingEventTimeWindows",
        "TumblingProcessingTimeWindows",
        "WindowAssigner",
        "WindowStagger",
    ),
    "panestream.windowing.evictors": ("CountEvictor", "DeltaEvictor", "Evictor", "TimeEvictor"),
    "panestream.windowing.functions": ("AggregateFunction", "ProcessWindowFunction", "WindowFunction", "WindowFunctionError"),
    "panestream.windowing.state": (
        "AggregatingStateDescriptor",
        "ListStateDescriptor",
        "MapStateDescriptor",
        "ReducingStateDescriptor",
        "ValueStateDescriptor",
    ),
    "panestream.windowing.triggers": (
        "ContinuousEventTimeTrigger",
        "ContinuousProcessingTimeTrigger",
        "CountTrigger",
        "DeltaTrigger",
        "EndOfStreamTrigger",
        "EventTimeTrigger",
        "NeverTrigger",
        "ProcessingTimeTrigger",
        "ProcessingTimeoutTrigger",
        "PurgingTrigger",
        "Trigger",
        "TriggerResult",
    ),
    "panestream.windowing.watermarks": ("WatermarkGenerator", "WatermarkOutput", "WatermarkStrategy"),
    "panestream.windowing.windows": ("GlobalWindow", "TimeWindow"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _HOME_OF:
        raise AttributeError(f"module 'panestream' has no attribute {name!r}")
    try:
        value = import_module(_MODULES[name]) if name in _MODULES else getattr(import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ModuleNotFoundError(
            "panestream needs PySpark and there is none here: pip install 'panestream[spark]'", name="pyspark"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
