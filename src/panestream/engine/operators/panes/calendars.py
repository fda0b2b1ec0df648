"""Calendar windows as aligned windows."""

from __future__ import annotations

from panestream.engine.kernels.calendar_grid import ZonedWindows
from panestream.engine.kernels.calendar_lines import BusinessLine, EvenLine, Line, LineWindows, MonthLine, SoFarWindows
from panestream.engine.kernels.slicing import AlignedWindows, SlidingWindows
from panestream.engine.kernels.wall_clock import WallClock
from panestream.windowing.assigners import (
    BusinessDays,
    BusinessHours,
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarWindows,
    CalendarYears,
)
from panestream.windowing.zones import DAY

EVEN = (CalendarHours, CalendarDays, CalendarWeeks)
OF_MONTHS = (CalendarMonths, CalendarQuarters, CalendarYears)
OF_BUSINESS = (BusinessDays, BusinessHours)
CALENDAR = (*EVEN, *OF_MONTHS, *OF_BUSINESS)
_HOUR = DAY // 24


def calendar_windows(assigner: CalendarWindows) -> AlignedWindows:
    """Return the windows of an assigner that is one of :data:`CALENDAR`."""
    return ZonedWindows(_of_wall_clock(assigner), WallClock(assigner.rules))


def _of_wall_clock(one: CalendarWindows) -> AlignedWindows:
    every = one.every or one.count
    if isinstance(one, OF_BUSINESS):
        opens, closes = (one.opens, one.closes) if isinstance(one, BusinessHours) else (one.offset, one.offset + DAY)
        days = one.workdays, one.days_off
        return LineWindows(BusinessLine(*days, opens), BusinessLine(*days, closes, shift=1), one.count, every, gaps=True)
    if isinstance(one, OF_MONTHS):
        months = one.months * (1 if one.step is None else one.count)
        line: Line = MonthLine(months, one.phase, one.offset)
        return LineWindows(line, line, one.count, every) if one.step is None else SoFarWindows(line, _steps(one))
    assert isinstance(one, EVEN)  # noqa: S101 - there is no other
    unit = one.longest_unit
    if one.step is None:
        return SlidingWindows(one.count * unit, every * unit, one.begins_at)
    return SoFarWindows(EvenLine(one.count * unit, one.begins_at), _steps(one))


def _steps(one: CalendarWindows) -> Line:
    if one.step == "month":
        return MonthLine(1, 0, one.offset)
    width = _HOUR if one.step == "hour" else DAY
    return EvenLine(width, one.offset % width)


__all__ = ["CALENDAR", "calendar_windows"]
