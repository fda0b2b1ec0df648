"""``[window]``, ``[windows.LABEL]`` and ``[firing]`` of a job file: how rows are grouped, and when windows fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from panestream.errors import InvalidWindowError, PanestreamError, did_you_mean
from panestream.jobs.schema import (
    DocumentPlace,
    InvalidValue,
    Reader,
    Section,
    all_noted,
    array,
    boolean,
    choice,
    duration,
    expect,
    extent,
    integer,
    reads,
    setting,
    shown,
    sql,
    table,
    text,
)
from panestream.windowing import assigners, triggers
from panestream.windowing.assigners.calendar import WEEKDAYS
from panestream.windowing.assigners.global_windows import CountWindows

_GRIDS: Mapping[str, tuple[Any, Any]] = {
    "tumbling": (assigners.TumblingEventTimeWindows, assigners.TumblingProcessingTimeWindows),
    "sliding": (assigners.SlidingEventTimeWindows, assigners.SlidingProcessingTimeWindows),
    "cumulating": (assigners.CumulatingEventTimeWindows, assigners.CumulatingProcessingTimeWindows),
}
_CALENDARS: Mapping[str, Any] = {
    "calendar_hours": assigners.CalendarHours,
    "calendar_days": assigners.CalendarDays,
    "calendar_weeks": assigners.CalendarWeeks,
    "calendar_months": assigners.CalendarMonths,
    "calendar_quarters": assigners.CalendarQuarters,
    "calendar_years": assigners.CalendarYears,
    "business_days": assigners.BusinessDays,
    "business_hours": assigners.BusinessHours,
}
_CALENDAR_KEYS = ("step", "offset", "zone", "first_day", "first_month", "weekend", "holidays")
_OF_MONTHS = "zone! size slide step offset first_month time"

EVEN = (*_GRIDS,)
"""Kinds of windows that repeat after a fixed time."""

ALIGNED = (*EVEN, *_CALENDARS)
"""Kinds of windows on a time grid, so that several of them share their panes."""

LOOK_BACK = "look_back"
"""The kind that gives a result for each row; several of them can be combined."""

ROLLING = "rolling"
"""The kind that gives the current values of each key; its lengths have labels of their own."""

_ALL_TIME = "all time"

_KINDS: Mapping[str, str] = {
    "tumbling": "size! offset time",
    "sliding": "size! slide! offset time",
    "cumulating": "size! step! offset time",
    "session": "gap gap_column gap_unit max_duration closed_by time",
    "predicates": "start end gap",
    "look_back": "size! following",
    "rolling": "lengths! step!",
    "count": "size! slide",
    "global": "",
    "calendar_hours": "zone! size slide offset time",
    "calendar_days": "zone! size slide step offset time",
    "calendar_weeks": "zone! size slide step offset first_day time",
    "calendar_months": _OF_MONTHS,
    "calendar_quarters": _OF_MONTHS,
    "calendar_years": _OF_MONTHS,
    "business_days": "zone! size slide offset weekend holidays time",
    "business_hours": "opens! closes! zone! weekend holidays time",
}
_COUNTED = ("count", *_CALENDARS)
"""Kinds of windows whose size is a number of rows or of calendar units."""

_CALENDAR_UNIT = choice("hour", "day", "month")


@reads('duration, not 0, or "hour", "day", "month"', {"type": "string"})
def _step(value: object, place: DocumentPlace) -> str:
    """Read the step by which windows grow: a duration, or a calendar unit."""
    return str(_CALENDAR_UNIT(value, place)) if value in ("hour", "day", "month") else str(duration(zero=False)(value, place))


@reads('duration, not 0, or "all time"', {"type": "string"})
def _length(value: object, place: DocumentPlace) -> str | None:
    """Read the length of a rolling window; None is all time."""
    return None if value == _ALL_TIME else str(duration(zero=False)(value, place))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSection(Section):
    """``[window]``: how rows of a key are grouped. ``[windows.LABEL]``: several kinds over the same rows.

    Attributes:
        type: "tumbling", "sliding", "session", "count", or a calendar type. "cumulating" windows start together every ``size``
            and end every ``step``. "predicates" windows last from a ``start`` row to an ``end`` row. "look_back" is for each row
            the rows of the ``size`` before it, and itself. "rolling" keeps the current values of each key over the last hour, the
            last day or all time. "global" is one window without end, which needs [firing].
        time: "event", or "processing" for the clock.
        size: length of a window. It is a number of rows for count windows, the longest length for cumulating windows, and a
            number of units (by default 1) for calendar windows.
        slide: distance between window starts, for calendar windows in units. Count windows fire whenever this number of rows has
            arrived.
        step: growth of cumulating windows, or the unit at whose end each calendar window ends. For rolling windows the step
            of time at which rows enter and leave.
        lengths: rolling windows by label, such as ``{ 1h = "1 hour", ever = "all time" }``. Results have the label after their
            names.
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

    kind_key = "type"
    kinds: ClassVar = _KINDS
    kind_shapes: ClassVar = {
        kind: {name: {"type": "integer" if kind in _COUNTED else "string"} for name in ("size", "slide") if name in names}
        for kind, names in _KINDS.items()
    }
    hints: ClassVar = {
        ("sliding", "slide"): "'slide' is missing: every how long does a sliding window begin?",
        ("cumulating", "step"): "'step' is missing: by how much does a cumulating window grow?",
        ("tumbling", "slide"): "a tumbling window does not have a slide; did you mean type = 'sliding'?",
    }
    elsewhere: ClassVar = {
        **{
            name: f"is a key of the whole job: write {name} before the first [section]"
            for name in (
                *("allowed_lateness", "with_firing", "changelog", "every_firing"),
                *("key_groups", "tasks", "memory_limit", "rows_per_pane"),
            )
        },
        **dict.fromkeys(("trigger", "every", "purge", "timeout"), "belongs in the section [firing]"),
    }

    type: str = setting(choice(*_KINDS))
    time: str = setting(choice("event", "processing"), "event")
    size: str | int | None = setting(extent, None)
    slide: str | int | None = setting(extent, None)
    step: str | None = setting(_step, None)
    offset: str | None = setting(duration(negative=True), None)
    lengths: Mapping[str, str | None] | None = setting(table(text, _length), None)
    following: str | None = setting(duration(), None)
    gap: str | None = setting(duration(zero=False), None)
    gap_column: str | None = setting(sql, None)
    gap_unit: str | None = setting(choice("seconds", "milliseconds", "microseconds"), None)
    max_duration: str | None = setting(duration(zero=False), None)
    closed_by: str | None = setting(sql, None)
    start: str | None = setting(sql, None)
    end: str | None = setting(sql, None)
    zone: str | None = setting(text, None)
    first_day: str | None = setting(choice(*WEEKDAYS), None)
    first_month: int | None = setting(integer(1), None)
    weekend: tuple[str, ...] | None = setting(array(choice(*WEEKDAYS)), None)
    holidays: tuple[str, ...] | None = setting(array(text), None)
    opens: str | None = setting(text, None)
    closes: str | None = setting(text, None)

    @property
    def uses_event_time(self) -> bool:
        """Whether the windows use event time."""
        return self.type not in ("count", "global") and self.time == "event"

    def check(self, place: DocumentPlace) -> None:
        for name, value in (("size", self.size), ("slide", self.slide)):
            if value is not None and isinstance(value, int) != (self.type in _COUNTED):
                what = "a count window counts rows" if self.type == "count" else f"{self.type} are counted"
                counted = f"{what}: {name} = {100 if self.type == 'count' else 7}, not {value!r}"
                place.at(name).note(counted if isinstance(value, str) else f"must be a string such as '90 seconds', not {value}")
        if self.type == "session":
            self._check_session(place)

    def check_library(self, place: DocumentPlace) -> None:
        try:
            _ = self.assigner
        except PanestreamError as error:
            place.note(str(error))

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
    def assigner(self) -> assigners.WindowAssigner:
        """The library's windows."""
        by_clock = self.time == "processing"
        if self.type in _GRIDS:
            lengths = [length for length in (self.size, self.slide, self.step) if length is not None]
            aligned: assigners.WindowAssigner = _GRIDS[self.type][by_clock].of(*lengths, self.offset or "0 seconds")
            return aligned
        if self.type in _CALENDARS:
            given = {name: value for name in _CALENDAR_KEYS if (value := getattr(self, name)) is not None}
            extents = (self.opens, self.closes) if self.opens else (self.size or 1,)
            if self.slide is not None:
                given["every"] = self.slide
            calendar: assigners.WindowAssigner = _CALENDARS[self.type].of(*extents, by_processing_time=by_clock, **given)
            return calendar
        if self.type == "predicates":
            return assigners.PredicateWindows.of(start=self.start, end=self.end, gap=self.gap)
        if self.type == LOOK_BACK:
            return assigners.LookBackWindows.of(str(self.size), self.following or "0 seconds")
        if self.type == ROLLING:
            return assigners.RollingWindows.of(self.lengths or {}, every=str(self.step))
        if self.type == "count":
            return CountWindows(*self.counts).parts[0]
        return self._sessions() if self.type == "session" else assigners.GlobalWindows.create()

    def _sessions(self) -> assigners.WindowAssigner:
        windows: Any = assigners.ProcessingTimeSessionWindows if self.time == "processing" else assigners.EventTimeSessionWindows
        sessions: Any = windows.with_gap(self.gap) if self.gap else windows.with_gap_column(self.gap_column, self.gap_unit)
        sessions = sessions if self.max_duration is None else sessions.max_duration(self.max_duration)
        closed: assigners.WindowAssigner = sessions if self.closed_by is None else sessions.closed_by(self.closed_by)
        return closed


