"""Four windows that need more than declared aggregates, the functions that users would write for them, and the right answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.cases import Case, Checks, Int64s, SortedSessions, SumCount, largest_ms
from benchmarks.events import EventSpec, all_events

MICRO = 1_000_000
"""A mean is checked in millionths, rounded down: an integer, so that sums over many are exact."""


def median(values: Sequence[int]) -> float:
    """Return the median, which the process functions of both sides compute for sessions."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return float(ordered[middle]) if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class _Functions(Case):
    contestants = {  # noqa: RUF012 - the ClassVar is declared in the base class
        "panestream": "benchmarks.functions.panestream_job",
        "per_key": "benchmarks.functions.per_key",
    }
    limits = {"floor": "benchmarks.functions.floor"}  # noqa: RUF012


@dataclass(frozen=True)
class Counted(_Functions):
    """Emit the sum of ``batch`` of every ``every`` rows of a key, and drop these rows.

    Which rows of a batch complete a hundred depends on the order in which tasks deliver them. So the summed value is the same for
    all rows of a batch. Any order gives the same sums, and a row of a wrong batch gives another sum.
    """

    every: int = 100

    @property
    def span_ms(self) -> int:
        return 0

    def bound_ms(self, spec: EventSpec) -> None:
        """Return None, since no watermark is used."""

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        events = all_events(spec)
        cell = events["key"] * spec.batches + events["batch"]
        seen = np.bincount(cell, minlength=spec.keys * spec.batches).reshape(spec.keys, spec.batches).cumsum(axis=1)
        firings = seen[:, -1] // self.every
        # For each batch, the rows before the last firing of their key.
        fired = np.minimum(seen, (firings * self.every)[:, None])
        taken = np.diff(fired, axis=1, prepend=0)
        return Checks(int(firings.sum()), int((taken * np.arange(spec.batches)).sum()), int(firings.sum()) * self.every)


@dataclass(frozen=True)
class SessionMedian(_Functions):
    """Sessions of a key: number of rows and the median of ``value``, by a function that gets all rows of the session."""

    gap_ms: int = 30_000

    # A key has a row every ten seconds on average, so one gap in twenty is longer than 30 s and ends a session.
    rate: ClassVar[int] = 1_000

    @property
    def span_ms(self) -> int:
        return 10 * self.gap_ms  # few sessions are longer

    @property
    def gap(self) -> str:
        return f"{self.gap_ms} milliseconds"

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        sessions = SortedSessions.of(spec, self.gap_ms)
        value, first, count, closed = sessions.value, sessions.first, sessions.count, sessions.closed(bound_ms)
        by_value = value[np.lexsort((value, np.repeat(np.arange(len(first)), count)))]
        twice = by_value[first + (count - 1) // 2] + by_value[first + count // 2]
        return Checks(int(closed.sum()), int(twice[closed].sum()), int(count[closed].sum()))


@dataclass(frozen=True)
class Evicted(_Functions):
    """Sum and count over those rows of a sliding window that are less than ``keep_ms`` older than its newest."""

    size_ms: int = 60_000
    slide_ms: int = 10_000
    keep_ms: int = 15_000

    @property
    def span_ms(self) -> int:
        return self.size_ms

    def bound_ms(self, spec: EventSpec) -> int:
        return (largest_ms(spec) - spec.disorder_ms - 2) // self.slide_ms * self.slide_ms

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        """Compute the answer window by window over all keys."""
        events = all_events(spec)
        order = np.argsort(events["ts"], kind="stable")
        key, ts, value = (events[name][order] for name in ("key", "ts", "value"))
        last = ts[-1] + self.size_ms if bound_ms is None else bound_ms
        rows = total = count = 0
        for end in range(int(ts[0]) // self.slide_ms * self.slide_ms + self.slide_ms, int(last) + 1, self.slide_ms):
            low, high = np.searchsorted(ts, [end - self.size_ms, end])
            newest = _newest(key[low:high], ts[low:high], spec.keys)
            stays = ts[low:high] > newest[key[low:high]] - self.keep_ms
            rows += int(np.count_nonzero(newest >= 0))
            total += int(value[low:high][stays].sum())
            count += int(stays.sum())
        return Checks(rows, total, count)


def _newest(key: Int64s, ts: Int64s, keys: int) -> Int64s:
    """Return the largest time of each key, or -1 for a key without rows."""
    newest = np.full(keys, -1, np.int64)
    newest[key] = ts  # rows are in the order of time, so the last assignment is the newest
    return newest


@dataclass(frozen=True)
class OwnMean(_Functions):
    """The mean of ``value`` per tumbling window, by an aggregate function written in Python."""

    size_ms: int = 10_000

    @property
    def span_ms(self) -> int:
        return self.size_ms

    @property
    def size(self) -> str:
        return f"{self.size_ms} milliseconds"

    def bound_ms(self, spec: EventSpec) -> int:
        return (largest_ms(spec) - spec.disorder_ms - 2) // self.size_ms * self.size_ms

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        events = all_events(spec)
        window = events["ts"] // self.size_ms
        inside = np.ones(len(window), bool) if bound_ms is None else (window + 1) * self.size_ms <= bound_ms
        cell = (events["key"] * (window.max() + 1 - window.min()) + window - window.min())[inside]
        counts, sums = np.bincount(cell), np.bincount(cell, events["value"][inside])
        means = sums[counts > 0] / counts[counts > 0]
        return Checks(len(means), int((means * MICRO).astype(np.int64).sum()), len(means))


@dataclass(frozen=True)
class Frames(SumCount):
    """Sum and count per tumbling window, by a function that gets each window's rows as one frame or table.

    Attributes:
        shape: the input of panestream's function: ``pandas`` (a frame) or ``arrow`` (a table). The hand-written version gets a
            frame.
    """

    shape: str = "pandas"

    contestants = {  # noqa: RUF012
        "panestream": "benchmarks.functions.frames_job",
        "by_hand": "benchmarks.functions.frames_by_hand",
    }

    @property
    def size(self) -> str:
        return f"{self.size_ms} milliseconds"


FUNCTION_CASES: dict[str, Case] = {
    case.name: case for case in (Counted("counted"), SessionMedian("sessions"), Evicted("evicted"), OwnMean("own_mean"))
}
FRAME_CASES: dict[str, Case] = {
    case.name: case for case in (Frames("frames", 10_000, 10_000), Frames("tables", 10_000, 10_000, "arrow"))
}
"""The hand-written version uses a frame for both."""
