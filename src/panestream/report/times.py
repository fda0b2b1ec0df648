"""The lateness of rows in a run, from quantiles of event times that Spark observes while reading, compared with the watermark.

In a micro-batch of ``n`` rows, the rank of a quantile is accurate to ``n / 10,000`` rows. The earlier of two quantiles stands
for all rows between them. Therefore reported delays are rather too long than too short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from panestream.advisor.needed import Closes, Completeness, bins_of
from panestream.datastream import WindowedResult
from panestream.engine.kernels.slicing import EvenWindows, SlidingWindows
from panestream.engine.operators.panes.spec import pane_grid, why_not_aligned
from panestream.spark.columns import micros_of
from panestream.spark.compat import silence_analysis_errors

OBSERVED_TIMES = "panestream_times"
LEVELS: tuple[float, ...] = (
    *(0.0, 0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075),
    *(each / 200 for each in range(2, 60)),
    *(each / 50 for each in range(15, 50)),
)
"""Quantile levels. Up to 30 %, they are at most 0.5 % of the rows apart, because late rows have early event times."""
_ACCURACY = 10_000


def watched(result: WindowedResult) -> WindowedResult | None:
    """Return the query with observed event times, or None if they cannot be observed."""
    events = result.windowed.keyed.source
    # Order columns may be file columns, which are resolved at the source itself.
    if events.event_time is None or events.order or result.windowed.keyed.source.watermark.delay is None:
        return None
    # Spark cannot compute the end of calendar windows, because it has different zone rules.
    if not all(isinstance(one, EvenWindows) for one in closes(result).windows):
        return None
    with silence_analysis_errors():
        time = closes_of(micros_of(events.df, events.event_time, events.unit), closes(result))
        quantiles = F.percentile_approx(time, [*LEVELS], _ACCURACY)
        df = events.df.observe(OBSERVED_TIMES, F.count(time).alias("rows"), quantiles.alias("times"))
        df.schema  # noqa: B018 - Spark Connect reports errors only when the schema is read
    source = replace(events, df=df)
    return replace(result, windowed=replace(result.windowed, keyed=replace(result.windowed.keyed, source=source)))


def closes(result: WindowedResult) -> Closes:
    """Return when rows of a query are late: by their last window if windows are aligned for all keys, or by the watermark."""
    spec = result.windowed.windowing
    aligned = spec.assigner.is_event_time and not why_not_aligned(spec.assigner)
    return Closes(pane_grid(spec.assigner).windows if aligned else (), spec.allowed_lateness)


def closes_of(time: Column, when: Closes) -> Column:
    """Express :meth:`Closes.of` in Spark."""
    ends = [_last_instant(time, one) for one in when.windows if isinstance(one, EvenWindows)]
    found = F.greatest(time, *ends) if ends else time
    return found + F.lit(when.lateness).cast("bigint")


def _last_instant(time: Column, one: EvenWindows) -> Column:
    """Return the last instant of the last window that begins by a time."""
    shifted = time - F.lit(one.offset).cast("bigint")
    if isinstance(one, SlidingWindows):
        start = time - F.pmod(shifted, F.lit(one.slide).cast("bigint"))
        return start + F.lit(one.size - 1).cast("bigint")
    return time - F.pmod(shifted, F.lit(one.size).cast("bigint")) + F.lit(one.size - 1).cast("bigint")


@dataclass(slots=True)
class ObservedDelays:
    """The delays that rows of a run needed, in a bounded number of bins with their number of rows and largest delay."""

    delay: int
    bins: dict[int, tuple[int, int]] = field(default_factory=dict)
    rows: int = 0

    def add(self, rows: int, times: Sequence[int], watermark_before: int | None) -> None:
        """Add a micro-batch of ``rows`` rows with event time, whose closing times are ``times`` at :data:`LEVELS`."""
        if not rows or not times:
            return
        edges = np.rint(np.array([*LEVELS, 1.0]) * rows).astype(np.int64)
        counts = np.diff(edges)
        counts[-1] += rows - counts.sum()
        found = np.array(times, np.int64)
        frontier = None if watermark_before is None else watermark_before + self.delay + 1
        needed = np.zeros(len(found), np.int64) if frontier is None else np.maximum(frontier - found, 0)
        for number, count, delay in zip(bins_of(needed).tolist(), counts.tolist(), needed.tolist(), strict=True):
            before, largest = self.bins.get(number, (0, 0))
            if count:
                self.bins[number] = before + count, max(largest, delay)
        self.rows += rows

    @property
    def completeness(self) -> Completeness:
        """The number of rows that each delay keeps."""
        return Completeness.of((largest, rows) for rows, largest in self.bins.values())


def observed_in(spark: Mapping[str, Any]) -> tuple[int, list[int]] | None:
    """Return the rows and quantiles of a micro-batch from Spark's progress, or None if they were not observed."""
    found = (spark.get("observedMetrics") or {}).get(OBSERVED_TIMES)
    if found is None:
        return None
    counters = found.asDict()
    if set(counters) == {"values", "schema"}:  # Spark Connect
        counters = dict(zip([each["name"] for each in counters["schema"]["fields"]], counters["values"], strict=True))
    return int(counters["rows"] or 0), [int(each) for each in counters["times"] or ()]


__all__ = ["LEVELS", "OBSERVED_TIMES", "ObservedDelays", "closes", "closes_of", "observed_in", "watched"]
