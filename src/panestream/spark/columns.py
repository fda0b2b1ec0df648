"""Columns from the text that users write (names, SQL), with errors that name the wrong column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.errors import InvalidEventTimeError, InvalidPlanError, did_you_mean
from panestream.spark.asking import silence_analysis_errors
from panestream.spark.expressions import as_written, check_no_word, refused, text_of
from panestream.spark.failures import raise_as
from panestream.spark.names import Names
from panestream.spark.types import check_bytewise

UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
"""The units of numeric event times, in microseconds."""

_ALIAS = re.compile(r"\s+AS\s+(?:`[^`]+`|\w+)$", re.IGNORECASE)
"""The alias of an expression."""


def quoted(name: str) -> str:
    """Quote a column's name so that Spark takes it literally."""
    return "`" + name.replace("`", "``") + "`"


def struct_of(names: Iterable[str]) -> Column:
    """Return one struct column with all these columns as fields. SQL text avoids some ten Java calls for each Column."""
    return F.expr(f"struct({', '.join(map(quoted, names))})")


def column_of(df: DataFrame, given: str | Column, what: str) -> Column:
    """Return the column that the user means: by name, or else by SQL expression, or a given Column.

    Raises:
        InvalidPlanError: it is invalid, or not a value of each row (an aggregate, ``explode``, a window function).
    """
    try:
        return _understood(df, [given], what)[0]
    except (AnalysisException, ParseException) as error:
        raise_as(refused(df, given, what, error), error)


def columns_of(df: DataFrame, given: Sequence[str | Column], what: str) -> list[Column]:
    """Return :func:`column_of` of each, with one call of Spark: hundreds of single calls take longer than the query."""
    try:
        return _understood(df, given, what)
    except (AnalysisException, ParseException):
        # Only single calls show which one is wrong, and why.
        return [column_of(df, one, what) for one in given]


def _understood(df: DataFrame, given: Sequence[str | Column], what: str) -> list[Column]:
    columns, asked, names = [], [], df.columns if given else []
    there = set(names)
    find: Callable[[str], str | None] | None = None
    with silence_analysis_errors():
        for one in given:
            if not isinstance(one, Column):
                if not isinstance(one, str) or not one.strip():
                    raise InvalidPlanError(f"{what} must be the name of a column, a SQL expression or a Column, not {one!r}")
                if one not in there:
                    find = find or Names.of(df.sparkSession).finder(names)
                if one in there or (find is not None and find(one) is not None):
                    # By name, so that it is valid for every DataFrame with such a column.
                    columns.append(F.col(quoted(one)))
                    continue
            check_no_word(df, one, what)
            columns.append(F.expr(one) if isinstance(one, str) else one)
            asked.append(columns[-1])
        if asked:
            # Together with a column of each row, so that Spark refuses aggregates. (Connect checks only when asked for the
            # schema.)
            df.select(*(quoted(name) for name in names[:1]), *asked).schema  # noqa: B018
            # In a condition Spark also refuses generators, which make several rows of one, and window functions.
            condition = asked[0] if len(asked) == 1 else F.struct(*asked)
            df.where(condition.isNull()).schema  # noqa: B018
    return columns


def type_of(df: DataFrame, column: Column) -> T.DataType:
    """Return the Spark type of a column."""
    return df.select(column).schema[0].dataType


def types_of(df: DataFrame, columns: Mapping[str, Column]) -> dict[str, T.DataType]:
    """Return the Spark types of columns by name, with one call of Spark."""
    if not columns:
        return {}
    fields = df.select(*columns.values()).schema.fields
    return {name: field.dataType for name, field in zip(columns, fields, strict=True)}


def micros_of_interval(column: Column) -> Column:
    """Return the length in microseconds of an interval of days to seconds. A day has 24 hours in every time zone.

    (When Spark adds an interval to a timestamp, its days are days of the session's zone, and some have 23 hours.)
    """
    seconds = column.cast(T.DayTimeIntervalType(T.DayTimeIntervalType.SECOND, T.DayTimeIntervalType.SECOND))
    return (seconds.cast("decimal(19, 6)") * F.lit(1_000_000)).cast("bigint")


