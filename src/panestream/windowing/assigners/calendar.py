"""The base class of calendar windows, which follow a zone's wall clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import OneTimeAssigner
from panestream.windowing.time import format_duration
from panestream.windowing.windows import TimeWindow
from panestream.windowing.zones import DAY, ZoneRules, rules_of

HOUR = DAY // 24
_LONGEST = 1000 * 366 * DAY
_CYCLE = 146_097
"""The calendar repeats after this many days, which are 400 years."""


@dataclass(frozen=True, slots=True, repr=False)
class CalendarWindows(OneTimeAssigner):
    """Windows of calendar units in a time zone. All times are in microseconds, also in the constructor.

    Windows begin and end when the zone's wall clock first shows a time (:mod:`panestream.windowing.zones`). So a day may have 23
    or 25 hours, a day whose midnight is skipped begins at its first instant, and a skipped day does not have a window. Windows
    with a ``step`` begin together, and one ends after each step. The zone's ``rules`` on this machine travel with the query.
    """

    unit: ClassVar[str] = "unit"
    longest_unit: ClassVar[int] = DAY
    """By the wall clock."""
    shortest_unit: ClassVar[int] = DAY
    steps: ClassVar[tuple[str, ...]] = ()

    count: int
    zone: str
    every: int | None = None
    step: str | None = None
    offset: int = 0
    by_processing_time: bool = False
    rules: ZoneRules = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.every is None:
            object.__setattr__(self, "every", self.count)
        for name, value in (("the number of units", self.count), ("every", self.every)):
            if not isinstance(value, int) or isinstance(value, bool) or not 0 < value * self.longest_unit <= _LONGEST:
                raise InvalidWindowError(f"{name} of {self._kind} must be a number from 1 on, up to 1,000 years, got {value!r}")
        if not isinstance(self.offset, int) or abs(self.offset) >= self.shortest_unit:
            shown = format_duration(self.offset) if isinstance(self.offset, int) else self.offset
            raise InvalidWindowError(
                f"the offset of {self._kind} must be shorter than {format_duration(self.shortest_unit)}, got {shown!r}"
            )
        if self.step is not None:
            self._check_step()
        object.__setattr__(self, "rules", rules_of(self.zone))

    def _check_step(self) -> None:
        if self.step not in self.steps or (self.step == self.unit and self.count == 1):
            told = " or ".join(repr(step) for step in self.steps if step != self.unit or self.count > 1)
            raise InvalidWindowError(
                f"the step of {self._kind} must be {told}, got {self.step!r}"
                if told
                else f"{self._kind} grow in no steps, got {self.step!r}"
            )
        if self.every != self.count:
            raise InvalidWindowError(
                f"{self._kind} either begin every few {self.unit}s or grow in steps: leave out every or step"
            )

    @property
    def _kind(self) -> str:
        return type(self).__name__

    @property
    def is_event_time(self) -> bool:
        return not self.by_processing_time

    # -- by the wall clock ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _number(self, wall: int) -> int:
        """Return the unit at a wall-clock time; units are numbered along time."""

    @abstractmethod
    def _begin(self, number: int) -> int:
        """Return the start of a unit."""

    def _spans(self, wall: int) -> Iterator[tuple[int, int]]:
        """Return the windows at a wall-clock time, in the order in which they are handled."""
        now, every = self._number(wall), self.every or self.count
        if self.step is not None:
            first = now - now % self.count
            start = self._begin(first)
            yield from ((start, end) for end in self._ends(wall, start, self._begin(first + self.count)))
            return
        # Newest start first, as for sliding windows.
        for first in range(now - now % every, now - self.count, -every):
            yield self._begin(first), self._begin(first + self.count)

    def _ends(self, wall: int, start: int, last: int) -> Iterator[int]:
        if self.step == "month":
            month = month_of((wall - self.offset) // DAY)
            while (end := first_day_of(month := month + 1) * DAY + self.offset) <= last:
                yield end
            return
        width = HOUR if self.step == "hour" else DAY
        yield from range(start + ((wall - start) // width + 1) * width, last + 1, width)

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        spans, instant = self._spans(self.rules.wall(time)), self.rules.instant
        # If the clock skips a step, two windows are equal.
        return tuple(dict.fromkeys(TimeWindow(instant(start), instant(end)) for start, end in spans))

    # -- repr ----------------------------------------------------------------------------------------------------------

    def _arguments(self) -> Iterator[str]:
        yield str(self.count)
        yield f"zone={self.zone!r}"
        if self.every != self.count:
            yield f"every={self.every}"
        if self.step is not None:
            yield f"step={self.step!r}"
        if self.offset:
            yield f"offset={format_duration(self.offset)!r}"
        yield from self._more()
        if self.by_processing_time:
            yield "by_processing_time=True"

    def _more(self) -> Iterator[str]:
        yield from ()

    def __repr__(self) -> str:
        return f"{self._kind}.of({', '.join(self._arguments())})"


def month_of(day: int) -> int:
    """Return the month of a day, both numbered from January 1970.

    >>> month_of(0), month_of(-1), month_of(31 + 28)
    (0, -1, 2)
    """
    cycles, rest = divmod(day, _CYCLE)
    found = date.fromordinal(date(1970, 1, 1).toordinal() + rest)
    return cycles * 4800 + (found.year - 1970) * 12 + found.month - 1


def first_day_of(month: int) -> int:
    """Return the first day of a month, both numbered from January 1970.

    >>> first_day_of(0), first_day_of(-1), first_day_of(12)
    (0, -31, 365)
    """
    cycles, rest = divmod(month, 4800)
    year, place = divmod(rest, 12)
    return cycles * _CYCLE + date(1970 + year, place + 1, 1).toordinal() - date(1970, 1, 1).toordinal()


__all__ = ["CalendarWindows", "first_day_of", "month_of"]
