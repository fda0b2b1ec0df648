"""When micro-batches run: what users write, from PySpark's habits and others, as what Spark's ``trigger`` takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from panestream.errors import InvalidDurationError, InvalidPlanError
from panestream.windowing.time import format_duration, to_micros
from panestream.windowing.triggers import Trigger

_KINDS = ("availableNow", "once", "processingTime")
_SWITCHES = {"availablenow": "availableNow", "once": "once"}
_REFUSED = {
    "continuous": "continuous processing does not take Python operators",
    "realTime": "its real-time mode does not take Python operators",
}
SPARKS_NAMES = (*_KINDS, *_REFUSED)
"""What the arguments of ``DataStreamWriter.trigger`` are called."""
_KNOWN = (
    "'availableNow' (all that is there, then the query ends; the default), 'once' (the same in one micro-batch), '10 seconds' (a "
    "micro-batch every so often, without end); or as Spark has it, {'availableNow': True}, {'once': True}, "
    "{'processingTime': '10 seconds'}"
)


def spark_trigger(trigger: object) -> dict[str, Any]:
    """The arguments of Spark's ``trigger``.

    Args:
        trigger: ``"availableNow"``, ``"once"``, a duration, or Spark's own arguments by name; None is ``availableNow``.

    Raises:
        InvalidPlanError: none of these.

    >>> spark_trigger(None), spark_trigger("availableNow"), spark_trigger({"once": True})
    ({'availableNow': True}, {'availableNow': True}, {'once': True})
    >>> spark_trigger("10 seconds"), spark_trigger("processingTime='1 minute'")
    ({'processingTime': '10 seconds'}, {'processingTime': '1 minute'})
    """
    if trigger is None:
        return {"availableNow": True}
    if isinstance(trigger, Mapping):
        return _of_mapping(trigger)
    if isinstance(trigger, str):
        written = re.fullmatch(r"\s*(\w+)\s*=\s*['\"]?(.*?)['\"]?\s*", trigger)
        if written is not None:
            value: Any = {"true": True, "false": False}.get(written[2].lower(), written[2])
            return _of_mapping({written[1]: value})
        switch = _SWITCHES.get(re.sub(r"[\s_-]", "", trigger).lower())
        if switch is not None:
            return {switch: True}
    if isinstance(trigger, (str, timedelta)):
        return {"processingTime": _interval(trigger, trigger)}
    if isinstance(trigger, Trigger) or (isinstance(trigger, type) and issubclass(trigger, Trigger)):
        raise InvalidPlanError(
            f"start's trigger says when micro-batches run: {_KNOWN}. One that says when windows fire, as {trigger!r} does, "
            "belongs to the windows: .window(...).trigger(...)"
        )
    raise _wrong(trigger)


def _of_mapping(trigger: Mapping[str, Any]) -> dict[str, Any]:
    if len(trigger) != 1:
        raise _wrong(trigger)
    ((name, value),) = trigger.items()
    if name in _REFUSED:
        raise InvalidPlanError(f"start: Spark's {name} trigger cannot run windows, {_REFUSED[name]}; trigger is one of {_KNOWN}")
    if name in _SWITCHES.values() and value is True:
        return {name: True}
    if name == "processingTime" and isinstance(value, (str, timedelta)):
        return {name: _interval(value, trigger)}
    raise _wrong(trigger)


def _interval(duration: str | timedelta, trigger: object) -> str:
    """As Spark takes it: it counts milliseconds."""
    try:
        micros = to_micros(duration.removeprefix("interval ") if isinstance(duration, str) else duration, "trigger")
    except InvalidDurationError as error:
        raise _wrong(trigger) from error
    if micros < 0 or micros % 1000:
        raise InvalidPlanError(f"start's trigger must be a whole number of milliseconds, not negative, got {duration!r}")
    return format_duration(micros)


def _wrong(trigger: object) -> InvalidPlanError:
    return InvalidPlanError(f"start's trigger is one of {_KNOWN}; got {trigger!r}")
