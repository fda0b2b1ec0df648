"""Conversion of times in all notations to the integers of windows."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

import numpy as np

from panestream.errors import InvalidDurationError, InvalidPlanError
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_micros

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
            raise InvalidPlanError(f"{what} is {time!r}, of no time zone: give it one, e.g. tzinfo=timezone.utc")
        return (time - _EPOCH) // timedelta(microseconds=1)
    if isinstance(time, str) and _DATE.match(time):
        try:
            return micros_of_text(time)
        except ValueError:
            raise InvalidPlanError(f"{what} is {time!r}, which is no time: {_WRITTEN}") from None
    try:
        return to_micros(time, what)
    except InvalidDurationError as error:
        raise InvalidDurationError(f"{error}; of a time {_WRITTEN}") from None


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


__all__ = ["Instant", "instant", "iso", "micros_in", "micros_of_text", "time_text"]
