"""The history of a run in a bounded number of points, each of one or several micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from panestream.spark.progress.micro_batch import BatchProgress
from panestream.windowing.time import MAX_TIMESTAMP

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
        self.slowest = sorted([*self.slowest, slow], key=lambda one: -one[1])[:SLOWEST]
        # At most one entry for each key group, which are a few hundred.
        if progress.most_rows_group >= 0:
            times, rows = self.heaviest.get(progress.most_rows_group, (0, 0))
            self.heaviest[progress.most_rows_group] = times + 1, rows + progress.most_rows

    @property
    def total(self) -> RunPoint | None:
        """All micro-batches as one point, or None before the first."""
        return self._total


__all__ = ["MOST", "Points", "RunPoint"]
