"""Calendar months, quarters and years."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.calendar import CalendarWindows, first_day_of, month_of
from panestream.windowing.time import Duration, to_micros
from panestream.windowing.zones import DAY

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


__all__ = ["CalendarMonths", "CalendarQuarters", "CalendarYears"]
