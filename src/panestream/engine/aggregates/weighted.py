"""The mean of weighted values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator import Accumulator, Row, RowLayout
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, plus
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import Result
from panestream.engine.kernels.columns import Ints, array_of, both_valid, floats_of, numbers, valid_of
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import WeightedMean


@implements(WeightedMean)
class WeightedImplementation(Implementation[WeightedMean]):
    """``agg.weighted_mean``."""

    def plan(self, recipe: WeightedMean, planner: AggregationPlanner) -> None:
        for expr in recipe.inputs:
            planner.number(recipe, expr)
        partial = PartialWeightedSums(planner.source(recipe.expr), planner.source(recipe.weight))
        planner.result(WeightedMeanResult, recipe, pa.float64(), planner.partial(partial))

    def accumulator(self, recipe: WeightedMean, layout: RowLayout) -> Accumulator:
        return WeightedAccumulator(layout.at(recipe.expr), layout.at(recipe.weight))


@dataclass(frozen=True, slots=True)
class PartialWeightedSums(PartialAggregate):
    """The sums of weight and of value times weight over rows with both; like all floats, never subtracted.

    ``weight`` is the number of the expression of the weights.
    """

    weight: int

    expressions: ClassVar[tuple[str, ...]] = ("source", "weight")

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("weighted", pa.float64()), ("weight", pa.float64()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        value, weight = batch.values[self.source].array, batch.values[self.weight].array
        values, weights = floats_of(value), floats_of(weight)
        valid, rows = both_valid(valid_of(value), valid_of(weight)), None
        if valid is not None:
            rows = np.flatnonzero(valid)
            values, weights = values[rows], weights[rows]
        return [array_of(groups.add(part, rows), pa.float64()) for part in (values * weights, weights)]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(groups.add(numbers(column)), pa.float64()) for column in columns]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        sums = ranges.fold(tuple(numbers(column) for column in columns), (0.0, 0.0), plus)
        return [array_of(part, pa.float64()) for part in sums]


class WeightedMeanResult(Result):
    """weighted_mean(expr, weight)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        weighted, weight = (numbers(column) for column in partials[0])
        some = weight != 0
        return array_of(weighted / np.where(some, weight, 1), pa.float64(), some)


class WeightedAccumulator(Accumulator):
    """The sums of value times weight, and of weight."""

    def __init__(self, at: int, weight: int) -> None:
        self._at = at
        self._weight = weight

    def start(self) -> Any:
        return 0.0, 0.0

    def add(self, state: Any, row: Row) -> Any:
        value, weight = row[self._at], row[self._weight]
        if value is None or weight is None:
            return state
        return state[0] + float(value) * float(weight), state[1] + float(weight)

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def result(self, state: Any) -> Any:
        return state[0] / state[1] if state[1] else None
