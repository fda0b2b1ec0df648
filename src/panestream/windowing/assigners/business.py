"""Business days and business hours of a calendar with weekends and holidays."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.calendar import WEEKDAYS, CalendarWindows, check_weekday
from panestream.windowing.time import Duration, to_micros
from panestream.windowing.zones import DAY

WEEKEND = ("saturday", "sunday")
_EPOCH = date(1970, 1, 1).toordinal()
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?")


@dataclass(frozen=True, slots=True, repr=False)
class _OfBusiness(CalendarWindows):
    """Units of business days. ``weekend`` and ``holidays`` are not business days."""

    unit: ClassVar[str] = "business day"
    longest_unit: ClassVar[int] = DAY

    weekend: tuple[str, ...] = WEEKEND
    holidays: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        CalendarWindows.__post_init__(self)
        for name in self.weekend:
            check_weekday(name, "a day of the weekend")
        if len(set(self.weekend)) == len(WEEKDAYS):
            raise InvalidWindowError("every day of the week is in the weekend. Leave at least one business day")
        object.__setattr__(self, "weekend", tuple(name for name in WEEKDAYS if name in self.weekend))
        object.__setattr__(self, "holidays", tuple(sorted({_date(day) for day in _several(self.holidays)})))

    @property
    def workdays(self) -> tuple[int, ...]:
        """The weekdays that are business days, Monday is 0."""
        return _workdays(self.weekend)

    @property
    def days_off(self) -> tuple[int, ...]:
        """The holidays outside weekends, as days from 1970-01-01 on, ascending."""
        return _days_off(self.holidays, self.weekend)

    def is_business_day(self, day: int) -> bool:
        """Return whether a day, counted from 1970-01-01, is a business day."""
        return _weekday(day) in self.workdays and day not in self.days_off

    def business_days_before(self, day: int) -> int:
        """Return the number of business days from 1970-01-01 until a day; negative before."""
        weeks, rest = divmod(day + 3, 7)  # 1970-01-01 was a Thursday
        whole = weeks * len(self.workdays) + bisect_left(self.workdays, rest) - bisect_left(self.workdays, 3)
        return whole - bisect_left(self.days_off, day) + bisect_left(self.days_off, 0)

    def _number(self, wall: int) -> int:
        return self.business_days_before((wall - self.offset) // DAY + 1) - 1

    def _begin(self, number: int) -> int:
        day = number * 7 // len(self.workdays)
        while (behind := number - self.business_days_before(day)) != 0 or not self.is_business_day(day):
            # Only days off can be between the last step and its end.
            day += behind or 1
        return day * DAY + self.offset

    def _more(self) -> Iterator[str]:
        if self.weekend != WEEKEND:
            yield f"weekend={self.weekend!r}"
        if self.holidays:
            yield f"holidays={self.holidays!r}"


@dataclass(frozen=True, slots=True, repr=False)
class BusinessDays(_OfBusiness):
    """Business days of a zone. Days off within a window are part of it; days off between two windows are in neither.

    >>> BusinessDays.of(1, zone="America/New_York", holidays=["2026-12-25"])
    BusinessDays.of(1, zone='America/New_York', holidays=('2026-12-25',))
    >>> last_five = BusinessDays.of(5, zone="Asia/Dubai", every=1, weekend=("friday", "saturday"))
    """

    @classmethod
    def of(
        cls,
        count: int = 1,
        *,
        zone: str,
        every: int | None = None,
        weekend: Iterable[str] = WEEKEND,
        holidays: date | str | Iterable[date | str] = (),
        offset: Duration = "0 seconds",
        by_processing_time: bool = False,
    ) -> BusinessDays:
        """Return windows of ``count`` business days in ``zone``; several are counted from 1 January 1970.

        ``weekend`` and ``holidays`` are weekdays and dates that are not business days; unknown ones raise InvalidWindowError. The
        other arguments and errors are as for :meth:`CalendarDays.of`.
        """
        away = tuple(str(day) for day in _several(holidays))
        return cls(count, zone, every, None, to_micros(offset, "offset"), by_processing_time, _several(weekend), away)

    def _spans(self, wall: int) -> Iterator[tuple[int, int]]:
        now, every = self._number(wall), self.every or self.count
        off = not self.is_business_day((wall - self.offset) // DAY)
        for first in range(now - now % every, now - self.count + off, -every):
            yield self._begin(first), self._begin(first + self.count - 1) + DAY


@dataclass(frozen=True, slots=True, repr=False)
class BusinessHours(_OfBusiness):
    """The business hours of every business day. Rows at other times are in no window.

    >>> BusinessHours.of("09:00", "17:30", zone="Europe/London")
    BusinessHours.of('09:00', '17:30', zone='Europe/London')
    >>> night_shift = BusinessHours.of("22:00", "06:00", zone="Europe/Berlin")  # until six in the morning of the next day

    Attributes:
        opens, closes: the times of the wall clock, in microseconds from the beginning of the day; the second is the later one.
    """

    opens: int = 0
    closes: int = DAY

    def __post_init__(self) -> None:
        _OfBusiness.__post_init__(self)
        if not 0 <= self.opens < DAY or not self.opens < self.closes <= self.opens + DAY:
            raise InvalidWindowError(
                f"business hours open within a day and close within 24 hours, got {self.opens}, {self.closes}"
            )

    @classmethod
    def of(
        cls,
        opens: str,
        closes: str,
        *,
        zone: str,
        weekend: Iterable[str] = WEEKEND,
        holidays: date | str | Iterable[date | str] = (),
        by_processing_time: bool = False,
    ) -> BusinessHours:
        """Return a window from ``opens`` to ``closes`` on every business day in ``zone``.

        Times are written as ``"09:00"``; if ``closes`` is not later than ``opens``, it is on the next day. The other arguments
        are as for :meth:`BusinessDays.of`. Raises InvalidWindowError for an unknown time, zone, weekday or date.
        """
        first, last = _time(opens, "opens"), _time(closes, "closes")
        last += DAY if last <= first else 0
        away = tuple(str(day) for day in _several(holidays))
        return cls(1, zone, None, None, 0, by_processing_time, _several(weekend), away, first, last)

    def _spans(self, wall: int) -> Iterator[tuple[int, int]]:
        day = (wall - self.opens) // DAY
        if self.is_business_day(day) and wall < day * DAY + self.closes:
            yield day * DAY + self.opens, day * DAY + self.closes

    def _arguments(self) -> Iterator[str]:
        _, *rest = CalendarWindows._arguments(self)  # noqa: SLF001 - its own base
        yield repr(_shown(self.opens))
        yield repr(_shown(self.closes % DAY))
        yield from rest


@lru_cache(maxsize=64)
def _workdays(weekend: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(place for place, name in enumerate(WEEKDAYS) if name not in weekend)


@lru_cache(maxsize=64)
def _days_off(holidays: tuple[str, ...], weekend: tuple[str, ...]) -> tuple[int, ...]:
    days = (date.fromisoformat(day).toordinal() - _EPOCH for day in holidays)
    return tuple(day for day in days if _weekday(day) in _workdays(weekend))


def _weekday(day: int) -> int:
    return (day + 3) % 7


def _several(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, (str, date)) else tuple(given)


def _date(text: str) -> str:
    try:
        # Python 3.11 also accepts dates in other formats, which 3.10 does not.
        found = date.fromisoformat(text) if isinstance(text, str) and len(text) == len("2026-12-25") else None
    except ValueError:
        found = None
    if found is None:
        raise InvalidWindowError(f"a holiday is a date such as '2026-12-25', not {text!r}")
    return found.isoformat()


def _time(text: str, what: str) -> int:
    found = _CLOCK.fullmatch(text) if isinstance(text, str) else None
    seconds = sum(int(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else -1
    if not 0 <= seconds <= 86_400:
        raise InvalidWindowError(f"{what} must be a time of the clock such as '09:00', got {text!r}")
    return seconds * 1_000_000 % DAY


def _shown(time: int) -> str:
    hours, seconds = divmod(time // 1_000_000, 3600)
    minutes, seconds = divmod(seconds, 60)
    return f"{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")
