"""The questions that every contestant must answer, and the right answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.events import EventSpec, all_events, chunks

Int64s = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Checks:
    """The expected output of windows that end at a bound or before: number of rows, and sums of their totals and counts."""

    rows: int
    total: int
    events: int


@dataclass(frozen=True)
class Case(ABC):
    """One windowed query. Every contestant gets the same events, and has at least the columns ``key, window_end, total, events``.

    Attributes:
        name: the name in the figures.
    """

    name: str

    contestants: ClassVar[Mapping[str, str]]
    """The contestants, panestream first: a name for the figures, and a module with ``query``."""
    limits: ClassVar[Mapping[str, str]] = {}
    """Lower bounds for all contestants: a name, and a module with ``query``. Their answers are not checked."""
    rate: ClassVar[int] = 10_000
    """Events per second of event time, unless the command line says otherwise."""

    @property
    @abstractmethod
    def span_ms(self) -> int:
        """The event time (ms) that the state spans at its largest."""

    def bound_ms(self, spec: EventSpec) -> int | None:
        """Return the last window end (ms) that all contestants must reach by the end of the input, or None if all reach the same.

        Watermarks differ by a millisecond from engine to engine, and Spark's own lags a batch; but all have passed the largest
        event time less the disorder, and a window end before that.
        """
        return largest_ms(spec) - spec.disorder_ms - 2

    @abstractmethod
    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        """Return the answer for windows up to the bound, by counting and sorting, without windows, watermarks or Spark."""


@dataclass(frozen=True)
class SumCount(Case):
    """Per key and window the sum of ``value`` and the count of rows, when the watermark closes it.

    Attributes:
        size_ms: the length of a window.
        slide_ms: the distance of window starts in ms. It equals the size for tumbling windows.
    """

    size_ms: int
    slide_ms: int

    contestants = {  # noqa: RUF012 - the ClassVar is declared above
        "panestream": "benchmarks.panestream_job",
        "native": "benchmarks.native",
        "per_key": "benchmarks.per_key",
    }

    @property
    def span_ms(self) -> int:
        return self.size_ms

    @property
    def size(self) -> str:
        return f"{self.size_ms} milliseconds"

    @property
    def slide(self) -> str:
        return f"{self.slide_ms} milliseconds"

    def bound_ms(self, spec: EventSpec) -> int:
        return (largest_ms(spec) - spec.disorder_ms - 2) // self.slide_ms * self.slide_ms

    def expected(self, spec: EventSpec, bound_ms: int | None) -> Checks:
        """Count into a table of keys by slides, and add up its columns."""
        if bound_ms is None:
            bound_ms = largest_ms(spec) // self.slide_ms * self.slide_ms + self.size_ms
        first = min(int(chunk["ts"].min()) for chunk in chunks(spec)) // self.slide_ms
        slides = bound_ms // self.slide_ms - first
        sums = np.zeros((spec.keys, slides), np.int64)
        counts = np.zeros((spec.keys, slides), np.int64)
        for chunk in chunks(spec):
            slide = chunk["ts"] // self.slide_ms - first
            inside = slide < slides
            cell = chunk["key"][inside] * slides + slide[inside]
            counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
            # This is exact, because a float holds integers up to 2**53, and a cell's sum is far smaller.
            sums += np.bincount(cell, chunk["value"][inside], counts.size).astype(np.int64).reshape(counts.shape)
        per_window = self.size_ms // self.slide_ms
        windows = _trailing(counts, per_window)
        return Checks(int(np.count_nonzero(windows)), int(_trailing(sums, per_window).sum()), int(windows.sum()))


@dataclass(frozen=True)
class SortedSessions:
    """The sessions of all keys, by sorting.

    Attributes:
        value: the values of the events, in the order of key and time.
        first: the index of each session's first event.
        count: the number of its events.
        end: its end in ms.
    """

    value: Int64s
    first: Int64s
    count: Int64s
    end: Int64s

    @classmethod
    def of(cls, spec: EventSpec, gap_ms: int) -> SortedSessions:
        """Find the sessions.

        As in Flink, a session ends if the key's next event is further away than the gap. An equal distance does not end it.
        """
        events = all_events(spec)
        order = np.lexsort((events["ts"], events["key"]))
        key, ts, value = (events[name][order] for name in ("key", "ts", "value"))
        first = np.flatnonzero(np.r_[True, (np.diff(key) != 0) | (np.diff(ts) > gap_ms)])
        count = np.diff(np.r_[first, len(key)])
        return cls(value, first, count, ts[first + count - 1] + gap_ms)

    def closed(self, bound_ms: int | None) -> npt.NDArray[np.bool_]:
        """Return which sessions have ended by a time, or all for None."""
        return np.ones(len(self.first), bool) if bound_ms is None else self.end <= bound_ms


def largest_ms(spec: EventSpec) -> int:
    """Return the largest event time."""
    return max(int(chunk["ts"].max()) for chunk in chunks(spec))


def _trailing(cells: Int64s, width: int) -> Int64s:
    """Return, for every column, the sum of it and the ``width - 1`` columns before it."""
    running = np.cumsum(cells, axis=1)
    running[:, width:] -= running[:, :-width].copy()
    return running
