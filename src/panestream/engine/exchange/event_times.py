"""Event times that cannot be used, and what the error says of them."""

from __future__ import annotations

import re
import zoneinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.plan import WindowPlan
from panestream.errors import did_you_mean

LARGEST_TIME = 2**62
"""Event times beyond this (about the years ±144,000 in microseconds) are invalid: arithmetic with them could overflow."""
_ZONE = re.compile(r"\b[A-Z][a-z]{2,}/[A-Z]\w+(?:/[A-Z]\w+)?\b")


def usable_times(times: pa.Array) -> pa.Array | None:
    """Which rows have an event time that can be used; None: all."""
    bounds = pc.min_max(times)
    smallest, largest_seen = bounds["min"].as_py(), bounds["max"].as_py()
    in_range = smallest is None or (smallest > -LARGEST_TIME and largest_seen < LARGEST_TIME)
    if in_range and not times.null_count:
        return None
    largest = pa.scalar(LARGEST_TIME, pa.int64())
    within = pc.and_(pc.less(times, largest), pc.greater(times, pc.negate(largest)))
    return pc.fill_null(within, False)


def complaint(plan: WindowPlan, what: str, value: str) -> str:
    """The message of rows without usable event time.

    Args:
        plan: the query.
        what: how many rows.
        value: what one of them has there.
    """
    zones = _unknown_zones(plan.event_time or "")
    hint = f" There is no time zone {zones[0]!r}; {did_you_mean(zones[0], zoneinfo.available_timezones())}" if zones else ""
    return (
        f"{what} no usable event time in {plan.event_time!r} (null, not readable as a time, or beyond the year 140,000): {value}."
        f"{hint} {plan.way_out}"
    )


def instant(micros: int) -> str:
    """An instant in words.

    >>> instant(253402300799_000_000)
    '9999-12-31T23:59:59Z'
    """
    return f"{np.datetime64(micros, 'us')}".removesuffix(".000000") + "Z"


def _unknown_zones(text: str) -> list[str]:
    known = zoneinfo.available_timezones()
    return [zone for zone in _ZONE.findall(text) if known and zone not in known]
