"""Durations as users write them, and as the int64 microseconds of the engine. Instants are microseconds since the epoch.

The engine itself is unit-free and only adds and compares integers. Only this module defines units.
"""

from __future__ import annotations

import re
from datetime import timedelta

from panestream.errors import InvalidDurationError, InvalidWindowError, did_you_mean

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
                f"{what} {duration!r}: it is not clear whether the minus is for {part.group().strip(' ,')!r}, too: "
                f"give that a sign of its own, '-{part.group().strip(' ,')}' or '+{part.group().strip(' ,')}'"
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
        raise InvalidDurationError(f"{what} {duration!r}: a {name.rstrip('s')} has no fixed length; give days or hours")
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
