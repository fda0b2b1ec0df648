"""Event times that cannot be used: what the row says instead, for the error."""

from __future__ import annotations

import re
import zoneinfo

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.plan import WindowPlan
from panestream.errors import did_you_mean
from panestream.spark.columns import quoted

LARGEST_TIME = 2**62
"""Event times beyond this (about the years ±144,000 in microseconds) are invalid: arithmetic with them could overflow."""
_UNIT = re.compile(r" in (seconds|milliseconds|microseconds)$")
_ZONE = re.compile(r"\b[A-Z][a-z]{2,}/[A-Z]\w+(?:/[A-Z]\w+)?\b")
_SHOWN = 100
"""So many characters of a value are shown."""


def usable(time: Column) -> Column:
    """Whether an event time in microseconds can be used; null where there is none."""
    return time.between(-LARGEST_TIME + 1, LARGEST_TIME - 1)


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


def or_raise(time: Column, df: DataFrame, plan: WindowPlan) -> Column:
    """The event time; a row that has something there which is no usable time fails the query, and shows it.

    Spark looks at it, since only there the value is at hand; rows that have nothing there go on, as nulls, and are counted.

    Args:
        time: in microseconds.
        df: the input.
        plan: the query; one with an output for invalid rows fails for none.
    """
    told = _told(df, plan)
    if plan.invalid_tag is not None or told is None:
        return time
    before, after = complaint(plan, "panestream.errors.InvalidEventTimeError: a row has", "\0").split("\0")
    message = F.concat(F.lit(before), F.substring(told, 1, _SHOWN), F.lit(after))
    return F.when(told.isNull() | F.coalesce(usable(time), F.lit(False)), time).otherwise(F.raise_error(message).cast("bigint"))


def instant(micros: int) -> str:
    """An instant in words.

    >>> instant(253402300799_000_000)
    '9999-12-31T23:59:59Z'
    """
    return f"{np.datetime64(micros, 'us')}".removesuffix(".000000") + "Z"


def _told(df: DataFrame, plan: WindowPlan) -> Column | None:
    """What the row has in the columns that the event time is made of, as text; null: nothing. None: it is a timestamp itself."""
    text = _UNIT.sub("", plan.event_time or "")
    if text in df.columns:
        if isinstance(df.schema[text].dataType, (T.TimestampType, T.TimestampNTZType)):
            return None
        return F.concat(F.lit("'"), F.col(quoted(text)).cast("string"), F.lit("'"))
    names = [name for name in df.columns if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]
    simple = [name for name in names if not isinstance(df.schema[name].dataType, (T.MapType, T.ArrayType, T.StructType))]
    if not simple:
        return None
    # concat_ws leaves out what is null.
    parts = [F.concat(F.lit(f"{name} = '"), F.col(quoted(name)).cast("string"), F.lit("'")) for name in simple]
    found = F.concat_ws(", ", *parts)
    return F.when(found != "", found)


def _unknown_zones(text: str) -> list[str]:
    known = zoneinfo.available_timezones()
    return [zone for zone in _ZONE.findall(text) if known and zone not in known]
