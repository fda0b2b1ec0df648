"""Panes of a calendar: windows and panes of a zone's wall clock, converted to instants.

A window ``[a, b)`` of the wall clock starts at the first instant at which the clock shows ``a`` or later, and ends at that of
``b``. It contains the instants at which the clock shows a time in ``[a, b)``. So a grid of wall-clock time is also a grid of
instants, with the same numbers. They stay when a zone's rules change: a pane is a day by its date.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from panestream.engine.kernels.calendar_lines import DAY, Line, LineWindows, MonthLine, SoFarWindows, edges_of, even_windows
from panestream.engine.kernels.slicing import AlignedWindows, EvenGrid, EvenWindows, Int64s, IntOrInts, PaneGrid
from panestream.engine.kernels.wall_clock import WallClock
from panestream.windowing.zones import PERIOD, ZoneRules

_BEYOND = 2**62 + 2**60
"""Event times are within ±2**62. For later instants, callers only need to know whether everything is over by then."""
_EDGES, _EDGES_OF_A_PANE = 1 << 14, 64
"""The limits, in total and per pane (the larger counts), up to which edges of several grids are sorted; beyond, bisection."""
_COMPARED = 8
"""Up to this many edges, comparing each edge with every row is faster than a search."""


@dataclass(frozen=True, slots=True)
class ZonedWindows(AlignedWindows):
    """Windows of a zone's wall clock; ``wall`` are the windows in wall-clock time."""

    wall: AlignedWindows
    clock: WallClock

    @property
    def overlap(self) -> int:
        return self.wall.overlap

    @property
    def has_gaps(self) -> bool:
        return self.wall.has_gaps

    @property
    def longest(self) -> int:
        return self.wall.longest

    def start_of(self, window: IntOrInts) -> IntOrInts:
        return _instants(self.clock, self.wall.start_of(window))

    def end_of(self, window: IntOrInts) -> IntOrInts:
        return _instants(self.clock, self.wall.end_of(window))

    def first_ending_after(self, time: IntOrInts) -> IntOrInts:
        return self.wall.first_ending_after(_walls(self.clock, time))

    def last_starting_by(self, time: IntOrInts) -> IntOrInts:
        return self.wall.last_starting_by(_walls(self.clock, time))

    def over(self, low: Int64s, high: Int64s, after: int, until: int) -> Int64s:
        found = AlignedWindows.over(self, low, high, after, until)
        if not len(found):
            return found
        # If the clock skips a unit, its window is empty or equals the one before, and is left out.
        start, end, before = self.start_of(found), self.end_of(found), found - 1
        again = (start == self.start_of(before)) & (end == self.end_of(before))
        there: Int64s = found[(start < end) & ~again]
        return there


@dataclass(frozen=True, slots=True)
class LineGrid(PaneGrid):
    """Panes between the points of a line: pane ``i`` goes from point ``i`` to the next."""

    windows: tuple[AlignedWindows, ...]
    line: MonthLine

    def panes_of(self, times: Int64s) -> Int64s:
        return self.line.last_by(times)

    def pane_of(self, time: int) -> int:
        return self.line.last_by(time)

    def start_of(self, pane: int) -> int:
        return self.line.at(pane)

    def starts_of(self, panes: Int64s) -> Int64s:
        return self.line.at(panes)

    def panes_in(self, one: AlignedWindows) -> int:
        return one.longest // (28 * DAY * self.line.months) + 1


