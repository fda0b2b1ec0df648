"""Durations and times in all notations, as the int64 microseconds of the engine. Instants are microseconds since the epoch.

The engine itself is unit-free and only adds and compares integers. Only this module defines units.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

import numpy as np

from panestream.errors import InvalidDurationError, InvalidPlanError, InvalidWindowError, did_you_mean

Duration = timedelta | str
"""A duration as users write it: ``timedelta(minutes=5)`` or ``"5 minutes"``, ``"1 hour 30 minutes"``, ``"-8 hours"``."""

MIN_TIMESTAMP = -(2**63)
"""The watermark before the first row (Flink's ``Long.MIN_VALUE``)."""
MAX_TIMESTAMP = 2**63 - 1
"""The watermark at the end of input, and the max timestamp of the global window (Flink's ``Long.MAX_VALUE``)."""

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "m": "minute",
    "h": "hour",
    "d": "day",
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?")


def to_micros(duration: Duration, what: str = "duration") -> int:
    """Return the number of microseconds in a ``timedelta`` or a string of ``<number> <unit>`` parts.

    Units are microseconds, milliseconds, seconds, minutes, hours, days, weeks, singular or plural, and ``us ms s sec min m h d``.
    After a negative part each part needs a sign: ``"-1 hour -30 minutes"``. ``what`` is the name in errors, e.g. ``"slide"``.

    Raises InvalidDurationError for anything else, such as months and years, which vary in length, or ``"-1 hour 30 minutes"``.

    >>> to_micros("1 minute 30 seconds") == to_micros(timedelta(seconds=90))
    True
    """
    if isinstance(duration, timedelta):
        micros: int = duration // timedelta(microseconds=1)
        return micros
    if not isinstance(duration, str):
        raise InvalidDurationError(
            f"{what} must be a timedelta or a string such as '90 seconds', not {duration!r} ({type(duration).__name__})"
        )
    position, total, negative = 0, 0, False
    while position < len(duration):
        part = _PART.match(duration, position)
        if part is None:
            raise InvalidDurationError(
                f"{what} {duration!r} cannot be read at {duration[position:]!r}: "
                "write a number and a unit, e.g. '90 seconds' or '1 hour 30 minutes'"
            )
        number = part.group(1)
        if negative and number[0] not in "+-":
            # In SQL this is half an hour before; its author may mean an hour and a half before.
            raise InvalidDurationError(
                f"{what} {duration!r}: it is not clear whether the minus is for {part.group().strip(' ,')!r}, too. Give it its "
                f"own sign, '-{part.group().strip(' ,')}' or '+{part.group().strip(' ,')}'"
            )
        negative = number[0] == "-"
        total += _scaled(number, _unit(part.group(2), duration, what), duration, what)
        position = part.end()
    if not duration.strip():
        raise InvalidDurationError(f"{what} is empty: write a number and a unit, e.g. '90 seconds'")
    if not -(2**62) < total < 2**62:
        raise InvalidDurationError(f"{what} {duration!r} is too long")
    return total


def check_micros(write: str, *lengths: object) -> None:
    """Refuse lengths that are not whole microseconds, if a constructor was called instead of ``of``, the call in ``write``."""
    for length in lengths:
        if not isinstance(length, int) or isinstance(length, bool):
            raise InvalidWindowError(f"the constructor takes whole microseconds, not {length!r}: write {write}")


def _unit(word: str, duration: str, what: str) -> int:
    name = word.lower()
    name = _SHORT.get(name, name)
    name = name[:-1] if name.endswith("s") and name[:-1] in _UNITS else name
    if name in _UNITS:
        return _UNITS[name]
    if name.rstrip("s") in ("month", "year", "quarter"):
        raise InvalidDurationError(f"{what} {duration!r}: a {name.rstrip('s')} does not have a fixed length. Give days or hours")
    raise InvalidDurationError(f"{what} {duration!r}: unknown unit {word!r}; {did_you_mean(name, _UNITS)}")


def _scaled(number: str, unit: int, duration: str, what: str) -> int:
    if "." not in number:
        return int(number) * unit
    whole, fraction = number.split(".")
    parts: int = 10 ** len(fraction)
    scaled, rest = divmod(int(fraction) * unit, parts)
    if rest:
        raise InvalidDurationError(f"{what} {duration!r} is finer than a microsecond")
    sign = -1 if whole.startswith("-") else 1
    return int(whole) * unit + sign * scaled


def format_duration(micros: int) -> str:
    """Return the text that :func:`to_micros` converts back to ``micros``, in the largest units that fit.

    >>> format_duration(90_000_000)
    '1 minute 30 seconds'
    """
    if micros == 0:
        return "0 seconds"
    sign, rest, parts = ("-" if micros < 0 else ""), abs(micros), []
    for name, unit in sorted(_UNITS.items(), key=lambda item: -item[1]):
        if name == "week":
            continue
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{sign}{count} {name}{'s' if count != 1 else ''}")
    return " ".join(parts)


Instant: TypeAlias = "int | str | timedelta | datetime"
"""A time: an integer in the unit of the windows, ISO 8601 (UTC by default), a duration since the epoch, or a ``datetime``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WRITTEN = "write '2026-01-31 10:04' (UTC, or with its zone)"
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d")


def micros_of_text(text: str) -> int:
    """Return a time in ISO 8601 (UTC by default) as microseconds since 1970, or raise ValueError.

    >>> micros_of_text("1970-01-01 00:01Z"), micros_of_text("1970-01-01T01:00+01:00"), micros_of_text("1970-01-02")
    (60000000, 0, 86400000000)
    """
    # Python 3.10 does not accept Z.
    when = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
    return ((when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)) - _EPOCH) // timedelta(microseconds=1)


def instant(time: Instant, what: str) -> int:
    """Return a time as an integer; ``what`` is its name in errors.

    Raises InvalidPlanError for a ``datetime`` without a time zone, dates that do not exist, integers outside int64 and booleans,
    and InvalidDurationError for anything else.

    >>> instant("1 minute", "the watermark"), instant(datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc), "the watermark")
    (60000000, 60000000)
    """
    if isinstance(time, bool):
        raise InvalidPlanError(f"{what} is {time}: give an integer, a duration such as '90 seconds', or a datetime")
    if isinstance(time, int):
        if not MIN_TIMESTAMP <= time <= MAX_TIMESTAMP:
            raise InvalidPlanError(f"{what} is {time}, which no time can be: times are integers of 64 bits")
        return time
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidPlanError(f"{what} is {time!r}, without a time zone. Give it one, e.g. tzinfo=timezone.utc")
        return (time - _EPOCH) // timedelta(microseconds=1)
    if isinstance(time, str) and _DATE.match(time):
        try:
            return micros_of_text(time)
        except ValueError:
            raise InvalidPlanError(f"{what} is {time!r}, which is not a time: {_WRITTEN}") from None
    try:
        return to_micros(time, what)
    except InvalidDurationError as error:
        raise InvalidDurationError(f"{error}; for a time {_WRITTEN}") from None


def iso(micros: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC, or None for None and for the minimum and maximum timestamp.

    >>> iso(1_511_658_000_000_000), iso(1_500_000), iso(None)
    ('2017-11-26T01:00:00Z', '1970-01-01T00:00:01.500000Z', None)
    """
    if micros is None or not MIN_TIMESTAMP < micros < MAX_TIMESTAMP:
        return None
    # A datetime would end with the year 9999.
    text = str(np.datetime64(micros, "us"))
    return f"{text.removesuffix('.000000')}Z"


def micros_in(text: str) -> int:
    """Return a time in the format of :func:`iso` as microseconds.

    >>> micros_in("1970-01-01T00:00:01.500000Z")
    1500000
    """
    return int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))


def time_text(micros: int) -> str:
    """Return a readable time: ISO 8601 in UTC without the ``T`` and the ``Z``.

    >>> time_text(1_511_658_000_000_000), time_text(2**63 - 1)
    ('2017-11-26 01:00:00', 'the end of time')
    """
    text = iso(micros)
    if text is None:
        return "the end of time" if micros > 0 else "the beginning of time"
    return text.removesuffix("Z").replace("T", " ")
