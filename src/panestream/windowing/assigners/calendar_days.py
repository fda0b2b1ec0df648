"""Calendar hours, days and weeks, which have a fixed length by the wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from panestream.errors import InvalidWindowError, did_you_mean
from panestream.windowing.assigners.calendar import HOUR, CalendarWindows
from panestream.windowing.time import Duration, to_micros
from panestream.windowing.zones import DAY

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


__all__ = ["CalendarDays", "CalendarHours", "CalendarWeeks"]
