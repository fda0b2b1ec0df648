"""Expressions that users give as a column (a name, SQL, or a Column), and the text of a Column.

A Column's own text is not stable: Spark's two clients, and versions of one client, print it differently. So the text comes from
Spark's analysis, like the names of result columns. See docs/decisions/0085.
"""

from __future__ import annotations

import difflib
import re

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from panestream.engine.runtime.sides import SIDE_COLUMN
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.aggregates import instead_of
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.failures import raise_as
from panestream.spark.names import Names

_ASKED = " IS NULL)"
_FOREIGN = ("MISSING_ATTRIBUTES", "CANNOT_RESOLVE_DATAFRAME_COLUMN", "AMBIGUOUS_COLUMN_REFERENCE")
"""The conditions that Spark's two clients report for a Column of another DataFrame."""
_NOT_OF_A_ROW = {
    "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT": "makes several rows of one: do that before pst.stream(df), "
    "df.select('*', explode(...))",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": "looks at other rows: windows are what .window(...) makes; compute it before "
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
    return name[1 : -len(_ASKED)] if name.startswith("(") and name.endswith(_ASKED) else df.select(given).schema[0].name


def as_written(given: str | Column) -> str:
    """Return the user's expression as text, without a call of Spark."""
    return given if isinstance(given, str) else repr(given).removeprefix("Column<'").removesuffix("'>")


def check_no_word(df: DataFrame, given: str | Column, what: str) -> None:
    """Raise InvalidPlanError for a name like ``user`` that is not a column and that Spark would read as a function.

    Such a function returns the same value for all rows.
    """
    found = _WORD.fullmatch(as_written(given).strip())
    if found is None or Names.of(df.sparkSession).find(found[1], df.columns) is not None:
        return
    raise InvalidPlanError(
        f"{what} {as_written(given)!r} is no column; {did_you_mean(found[1], df.columns)} (Spark would take the word for its "
        f"function {found[1]}(), the same for all rows: write that if it is meant)"
    )


def same(df: DataFrame, one: Column, other: Column) -> bool:
    """Return whether two Columns have the same values."""
    return one is other or df.select(one).sameSemantics(df.select(other))


def _hint(given: str, df: DataFrame) -> str:
    """List the columns, or suggest the field of that name in a struct, as in the union of two streams."""
    structs = {one.name: one.dataType.names for one in df.schema if isinstance(one.dataType, StructType)}
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
        hint = _hint(given, df)
        return InvalidPlanError(f"{what} {given!r} is neither a column nor valid SQL over the columns; {hint} ({reason})")
    shown = as_written(given)
    if condition.startswith(_FOREIGN):
        return InvalidPlanError(
            f"{what} {shown!r} is a Column of another DataFrame than the one in pst.stream(df): take it from that one, or write "
            f"F.col('...'), which belongs to none ({reason})"
        )
    return InvalidPlanError(f"{what} {shown!r} is no Column over these columns; {did_you_mean(shown, df.columns)} ({reason})")
