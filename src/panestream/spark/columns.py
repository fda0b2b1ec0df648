"""Columns from the names, SQL and Columns that users write, with errors that name the wrong column.

A Column's own text is not stable: Spark's two clients, and versions of one client, print it differently. So the text comes from
Spark's analysis, like the names of result columns. See docs/decisions/0085.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import StructType

from panestream.engine.exchange.packing import LARGEST_TIME, SaysEventTime, complaint
from panestream.engine.runtime.sides import SIDE_COLUMN
from panestream.errors import InvalidEventTimeError, InvalidPlanError, did_you_mean
from panestream.spark.aggregates import instead_of
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import raise_as
from panestream.spark.types import check_bytewise, to_arrow

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
        return [column_of(df, each, what) for each in given]


def _understood(df: DataFrame, given: Sequence[str | Column], what: str) -> list[Column]:
    columns, expressions, names = [], [], df.columns if given else []
    known_names = set(names)
    find: Callable[[str], str | None] | None = None
    with silence_analysis_errors():
        for one in given:
            if not isinstance(one, Column):
                if not isinstance(one, str) or not one.strip():
                    raise InvalidPlanError(f"{what} must be the name of a column, a SQL expression or a Column, not {one!r}")
                if one not in known_names:
                    find = find or Names.of(df.sparkSession).finder(names)
                if one in known_names or (find is not None and find(one) is not None):
                    # By name, so that it is valid for every DataFrame with such a column.
                    columns.append(F.col(quoted(one)))
                    continue
            check_no_word(df, one, what)
            columns.append(F.expr(one) if isinstance(one, str) else one)
            expressions.append(columns[-1])
        if expressions:
            # Together with a column of each row, so that Spark refuses aggregates. (Connect checks only when asked for the
            # schema.)
            df.select(*(quoted(name) for name in names[:1]), *expressions).schema  # noqa: B018
            # In a condition Spark also refuses generators, which make several rows of one, and window functions.
            condition = expressions[0] if len(expressions) == 1 else F.struct(*expressions)
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


@dataclass(frozen=True, slots=True)
class Names:
    """The comparison of names. By default ``k`` and ``K`` are the same column, as in Spark's SQL.

    Set ``case_sensitive`` from the session's ``spark.sql.caseSensitive``.

    >>> Names().find("PRICE", ["user", "price"])
    'price'
    >>> Names(case_sensitive=True).find("PRICE", ["user", "price"]) is None
    True
    """

    case_sensitive: bool = False

    @classmethod
    def of(cls, spark: SparkSession) -> Names:
        """Return the comparison of this session."""
        return cls(str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true")

    def find(self, name: str, known: Iterable[str]) -> str | None:
        """Return the known name of the same column, or None. For several names, :meth:`finder` is faster."""
        return self.finder(known)(name)

    def finder(self, known: Iterable[str]) -> Callable[[str], str | None]:
        """Return :meth:`find` for these known names, fast for thousands on both sides."""
        literal: dict[str, str] = {}
        folded: dict[str, str] = {}
        for name in known:
            literal[name] = name
            folded.setdefault(name.lower(), name)

        def find(name: str) -> str | None:
            return literal.get(name) if name in literal or self.case_sensitive else folded.get(name.lower())

        return find

    def doubled(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Return the first two names of the same column, or None if all differ."""
        # One lookup for each, since there may be thousands. An identical name is reported before a name that differs only in
        # case.
        literal: set[str] = set()
        first: dict[str, str] = {}
        for name in names:
            if name in literal:
                return name, name
            other = None if self.case_sensitive else first.setdefault(name.lower(), name)
            if other is not None and other != name:
                return other, name
            literal.add(name)
        return None


def shown_names(one: str, other: str) -> str:
    """Return two names of one column as text for an error.

    >>> shown_names("k", "k"), shown_names("k", "K")
    ("'k'", "'k' and 'K', which are one name here (spark.sql.caseSensitive)")
    """
    return repr(one) if one == other else f"{one!r} and {other!r}, which are one name here (spark.sql.caseSensitive)"