def micros_of_number(column: Column, kind: T.DataType, unit: str) -> Column:
    """Return a number of ``unit`` in whole microseconds; null if it is NaN, infinite or beyond int64.

    Decimals are rounded down, also before 1970. Floats are computed as doubles, and a fraction of a microsecond is cut off. The
    result does not depend on ``spark.sql.ansi.enabled``.
    """
    if isinstance(kind, T.IntegralType):
        return F.try_multiply(column.cast("bigint"), F.lit(UNITS[unit]).cast("bigint"))
    if isinstance(kind, T.DecimalType):
        digits = len(str(UNITS[unit])) - 1
        if kind.scale > digits:
            column = F.floor(column, F.lit(digits))  # otherwise Spark rounds to make room for the product, or cuts towards zero
        return F.try_multiply(column, F.lit(UNITS[unit]).cast("decimal(7, 0)")).try_cast("bigint")
    return (column.cast("double") * F.lit(UNITS[unit])).try_cast("bigint")


def micros_of(df: DataFrame, given: str | Column, unit: str | None) -> Column:
    """Return the event time in microseconds since the epoch, or null if the row does not have one.

    Raises:
        InvalidEventTimeError: the column's type is not a time, or is a number without a unit.
    """
    column = column_of(df, given, "the event time")
    text = text_of(df, given, "the event time")
    kind = type_of(df, column)
    if unit is not None and unit not in UNITS:
        raise InvalidEventTimeError(f"unknown unit {unit!r} of the event time; {did_you_mean(unit, UNITS)}")
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)) and unit is not None:
        raise InvalidEventTimeError(f"the event time {text!r} is a timestamp already: leave out unit={unit!r}")
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, T.TimestampNTZType):
        # Without a zone: interpreted as UTC. timestamp_diff would use the session's zone, which may skip an hour. The difference
        # of two such times is the same in every zone.
        return micros_of_interval(column - F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'"))
    if isinstance(kind, (T.IntegralType, T.DoubleType, T.FloatType, T.DecimalType)):
        if unit is None:
            raise InvalidEventTimeError(
                f"the event time {text!r} is a number ({kind.simpleString()}): "
                "give its unit, unit='seconds', 'milliseconds' or 'microseconds'"
            )
        # A number that is not a possible time makes an invalid row, not an overflow error of the whole query.
        return micros_of_number(column, kind, unit)
    hint = (
        "parse it first, e.g. to_timestamp(ts, 'yyyy-MM-dd HH:mm:ss')"
        if isinstance(kind, T.StringType)
        else "cast it to timestamp"
    )
    raise InvalidEventTimeError(f"the event time {text!r} is a {kind.simpleString()}, not a timestamp: {hint}")


def key_of(df: DataFrame, given: str | Column) -> tuple[str, Column]:
    """Return a key column's name in the results, and the column. Raise InvalidPlanError if its type cannot be a key."""
    column = column_of(df, given, "the key")
    field = df.select(column).schema[0]
    if isinstance(field.dataType, (T.MapType, T.ArrayType, T.StructType)) or "variant" in field.dataType.simpleString():
        raise _no_key(df, given, field)
    check_bytewise(field.dataType, "the key", field.name)
    if isinstance(field.dataType, (T.FloatType, T.DoubleType)):
        # -0.0 and 0.0 are one key, as in SQL's GROUP BY, but their hashes differ.
        column = (column + F.lit(0.0)).cast(field.dataType)
    return field.name, column


def _no_key(df: DataFrame, given: str | Column, field: T.StructField) -> InvalidPlanError:
    """Return the error for a key with a type that cannot be one."""
    kind = field.dataType
    if field.name in ("window", "session_window") and isinstance(kind, T.StructType) and kind.names == ["start", "end"]:
        return InvalidPlanError(
            f"the key {as_written(given)!r} is a window of Spark's: leave it out, and write "
            ".window(TumblingEventTimeWindows.of('10 minutes')) after .key_by(...)"
        )
    text = text_of(df, given, "the key")
    expression, name = _ALIAS.sub("", text), field.name if field.name.isidentifier() else "name"
    fields = ", or its fields as several keys" if isinstance(kind, T.StructType) else ""
    return InvalidPlanError(
        f"the key {text!r} has the type {kind.simpleString()}, which cannot be a key: write "
        f"'to_json({expression}) AS {name}'{fields}"
    )
