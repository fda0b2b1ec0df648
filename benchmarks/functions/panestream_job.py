"""Contestant: panestream, as its users write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.cases import Case
from benchmarks.events import EventSpec
from benchmarks.functions.cases import MICRO, Counted, Evicted, OwnMean, SessionMedian, median
from panestream.spark.session import STREAM_SETTINGS
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.evictors import TimeEvictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, WindowContext, WindowFunction
from panestream.windowing.triggers import CountTrigger, PurgingTrigger
from panestream.windowing.windows import Window

SETTINGS = dict(STREAM_SETTINGS)
"""The settings that ``build_session`` and ``result.start`` set for every user."""


class BatchSum(AggregateFunction):
    """The sum of ``batch``."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.batch)

    def get_result(self, accumulator: int) -> int:
        return accumulator


class Mean(AggregateFunction):
    """The mean of ``value``."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class CountAndMedian(ProcessWindowFunction):
    """Number and median of the values."""

    def process(self, key: Any, context: WindowContext, elements: Sequence[Any]) -> Iterator[tuple[int, float]]:
        yield len(elements), median([element.value for element in elements])


class SumAndCount(WindowFunction):
    """Sum and number of the values that the evictor left."""

    def apply(self, key: Any, window: Window, inputs: Sequence[Any]) -> Iterator[tuple[int, int]]:
        yield sum(element.value for element in inputs), len(inputs)


def _keyed(events: DataFrame, spec: EventSpec, column: str = "value") -> pst.datastream.KeyedStream:
    # Functions get whole rows, so users select only the columns that their function reads.
    return (
        pst.stream(events.select("key", column, "ts"))
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{spec.disorder_ms} milliseconds"))
        .key_by("key")
    )


def counted(events: DataFrame, case: Counted, spec: EventSpec) -> DataFrame:
    """Count trigger, purging."""
    windows = _keyed(events, spec, "batch").window(GlobalWindows.create())
    result = windows.trigger(PurgingTrigger.of(CountTrigger.of(case.every))).aggregate_with(BatchSum(), schema="total bigint")
    return result.main.select("key", "window_end", "total", F.lit(case.every).cast("bigint").alias("events"))


def sessions(events: DataFrame, case: SessionMedian, spec: EventSpec) -> DataFrame:
    """Return sessions with a function over all rows of each."""
    windows = _keyed(events, spec).window(EventTimeSessionWindows.with_gap(case.gap))
    result = windows.process(CountAndMedian(), schema="events bigint, median double")
    return result.main.select("key", "window_start", "window_end", (F.col("median") * 2).cast("bigint").alias("total"), "events")


def evicted(events: DataFrame, case: Evicted, spec: EventSpec) -> DataFrame:
    """Return sliding windows with an evictor before the function."""
    windows = _keyed(events, spec).window(
        SlidingEventTimeWindows.of(f"{case.size_ms} milliseconds", f"{case.slide_ms} milliseconds")
    )
    evicting = windows.evictor(TimeEvictor.of(f"{case.keep_ms} milliseconds"))
    result = evicting.apply(SumAndCount(), schema="total bigint, events bigint")
    return result.main.select("key", "window_end", "total", "events")


def own_mean(events: DataFrame, case: OwnMean, spec: EventSpec) -> DataFrame:
    """Tumbling windows with a user-defined aggregate function."""
    windows = _keyed(events, spec).window(TumblingEventTimeWindows.of(case.size))
    result = windows.aggregate_with(Mean(), schema="mean double")
    total = (F.col("mean") * MICRO).cast("bigint").alias("total")
    return result.main.select("key", "window_end", total, F.lit(1).cast("bigint").alias("events"))


QUERIES: dict[str, Callable[[DataFrame, Any, EventSpec], DataFrame]] = {
    "counted": counted,
    "sessions": sessions,
    "evicted": evicted,
    "own_mean": own_mean,
}


def query(events: DataFrame, case: Case, spec: EventSpec) -> DataFrame:
    """Return at least columns ``key, window_end, total, events``."""
    return QUERIES[case.name](events, case, spec)
