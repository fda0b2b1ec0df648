"""``[window]`` of a calendar: hours to years, business days and business hours, in a time zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from panestream.jobs.schema import Place, choice, duration, wanting
from panestream.windowing.assigners import (
    BusinessDays,
    BusinessHours,
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarYears,
    WindowAssigner,
)

_UNITS: Mapping[str, Any] = {
    "calendar_hours": CalendarHours,
    "calendar_days": CalendarDays,
    "calendar_weeks": CalendarWeeks,
    "calendar_months": CalendarMonths,
    "calendar_quarters": CalendarQuarters,
    "calendar_years": CalendarYears,
    "business_days": BusinessDays,
}
_OF_MONTHS = ("size", "slide", "step", "offset", "first_month", "zone", "time")

CALENDAR_NEEDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_UNITS, ("zone",)),
    "business_hours": ("opens", "closes", "zone"),
}
"""The kinds of windows of a calendar, and the keys that each must have."""

CALENDAR_TAKES: Mapping[str, tuple[str, ...]] = {
    "calendar_hours": ("size", "slide", "offset", "zone", "time"),
    "calendar_days": ("size", "slide", "step", "offset", "zone", "time"),
    "calendar_weeks": ("size", "slide", "step", "offset", "first_day", "zone", "time"),
    "calendar_months": _OF_MONTHS,
    "calendar_quarters": _OF_MONTHS,
    "calendar_years": _OF_MONTHS,
    "business_days": ("size", "slide", "offset", "weekend", "holidays", "zone", "time"),
    "business_hours": ("opens", "closes", "weekend", "holidays", "zone", "time"),
}
"""The keys that each may have."""

OWN_KEYS = ("zone", "first_day", "first_month", "weekend", "holidays", "opens", "closes")
"""The keys that no other windows have."""

_WORDS = choice("hour", "day", "month")


@wanting('duration, not 0, or "hour", "day", "month"', {"type": "string"})
def growth(value: object, place: Place) -> str:
    """By what windows grow: a duration, or a unit of a calendar."""
    return str(_WORDS(value, place)) if value in ("hour", "day", "month") else str(duration(zero=False)(value, place))


def calendar_assigner(section: Any) -> WindowAssigner:
    """What the library calls windows of a calendar: of a checked ``WindowSection``, whose module imports this one."""
    own: dict[str, Any] = {"zone": section.zone, "by_processing_time": section.time == "processing"}
    own |= {key: getattr(section, key) for key in ("step", "offset", *OWN_KEYS) if getattr(section, key) is not None}
    found: WindowAssigner
    if section.type == "business_hours":
        found = BusinessHours.of(own.pop("opens"), own.pop("closes"), **own)
    else:
        count, every = int(section.size or 1), None if section.slide is None else int(section.slide)
        found = _UNITS[section.type].of(count, every=every, **own)
    return found


__all__ = ["CALENDAR_NEEDS", "CALENDAR_TAKES", "OWN_KEYS", "calendar_assigner", "growth"]
