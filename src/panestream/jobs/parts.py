"""Parts of a composed trigger in a job file: inline tables of one key, which may hold others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from panestream.errors import InvalidWindowError, did_you_mean
from panestream.jobs.schema import Place, Reader, Wrong, all_noted, duration, integer, kind, shown, wanting
from panestream.windowing.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    ContinuousEventTimeTrigger,
    Trigger,
)

_SEVERAL: Mapping[str, Callable[..., Trigger]] = {"any": AfterAny.of, "all": AfterAll.of, "each": AfterEach.of}
_SINGLE: Mapping[str, Reader] = {"count": integer(1), "delay": duration(), "every": duration(zero=False)}
WORDS = (*_SINGLE, *_SEVERAL)
"""The keys of which a part has one."""


@wanting(
    'table with "count", "delay", "every", "any", "all" or "each"', {"type": "object", "minProperties": 1, "maxProperties": 1}
)
def part(value: object, place: Place) -> Trigger:
    """A trigger: ``{ count = 100 }``, ``{ delay = "30 seconds" }``, ``{ any = [{ count = 100 }, { delay = "30 seconds" }] }``."""
    if not isinstance(value, Mapping):
        place.wrong(f"must be a table such as {{ count = 100 }}, not {kind(value)}: {shown(value)}")
    if len(value) != 1:
        place.wrong(f"must have one key, of {', '.join(WORDS)}: has {', '.join(map(str, value)) or 'none'}")
    ((word, inner),) = value.items()
    where = place.at(str(word))
    if word in _SEVERAL:
        return _several(str(word), inner, where)
    if word not in _SINGLE:
        where.wrong(f"unknown key; {did_you_mean(str(word), WORDS)}")
    given = _SINGLE[word](inner, where)
    if word == "count":
        return AfterCount.of(given)
    return AfterProcessingTime.of(given) if word == "delay" else ContinuousEventTimeTrigger.of(given)


def _several(word: str, value: object, place: Place) -> Trigger:
    if not isinstance(value, list) or not value:
        place.wrong(f"must be an array of tables such as [{{ count = 100 }}], not {shown(value)}")
    parts = []
    with all_noted(place):
        for index, each in enumerate(value):
            with suppress(Wrong):
                parts.append(part(each, place.at(index)))
    try:
        return _SEVERAL[word](*parts)
    except InvalidWindowError as error:
        place.wrong(str(error))


__all__ = ["WORDS", "part"]
