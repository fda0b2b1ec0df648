"""The input columns of declared aggregates, gaps and predicates, resolved against the data by the text that the plan uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.operators.predicates import label_of
from panestream.engine.plan import RESERVED
from panestream.errors import InvalidPlanError, InvalidWindowError, did_you_mean
from panestream.spark.aggregates import instead_of, split_alias, translations
from panestream.spark.columns import (
    Names,
    as_written,
    column_of,
    columns_of,
    micros_of_interval,
    micros_of_number,
    quoted,
    same,
    shown_names,
    text_of,
    type_of,
)
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.types import check_bytewise, collation_of
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregates.base import ColumnText
from panestream.windowing.assigners import PredicateWindows, WindowAssigner
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.foreign_names import AGGREGATES

_INPUT = "the input of an aggregate"


def resolve_inputs(df: DataFrame, aggregates: Sequence[recipes.Aggregate]) -> tuple[list[recipes.Aggregate], dict[str, Column]]:
    """Return the aggregates with texts instead of Columns, and the column of each text; refuse ambiguous texts."""
    columns: dict[str, Column] = {}
    texts: dict[ColumnText, str] = {}
    inputs = list(dict.fromkeys(text for aggregate in aggregates for text in aggregate.inputs))
    written = [given.column if isinstance(given, ColumnText) else given for given in inputs]
    for given, wanted, column in zip(inputs, written, columns_of(df, written, _INPUT), strict=True):
        text = text_of(df, wanted, _INPUT)
        if not same(df, columns.setdefault(text, column), column):
            raise InvalidPlanError(
                f"two different inputs of aggregates are both called {text!r}: give one of the Columns a name with .alias('...')"
            )
        if isinstance(given, ColumnText):
            texts[given] = text
    return [aggregate.resolved(texts.__getitem__) for aggregate in aggregates], columns


def declared_of(df: DataFrame, given: Sequence[object]) -> list[recipes.Aggregate]:
    """Return declared aggregates, with those of PySpark translated into equivalents of ``panestream.agg``."""
    return [one if isinstance(one, recipes.Aggregate) else _translated(df, one) for one in given]


def _translated(df: DataFrame, given: object) -> recipes.Aggregate:
    if not isinstance(given, Column):
        raise no_aggregate(df, given)
    text = split_alias(text_of(df, given, _INPUT))[0]
    names = set(df.columns)
    wanted = given.alias("value")
    for meaning in translations(text, lambda argument: quoted(argument) if argument in names else argument):
        try:
            with silence_analysis_errors():
                is_same = same(df, F.expr(meaning.sql).alias("value"), wanted)
        except (AnalysisException, ParseException):
            continue
        if is_same:
            name = df.select(given).schema[0].name
            return meaning.recipe if meaning.recipe.name == name else meaning.recipe.alias(name)
    raise no_aggregate(df, given)


def check_results(df: DataFrame, aggregates: Sequence[recipes.Aggregate], keys: Sequence[str], added: Sequence[str]) -> None:
    """Check that the names of results are free. ``df`` has the session's case sensitivity, ``added`` are other columns."""
    naming, names = Names.of(df.sparkSession), [aggregate.name for aggregate in aggregates]
    find_taken, find_key = naming.finder((*RESERVED, *added)), naming.finder(keys)
    for aggregate in aggregates:
        if find_taken(aggregate.name) is not None:
            raise InvalidPlanError(f"a result cannot be named {aggregate.name!r}: choose another .alias(...)")
        key = find_key(aggregate.name)
        if key is not None:
            raise InvalidPlanError(
                f"an aggregate has the name of a key column, {shown_names(aggregate.name, key)}: choose another with .alias(...)"
            )
        fields = naming.doubled(aggregate.struct_fields)
        if fields is not None:
            raise InvalidPlanError(f"{aggregate!r} has the fields {shown_names(*fields)}: write each once")
    doubled = naming.doubled(names)
    if doubled is not None:
        raise InvalidPlanError(f"two aggregates are called {shown_names(*doubled)}; choose other names with .alias(...)")


def check_collations(aggregates: Sequence[recipes.Aggregate], kinds: Mapping[str, T.DataType]) -> frozenset[str]:
    """Return the results that carry strings with a collation unchanged; refuse aggregates that would compare such strings."""
    for aggregate in aggregates:
        for text in aggregate.compared:
            check_bytewise(kinds[text], f"{aggregate!r}:", text)
    carrying = (one for one in aggregates if any(collation_of(kinds[text]) is not None for text in one.inputs))
    return frozenset(one.name for one in carrying if one.keeps_values)