_IS_NULL = " IS NULL)"
_FOREIGN = ("MISSING_ATTRIBUTES", "CANNOT_RESOLVE_DATAFRAME_COLUMN", "AMBIGUOUS_COLUMN_REFERENCE")
"""The conditions that Spark's two clients report for a Column of another DataFrame."""
_NOT_OF_A_ROW = {
    "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT": "makes several rows of one: do that before pst.stream(df), "
    "df.select('*', explode(...))",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "looks at other rows: windows come from .window(...). Compute it before "
    "pst.stream(df), or in .process(...)",
}
"""The conditions that Spark reports for an expression that is not a value of each row, with advice."""
_WORD = re.compile(r"(user|current_user|session_user)(?:\s+as\s+\S+)?", re.IGNORECASE)
"""A word that Spark reads as a function without parentheses and that might be a column, with or without an alias."""


def text_of(df: DataFrame, given: str | Column, what: str) -> str:
    """Return the text of an expression in the plan: as written, or for a Column the text that Spark gives it.

    Args:
        df: the DataFrame with the columns.
        given: a name, SQL, or a Column.
        what: the name of the argument, for errors.

    Raises:
        InvalidPlanError: the Column is not valid over this DataFrame.
    """
    if not isinstance(given, Column):
        return given
    try:
        # Inside a function Spark shows all parts of a Column. Otherwise it omits outer casts, and shows only the alias if there
        # is one.
        with silence_analysis_errors():
            name = df.select(F.isnull(given)).schema[0].name
    except AnalysisException as error:
        raise_as(refused(df, given, what, error), error)
    return name[1 : -len(_IS_NULL)] if name.startswith("(") and name.endswith(_IS_NULL) else df.select(given).schema[0].name


def as_written(given: str | Column) -> str:
    """Return the user's expression as text, without a call of Spark."""
    return given if isinstance(given, str) else repr(given).removeprefix("Column<'").removesuffix("'>")


def check_no_word(df: DataFrame, given: str | Column, what: str) -> None:
    """Raise InvalidPlanError for a name like ``user`` that is not a column and that Spark would read as a function.

    Such a function returns the same value for all rows.
    """
    match = _WORD.fullmatch(as_written(given).strip())
    if match is None or Names.of(df.sparkSession).find(match[1], df.columns) is not None:
        return
    raise InvalidPlanError(
        f"{what} {as_written(given)!r} is not a column; {did_you_mean(match[1], df.columns)} (Spark would read the word as its "
        f"function {match[1]}(), the same for all rows; write that to use it)"
    )


def same(df: DataFrame, one: Column, other: Column) -> bool:
    """Return whether two Columns have the same values."""
    return one is other or df.select(one).sameSemantics(df.select(other))


def _column_hint(given: str, df: DataFrame) -> str:
    """List the columns, or suggest the field of that name in a struct, as in the union of two streams."""
    structs = {column.name: column.dataType.names for column in df.schema if isinstance(column.dataType, StructType)}
    fields = [f"{struct}.{given}" for struct, names in structs.items() if given in names]
    struct, _, field = given.partition(".")
    near = difflib.get_close_matches(field, structs.get(struct, ()), n=2, cutoff=0.6)
    fields = fields or [f"{struct}.{name}" for name in near]
    if fields:
        return f"did you mean {' or '.join(map(repr, fields))}?"
    if field and struct in structs:
        return f"known there: {', '.join(f'{struct}.{name}' for name in structs[struct])}"
    return did_you_mean(given, [name for name in df.columns if name != SIDE_COLUMN])


