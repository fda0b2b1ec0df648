"""The columns that declared aggregates take: what users wrote, found in the data, by the text that the plan knows it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame

from panestream.errors import InvalidPlanError
from panestream.spark.columns import column_of
from panestream.spark.expressions import instead_of, same, text_of
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregates.base import ColumnText
from panestream.windowing.assigners import GapColumn, WindowAssigner

_INPUT = "the input of an aggregate"


def resolve_inputs(df: DataFrame, aggregates: Sequence[recipes.Aggregate]) -> tuple[list[recipes.Aggregate], dict[str, Column]]:
    """Aggregates with texts instead of Columns, and the column of each text.

    Raises:
        InvalidPlanError: no such column, or an aggregate over rows; two that differ have the same text.
    """
    found: dict[str, Column] = {}
    texts: dict[ColumnText, str] = {}
    for given in dict.fromkeys(text for one in aggregates for text in one.inputs):
        wanted = given.column if isinstance(given, ColumnText) else given
        column = column_of(df, wanted, _INPUT)
        text = text_of(df, wanted, _INPUT)
        if not same(df, found.setdefault(text, column), column):
            raise InvalidPlanError(
                f"two different inputs of aggregates are both called {text!r}: give one of the Columns a name with .alias('...')"
            )
        if isinstance(given, ColumnText):
            texts[given] = text
    return [one.resolved(texts.__getitem__) for one in aggregates], found


def no_aggregate(df: DataFrame, given: object) -> InvalidPlanError:
    """The error for what stands where an aggregate belongs: Spark's own aggregates are answered with ours."""
    wants = "aggregate wants aggregates such as agg.sum('price'), or one AggregateFunction"
    if isinstance(given, Column):
        text = text_of(df, given, _INPUT)
        return InvalidPlanError(f"{wants}; got the Column {text!r}: {instead_of(text)}")
    hint = f": {instead_of(given)}" if isinstance(given, str) and "(" in given else ""
    return InvalidPlanError(f"{wants}; got {given!r}{hint}")


def resolve_gap(df: DataFrame, assigner: WindowAssigner) -> tuple[WindowAssigner, Column | None]:
    """Sessions whose gap is a Column with the text of it instead, and the Column.

    Raises:
        InvalidPlanError: it cannot be understood over these columns.
    """
    gap = getattr(assigner, "gap", None)
    if not isinstance(gap, GapColumn) or not isinstance(gap.expr, ColumnText):
        return assigner, None
    column = gap.expr.column
    text = text_of(df, column, "the session gap")
    return replace(assigner, gap=replace(gap, expr=text)), column  # type: ignore[type-var]
