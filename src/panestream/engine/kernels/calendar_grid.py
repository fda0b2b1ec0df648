"""Panes of a calendar: windows and panes of a zone's wall clock, converted to instants.

A window ``[a, b)`` of the wall clock starts at the first instant at which the clock shows ``a`` or later, and ends at that of
``b``. It contains the instants at which the clock shows a time in ``[a, b)``. So a grid of wall-clock time is also a grid of
instants, with the same numbers. They stay when a zone's rules change: a pane is a day by its date.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from panestream.engine.kernels.panes import AlignedWindows, EvenGrid, EvenWindows, Int64s, IntOrInts, PaneGrid, SlidingWindows
from panestream.windowing.zones import PERIOD, TABLE_END, ZoneRules


@dataclass(frozen=True, slots=True)
class WallClock:
    """The conversion between instants and a zone's wall-clock times.

    Attributes:
        begins, offsets: the start and the offset of each span without a change.
        until: what the clock shows at the end of a span, exclusive, for all spans but the last.
        shown: the latest time shown before each span.
    """

    rules: ZoneRules
    begins: Int64s = field(init=False, compare=False, repr=False)
    offsets: Int64s = field(init=False, compare=False, repr=False)
    until: Int64s = field(init=False, compare=False, repr=False)
    shown: Int64s = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        rules, never = self.rules, -(2**63)
        object.__setattr__(self, "begins", np.asarray([never, *rules.changes], np.int64))
        object.__setattr__(self, "offsets", np.asarray(rules.offsets, np.int64))
        object.__setattr__(self, "until", np.asarray(rules.shown, np.int64))
        object.__setattr__(self, "shown", np.asarray([never, *(end - 1 for end in rules.shown)], np.int64))

    def __reduce__(self) -> tuple[type[WallClock], tuple[ZoneRules]]:
        return WallClock, (self.rules,)

    def walls(self, instants: Int64s) -> Int64s:
        turns = _turns(instants)
        instants = instants if turns is None else instants - turns * PERIOD
        span = np.searchsorted(self.begins[1:], instants, "right")
        found: Int64s = np.maximum(instants + self.offsets[span], self.shown[span])
        return found if turns is None else found + turns * PERIOD

    def instants(self, walls: Int64s) -> Int64s:
        """Return the first instants at which the clock shows these times or later ones."""
        turns = _turns(walls)
        walls = walls if turns is None else walls - turns * PERIOD
        span = np.searchsorted(self.until, walls, "right")
        found: Int64s = np.maximum(walls - self.offsets[span], self.begins[span])
        return found if turns is None else found + turns * PERIOD


def _turns(times: Int64s) -> Int64s | None:
    """Return how many periods beyond the table times are, or None if none is."""
    if not len(times) or int(times.max()) < TABLE_END:
        return None
    turns: Int64s = np.maximum((times - TABLE_END) // PERIOD + 1, 0)
    return turns


DAY = 86_400_000_000
"""One day in microseconds, the unit of calendar times."""


class Line(ABC):
    """Points along time. Point ``n`` is never after point ``n + 1``."""

    __slots__ = ()

    @abstractmethod
    def at(self, points: IntOrInts) -> IntOrInts:
        """Return the times of points."""

    @abstractmethod
    def last_by(self, time: IntOrInts) -> IntOrInts:
        """Return the last point that is not after a time."""

    @abstractmethod
    def span(self, points: int) -> int:
        """Return about the longest duration of ``points`` units, never too short."""


@dataclass(frozen=True, slots=True)
class EvenLine(Line):
    """Points at equal distances."""

    width: int
    offset: int

    def at(self, points: IntOrInts) -> IntOrInts:
        return self.offset + points * self.width

    def last_by(self, time: IntOrInts) -> IntOrInts:
        return (time - self.offset) // self.width

    def span(self, points: int) -> int:
        return points * self.width


@dataclass(frozen=True, slots=True)
class MonthLine(Line):
    """The beginnings of every ``months`` months.

    ``phase`` is the month of point 0, counted from January 1970, and ``offset`` how long after the month's beginning points are.
    """

    months: int
    phase: int
    offset: int

    def at(self, points: IntOrInts) -> IntOrInts:
        months = np.atleast_1d(np.asarray(points * self.months + self.phase, np.int64))
        found = months.view("datetime64[M]").astype("datetime64[D]").view(np.int64) * DAY + self.offset
        return found if isinstance(points, np.ndarray) else int(found[0])

    def last_by(self, time: IntOrInts) -> IntOrInts:
        days = np.atleast_1d(np.asarray((time - self.offset) // DAY, np.int64))
        found = (days.view("datetime64[D]").astype("datetime64[M]").view(np.int64) - self.phase) // self.months
        return found if isinstance(time, np.ndarray) else int(found[0])

    def span(self, points: int) -> int:
        return points * self.months * 31 * DAY


@dataclass(frozen=True, slots=True)
class BusinessLine(Line):
    """The beginnings of business days.

    Attributes:
        workdays: the business days of the week, Monday 0.
        holidays: workdays that are not business days, counted from 1970-01-01.
        offset: how long after the beginning of the day a point is.
        shift: the number of the first business day from 1970-01-01 on, which is 1 for ends, as they close the unit before.
    """

    workdays: tuple[int, ...]
    holidays: tuple[int, ...]
    offset: int
    shift: int = 0

    def at(self, points: IntOrInts) -> IntOrInts:
        # Counts each holiday by its place among the workdays, to find how many holidays precede a point.
        off = np.asarray([self._in_weeks(day) - place for place, day in enumerate(self.holidays)], np.int64)
        among: Int64s = np.atleast_1d(np.asarray(points, np.int64)) + self._first
        weeks, rest = np.divmod(among + np.searchsorted(off, among, "right"), len(self.workdays))
        found: Int64s = (weeks * 7 + np.asarray(self.workdays)[rest] - 3) * DAY + self.offset
        return found if isinstance(points, np.ndarray) else int(found[0])

    def last_by(self, time: IntOrInts) -> IntOrInts:
        # Count the business days that begin before tomorrow, except the last.
        tomorrow = np.atleast_1d(np.asarray((time - self.offset) // DAY, np.int64)) + 1
        weeks, rest = np.divmod(tomorrow + 3, 7)
        before = np.searchsorted(np.asarray(self.workdays), rest, "left")
        whole = weeks * len(self.workdays) + before - np.searchsorted(np.asarray(self.holidays, np.int64), tomorrow, "left")
        found = whole - self._first - 1
        return found if isinstance(time, np.ndarray) else int(found[0])

    def _in_weeks(self, day: int) -> int:
        """Return the number of workdays, including holidays, from the Monday before 1970-01-01 until a day."""
        weeks, rest = divmod(day + 3, 7)
        return weeks * len(self.workdays) + sum(place < rest for place in self.workdays)

    @property
    def _first(self) -> int:
        """The number of business days, as counted here, before point 0."""
        return self._in_weeks(0) - sum(day < 0 for day in self.holidays) - self.shift

    def span(self, points: int) -> int:
        return ((points + len(self.holidays)) * 7 // len(self.workdays) + 7) * DAY


@dataclass(frozen=True, slots=True)
class LineWindows(AlignedWindows):
    """Window ``n`` starts at point ``n * slide`` and ends ``size`` points later, at a point of (usually) the same line.

    ``gaps`` is True if there is time between the end of a unit and the beginning of the next.
    """

    starts: Line
    ends: Line
    size: int
    slide: int
    gaps: bool = False

    @property
    def overlap(self) -> int:
        return -(-self.size // self.slide)

    @property
    def has_gaps(self) -> bool:
        return self.slide > self.size or (self.gaps and self.slide >= self.size)

    @property
    def longest(self) -> int:
        return self.starts.span(self.size)

    def start_of(self, window: IntOrInts) -> IntOrInts:
        return self.starts.at(window * self.slide)

    def end_of(self, window: IntOrInts) -> IntOrInts:
        return self.ends.at(window * self.slide + self.size)

    def first_ending_after(self, time: IntOrInts) -> IntOrInts:
        return (self.ends.last_by(time) - self.size) // self.slide + 1

    def last_starting_by(self, time: IntOrInts) -> IntOrInts:
        return self.starts.last_by(time) // self.slide


@dataclass(frozen=True, slots=True)
class SoFarWindows(AlignedWindows):
    """Windows that begin with a frame and end step by step until the frame ends, numbered by their last steps.

    Every point of the frames is also a point of the steps.
    """

    frames: Line
    steps: Line

    @property
    def overlap(self) -> int:
        # The shortest month counts, so that the number is never too low.
        return -(-self.frames.span(1) // min(self.steps.span(1), 28 * DAY))

    @property
    def has_gaps(self) -> bool:
        return False

    @property
    def longest(self) -> int:
        return self.frames.span(1)

    def start_of(self, window: IntOrInts) -> IntOrInts:
        return self.frames.at(self.frames.last_by(self.steps.at(window)))

    def end_of(self, window: IntOrInts) -> IntOrInts:
        return self.steps.at(window + 1)

    def first_ending_after(self, time: IntOrInts) -> IntOrInts:
        return self.steps.last_by(time)

    def last_starting_by(self, time: IntOrInts) -> IntOrInts:
        return self.steps.last_by(self.frames.at(self.frames.last_by(time) + 1)) - 1


def edges_of(one: LineWindows | SoFarWindows) -> list[Line]:
    """Return lines whose points include every begin and end of the windows."""
    if isinstance(one, SoFarWindows):
        return [one.steps]
    if isinstance(one.starts, MonthLine):
        return [MonthLine(one.starts.months * math.gcd(one.size, one.slide), one.starts.phase, one.starts.offset)]
    return [one.starts, one.ends]


def even_windows(line: Line) -> EvenWindows:
    """Return even windows that begin and end at all points of a line, and possibly at others: daily if the line is not even."""
    if isinstance(line, EvenLine):
        return SlidingWindows(line.width, line.width, line.offset % line.width)
    assert isinstance(line, (MonthLine, BusinessLine))  # noqa: S101 - there is no other
    return SlidingWindows(DAY, DAY, line.offset % DAY)


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
