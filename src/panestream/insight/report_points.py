"""What a report records of a run: the lateness of its rows, and a point for each micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from panestream.datastream import WindowedResult
from panestream.engine.kernels.panes import EvenWindows, SlidingWindows
from panestream.engine.operators.panes.rule import pane_grid, why_not_aligned
from panestream.insight.delays import Closes, Completeness, bins_of
from panestream.spark.columns import micros_of
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.windowing.time import MAX_TIMESTAMP

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
    if not all(isinstance(window, EvenWindows) for window in closes(result).windows):
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
    ends = [_last_instant(time, window) for window in when.windows if isinstance(window, EvenWindows)]
    found = F.greatest(time, *ends) if ends else time
    return found + F.lit(when.lateness).cast("bigint")


def _last_instant(time: Column, windows: EvenWindows) -> Column:
    """Return the last instant of the last window that begins by a time."""
    shifted = time - F.lit(windows.offset).cast("bigint")
    if isinstance(windows, SlidingWindows):
        start = time - F.pmod(shifted, F.lit(windows.slide).cast("bigint"))
        return start + F.lit(windows.size - 1).cast("bigint")
    return time - F.pmod(shifted, F.lit(windows.size).cast("bigint")) + F.lit(windows.size - 1).cast("bigint")


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


MOST = 512
"""The maximum number of points, above which neighbours are merged in pairs."""
SLOWEST = 5
_SUMS = (
    *("batches", "rows", "busy_ms", "late", "dropped", "invalid", "outside", "fired_rows", "fired_windows"),
    *("early", "on_time", "late_firings", "most_rows", "judged_rows", "operator_us", "most_us"),
)


@dataclass(frozen=True, slots=True)
class RunPoint:
    """One or several consecutive micro-batches, with instants in microseconds since the epoch.

    Counts are sums, and ``most_rows`` and ``most_us`` sum only the largest key group of each micro-batch. Peaks are maxima.
    Fields from ``watermark`` to ``groups`` are values after the last micro-batch.
    """

    began: int
    ended: int
    batches: int = 1
    rows: int = 0
    busy_ms: int = 0
    late: int = 0
    dropped: int = 0
    invalid: int = 0
    outside: int = 0
    fired_rows: int = 0
    fired_windows: int = 0
    early: int = 0
    on_time: int = 0
    late_firings: int = 0
    most_rows: int = 0
    judged_rows: int = 0
    operator_us: int = 0
    most_us: int = 0
    watermark: int | None = None
    newest: int | None = None
    open_windows: int | None = None
    state_bytes: int = 0
    most_bytes: int = 0
    groups: int = 1
    peak_open: int = 0
    peak_bytes: int = 0

    @classmethod
    def of(cls, progress: BatchProgress, began: int) -> RunPoint:
        """Return the point of one micro-batch that began at an instant of the clock."""
        return cls(
            began=began,
            ended=began + 1000 * progress.duration_ms,
            rows=progress.rows,
            busy_ms=progress.duration_ms,
            late=progress.late_rows,
            dropped=progress.dropped_rows,
            invalid=progress.invalid_rows,
            outside=progress.outside_rows,
            fired_rows=progress.fired_rows,
            fired_windows=progress.fired_windows,
            early=progress.early_firings,
            on_time=progress.on_time_firings,
            late_firings=progress.late_firings,
            most_rows=progress.most_rows,
            judged_rows=progress.windowed_rows + progress.late_rows + progress.outside_rows,
            operator_us=progress.operator_us,
            most_us=progress.most_us,
            watermark=_time(progress.watermark),
            newest=_time(progress.max_event_time),
            open_windows=progress.open_windows,
            state_bytes=progress.state_bytes,
            most_bytes=progress.most_bytes,
            groups=progress.groups,
            peak_open=progress.open_windows or 0,
            peak_bytes=progress.state_bytes,
        )

    def then(self, other: RunPoint) -> RunPoint:
        """Merge this point with the next one."""
        found = {each.name: getattr(other, each.name) for each in fields(self)}
        found |= {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        found |= {name: getattr(self, name) if found[name] is None else found[name] for name in ("watermark", "newest")}
        found |= {name: max(getattr(self, name), getattr(other, name)) for name in ("peak_open", "peak_bytes")}
        return RunPoint(**{**found, "began": self.began})

    @property
    def rows_per_second(self) -> float:
        """Throughput while micro-batches ran."""
        return 1000 * self.rows / self.busy_ms if self.busy_ms else 0.0

    @property
    def skew(self) -> Mapping[str, float]:
        """The largest key group as a multiple of the mean, by rows, time and bytes of state."""
        shares = {
            "rows": (self.most_rows, self.judged_rows),
            "time": (self.most_us, self.operator_us),
            "state": (self.most_bytes, self.state_bytes),
        }
        return {name: self.groups * most / every for name, (most, every) in shares.items() if every}


def _time(micros: int | None) -> int | None:
    """Replace the beginning and the end of time by None."""
    return None if micros is None or abs(micros) >= MAX_TIMESTAMP // 2 else micros


@dataclass(slots=True)
class Points:
    """The points of a run, its slowest micro-batches (number, milliseconds, rows), and its heaviest key groups (times, rows)."""

    most: int = MOST
    points: list[RunPoint] = field(default_factory=list)
    slowest: list[tuple[int, int, int]] = field(default_factory=list)
    heaviest: dict[int, tuple[int, int]] = field(default_factory=dict)
    _each: int = 1
    _total: RunPoint | None = None

    def add(self, progress: BatchProgress, began: int) -> None:
        """Add a completed micro-batch."""
        point = RunPoint.of(progress, began)
        self._total = point if self._total is None else self._total.then(point)
        if self.points and self.points[-1].batches < self._each:
            self.points[-1] = self.points[-1].then(point)
        else:
            self.points.append(point)
        if len(self.points) > self.most:
            pairs = [self.points[place : place + 2] for place in range(0, len(self.points), 2)]
            self.points = [pair[0].then(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
            self._each *= 2
        slow = (progress.batch_id, progress.duration_ms, progress.rows)
        self.slowest = sorted([*self.slowest, slow], key=lambda each: -each[1])[:SLOWEST]
        # At most one entry for each key group, which are a few hundred.
        if progress.most_rows_group >= 0:
            times, rows = self.heaviest.get(progress.most_rows_group, (0, 0))
            self.heaviest[progress.most_rows_group] = times + 1, rows + progress.most_rows

    @property
    def total(self) -> RunPoint | None:
        """All micro-batches as one point, or None before the first."""
        return self._total
