"""Panes of time: the grid under a query's windows.

A pane is a span of time in which no window of the query begins or ends. So every window is a whole number of panes, and a row is
aggregated once, into its pane, even if windows overlap. The edges of the panes are the starts and ends of all windows: one pane
per slide if the slide divides the size, otherwise two unequal ones (never the many equal ones of the gcd). Several kinds of
windows share one grid with the edges of all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
IntOrInts = TypeVar("IntOrInts", int, Int64s)
_MOST_EDGES = 4096
"""If the edges of several windows repeat only after more edges than this, the grid uses equal panes of the gcd instead."""


class AlignedWindows(ABC):
    """The windows of one assigner, numbered along time so that neither starts nor ends ever move back."""

    @property
    @abstractmethod
    def overlap(self) -> int:
        """The largest number of windows that contain an instant."""

    @property
    @abstractmethod
    def has_gaps(self) -> bool:
        """True if some instants are outside all windows."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The length of the longest window; if it depends on the calendar, an estimate that is never too short."""

    @abstractmethod
    def start_of(self, window: IntOrInts) -> IntOrInts:
        """Return the starts of windows."""

    @abstractmethod
    def end_of(self, window: IntOrInts) -> IntOrInts:
        """Return the ends of windows, exclusive."""

    @abstractmethod
    def first_ending_after(self, time: IntOrInts) -> IntOrInts:
        """Return the first window whose end is larger than ``time``."""

    @abstractmethod
    def last_starting_by(self, time: IntOrInts) -> IntOrInts:
        """Return the last window whose start is not larger than ``time``."""

    def over(self, low: Int64s, high: Int64s, after: int, until: int) -> Int64s:
        """Return the windows with ``after < n <= until`` that contain an instant of at least one span ``[low, high]``, ascending.

        Spans are ascending. Only windows near them are visited, so a gap of a year between two rows costs nothing.
        """
        if not len(low):
            return np.empty(0, np.int64)
        first, last = np.maximum(self.first_ending_after(low), after + 1), np.minimum(self.last_starting_by(high), until)
        previous = np.concatenate(([after], np.maximum.accumulate(last)[:-1]))
        first = np.maximum(first, previous + 1)
        counts = np.maximum(last - first + 1, 0)
        ends = np.cumsum(counts)
        return np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]), dtype=np.int64)


class EvenWindows(AlignedWindows):
    """Windows that repeat after a fixed time."""

    __slots__ = ()

    size: int
    offset: int

    @property
    @abstractmethod
    def period(self) -> int:
        """The time after which the windows repeat."""

    @abstractmethod
    def edges(self) -> set[int]:
        """Return starts and ends within one period, from ``offset``, modulo the period."""

    @property
    def has_gaps(self) -> bool:
        return self.period > self.size

    @property
    def longest(self) -> int:
        return self.size


