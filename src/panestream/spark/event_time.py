"""Event times that cannot be used: what the row says instead, for the error."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.exchange.event_times import LARGEST_TIME, SaysEventTime, complaint
from panestream.spark.columns import quoted

_UNIT = re.compile(r" in (seconds|milliseconds|microseconds)$")
_SHOWN = 100
"""So many characters of a value are shown."""


def usable(time: Column) -> Column:
    """Whether an event time in microseconds can be used; null where there is none."""
    return time.between(-LARGEST_TIME + 1, LARGEST_TIME - 1)


def or_raise(time: Column, df: DataFrame, plan: SaysEventTime) -> Column:
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
    refused = raise_unusable(plan, F.substring(told, 1, _SHOWN))
    return F.when(told.isNull() | F.coalesce(usable(time), F.lit(False)), time).otherwise(refused)


def all_usable(time: Column, df: DataFrame, plan: SaysEventTime) -> Column:
    """The event time; a row that has none which can be used fails the query, where no later step would."""
    told = _told(df, plan)
    refused = raise_unusable(plan, F.coalesce(F.lit(None) if told is None else F.substring(told, 1, _SHOWN), F.lit("null")))
    return F.when(F.coalesce(usable(time), F.lit(False)), time).otherwise(refused)


def raise_unusable(plan: SaysEventTime, value: Column) -> Column:
    """A bigint that fails the query where it is evaluated: the row has no usable event time.

    Args:
        plan: the query.
        value: what the row has there, as text.
    """
    before, after = complaint(plan, "panestream.errors.InvalidEventTimeError: a row has", "\0").split("\0")
    return F.raise_error(F.concat(F.lit(before), value, F.lit(after))).cast("bigint")


def _told(df: DataFrame, plan: SaysEventTime) -> Column | None:
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
    shown = F.concat_ws(", ", *parts)
    return F.when(shown != "", shown)
