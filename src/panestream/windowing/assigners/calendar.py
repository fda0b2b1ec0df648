"""Calendar windows, which follow a zone's wall clock: hours, days, weeks, months, quarters and years."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar, TypeVar

from panestream.errors import InvalidWindowError, did_you_mean
from panestream.windowing.assigners.base import OneTimeAssigner
from panestream.windowing.time import Duration, format_duration, to_micros
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

    Examples:
        >>> import panestream as pst
        >>> isinstance(pst.CalendarDays.of(1, zone="Europe/Berlin"), CalendarWindows)
        True
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


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EPOCH_WEEKDAY = WEEKDAYS.index("thursday")


class _EvenUnits(CalendarWindows):
    """Units with the length :attr:`longest_unit` by the wall clock."""

    __slots__ = ()

    @property
    def begins_at(self) -> int:
        """The start of unit 0."""
        return self.offset

    def _number(self, wall: int) -> int:
        return (wall - self.begins_at) // self.longest_unit

    def _begin(self, number: int) -> int:
        return self.begins_at + number * self.longest_unit


@dataclass(frozen=True, slots=True, repr=False)
class CalendarHours(_EvenUnits):
    """Clock hours of a zone.

    An hour that the clock shows twice is one window of two hours, and a skipped hour does not have a window. For windows of equal
    length use ``TumblingEventTimeWindows.of("1 hour")``, with an offset for zones that are half an hour off.

    >>> CalendarHours.of(6, zone="Asia/Kolkata")
    CalendarHours.of(6, zone='Asia/Kolkata')
    """

    unit: ClassVar[str] = "hour"
    longest_unit: ClassVar[int] = HOUR
    shortest_unit: ClassVar[int] = HOUR

    @classmethod
    def of(
        cls,
        count: int = 1,
        *,
        zone: str,
        every: int | None = None,
        offset: Duration = "0 seconds",
        by_processing_time: bool = False,
    ) -> CalendarHours:
        """Return windows of ``count`` clock hours counted from midnight, e.g. six hours at 00:00, 06:00, 12:00 and 18:00.

        The other arguments are as for :meth:`CalendarDays.of`. The offset must be shorter than an hour.
        """
        return cls(count, zone, every, None, to_micros(offset, "offset"), by_processing_time)


@dataclass(frozen=True, slots=True, repr=False)
class CalendarDays(_EvenUnits):
    """Days of a zone, which have 23 hours when its clocks are put forward, and 25 when they are put back.

    >>> CalendarDays.of(1, zone="America/New_York", offset="6 hours")  # from six in the morning to six in the morning
    CalendarDays.of(1, zone='America/New_York', offset='6 hours')
    >>> last_seven = CalendarDays.of(7, zone="Europe/Berlin", every=1)  # the last seven days, every day
    >>> so_far = CalendarDays.of(1, zone="Europe/Berlin", step="hour")  # the day so far, every hour
    """

    unit: ClassVar[str] = "day"
    steps: ClassVar[tuple[str, ...]] = ("hour", "day")

    @classmethod
    def of(
        cls,
        count: int = 1,
        *,
        zone: str,
        every: int | None = None,
        step: str | None = None,
        offset: Duration = "0 seconds",
        by_processing_time: bool = False,
    ) -> CalendarDays:
        """Return windows of ``count`` days in ``zone``; several are counted from 1 January 1970.

        Args:
            count: the number of units (here days) of a window.
            zone: a name of the IANA database, e.g. ``"America/New_York"``.
            every: the number of units from the start of a window to the next. By default windows follow each other.
            step: windows begin together, and one ends at every step, ``"hour"`` or, for several days, ``"day"``.
            offset: when a unit begins, e.g. ``"6 hours"``; shorter than a unit.
            by_processing_time: use processing time instead of event time.

        Raises InvalidWindowError if a number is not positive, a zone or step does not exist, or the offset is too long.
        """
        return cls(count, zone, every, step, to_micros(offset, "offset"), by_processing_time)


@dataclass(frozen=True, slots=True, repr=False)
class CalendarWeeks(_EvenUnits):
    """Weeks of a zone, which begin on any day.

    >>> CalendarWeeks.of(1, zone="America/New_York", first_day="sunday")
    CalendarWeeks.of(1, zone='America/New_York', first_day='sunday')
    >>> so_far = CalendarWeeks.of(1, zone="Europe/Berlin", step="day")  # the week so far, every day
    """

    unit: ClassVar[str] = "week"
    longest_unit: ClassVar[int] = 7 * DAY
    shortest_unit: ClassVar[int] = 7 * DAY
    steps: ClassVar[tuple[str, ...]] = ("hour", "day")

    first_day: str = "monday"

    def __post_init__(self) -> None:
        CalendarWindows.__post_init__(self)
        check_weekday(self.first_day, "the first day of a week")

    @classmethod
    def of(
        cls,
        count: int = 1,
        *,
        zone: str,
        every: int | None = None,
        step: str | None = None,
        first_day: str = "monday",
        offset: Duration = "0 seconds",
        by_processing_time: bool = False,
    ) -> CalendarWeeks:
        """Return windows of ``count`` weeks in ``zone``; several are counted from the week with 1 January 1970.

        ``first_day`` is ``"monday"`` to ``"sunday"``, and ``offset`` is relative to it. ``step`` is ``"hour"`` or ``"day"``.
        Otherwise it is like :meth:`CalendarDays.of`, which has weeks that begin every day, ``CalendarDays.of(7, every=1, …)``.
        """
        return cls(count, zone, every, step, to_micros(offset, "offset"), by_processing_time, first_day)

    @property
    def begins_at(self) -> int:
        """The start of week 0, which has 1 January 1970, a Thursday."""
        return self.offset - (_EPOCH_WEEKDAY - WEEKDAYS.index(self.first_day)) % 7 * DAY

    def _more(self) -> Iterator[str]:
        if self.first_day != "monday":
            yield f"first_day={self.first_day!r}"


def check_weekday(name: str, what: str) -> None:
    """Raise InvalidWindowError unless the name is a weekday."""
    if name not in WEEKDAYS:
        raise InvalidWindowError(
            f"{what} must be 'monday' to 'sunday', got {name!r}; {did_you_mean(str(name).lower(), WEEKDAYS)}"
        )


Self = TypeVar("Self", bound="_OfMonths")


@dataclass(frozen=True, slots=True, repr=False)
class _OfMonths(CalendarWindows):
    """Units of several months. ``first_month`` (1 to 12) is the first month of a year's first unit."""

    months: ClassVar[int] = 1
    shortest_unit: ClassVar[int] = 28 * DAY

    first_month: int = 1

    def __post_init__(self) -> None:
        CalendarWindows.__post_init__(self)
        if isinstance(self.first_month, bool) or self.first_month not in range(1, 13):
            raise InvalidWindowError(f"the first month of {self._kind} must be 1 to 12, got {self.first_month!r}")

    @property
    def phase(self) -> int:
        """The first month of unit 0, numbered from January 1970."""
        return self.first_month - 1

    @classmethod
    def of(  # noqa: PYI019 - typing.Self came with 3.11
        cls: type[Self],
        count: int = 1,
        *,
        zone: str,
        every: int | None = None,
        step: str | None = None,
        first_month: int = 1,
        offset: Duration = "0 seconds",
        by_processing_time: bool = False,
    ) -> Self:
        """Return windows of ``count`` units in ``zone``; several are counted from 1970.

        ``step`` is ``"hour"``, ``"day"`` or ``"month"``. ``first_month`` (1 to 12) is the start of a year, for years and quarters
        of a financial year and for several months. ``offset`` is the start of a month, e.g. ``"14 days"`` for the 15th, and
        shorter than 28 days. The other arguments and errors are as for :meth:`CalendarDays.of`.
        """
        return cls(count, zone, every, step, to_micros(offset, "offset"), by_processing_time, first_month)

    def _number(self, wall: int) -> int:
        return (month_of((wall - self.offset) // DAY) - self.phase) // self.months

    def _begin(self, number: int) -> int:
        return first_day_of(number * self.months + self.phase) * DAY + self.offset

    def _more(self) -> Iterator[str]:
        if self.first_month != 1:
            yield f"first_month={self.first_month}"


@dataclass(frozen=True, slots=True, repr=False)
class CalendarMonths(_OfMonths):
    """Months of a zone.

    >>> CalendarMonths.of(3, zone="Europe/Berlin", every=1)  # the last three months, every month
    CalendarMonths.of(3, zone='Europe/Berlin', every=1)
    >>> so_far = CalendarMonths.of(1, zone="Europe/Berlin", step="day")  # the month so far, every day
    >>> billing = CalendarMonths.of(1, zone="Europe/Berlin", offset="14 days")  # from the 15th to the 15th
    """

    unit: ClassVar[str] = "month"
    longest_unit: ClassVar[int] = 31 * DAY
    steps: ClassVar[tuple[str, ...]] = ("hour", "day", "month")


@dataclass(frozen=True, slots=True, repr=False)
class CalendarQuarters(_OfMonths):
    """Quarters of a year in a zone.

    >>> CalendarQuarters.of(1, zone="Asia/Tokyo", first_month=2)
    CalendarQuarters.of(1, zone='Asia/Tokyo', first_month=2)
    """

    unit: ClassVar[str] = "quarter"
    months: ClassVar[int] = 3
    longest_unit: ClassVar[int] = 92 * DAY
    steps: ClassVar[tuple[str, ...]] = ("hour", "day", "month")


@dataclass(frozen=True, slots=True, repr=False)
class CalendarYears(_OfMonths):
    """Years of a zone; leap years have 366 days.

    >>> CalendarYears.of(1, zone="Europe/London", first_month=4, offset="5 days")  # the tax year, from 6 April on
    CalendarYears.of(1, zone='Europe/London', offset='5 days', first_month=4)
    """

    unit: ClassVar[str] = "year"
    months: ClassVar[int] = 12
    longest_unit: ClassVar[int] = 366 * DAY
    steps: ClassVar[tuple[str, ...]] = ("hour", "day", "month")