@dataclass(frozen=True, slots=True)
class SlidingWindows(EvenWindows):
    """Window ``n`` is ``[offset + n*slide, offset + n*slide + size)``. Tumbling if slide and size are equal."""

    size: int
    slide: int
    offset: int = 0

    @property
    def period(self) -> int:
        return self.slide

    @property
    def overlap(self) -> int:
        return -(-self.size // self.slide)

    def start_of(self, window: IntOrInts) -> IntOrInts:
        return self.offset + window * self.slide

    def end_of(self, window: IntOrInts) -> IntOrInts:
        return self.offset + window * self.slide + self.size

    def first_ending_after(self, time: IntOrInts) -> IntOrInts:
        return (time - self.offset - self.size) // self.slide + 1

    def last_starting_by(self, time: IntOrInts) -> IntOrInts:
        return (time - self.offset) // self.slide

    def edges(self) -> set[int]:
        return {0, self.size % self.slide}


@dataclass(frozen=True, slots=True)
class CumulatingWindows(EvenWindows):
    """Windows that begin every ``size`` and end every ``step``: window ``n`` ends at ``offset + (n+1)*step``."""

    size: int
    step: int
    offset: int = 0

    @property
    def period(self) -> int:
        return self.size

    @property
    def overlap(self) -> int:
        return self.size // self.step

    def start_of(self, window: IntOrInts) -> IntOrInts:
        return self.offset + window // (self.size // self.step) * self.size

    def end_of(self, window: IntOrInts) -> IntOrInts:
        return self.offset + (window + 1) * self.step

    def first_ending_after(self, time: IntOrInts) -> IntOrInts:
        return (time - self.offset) // self.step

    def last_starting_by(self, time: IntOrInts) -> IntOrInts:
        return ((time - self.offset) // self.size + 1) * (self.size // self.step) - 1

    def edges(self) -> set[int]:
        return set(range(0, self.size, self.step))


class PaneGrid(ABC):
    """Panes numbered along time, and the windows over them. Pane ``i`` is ``[start_of(i), start_of(i + 1))``."""

    __slots__ = ()

    windows: tuple[AlignedWindows, ...]
    """The kinds of windows."""

    @staticmethod
    def of(*windows: EvenWindows) -> EvenGrid:
        return EvenGrid.over(windows)

    @abstractmethod
    def panes_of(self, times: Int64s) -> Int64s:
        """Return the pane of each instant."""

    @abstractmethod
    def pane_of(self, time: int) -> int:
        """Return the pane of one instant, which may be any integer."""

    @abstractmethod
    def start_of(self, pane: int) -> int:
        """Return the instant at which a pane begins."""

    @abstractmethod
    def starts_of(self, panes: Int64s) -> Int64s:
        """Return the instants at which panes begin."""

    @abstractmethod
    def panes_in(self, one: AlignedWindows) -> int:
        """Return about how many panes the largest windows of a kind have; never too few."""

    def taken(self, panes: Int64s, live: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return which panes are in a window that still takes rows; ``live`` has the first such window of each kind."""
        starts = self.starts_of(panes)
        found = np.zeros(len(panes), np.bool_)
        for one, first in zip(self.windows, live, strict=True):
            found |= one.last_starting_by(starts) >= np.maximum(one.first_ending_after(starts), first)
        return found

    @property
    def has_gaps(self) -> bool:
        """True if a pane may be outside all windows."""
        return all(one.has_gaps for one in self.windows)

    def in_gap(self, panes: Int64s) -> npt.NDArray[np.bool_]:
        never = -(2**62)
        return ~self.taken(panes, [never] * len(self.windows))

    @property
    def holes(self) -> bool:
        """True if a pane later than a live one may be closed: one kind of windows has gaps that another fills."""
        return len(self.windows) > 1 and any(one.has_gaps for one in self.windows)

    @property
    def overlaps(self) -> bool:
        return len(self.windows) > 1 or self.windows[0].overlap > 1

    @property
    def longest(self) -> int:
        """About the number of panes of the longest window, never too few."""
        return max(self.panes_in(one) for one in self.windows)


@dataclass(frozen=True, slots=True)
class EvenGrid(PaneGrid):
    """Panes that repeat after ``period``.

    ``origin`` is the start of pane 0, and ``edges`` the starts of panes within one period, ascending, first 0.
    """

    windows: tuple[AlignedWindows, ...]
    origin: int
    period: int
    edges: tuple[int, ...]

    @classmethod
    def over(cls, windows: Sequence[EvenWindows]) -> EvenGrid:
        """Return the grid with the fewest panes: an edge wherever a window begins or ends."""
        origin, period = windows[0].offset, math.lcm(*(one.period for one in windows))
        found: set[int] = set()
        for one in windows:
            inner = one.edges()
            if len(inner) * (period // one.period) > _MOST_EDGES:
                return cls._equal(windows)
            shifts = range(one.offset - origin, one.offset - origin + period, one.period)
            found |= {(shift + edge) % period for shift in shifts for edge in inner}
        edges = sorted(found)
        origin, edges = origin + edges[0], [edge - edges[0] for edge in edges]
        width = period // len(edges)
        if edges == list(range(0, period, width)) and width * len(edges) == period:
            period, edges = width, [0]
        return cls(tuple(windows), origin, period, tuple(edges))

    @classmethod
    def _equal(cls, windows: Sequence[EvenWindows]) -> EvenGrid:
        origin = windows[0].offset
        steps = [step for one in windows for step in (one.period, one.offset - origin, *one.edges())]
        return cls(tuple(windows), origin, math.gcd(*steps), (0,))

    def panes_of(self, times: Int64s) -> Int64s:
        shifted = times - self.origin if self.origin else times
        periods = shifted // self.period
        if len(self.edges) == 1:
            return periods
        within = shifted - periods * self.period
        if len(self.edges) == 2:
            return periods * 2 + (within >= self.edges[1])
        return periods * len(self.edges) + (np.searchsorted(np.asarray(self.edges), within, "right") - 1)

    def pane_of(self, time: int) -> int:
        periods, within = divmod(time - self.origin, self.period)
        return periods * len(self.edges) + int(np.searchsorted(np.asarray(self.edges), within, "right")) - 1

    def start_of(self, pane: int) -> int:
        periods, edge = divmod(pane, len(self.edges))
        return self.origin + periods * self.period + self.edges[edge]

    def starts_of(self, panes: Int64s) -> Int64s:
        if len(self.edges) == 1:
            return self.origin + panes * self.period
        periods, edge = np.divmod(panes, len(self.edges))
        return self.origin + periods * self.period + np.asarray(self.edges, np.int64)[edge]

    def panes_in(self, one: AlignedWindows) -> int:
        periods, rest = divmod(one.longest, self.period)
        return periods * len(self.edges) + (len(self.edges) if rest else 0)
