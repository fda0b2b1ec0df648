"""``[window]`` and ``[windows.LABEL]`` of a job file: which rows are put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.errors import PanestreamError
from panestream.jobs.schema import Place, array, choice, duration, extent, integer, reads, sql, text, wanting
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
from panestream.windowing.assigners.calendar_days import WEEKDAYS
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
"""The kinds of windows of a calendar, and the keys that each must have."""

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
"""The keys that each may have."""

_CALENDAR_KEYS = ("zone", "first_day", "first_month", "weekend", "holidays", "opens", "closes")
"""The keys that no other windows have."""

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
"""The kinds of windows, and the keys that each must have."""

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
"""The keys that each may have."""

COUNTED = ("count", *_CALENDAR_TAKES)
"""Kinds of windows whose size is a number: of rows, or of days and their kin."""

EVEN = ("tumbling", "sliding", "cumulating")
"""Kinds of windows that repeat after a fixed time."""

LOOK_BACK = "look_back"
"""The kind that gives a result for each row; several of them go together."""

ALIGNED = (*EVEN, *_CALENDAR_TAKES)
"""Kinds of windows that lie on a grid of time, so that several of them share their panes."""

_LENGTHS = ("size", "slide", "step", "offset", "following")
_CHECKED = (*_LENGTHS, "gap", "gap_column", "gap_unit", "max_duration", "closed_by", "start", "end", *_CALENDAR_KEYS)
"""Keys that some kinds of windows have, and others have not."""

_HINTS: Mapping[tuple[str, str], str] = {
    ("sliding", "slide"): "'slide' is missing: every how long does a sliding window begin?",
    ("cumulating", "step"): "'step' is missing: by how much does a cumulating window grow?",
    ("tumbling", "slide"): "a tumbling window has no slide; did you mean type = 'sliding'?",
}

_CALENDAR_UNIT = choice("hour", "day", "month")


@wanting('duration, not 0, or "hour", "day", "month"', {"type": "string"})
def _step(value: object, place: Place) -> str:
    """Read by what windows grow: a duration, or a unit of a calendar."""
    return str(_CALENDAR_UNIT(value, place)) if value in ("hour", "day", "month") else str(duration(zero=False)(value, place))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSection:
    """``[window]``: which rows of a key are put together; or ``[windows.LABEL]``, several kinds over the same rows.

    Attributes:
        type: "tumbling"; "sliding"; "cumulating" (begin together every ``size``, end every ``step``); "session";
            "predicates" (from a row where ``start`` is true to one where ``end`` is); "look_back" (for each row the rows of the
            ``size`` before it, and itself); "count"; "global" (one window that never ends: it needs [firing]); or of the calendar
            of a zone.
        time: "event", or "processing" for the clock.
        size: how long; of count windows how many rows; of cumulating windows the longest; of a calendar how many units (1).
        slide: how far the beginnings lie apart, of a calendar in units; of count windows: fires every so many rows.
        step: of cumulating windows; of a calendar the unit at whose end each ends.
        offset: moves the windows against the epoch (UTC); of a calendar: when a day, a week or a month begins.
        following: of look-backs: how far each looks ahead, too.
        gap: of sessions: how long nothing comes before one ends; of windows by predicates, which else wait for their end.
        gap_column: instead of ``gap``: a column or SQL with the gap of each row, an interval or a number with ``gap_unit``.
        gap_unit: of a ``gap_column`` that is a number.
        max_duration: of sessions of event time: cuts them at every multiple of it.
        closed_by: of sessions of event time: SQL; a session ends at once behind a row where it is true.
        start: of windows by predicates: SQL; a window begins with a row where it is true.
        end: of windows by predicates: SQL; a window ends behind a row where it is true.
        zone: of a calendar: the time zone, by its name in the IANA database.
        first_day: of calendar_weeks, if it is not Monday.
        first_month: of months, quarters and years: the month with which a year begins.
        weekend: of business days and hours, if it is not Saturday and Sunday.
        holidays: of business days and hours: dates such as "2026-12-25".
        opens: of business_hours: the time of the clock, such as "09:00".
        closes: of business_hours; where it is not later than ``opens``, of the next day.
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
        """A better answer for a key that is one of the whole job."""
        if name in ("allowed_lateness", "with_firing", "changelog", "every_firing", "key_groups", "tasks", "memory_limit"):
            return f"is a key of the whole job: write {name} before the first [section]"
        return "belongs into a section of its own, [firing]" if name in ("trigger", "every", "purge", "timeout") else None

    @property
    def uses_event_time(self) -> bool:
        """Whether its rows need an event time."""
        return self.type not in ("count", "global") and self.time == "event"

    def check(self, place: Place) -> None:
        """Each kind has the keys it takes, and no others; the numbers fit."""
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

    def _check_key(self, place: Place, key: str) -> None:
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

    def _check_session(self, place: Place) -> None:
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
        """Size and slide of a count window."""
        return int(self.size or 0), None if self.slide is None else int(self.slide)

    @property
    def assigner(self) -> WindowAssigner:
        """What the library calls it."""
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
