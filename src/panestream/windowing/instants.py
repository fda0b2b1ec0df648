"""Moments, however they are written, as the integers that windows count in."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TypeAlias

from panestream.errors import InvalidPlanError
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_micros

Instant: TypeAlias = "int | str | timedelta | datetime"
"""A time: an integer in the unit of the windows (microseconds where they were made by ``of``); how long after the epoch, as
``"90 seconds"`` or a ``timedelta``; a ``datetime`` with a time zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def instant(time: Instant, what: str) -> int:
    """A time as an integer.

    Args:
        time: however it was written.
        what: how an error calls it.

    Raises:
        InvalidPlanError: a ``datetime`` without a time zone; an integer that is no int64; True or False.
        InvalidDurationError: a text that is no duration; something else.

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
    return to_micros(time, what)


__all__ = ["Instant", "instant"]