_SEVERAL: Mapping[str, Callable[..., triggers.Trigger]] = {
    "any": triggers.AfterAny.of,
    "all": triggers.AfterAll.of,
    "each": triggers.AfterEach.of,
}
_SINGLE: Mapping[str, tuple[Reader, Callable[..., triggers.Trigger]]] = {
    "count": (integer(1), triggers.AfterCount.of),
    "delay": (duration(), triggers.AfterProcessingTime.of),
    "every": (duration(zero=False), triggers.ContinuousEventTimeTrigger.of),
}
_PART_KEYS = (*_SINGLE, *_SEVERAL)
"""The keys of a part of a composed trigger, which has exactly one."""


@reads('table with "count", "delay", "every", "any", "all" or "each"', {"type": "object", "minProperties": 1, "maxProperties": 1})
def trigger_part(value: object, place: DocumentPlace) -> triggers.Trigger:
    """Read a trigger: ``{ count = 100 }``, ``{ delay = "30 seconds" }``, ``{ any = [{ count = 100 }, …] }``."""
    part: Mapping[Any, Any] = expect(Mapping, "a table such as { count = 100 }", value, place)
    if len(part) != 1:
        place.wrong(f"must have one key, of {', '.join(_PART_KEYS)}: has {', '.join(map(str, part)) or 'none'}")
    ((word, inner),) = part.items()
    where = place.at(str(word))
    if word in _SINGLE:
        read, make = _SINGLE[word]
        return make(read(inner, where))
    if word not in _SEVERAL:
        where.wrong(f"unknown key; {did_you_mean(str(word), _PART_KEYS)}")
    if not isinstance(inner, list) or not inner:
        where.wrong(f"must be an array of tables such as [{{ count = 100 }}], not {shown(inner)}")
    parts = []
    with all_noted(where):
        for index, each in enumerate(inner):
            with suppress(InvalidValue):
                parts.append(trigger_part(each, where.at(index)))
    try:
        return _SEVERAL[word](*parts)
    except InvalidWindowError as error:
        where.wrong(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringSection(Section):
    """``[firing]``: when windows fire, instead of at their end.

    Attributes:
        trigger: "event_time" (at the end, by the watermark), "processing_time" (at the end, by the clock), "continuous" (at
            intervals, and at the end), "count" (after a number of rows), "after_watermark" (at the end, with ``early`` and
            ``late``), "end_of_stream", or "never".
        time: time of "continuous", "event" or "processing" for the clock.
        every: interval of "continuous".
        only_changed: whether "continuous" fires only windows that got rows since they last fired.
        count: number of rows of "count".
        early: additional firings of "after_watermark" before the end, by ``{ count = 100 }`` rows, ``{ delay = "30 seconds" }``
            of the clock after the first row, ``{ every = "5 minutes" }`` of event time, or several of them, as in
            ``{ any = [...] }``, ``all`` or ``each``.
        late: additional firings of "after_watermark" after the end, within the allowed lateness. Without it, late rows are
            dropped.
        timeout: also fires after this time without a firing, by the clock.
        purge: whether a firing empties the window.
    """

    kind_key = "trigger"
    kinds: ClassVar = {
        "event_time": "",
        "processing_time": "",
        "continuous": "every! time only_changed",
        "count": "count!",
        "after_watermark": "early late",
        "end_of_stream": "",
        "never": "",
    }

    trigger: str = setting(choice(*kinds))
    time: str | None = setting(choice("event", "processing"), None)
    every: str | None = setting(duration(zero=False), None)
    only_changed: bool = setting(boolean, False)
    count: int | None = setting(integer(1), None)
    early: triggers.Trigger | None = setting(trigger_part, None)
    late: triggers.Trigger | None = setting(trigger_part, None)
    timeout: str | None = setting(duration(zero=False), None)
    purge: bool = setting(boolean, False)

    @property
    def uses_processing_time(self) -> bool:
        return self.recipe.uses_processing_time

    @property
    def recipe(self) -> triggers.Trigger:
        """The library's trigger."""
        trigger = self._inner()
        if self.timeout is not None:
            trigger = triggers.ProcessingTimeoutTrigger.of(trigger, self.timeout)
        return triggers.PurgingTrigger.of(trigger) if self.purge else trigger

    def _inner(self) -> triggers.Trigger:
        if self.trigger == "continuous" and self.time == "processing":
            return triggers.ContinuousProcessingTimeTrigger.of(str(self.every), self.only_changed)
        if self.trigger == "continuous":
            return triggers.ContinuousEventTimeTrigger.of(str(self.every), self.only_changed)
        if self.trigger == "count":
            return triggers.CountTrigger.of(self.count or 1)
        if self.trigger == "after_watermark":
            return triggers.AfterWatermark(self.early, self.late)
        if self.trigger == "event_time":
            return triggers.EventTimeTrigger.create()
        if self.trigger == "processing_time":
            return triggers.ProcessingTimeTrigger.create()
        return triggers.EndOfStreamTrigger() if self.trigger == "end_of_stream" else triggers.NeverTrigger()