def one_by_one(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return columns that were passed one by one, or as one list, as PySpark accepts them.

    >>> one_by_one(("user", "page")), one_by_one((["user", "page"],))
    (('user', 'page'), ('user', 'page'))
    """
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


def no_assigner(given: Sequence[object]) -> InvalidPlanError:
    """Return the error for a value that is not an assigner; for durations it suggests the code to write."""
    wants = "window needs an assigner such as TumblingEventTimeWindows.of('1 hour')"
    if isinstance(given[0], Column):
        return InvalidPlanError(f"{wants}, got the Column {as_written(given[0])!r}, which Spark's own groupBy takes")
    if len(given) <= 2 and all(isinstance(one, (str, timedelta)) for one in given):
        kind = "TumblingEventTimeWindows" if len(given) == 1 else "SlidingEventTimeWindows"
        return InvalidPlanError(
            f"window needs an assigner: write .window({kind}.of({', '.join(map(repr, given))})), or an assigner of another kind"
        )
    wrong = next(one for one in given if not isinstance(one, WindowAssigner))
    if isinstance(wrong, CountWindows):
        return InvalidPlanError(f"window: {wrong!r} cannot be combined with other windows. Write a separate query for it")
    return InvalidPlanError(f"{wants}, got {wrong!r}")


def no_aggregate(df: DataFrame, given: object) -> InvalidPlanError:
    """Return the error for a value that is not an aggregate; for Spark's aggregates it suggests ours."""
    wants = "aggregate needs aggregates such as agg.sum('price') or F.sum('price')"
    if isinstance(given, Column):
        text = text_of(df, given, _INPUT)
        meaning = next(translations(split_alias(text)[0], str), None)
        hint = instead_of(text)
        if meaning is not None and not hint.startswith("there is no"):
            hint = f"that name is ambiguous, so write agg.{meaning.recipe.function}(...) around the same Column"
        return InvalidPlanError(f"{wants}; got the Column {text!r}: {hint}")
    hint = f": {instead_of(given)}" if isinstance(given, str) and "(" in given else ""
    if isinstance(given, Mapping) and {*given.values()} <= {*AGGREGATES}:
        hint = f": write .aggregate({', '.join(f'agg.{AGGREGATES[function]}({name!r})' for name, function in given.items())})"
    if isinstance(given, (list, tuple)) and any(isinstance(one, recipes.Aggregate) for one in given):
        hint = ": give them one by one, or unpack them, aggregate(*aggregates)"
    return InvalidPlanError(f"{wants}; got {given!r}{hint}")


def resolve_gap(df: DataFrame, assigner: WindowAssigner) -> tuple[WindowAssigner, Column | None]:
    """Return session windows whose gap Column is replaced by its text, and the Column."""
    gap = getattr(assigner, "gap", None)
    if not isinstance(gap, GapColumn):
        return assigner, None
    if not isinstance(gap.expr, ColumnText):
        # Functions look the gap up by the column's own name, whatever the case in which the user wrote it.
        name = Names.of(df.sparkSession).find(gap.expr, df.columns)
        return (assigner if name in (None, gap.expr) else replace(assigner, gap=replace(gap, expr=name))), None  # type: ignore[type-var]
    column = gap.expr.column
    text = text_of(df, column, "the session gap")
    return replace(assigner, gap=replace(gap, expr=text)), column  # type: ignore[type-var]


def gap_input(df: DataFrame, assigner: WindowAssigner, given: Column | None = None) -> dict[str, Column]:
    """Return the gap in microseconds under the engine's name for it, or nothing without a gap column."""
    gap = _gap_of(assigner)
    if gap is None:
        return {}
    column, kind = _checked(df, gap, given)
    return {gap.label: micros_of_interval(column) if gap.unit is None else micros_of_number(column, kind, gap.unit)}


def check_gap_of_rows(df: DataFrame, assigner: WindowAssigner, given: Column | None = None) -> None:
    """Check that the gap is a column, as functions over whole rows need, and not an expression."""
    gap = _gap_of(assigner)
    if gap is None:
        return
    if gap.expr not in df.columns or (given is not None and not same(df, given, column_of(df, gap.expr, "the session gap"))):
        raise InvalidPlanError(
            f"with user functions over rows the session gap must be a column: "
            f"df.withColumn('gap', expr({gap.expr!r})) and with_gap_column('gap'); {did_you_mean(gap.expr, df.columns)}"
        )
    _checked(df, gap, given)


def _gap_of(assigner: WindowAssigner) -> GapColumn | None:
    gap = getattr(assigner, "gap", None)
    return gap if isinstance(gap, GapColumn) else None


def _checked(df: DataFrame, gap: GapColumn, given: Column | None) -> tuple[Column, T.DataType]:
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
            "give its unit, unit='seconds', 'milliseconds' or 'microseconds'"
        )
    return column, kind


_PREDICATE = "a predicate of windows"


def resolve_predicates(df: DataFrame, assigner: WindowAssigner) -> tuple[WindowAssigner, Mapping[str, Column]]:
    """Return windows whose predicate Columns are replaced by their texts, and the Columns by text; refuse ambiguous texts."""
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
    """Return the boolean predicates under the engine's names for them; ``given`` are Columns by text."""
    if not isinstance(assigner, PredicateWindows):
        return {}
    columns = {}
    for text in assigner.predicates:
        column = given[text] if text in given else column_of(df, text, _PREDICATE)
        kind = type_of(df, column)
        if not isinstance(kind, T.BooleanType):
            raise InvalidWindowError(
                f"the predicate {text!r} of windows is a {kind.simpleString()}: it must be true or false, such as "
                "\"action = 'logout'\""
            )
        columns[label_of(text)] = column
    return columns
