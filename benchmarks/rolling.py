"""Rolling sums over the last hours, every minute: one window, and three of them in one pass over the data.

python -m benchmarks.run --cases rolling_one rolling_three --keys 100
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

import panestream as pst
from benchmarks.cases import Checks, SumCount
from benchmarks.events import EventSpec
from panestream import agg
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS

SETTINGS = {**STREAM_SETTINGS, **BIRTH_SETTINGS}
"""The settings that ``build_session`` and ``result.start`` set for every user."""
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Rolling(SumCount):
    """Sum and count over the last ``size_ms``, and over some shorter times.

    Attributes:
        also_ms: the shorter sizes.
    """

    also_ms: tuple[int, ...] = ()

    contestants = {"panestream": "benchmarks.rolling"}  # noqa: RUF012 - the ClassVar is declared above
    rate = 100

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        """Add up the answers of all sizes."""
        alone = [SumCount("", size, self.slide_ms).expected(spec, bound_ms) for size in (self.size_ms, *self.also_ms)]
        return Checks(sum(each.rows for each in alone), sum(each.total for each in alone), sum(each.events for each in alone))


ROLLING_CASES = {
    case.name: case
    for case in (
        Rolling("rolling_one", 24 * _HOUR_MS, 60_000),
        Rolling("rolling_three", 24 * _HOUR_MS, 60_000, (_HOUR_MS, 12 * _HOUR_MS)),
    )
}


def query(events: DataFrame, case: Rolling, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``, and ``window``, the label of the size, for several sizes."""
    keyed = (
        pst.stream(events)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{spec.disorder_ms} milliseconds"))
        .key_by("key")
    )
    sizes = {
        f"{size // _HOUR_MS}h": pst.SlidingEventTimeWindows.of(f"{size} ms", case.slide) for size in (case.size_ms, *case.also_ms)
    }
    windowed = keyed.windows(sizes) if case.also_ms else keyed.window(*sizes.values())
    return windowed.aggregate(agg.sum("value").alias("total"), agg.count("value").alias("events")).main
