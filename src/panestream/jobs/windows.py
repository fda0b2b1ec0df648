"""``[window]`` and ``[windows.LABEL]`` of a job file: how rows are grouped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.errors import PanestreamError
from panestream.jobs.schema import DocumentPlace, array, choice, duration, extent, integer, reads, sql, text, wanting
from panestream.windowing.assigners import (
    BusinessDays,
    BusinessHours,
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarYears,
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from panestream.windowing.assigners.calendar import WEEKDAYS
from panestream.windowing.assigners.global_windows import CountWindows

_CALENDAR_WINDOWS: Mapping[str, Any] = {
    "calendar_hours": CalendarHours,
    "calendar_days": CalendarDays,
    "calendar_weeks": CalendarWeeks,
    "calendar_months": CalendarMonths,
    "calendar_quarters": CalendarQuarters,
    "calendar_years": CalendarYears,
    "business_days": BusinessDays,
}
_OF_MONTHS = ("size", "slide", "step", "offset", "first_month", "zone", "time")

_CALENDAR_NEEDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_CALENDAR_WINDOWS, ("zone",)),
    "business_hours": ("opens", "closes", "zone"),
}
"""The kinds of calendar windows, with the required keys of each."""

_CALENDAR_TAKES: Mapping[str, tuple[str, ...]] = {
    "calendar_hours": ("size", "slide", "offset", "zone", "time"),
    "calendar_days": ("size", "slide", "step", "offset", "zone", "time"),
    "calendar_weeks": ("size", "slide", "step", "offset", "first_day", "zone", "time"),
    "calendar_months": _OF_MONTHS,
    "calendar_quarters": _OF_MONTHS,
    "calendar_years": _OF_MONTHS,
    "business_days": ("size", "slide", "offset", "weekend", "holidays", "zone", "time"),
    "business_hours": ("opens", "closes", "weekend", "holidays", "zone", "time"),
}
"""The kinds of calendar windows, with the allowed keys of each."""

_CALENDAR_KEYS = ("zone", "first_day", "first_month", "weekend", "holidays", "opens", "closes")
"""The keys that only calendar windows have."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "tumbling": ("size",),
    "sliding": ("size", "slide"),
    "cumulating": ("size", "step"),
    "session": (),
    "predicates": (),
    "look_back": ("size",),
    "count": ("size",),
    "global": (),
    **_CALENDAR_NEEDS,
}
"""The kinds of windows, with the required keys of each."""

TAKES: Mapping[str, tuple[str, ...]] = {
    "tumbling": ("size", "offset", "time"),
    "sliding": ("size", "slide", "offset", "time"),
    "cumulating": ("size", "step", "offset", "time"),
    "session": ("gap", "gap_column", "gap_unit", "max_duration", "closed_by", "time"),
    "predicates": ("start", "end", "gap"),
    "look_back": ("size", "following"),
    "count": ("size", "slide"),
    "global": (),
    **_CALENDAR_TAKES,
}
"""The kinds of windows, with the allowed keys of each."""

COUNTED = ("count", *_CALENDAR_TAKES)
"""Kinds of windows whose size is a number of rows or of calendar units."""

EVEN = ("tumbling", "sliding", "cumulating")
"""Kinds of windows that repeat after a fixed time."""

LOOK_BACK = "look_back"
"""The kind that gives a result for each row; several of them can be combined."""

ALIGNED = (*EVEN, *_CALENDAR_TAKES)
"""Kinds of windows on a time grid, so that several of them share their panes."""

_LENGTHS = ("size", "slide", "step", "offset", "following")
_CHECKED = (*_LENGTHS, "gap", "gap_column", "gap_unit", "max_duration", "closed_by", "start", "end", *_CALENDAR_KEYS)

_HINTS: Mapping[tuple[str, str], str] = {
    ("sliding", "slide"): "'slide' is missing: every how long does a sliding window begin?",
    ("cumulating", "step"): "'step' is missing: by how much does a cumulating window grow?",
    ("tumbling", "slide"): "a tumbling window has no slide; did you mean type = 'sliding'?",
}

_CALENDAR_UNIT = choice("hour", "day", "month")


