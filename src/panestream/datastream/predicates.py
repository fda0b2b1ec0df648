"""Predicates by which windows begin and end: what users wrote as the columns that the engine takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from panestream.engine.operators.predicates.operator import label_of
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.spark.columns import column_of, type_of
from panestream.spark.expressions import same, text_of
from panestream.windowing.aggregates.base import ColumnText
from panestream.windowing.assigners import PredicateWindows, WindowAssigner

_PREDICATE = "a predicate of windows"


def resolve_predicates(df: DataFrame, assigner: WindowAssigner) -> tuple[WindowAssigner, Mapping[str, Column]]:
    """Windows whose predicates are Columns with their texts instead, and the Columns by text.

    Raises:
        InvalidPlanError: one cannot be understood over these columns; two that differ have the same text.
    """
    if not isinstance(assigner, PredicateWindows):
        return assigner, {}
    given: dict[str, Column] = {}
    texts: dict[str, str] = {}
    for what, one in (("start", assigner.start), ("end", assigner.end)):
        if not isinstance(one, ColumnText):
            continue
        text = text_of(df, one.column, _PREDICATE)
        other = assigner.end if what == "start" else assigner.start
        known = given.get(text, column_of(df, other, _PREDICATE) if text == other and type(other) is str else one.column)
        if not same(df, known, one.column):
            raise InvalidPlanError(f"start and end are both called {text!r} and differ: give one a name with .alias('...')")
        given[text], texts[what] = one.column, text
    return replace(assigner, **texts) if texts else assigner, given  # type: ignore[arg-type]


def predicate_inputs(df: DataFrame, assigner: WindowAssigner, given: Mapping[str, Column]) -> dict[str, Column]:
    """The predicates under the names by which the engine asks for them; nothing where windows have none.

    Args:
        df: the input.
        assigner: the windows.
        given: Columns in place of texts.

    Raises:
        InvalidWindowError: one is no boolean.
        InvalidPlanError: there is no such column.
    """
    if not isinstance(assigner, PredicateWindows):
        return {}
    found = {}
    for text in assigner.predicates:
        column = given[text] if text in given else column_of(df, text, _PREDICATE)
        kind = type_of(df, column)
        if not isinstance(kind, T.BooleanType):
            raise InvalidWindowError(
                f"the predicate {text!r} of windows is a {kind.simpleString()}: it must be true or false, such as "
                "\"action = 'logout'\""
            )
        found[label_of(text)] = column
    return found


__all__ = ["predicate_inputs", "resolve_predicates"]
