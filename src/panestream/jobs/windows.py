"""``[window]``, ``[windows.LABEL]`` and ``[firing]`` of a job file: which rows are put together, and when the windows fire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from panestream.errors import PanestreamError
from panestream.jobs.calendars import CALENDAR_NEEDS, CALENDAR_TAKES, OWN_KEYS, calendar_assigner, growth
from panestream.jobs.parts import part
from panestream.jobs.schema import Place, array, boolean, choice, duration, extent, integer, reads, sql, text
from panestream.windowing.assigners import (
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
from panestream.windowing.triggers import (
    AfterWatermark,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

NEEDS: Mapping[str, tuple[str, ...]] = {
    "tumbling": ("size",),
    "sliding": ("size", "slide"),
    "cumulating": ("size", "step"),
    "session": (),
    "predicates": (),
    "look_back": ("size",),
    "count": ("size",),
    "global": (),
    **CALENDAR_NEEDS,
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
    **CALENDAR_TAKES,
}
"""The keys that each may have."""

COUNTED = ("count", *CALENDAR_TAKES)
"""Kinds of windows whose size is a number: of rows, or of days and their kin."""

EVEN = ("tumbling", "sliding", "cumulating")
"""Kinds of windows that repeat after a fixed time."""

LOOK_BACK = "look_back"
"""The kind that gives a result for each row; several of them go together."""

ALIGNED = (*EVEN, *CALENDAR_TAKES)
"""Kinds of windows that lie on a grid of time, so that several of them share their panes."""

_LENGTHS = ("size", "slide", "step", "offset", "following")
_CHECKED = (*_LENGTHS, "gap", "gap_column", "gap_unit", "max_duration", "closed_by", "start", "end", *OWN_KEYS)
"""Keys that some kinds of windows have, and others have not."""

_HINTS: Mapping[tuple[str, str], str] = {
    ("sliding", "slide"): "'slide' is missing: every how long does a sliding window begin?",
    ("cumulating", "step"): "'step' is missing: by how much does a cumulating window grow?",
    ("tumbling", "slide"): "a tumbling window has no slide; did you mean type = 'sliding'?",
}


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
    step: str | None = field(default=None, metadata=reads(growth))
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
            several = sum(each in CALENDAR_TAKES for each in users) > 2
            named = [each for each in users if not several or each not in CALENDAR_TAKES]
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
        if self.type in CALENDAR_TAKES:
            return calendar_assigner(self)
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


_TRIGGERS = ("event_time", "processing_time", "continuous", "count", "after_watermark", "end_of_stream", "never")
_WITH = (
    ("every", "continuous", True),
    ("time", "continuous", False),
    ("count", "count", True),
    ("early", "after_watermark", False),
    ("late", "after_watermark", False),
)
"""Keys that go with one trigger, and whether it needs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """``[firing]``: when windows fire, instead of at their end.

    Attributes:
        trigger: "event_time" (at the end, by the watermark), "processing_time" (at the end, by the clock), "continuous" (every so
            often, and at the end), "count" (every so many rows), "after_watermark" (at the end, with ``early`` and ``late``),
            "end_of_stream", or "never".
        time: of "continuous": "event", or "processing" for the clock.
        every: of "continuous".
        count: of "count".
        early: of "after_watermark": fires before the end, too: ``{ count = 100 }``, ``{ delay = "30 seconds" }`` after the first
            row by the clock, ``{ every = "5 minutes" }`` of event time, or several: ``{ any = [...] }``, ``all``, ``each``.
        late: of "after_watermark": fires after the end, too, within the allowed lateness; without it late rows are dropped.
        timeout: fires too when the trigger has not for so long, by the clock.
        purge: whether a window that fires is emptied.
    """

    trigger: str = field(metadata=reads(choice(*_TRIGGERS)))
    time: str | None = field(default=None, metadata=reads(choice("event", "processing")))
    every: str | None = field(default=None, metadata=reads(duration(zero=False)))
    count: int | None = field(default=None, metadata=reads(integer(1)))
    early: Trigger | None = field(default=None, metadata=reads(part))
    late: Trigger | None = field(default=None, metadata=reads(part))
    timeout: str | None = field(default=None, metadata=reads(duration(zero=False)))
    purge: bool = field(default=False, metadata=reads(boolean))

    @property
    def uses_processing_time(self) -> bool:
        """Whether the clock makes windows fire."""
        every_so_often = self.trigger == "continuous" and self.time == "processing"
        delayed = any(one is not None and one.uses_processing_time for one in (self.early, self.late))
        return every_so_often or delayed or self.trigger == "processing_time" or self.timeout is not None

    def check(self, place: Place) -> None:
        """Which keys go with which trigger."""
        for key, trigger, needed in _WITH:
            given = getattr(self, key) is not None
            if given and self.trigger != trigger:
                place.at(key).note(f"is for trigger {trigger!r}, not for {self.trigger!r}")
            if needed and not given and self.trigger == trigger:
                place.note(f"{key!r} is missing: trigger {trigger!r} needs it")

    @property
    def recipe(self) -> Trigger:
        """What the library calls it."""
        trigger = self._inner()
        if self.timeout is not None:
            trigger = ProcessingTimeoutTrigger.of(trigger, self.timeout)
        return PurgingTrigger.of(trigger) if self.purge else trigger

    def _inner(self) -> Trigger:
        if self.trigger == "continuous":
            kind = ContinuousProcessingTimeTrigger if self.time == "processing" else ContinuousEventTimeTrigger
            return kind.of(str(self.every))
        if self.trigger == "count":
            return CountTrigger.of(self.count or 1)
        if self.trigger == "after_watermark":
            return AfterWatermark(self.early, self.late)
        if self.trigger in ("event_time", "processing_time"):
            return EventTimeTrigger.create() if self.trigger == "event_time" else ProcessingTimeTrigger.create()
        return EndOfStreamTrigger() if self.trigger == "end_of_stream" else NeverTrigger()
