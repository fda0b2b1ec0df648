"""``[firing]`` of a job file: when windows fire. Parts of a composed trigger are inline tables with one key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from panestream.errors import InvalidWindowError, did_you_mean
from panestream.jobs.schema import (
    DocumentPlace,
    InvalidValue,
    Reader,
    all_noted,
    boolean,
    choice,
    duration,
    integer,
    kind,
    reads,
    shown,
    wanting,
)
from panestream.windowing.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
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

_SEVERAL: Mapping[str, Callable[..., Trigger]] = {"any": AfterAny.of, "all": AfterAll.of, "each": AfterEach.of}
_SINGLE: Mapping[str, Reader] = {"count": integer(1), "delay": duration(), "every": duration(zero=False)}
_PART_KEYS = (*_SINGLE, *_SEVERAL)
"""The keys of a part, which has exactly one."""


@wanting(
    'table with "count", "delay", "every", "any", "all" or "each"', {"type": "object", "minProperties": 1, "maxProperties": 1}
)
def trigger_part(value: object, place: DocumentPlace) -> Trigger:
    """Read a trigger: ``{ count = 100 }``, ``{ delay = "30 seconds" }``, ``{ any = [{ count = 100 }, …] }``."""
    if not isinstance(value, Mapping):
        place.wrong(f"must be a table such as {{ count = 100 }}, not {kind(value)}: {shown(value)}")
    if len(value) != 1:
        place.wrong(f"must have one key, of {', '.join(_PART_KEYS)}: has {', '.join(map(str, value)) or 'none'}")
    ((word, inner),) = value.items()
    where = place.at(str(word))
    if word in _SEVERAL:
        return _several(str(word), inner, where)
    if word not in _SINGLE:
        where.wrong(f"unknown key; {did_you_mean(str(word), _PART_KEYS)}")
    given = _SINGLE[word](inner, where)
    if word == "count":
        return AfterCount.of(given)
    return AfterProcessingTime.of(given) if word == "delay" else ContinuousEventTimeTrigger.of(given)


def _several(word: str, value: object, place: DocumentPlace) -> Trigger:
    if not isinstance(value, list) or not value:
        place.wrong(f"must be an array of tables such as [{{ count = 100 }}], not {shown(value)}")
    parts = []
    with all_noted(place):
        for index, each in enumerate(value):
            with suppress(InvalidValue):
                parts.append(trigger_part(each, place.at(index)))
    try:
        return _SEVERAL[word](*parts)
    except InvalidWindowError as error:
        place.wrong(str(error))


_TRIGGERS = ("event_time", "processing_time", "continuous", "count", "after_watermark", "end_of_stream", "never")
_WITH = (
    ("every", "continuous", True),
    ("time", "continuous", False),
    ("count", "count", True),
    ("early", "after_watermark", False),
    ("late", "after_watermark", False),
)
"""Keys for a single trigger, and whether it requires them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringSection:
    """``[firing]``: when windows fire, instead of at their end.

    Attributes:
        trigger: "event_time" (at the end, by the watermark), "processing_time" (at the end, by the clock), "continuous" (at
            intervals, and at the end), "count" (after a number of rows), "after_watermark" (at the end, with ``early`` and
            ``late``), "end_of_stream", or "never".
        time: time of "continuous", "event" or "processing" for the clock.
        every: interval of "continuous".
        count: number of rows of "count".
        early: additional firings of "after_watermark" before the end, by ``{ count = 100 }`` rows, ``{ delay = "30 seconds" }``
            of the clock after the first row, ``{ every = "5 minutes" }`` of event time, or several of them, as in
            ``{ any = [...] }``, ``all`` or ``each``.
        late: additional firings of "after_watermark" after the end, within the allowed lateness. Without it, late rows are
            dropped.
        timeout: also fires after this time without a firing, by the clock.
        purge: whether a firing empties the window.
    """

    trigger: str = field(metadata=reads(choice(*_TRIGGERS)))
    time: str | None = field(default=None, metadata=reads(choice("event", "processing")))
    every: str | None = field(default=None, metadata=reads(duration(zero=False)))
    count: int | None = field(default=None, metadata=reads(integer(1)))
    early: Trigger | None = field(default=None, metadata=reads(trigger_part))
    late: Trigger | None = field(default=None, metadata=reads(trigger_part))
    timeout: str | None = field(default=None, metadata=reads(duration(zero=False)))
    purge: bool = field(default=False, metadata=reads(boolean))

    @property
    def uses_processing_time(self) -> bool:
        every_so_often = self.trigger == "continuous" and self.time == "processing"
        delayed = any(one is not None and one.uses_processing_time for one in (self.early, self.late))
        return every_so_often or delayed or self.trigger == "processing_time" or self.timeout is not None

    def check(self, place: DocumentPlace) -> None:
        for key, trigger, needed in _WITH:
            given = getattr(self, key) is not None
            if given and self.trigger != trigger:
                place.at(key).note(f"is for trigger {trigger!r}, not for {self.trigger!r}")
            if needed and not given and self.trigger == trigger:
                place.note(f"{key!r} is missing: trigger {trigger!r} needs it")

    @property
    def recipe(self) -> Trigger:
        trigger = self._inner()
        if self.timeout is not None:
            trigger = ProcessingTimeoutTrigger.of(trigger, self.timeout)
        return PurgingTrigger.of(trigger) if self.purge else trigger

    def _inner(self) -> Trigger:
        if self.trigger == "continuous":
            continuous = ContinuousProcessingTimeTrigger if self.time == "processing" else ContinuousEventTimeTrigger
            return continuous.of(str(self.every))
        if self.trigger == "count":
            return CountTrigger.of(self.count or 1)
        if self.trigger == "after_watermark":
            return AfterWatermark(self.early, self.late)
        if self.trigger in ("event_time", "processing_time"):
            return EventTimeTrigger.create() if self.trigger == "event_time" else ProcessingTimeTrigger.create()
        return EndOfStreamTrigger() if self.trigger == "end_of_stream" else NeverTrigger()
