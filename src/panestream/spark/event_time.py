"""Unusable event times: the row's own value, for the error."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.exchange.event_times import LARGEST_TIME, SaysEventTime, complaint
from panestream.spark.columns import quoted

_UNIT = re.compile(r" in (seconds|milliseconds|microseconds)$")
_SHOWN = 100
"""The number of characters of a value that are shown."""


def usable(time: Column) -> Column:
    """Return whether an event time in microseconds can be used; null if it is null."""
    return time.between(-LARGEST_TIME + 1, LARGEST_TIME - 1)


def or_raise(time: Column, df: DataFrame, plan: SaysEventTime) -> Column:
    """Return the event time in microseconds, and fail the query with the value of a row whose time is not usable.

    Spark checks this, as only Spark has the original value. Null values pass and are counted. A plan with an output for invalid
    rows never fails.
    """
    told = _told(df, plan)
    if plan.invalid_tag is not None or told is None:
        return time
    refused = raise_unusable(plan, F.substring(told, 1, _SHOWN))
    return F.when(told.isNull() | F.coalesce(usable(time), F.lit(False)), time).otherwise(refused)


def all_usable(time: Column, df: DataFrame, plan: SaysEventTime) -> Column:
    """Return the event time, and fail the query for a row without a usable one. For plans whose later steps do not check."""
    told = _told(df, plan)
    refused = raise_unusable(plan, F.coalesce(F.lit(None) if told is None else F.substring(told, 1, _SHOWN), F.lit("null")))
    return F.when(F.coalesce(usable(time), F.lit(False)), time).otherwise(refused)


def raise_unusable(plan: SaysEventTime, value: Column) -> Column:
    """Return a bigint column that fails the query if evaluated. ``value`` is the row's original value as text."""
    before, after = complaint(plan, "panestream.errors.InvalidEventTimeError: a row has", "\0").split("\0")
    return F.raise_error(F.concat(F.lit(before), value, F.lit(after))).cast("bigint")


def _told(df: DataFrame, plan: SaysEventTime) -> Column | None:
    """Return the row's values that the event time is computed from, as text or null. None if it is a timestamp itself."""
    text = _UNIT.sub("", plan.event_time or "")
    if text in df.columns:
        if isinstance(df.schema[text].dataType, (T.TimestampType, T.TimestampNTZType)):
            return None
        return F.concat(F.lit("'"), F.col(quoted(text)).cast("string"), F.lit("'"))
    names = [name for name in df.columns if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)]
    simple = [name for name in names if not isinstance(df.schema[name].dataType, (T.MapType, T.ArrayType, T.StructType))]
    if not simple:
        return None
    # concat_ws leaves out nulls.
    parts = [F.concat(F.lit(f"{name} = '"), F.col(quoted(name)).cast("string"), F.lit("'")) for name in simple]
    shown = F.concat_ws(", ", *parts)
    return F.when(shown != "", shown)
