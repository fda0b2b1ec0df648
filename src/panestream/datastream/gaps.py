"""Session gaps that are columns: what users wrote as the column that the engine takes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from panestream.errors import InvalidPlanError, InvalidWindowError, did_you_mean
from panestream.spark.columns import column_of, micros_of_interval, micros_of_number, type_of
from panestream.spark.expressions import same
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.assigners.session import GapColumn


def gap_input(df: DataFrame, assigner: WindowAssigner, given: Column | None = None) -> dict[str, Column]:
    """The gap in microseconds under the name by which the engine asks for it; nothing where sessions have no gap column.

    Args:
        df: the input.
        assigner: the windows.
        given: the gap, where the user gave a Column instead of text.

    Raises:
        InvalidWindowError: the column is neither an interval nor a number with a unit.
        InvalidPlanError: there is no such column.
    """
    gap = _gap_of(assigner)
    if gap is None:
        return {}
    column, kind = _checked(df, gap, given)
    return {gap.label: micros_of_interval(column) if gap.unit is None else micros_of_number(column, kind, gap.unit)}


def check_gap_of_rows(df: DataFrame, assigner: WindowAssigner, given: Column | None = None) -> None:
    """Where functions see whole rows, the gap must be one of their columns.

    Raises:
        InvalidPlanError: it is an expression.
        InvalidWindowError: the column is neither an interval nor a number with a unit.
    """
    gap = _gap_of(assigner)
    if gap is None:
        return
    if gap.expr not in df.columns or (given is not None and not same(df, given, column_of(df, gap.expr, "the session gap"))):
        raise InvalidPlanError(
            f"with functions of your own over rows the session gap must be a column of them: "
            f"df.withColumn('gap', expr({gap.expr!r})) and with_gap_column('gap'); {did_you_mean(gap.expr, df.columns)}"
        )
    _checked(df, gap, given)


def _gap_of(assigner: WindowAssigner) -> GapColumn | None:
    gap = getattr(assigner, "gap", None)
    return gap if isinstance(gap, GapColumn) else None


def _checked(df: DataFrame, gap: GapColumn, given: Column | None) -> tuple[Column, T.DataType]:
    """The column and its type."""
    column = column_of(df, gap.expr if given is None else given, "the session gap")
    kind = type_of(df, column)
    if isinstance(kind, T.DayTimeIntervalType):
        if gap.unit is not None:
            raise InvalidWindowError(f"the session gap {gap.expr!r} is an interval already: leave out unit={gap.unit!r}")
        return column, kind
    if not isinstance(kind, (T.IntegralType, T.DoubleType, T.FloatType, T.DecimalType)):
        raise InvalidWindowError(
            f"the session gap {gap.expr!r} is a {kind.simpleString()}: it must be an interval of days to seconds, or a number "
            "with unit='seconds', 'milliseconds' or 'microseconds'"
        )
    if gap.unit is None:
        raise InvalidWindowError(
            f"the session gap {gap.expr!r} is a number ({kind.simpleString()}): "
            "say of what, unit='seconds', 'milliseconds' or 'microseconds'"
        )
    return column, kind
