"""Declared aggregates for the row operator, which knows them as one function of a user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.python_values import arrow_column, python_values
from panestream.engine.operators.row.accumulators import (
    Accumulator,
    Bins,
    Collecting,
    Counting,
    Distinct,
    Extreme,
    Picking,
    Row,
    Spread,
    Summing,
    Top,
    Weighted,
)
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.functions import AggregateFunction

TIME = "__time"
"""The last value of each element: its event time."""


class DeclaredFunction(AggregateFunction):
    """Declared aggregates over elements whose values are the aggregates' inputs and, last, the event time.

    Each has an accumulator in plain Python. Sketches and users' aggregates over columns have none: their rows are kept, and
    aggregated by the columnar kernel when the window fires.

    Args:
        aggregates: the recipes.
        input_types: of the expressions that they take.

    Raises:
        InvalidPlanError: an aggregate does not take its type.
    """

    def __init__(self, aggregates: Sequence[Aggregate], input_types: Mapping[str, pa.DataType]) -> None:
        aggregation = Aggregation.build(aggregates, input_types, pa.schema([]))
        places = _Places(aggregation, input_types)
        rules = [_RULES.get(type(aggregate), Kept) for aggregate in aggregates]
        self._parts: list[Accumulator] = [rule(aggregate, places) for rule, aggregate in zip(rules, aggregates, strict=True)]
        self._adders = [part.add for part in self._parts]

    def create_accumulator(self) -> tuple[Any, ...]:
        return tuple([part.start() for part in self._parts])

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        row = tuple(value)  # access to the values of an element is slower
        return tuple([add(state, row) for add, state in zip(self._adders, accumulator, strict=True)])

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.merge(one, other) for part, one, other in zip(self._parts, a, b, strict=True)])

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([part.result(state) for part, state in zip(self._parts, accumulator, strict=True)])


class _Places:
    """Where in an element an expression's value is, and of what type; and the types of the results, by name."""

    def __init__(self, aggregation: Aggregation, types: Mapping[str, pa.DataType]) -> None:
        self._inputs = list(aggregation.inputs)
        self.types = types
        self.time = -1  # the last: between the inputs and the time may stand what only the assigner looks at
        self.results = {field.name: field.type for field in aggregation.output_schema}

    def at(self, expr: str) -> int:
        return self._inputs.index(expr)

    def type_of(self, expr: str) -> pa.DataType:
        found = self.types[expr]
        return found.value_type if pa.types.is_dictionary(found) else found


class Kept(Accumulator):
    """The rows themselves, for what has no simple form in Python.

    Args:
        aggregate: the recipe.
        places: where its inputs are.
    """

    def __init__(self, aggregate: Aggregate, places: _Places) -> None:
        self._places = [places.at(expr) for expr in dict.fromkeys(aggregate.inputs)]
        self._fields = [pa.field(expr, places.types[expr]) for expr in dict.fromkeys(aggregate.inputs)]
        self._aggregation = Aggregation.build([aggregate], places.types, pa.schema([]))
        self._needs_rows = isinstance(aggregate, recipes.User)

    def start(self) -> Any:
        return []

    def add(self, state: Any, row: Row) -> Any:
        state.append((*(row[at] for at in self._places), row[-1]))
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        if not state and self._needs_rows:
            return None
        *columns, times = zip(*(state or [(*(None for _ in self._places), 0)]), strict=True)
        values = [arrow_column(column, field) for column, field in zip(columns, self._fields, strict=True)]
        at = np.asarray(times, np.int64)
        partials = self._aggregation.partials(
            [], np.zeros(len(at), np.int64), values, at if self._aggregation.needs_timestamps else None
        )
        _, results = self._aggregation.windows(partials, np.zeros(1, np.int64), np.ones(1, np.int64))
        return python_values(results.column(0))[0]


def _count(aggregate: recipes.Count, places: _Places) -> Accumulator:
    return Counting(None if aggregate.expr is None else places.at(aggregate.expr))


def _sum(aggregate: recipes.Sum | recipes.Mean, places: _Places) -> Accumulator:
    call, mean = f"{aggregate!r} (column {aggregate.name!r})", isinstance(aggregate, recipes.Mean)
    return Summing(places.at(aggregate.expr), places.type_of(aggregate.expr), places.results[aggregate.name], call, mean)


def _extreme(aggregate: recipes.Min | recipes.Max, places: _Places) -> Accumulator:
    return Extreme(places.at(aggregate.expr), places.type_of(aggregate.expr), isinstance(aggregate, recipes.Max))


def _spread(aggregate: recipes.Var | recipes.Stddev, places: _Places) -> Accumulator:
    return Spread(places.at(aggregate.expr), isinstance(aggregate, recipes.Stddev))


def _by_time(aggregate: recipes.First | recipes.Last, places: _Places) -> Accumulator:
    last, at = isinstance(aggregate, recipes.Last), places.at(aggregate.expr)
    return Picking([at], places.time, pa.int64(), largest=last, last_of_equals=last, skip_nulls=aggregate.ignore_nulls)


def _by_value(aggregate: recipes.MinBy | recipes.MaxBy, places: _Places) -> Accumulator:
    largest = isinstance(aggregate, recipes.MaxBy)
    by, by_type = places.at(aggregate.by), places.type_of(aggregate.by)
    return Picking([places.at(aggregate.expr)], by, by_type, largest=largest, time=places.time)


def _row(aggregate: recipes.ArgMin | recipes.ArgMax, places: _Places) -> Accumulator:
    largest, values = isinstance(aggregate, recipes.ArgMax), [places.at(expr) for expr in aggregate.exprs]
    by_type = places.type_of(aggregate.by)
    return Picking(values, places.at(aggregate.by), by_type, largest=largest, time=places.time, fields=aggregate.exprs)


def _distinct(aggregate: recipes.CountDistinct, places: _Places) -> Accumulator:
    return Distinct(places.at(aggregate.expr), places.type_of(aggregate.expr))


def _items(aggregate: recipes.CollectList, places: _Places) -> Accumulator:
    return Collecting(places.at(aggregate.expr))


def _top(aggregate: recipes.TopK, places: _Places) -> Accumulator:
    by = aggregate.expr if aggregate.by is None else aggregate.by
    return Top(places.at(aggregate.expr), places.at(by), places.type_of(by), aggregate.k)


def _weighted(aggregate: recipes.WeightedMean, places: _Places) -> Accumulator:
    return Weighted(places.at(aggregate.expr), places.at(aggregate.weight))


def _bins(aggregate: recipes.Histogram, places: _Places) -> Accumulator:
    return Bins(places.at(aggregate.expr), places.type_of(aggregate.expr), aggregate.edges)


_RULES: Mapping[type[Aggregate], Callable[[Any, _Places], Accumulator]] = {
    recipes.Count: _count,
    recipes.Sum: _sum,
    recipes.Mean: _sum,
    recipes.Min: _extreme,
    recipes.Max: _extreme,
    recipes.Var: _spread,
    recipes.Stddev: _spread,
    recipes.First: _by_time,
    recipes.Last: _by_time,
    recipes.MinBy: _by_value,
    recipes.MaxBy: _by_value,
    recipes.ArgMin: _row,
    recipes.ArgMax: _row,
    recipes.CountDistinct: _distinct,
    recipes.CollectList: _items,
    recipes.TopK: _top,
    recipes.WeightedMean: _weighted,
    recipes.Histogram: _bins,
}
