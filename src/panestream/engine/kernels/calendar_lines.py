"""Lines of a calendar: numbered points of wall-clock time at which units begin, and the windows between such points."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from panestream.engine.kernels.slicing import AlignedWindows, EvenWindows, Int64s, IntOrInts, SlidingWindows

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


__all__ = ["DAY", "BusinessLine", "EvenLine", "Line", "LineWindows", "MonthLine", "SoFarWindows", "edges_of", "even_windows"]