def refused(df: DataFrame, given: str | Column, what: str, error: AnalysisException | ParseException) -> InvalidPlanError:
    """Return the error for an expression that Spark could not analyse."""
    reason = str(error).strip().splitlines()[0]
    condition = error.getCondition() or ""
    if condition == "MISSING_GROUP_BY":
        text = text_of(df, given, what)
        return InvalidPlanError(f"{what} is a value of each row, and {text!r} is an aggregate of many: {instead_of(text)}")
    if condition in _NOT_OF_A_ROW:
        return InvalidPlanError(f"{what} is one value of each row, and {as_written(given)!r} {_NOT_OF_A_ROW[condition]}")
    if not isinstance(given, Column):
        hint = _column_hint(given, df)
        return InvalidPlanError(f"{what} {given!r} is neither a column nor valid SQL over the columns; {hint} ({reason})")
    shown = as_written(given)
    if condition.startswith(_FOREIGN):
        return InvalidPlanError(
            f"{what} {shown!r} is a Column of another DataFrame than the one in pst.stream(df): take it from that DataFrame, or "
            f"write F.col('...') ({reason})"
        )
    return InvalidPlanError(f"{what} {shown!r} is not a Column over these columns; {did_you_mean(shown, df.columns)} ({reason})")


_UNIT = re.compile(r" in (seconds|milliseconds|microseconds)$")
_MAX_SHOWN = 100
"""The number of characters of a value that are shown."""


def usable(time: Column) -> Column:
    """Return whether an event time in microseconds can be used; null if it is null."""
    return time.between(-LARGEST_TIME + 1, LARGEST_TIME - 1)


def or_raise(time: Column, df: DataFrame, plan: SaysEventTime) -> Column:
    """Return the event time in microseconds, and fail the query with the value of a row whose time is not usable.

    Spark checks this, as only Spark has the original value. Null values pass and are counted. A plan with an output for invalid
    rows never fails.
    """
    value = _event_time_text(df, plan)
    if plan.invalid_tag is not None or value is None:
        return time
    refused = raise_unusable(plan, F.substring(value, 1, _MAX_SHOWN))
    return F.when(value.isNull() | F.coalesce(usable(time), F.lit(False)), time).otherwise(refused)


def all_usable(time: Column, df: DataFrame, plan: SaysEventTime) -> Column:
    """Return the event time, and fail the query for a row without a usable one. For plans whose later steps do not check."""
    value = _event_time_text(df, plan)
    refused = raise_unusable(plan, F.coalesce(F.lit(None) if value is None else F.substring(value, 1, _MAX_SHOWN), F.lit("null")))
    return F.when(F.coalesce(usable(time), F.lit(False)), time).otherwise(refused)


def raise_unusable(plan: SaysEventTime, value: Column) -> Column:
    """Return a bigint column that fails the query if evaluated. ``value`` is the row's original value as text."""
    before, after = complaint(plan, "panestream.errors.InvalidEventTimeError: a row has", "\0").split("\0")
    return F.raise_error(F.concat(F.lit(before), value, F.lit(after))).cast("bigint")


def _event_time_text(df: DataFrame, plan: SaysEventTime) -> Column | None:
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
    joined = F.concat_ws(", ", *parts)
    return F.when(joined != "", joined)


_ORDERABLE = (
    T.BooleanType, T.IntegralType, T.DecimalType, T.FloatType, T.DoubleType, T.StringType, T.BinaryType, T.DateType,
    T.TimestampType, T.TimestampNTZType,
)  # fmt: skip


def order_of(df: DataFrame, given: Sequence[str | Column]) -> tuple[list[Column], pa.Schema]:
    """Return the columns that rows are ordered by, and their types by the user's text.

    Raises:
        InvalidPlanError: a column does not exist, or its values cannot be ordered.
    """
    columns, fields = [], []
    for one in given:
        what = "the arrival order"
        column, text = column_of(df, one, what), text_of(df, one, what)
        kind = type_of(df, column)
        if not isinstance(kind, _ORDERABLE) or kind.simpleString().startswith("string collate"):
            raise InvalidPlanError(
                f"the arrival order {text!r} is a {kind.simpleString()}: it must be a number, a time, a date, a string without "
                "collation, binary or boolean; name one of its fields, or cast it"
            )
        columns.append(column)
        fields.append(pa.field(text, to_arrow(kind, f"{what} {text!r}")))
    return columns, pa.schema(fields)