@dataclass(frozen=True, slots=True)
class ZonedGrid(PaneGrid):
    """Panes of a zone's wall clock; ``wall`` are the panes in wall-clock time."""

    windows: tuple[AlignedWindows, ...]
    wall: PaneGrid
    clock: WallClock

    @classmethod
    def over(cls, windows: Sequence[ZonedWindows]) -> ZonedGrid:
        """Return the grid with the fewest panes for windows of one zone."""
        walls = [one.wall for one in windows]
        lines = [line for one in walls if isinstance(one, (LineWindows, SoFarWindows)) for line in edges_of(one)]
        even = [one for one in walls if isinstance(one, EvenWindows)]
        months = None if even else _months(lines)
        if months is not None:
            return cls(tuple(windows), LineGrid(tuple(walls), months), windows[0].clock)
        grid = EvenGrid.over([*even, *map(even_windows, lines)])
        return cls(tuple(windows), replace(grid, windows=tuple(walls)), windows[0].clock)

    def panes_of(self, times: Int64s) -> Int64s:
        if not len(times):
            return np.empty(0, np.int64)
        first, last = self.pane_of(int(times.min())), self.pane_of(int(times.max()))
        if first == last:
            return np.full(len(times), first, np.int64)
        if last - first > max(_COMPARED, len(times) // 4):
            # The rows are far apart, so there would be more edges than rows.
            return self.wall.panes_of(self.clock.walls(times))
        edges = self.starts_of(np.arange(first + 1, last + 1))
        if last - first > _COMPARED:
            return first + np.searchsorted(edges, times, "right")
        panes = np.full(len(times), first, np.int64)
        for edge in edges.tolist():
            panes += times >= edge
        return panes

    def pane_of(self, time: int) -> int:
        return self.wall.pane_of(_walls(self.clock, time))

    def start_of(self, pane: int) -> int:
        return _instants(self.clock, self.wall.start_of(pane))

    def starts_of(self, panes: Int64s) -> Int64s:
        return self.clock.instants(self.wall.starts_of(panes))

    def panes_in(self, one: AlignedWindows) -> int:
        return self.wall.panes_in(one)


@dataclass(frozen=True, slots=True)
class MixedGrid(PaneGrid):
    """The panes of several grids, e.g. of two zones, with the edges of all grids.

    The number of a pane is the sum of its pane numbers in all grids. If edges of two grids meet, numbers are skipped, and such a
    pane is empty. Each grid has some of the ``windows``, which are in the order of the query.
    """

    windows: tuple[AlignedWindows, ...]
    grids: tuple[PaneGrid, ...]

    def panes_of(self, times: Int64s) -> Int64s:
        total = np.zeros(len(times), np.int64)
        for grid in self.grids:
            total += grid.panes_of(times)
        return total

    def pane_of(self, time: int) -> int:
        return sum(grid.pane_of(time) for grid in self.grids)

    def start_of(self, pane: int) -> int:
        return int(self.starts_of(np.asarray([pane], np.int64))[0])

    def starts_of(self, panes: Int64s) -> Int64s:
        """Find the first instant of each pane, or of the next existing one, by a search from a guess."""
        if not len(panes):
            return np.empty(0, np.int64)
        first = self.pane_of(0)
        guess = (panes - first) * (PERIOD / (self.pane_of(PERIOD) - first))
        margin = 64 * DAY
        while True:
            low, high = (np.clip(guess + way * margin, -_BEYOND, _BEYOND).astype(np.int64) for way in (-1, 1))
            if margin > _BEYOND or bool(((self.panes_of(low) < panes) & (self.panes_of(high) >= panes)).all()):
                break
            margin *= 16
        first, last = int(low.min()), int(high.max())
        base = self.pane_of(first)
        if self.pane_of(last) - base <= max(_EDGES, _EDGES_OF_A_PANE * len(panes)):
            # Every edge of a grid adds one: the pane that is n after another begins at the nth edge after it.
            spans = [(grid, np.arange(grid.pane_of(first) + 1, grid.pane_of(last) + 1)) for grid in self.grids]
            edges: Int64s = np.sort(np.concatenate([grid.starts_of(span) for grid, span in spans]))[panes - base - 1]
            return edges
        while bool((low + 1 < high).any()):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            reached = self.panes_of(middle) >= panes
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        found: Int64s = high
        return found

    def panes_in(self, one: AlignedWindows) -> int:
        return sum(grid.panes_in(one) for grid in self.grids)


def calendar_grid(windows: Sequence[AlignedWindows]) -> PaneGrid:
    """Return the panes under windows of a calendar and possibly even windows."""
    by_zone: dict[ZoneRules | None, list[AlignedWindows]] = {}
    for one in windows:
        by_zone.setdefault(one.clock.rules if isinstance(one, ZonedWindows) else None, []).append(one)
    grids: list[PaneGrid] = []
    for some in by_zone.values():
        zoned = [one for one in some if isinstance(one, ZonedWindows)]
        grids.append(ZonedGrid.over(zoned) if zoned else EvenGrid.over([one for one in some if isinstance(one, EvenWindows)]))
    return grids[0] if len(grids) == 1 else MixedGrid(tuple(windows), tuple(grids))


def _months(lines: Sequence[Line]) -> MonthLine | None:
    """Return the line with the points of all ``lines`` if all are lines of months, or None."""
    months = [line for line in lines if isinstance(line, MonthLine)]
    first = months[0] if months else None
    if first is None or len(months) < len(lines) or any(line.offset != first.offset for line in months):
        return None
    width = math.gcd(*(line.months for line in months), *(line.phase - first.phase for line in months))
    return MonthLine(width, first.phase % width, first.offset)


def _walls(clock: WallClock, time: IntOrInts) -> IntOrInts:
    if isinstance(time, np.ndarray):
        return clock.walls(time)
    return clock.rules.wall(min(max(int(time), -_BEYOND), _BEYOND))


def _instants(clock: WallClock, wall: IntOrInts) -> IntOrInts:
    return clock.instants(wall) if isinstance(wall, np.ndarray) else clock.rules.instant(int(wall))


__all__ = ["LineGrid", "MixedGrid", "ZonedGrid", "ZonedWindows", "calendar_grid"]
