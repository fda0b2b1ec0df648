"""Contestant: panestream, for windows that ``benchmarks/panestream_job.py`` does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import panestream as pst
from benchmarks.cases import Case
from benchmarks.events import EventSpec
from benchmarks.flink.workloads import CountWindows, OverElements, Sessions
from panestream import agg
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS

SETTINGS = {**STREAM_SETTINGS, **BIRTH_SETTINGS}
"""The settings that ``build_session`` and ``result.start`` set for every user."""


def sum_and_count(_key: Any, _window: Any, elements: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Return sum and number of the values of a window. The second argument may also be a context."""
    yield sum(element.value for element in elements), len(elements)


def sums_and_counts(rows: pa.Table) -> pa.Table:
    """Return sum and number of the values of all windows in a table."""
    windows = rows.group_by(["key", "window_start", "window_end"])
    return windows.aggregate([("value", "sum"), ("value", "count")]).rename_columns(
        {"value_sum": "total", "value_count": "events"}
    )


def over_elements(windowed: pst.datastream.WindowedStream, shape: str) -> pst.datastream.WindowedResult:
    """Apply one of the functions to the windows."""
    schema = "total bigint, events bigint"
    if shape == "apply_arrow":
        return windowed.apply_arrow(sums_and_counts, schema, all_windows=True)
    if shape == "apply":
        return windowed.apply(sum_and_count, schema)
    return windowed.process(sum_and_count, schema, stateless=shape == "stateless")


def query(events: DataFrame, case: Case, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``."""
    declared = agg.sum("value").alias("total"), agg.count("value").alias("events")
    stream = pst.stream(events.select("key", "value", "ts"))
    timed = stream.assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{spec.disorder_ms} milliseconds"))
    if isinstance(case, Sessions):
        result = timed.key_by("key").window(pst.EventTimeSessionWindows.with_gap(case.gap)).aggregate(*declared)
    elif isinstance(case, CountWindows):
        # As in the Flink job, event time is not used.
        result = stream.key_by("key").count_window(case.every).aggregate(*declared)
    elif isinstance(case, OverElements):
        result = over_elements(timed.key_by("key").window(pst.TumblingEventTimeWindows.of(case.size)), case.shape)
    else:
        raise TypeError(f"no query for {case!r}")
    return result.main.select("key", "window_end", "total", "events")
