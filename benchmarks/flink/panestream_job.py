"""Contestant: panestream, where the windows are not those of ``benchmarks/panestream_job.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

import panestream as pst
from benchmarks.cases import Case
from benchmarks.events import EventSpec
from benchmarks.flink.workloads import CountWindows, OverElements, Sessions
from panestream import agg
from panestream.spark.session import STREAM_SETTINGS

SETTINGS = dict(STREAM_SETTINGS)
"""What ``build_session`` and ``result.start`` set for every user."""


class SumAndCount(pst.ProcessWindowFunction):
    """Sum and number of the values of a window."""

    def process(self, key: Any, context: Any, elements: Sequence[Any]) -> Iterator[tuple[int, int]]:
        yield sum(element.value for element in elements), len(elements)


def query(events: DataFrame, case: Case, spec: EventSpec) -> DataFrame:
    """Columns ``key, window_end, total, events``."""
    declared = agg.sum("value").alias("total"), agg.count("value").alias("events")
    stream = pst.stream(events.select("key", "value", "ts"))
    timed = stream.assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{spec.disorder_ms} milliseconds"))
    if isinstance(case, Sessions):
        result = timed.key_by("key").window(pst.EventTimeSessionWindows.with_gap(case.gap)).aggregate(*declared)
    elif isinstance(case, CountWindows):
        # As in the Flink job, event time plays no part.
        result = stream.key_by("key").count_window(case.every).aggregate(*declared)
    elif isinstance(case, OverElements):
        windows = timed.key_by("key").window(pst.TumblingEventTimeWindows.of(case.size))
        result = windows.process(SumAndCount(), schema="total bigint, events bigint")
    else:
        raise TypeError(f"no query for {case!r}")
    return result.main.select("key", "window_end", "total", "events")