@wanting('duration, not 0, or "hour", "day", "month"', {"type": "string"})
def _step(value: object, place: DocumentPlace) -> str:
    """Read the step by which windows grow: a duration, or a calendar unit."""
    return str(_CALENDAR_UNIT(value, place)) if value in ("hour", "day", "month") else str(duration(zero=False)(value, place))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSection:
    """``[window]``: how rows of a key are grouped. ``[windows.LABEL]``: several kinds over the same rows.

    Attributes:
        type: "tumbling", "sliding", "session", "count", or a calendar type. "cumulating" windows start together every ``size``
            and end every ``step``. "predicates" windows last from a ``start`` row to an ``end`` row. "look_back" is for each row
            the rows of the ``size`` before it, and itself. "global" is one window without end, which needs [firing].
        time: "event", or "processing" for the clock.
        size: length of a window. It is a number of rows for count windows, the longest length for cumulating windows, and a
            number of units (by default 1) for calendar windows.
        slide: distance between window starts, for calendar windows in units. Count windows fire whenever this number of rows has
            arrived.
        step: growth of cumulating windows, or the unit at whose end each calendar window ends.
        offset: shift against the epoch (UTC), or for calendar windows the start of the day, week or month.
        following: how far a look-back also looks ahead.
        gap: time without rows that ends a session, or a predicate window without an ``end`` row.
        gap_column: replaces ``gap`` by a column or SQL with the gap of each row, as an interval or as a number with ``gap_unit``.
        gap_unit: unit of a numeric ``gap_column``.
        max_duration: cuts event-time sessions at every multiple of this duration.
        closed_by: SQL for event-time sessions, which end immediately after a row for which it is true.
        start: SQL for predicate windows, which start with a row for which it is true.
        end: SQL for predicate windows, which end after a row for which it is true.
        zone: time zone of calendar windows, by its name in the IANA database.
        first_day: first day of calendar_weeks, by default Monday.
        first_month: first month of a year, for months, quarters and years.
        weekend: weekend of business days and hours, by default Saturday and Sunday.
        holidays: dates without business days and hours, such as "2026-12-25".
        opens: opening time of business_hours, such as "09:00".
        closes: closing time of business_hours, on the next day if it is not later than ``opens``.
    """

    type: str = field(metadata=reads(choice(*NEEDS)))
    time: str = field(default="event", metadata=reads(choice("event", "processing")))
    size: str | int | None = field(default=None, metadata=reads(extent))
    slide: str | int | None = field(default=None, metadata=reads(extent))
    step: str | None = field(default=None, metadata=reads(_step))
    offset: str | None = field(default=None, metadata=reads(duration(negative=True)))
    following: str | None = field(default=None, metadata=reads(duration()))
    gap: str | None = field(default=None, metadata=reads(duration(zero=False)))
    gap_column: str | None = field(default=None, metadata=reads(sql))
    gap_unit: str | None = field(default=None, metadata=reads(choice("seconds", "milliseconds", "microseconds")))
    max_duration: str | None = field(default=None, metadata=reads(duration(zero=False)))
    closed_by: str | None = field(default=None, metadata=reads(sql))
    start: str | None = field(default=None, metadata=reads(sql))
    end: str | None = field(default=None, metadata=reads(sql))
    zone: str | None = field(default=None, metadata=reads(text))
    first_day: str | None = field(default=None, metadata=reads(choice(*WEEKDAYS)))
    first_month: int | None = field(default=None, metadata=reads(integer(1)))
    weekend: tuple[str, ...] | None = field(default=None, metadata=reads(array(choice(*WEEKDAYS))))
    holidays: tuple[str, ...] | None = field(default=None, metadata=reads(array(text)))
    opens: str | None = field(default=None, metadata=reads(text))
    closes: str | None = field(default=None, metadata=reads(text))

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        if name in ("allowed_lateness", "with_firing", "changelog", "every_firing", "key_groups", "tasks", "memory_limit"):
            return f"is a key of the whole job: write {name} before the first [section]"
        return "belongs into a section of its own, [firing]" if name in ("trigger", "every", "purge", "timeout") else None

    @property
    def uses_event_time(self) -> bool:
        """Whether the windows use event time."""
        return self.type not in ("count", "global") and self.time == "event"

    def check(self, place: DocumentPlace) -> None:
        before = len(place.problems)
        for key in _CHECKED:
            self._check_key(place, key)
        if self.time == "processing" and "time" not in TAKES[self.type]:
            place.at("time").note(f"a {self.type} window knows no time")
        if self.type == "session":
            self._check_session(place)
        if len(place.problems) > before:
            return
        try:
            _ = self.assigner
        except PanestreamError as error:
            place.note(str(error))

    def _check_key(self, place: DocumentPlace, key: str) -> None:
        value = getattr(self, key)
        hint = _HINTS.get((self.type, key))
        if value is None:
            if key in NEEDS[self.type]:
                place.note(hint or f"{key!r} is missing: a {self.type} window needs it")
            return
        if key not in TAKES[self.type]:
            users = [each for each, keys in TAKES.items() if key in keys]
            several = sum(each in _CALENDAR_TAKES for each in users) > 2
            named = [each for each in users if not several or each not in _CALENDAR_TAKES]
            told = ", ".join([*named, *(["windows of a calendar"] if several else [])])
            place.at(key).note(hint or f"a {self.type} window takes no {key!r} (it is for {told})")
        elif key in ("size", "slide") and self.type in COUNTED and not isinstance(value, int):
            what = "a count window counts rows" if self.type == "count" else f"{self.type} are counted"
            place.at(key).note(f"{what}: {key} = {100 if self.type == 'count' else 7}, not {value!r}")
        elif key in ("size", "slide") and self.type not in COUNTED and isinstance(value, int):
            place.at(key).note(f"must be a string such as '90 seconds', not {value}")

    def _check_session(self, place: DocumentPlace) -> None:
        if self.gap is None and self.gap_column is None:
            place.note("'gap' is missing: after how long without a row does a session end? (or 'gap_column')")
        if self.gap is not None and self.gap_column is not None:
            place.at("gap_column").note("'gap' and 'gap_column' exclude each other: keep one of them")
        if self.gap_unit is not None and self.gap_column is None:
            place.at("gap_unit").note("is for a gap in a column: it needs 'gap_column'")
        for key in ("max_duration", "closed_by"):
            if getattr(self, key) is not None and self.time == "processing":
                place.at(key).note("is for sessions of event time")

    @property
    def counts(self) -> tuple[int, int | None]:
        return int(self.size or 0), None if self.slide is None else int(self.slide)

    @property
    def assigner(self) -> WindowAssigner:
        if self.type in _CALENDAR_TAKES:
            return self._calendar()
        by_processing_time = self.time == "processing"
        size, offset = str(self.size), self.offset or "0 seconds"
        if self.type == "tumbling":
            return (TumblingProcessingTimeWindows if by_processing_time else TumblingEventTimeWindows).of(size, offset)
        if self.type == "sliding":
            sliding = SlidingProcessingTimeWindows if by_processing_time else SlidingEventTimeWindows
            return sliding.of(size, str(self.slide), offset)
        if self.type == "cumulating":
            cumulating = CumulatingProcessingTimeWindows if by_processing_time else CumulatingEventTimeWindows
            return cumulating.of(size, str(self.step), offset)
        if self.type == "predicates":
            return PredicateWindows.of(start=self.start, end=self.end, gap=self.gap)
        if self.type == LOOK_BACK:
            return LookBackWindows.of(size, self.following or "0 seconds")
        if self.type == "count":
            return CountWindows(*self.counts).parts[0]
        return self._sessions() if self.type == "session" else GlobalWindows.create()

    def _sessions(self) -> WindowAssigner:
        if self.time == "processing":
            windows = ProcessingTimeSessionWindows
            return windows.with_gap(self.gap) if self.gap else windows.with_gap_column(self.gap_column or "", self.gap_unit)
        of_event_time = EventTimeSessionWindows
        if self.gap:
            sessions = of_event_time.with_gap(self.gap)
        else:
            sessions = of_event_time.with_gap_column(self.gap_column or "", self.gap_unit)
        sessions = sessions if self.max_duration is None else sessions.max_duration(self.max_duration)
        return sessions if self.closed_by is None else sessions.closed_by(self.closed_by)

    def _calendar(self) -> WindowAssigner:
        own: dict[str, Any] = {"zone": self.zone, "by_processing_time": self.time == "processing"}
        own |= {key: getattr(self, key) for key in ("step", "offset", *_CALENDAR_KEYS) if getattr(self, key) is not None}
        if self.type == "business_hours":
            return BusinessHours.of(own.pop("opens"), own.pop("closes"), **own)
        count, every = int(self.size or 1), None if self.slide is None else int(self.slide)
        windows: WindowAssigner = _CALENDAR_WINDOWS[self.type].of(count, every=every, **own)
        return windows
