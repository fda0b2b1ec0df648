"""Sums and means in which a row counts half as much with every half-life of its age."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implements
from panestream.engine.kernels.columns import Floats, Ints, Vector, array_of, numbers
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges, State
from panestream.windowing.aggregates import DecayedMean, DecayedSum

_NEVER = -(2**63)


@implements(DecayedSum, DecayedMean)
class DecayImplementation(Implementation["DecayedSum | DecayedMean"]):
    """``agg.decayed_sum``, ``agg.decayed_mean``."""

    def plan(self, recipe: DecayedSum | DecayedMean, planner: AggregationPlanner) -> None:
        planner.number(recipe, recipe.expr)
        partial = planner.partial(PartialDecay(planner.source(recipe.expr), recipe.micros))
        kind = DecayedMeanResult if isinstance(recipe, DecayedMean) else DecayedSumResult
        planner.result(kind, recipe, pa.float64(), partial)

    def accumulator(self, recipe: DecayedSum | DecayedMean, layout: RowLayout) -> Accumulator:
        return DecayAccumulator(layout.at(recipe.expr), recipe.micros, isinstance(recipe, DecayedMean))


@dataclass(frozen=True, slots=True)
class PartialDecay(PartialAggregate):
    """The latest time of a value, and the sums of values and weights as of that time. ``half_life`` is in microseconds."""

    half_life: int

    orders_by_time: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("latest", pa.int64()), ("sum", pa.float64()), ("weight", pa.float64()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column, times = batch.values[self.source], batch.known_times
        times = times if column.rows is None else times[column.rows]
        return self._added(groups, times, column.floats, np.ones(len(times)), column.rows)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        latest, sums, weights = map(numbers, columns)
        return self._added(groups, latest, sums, weights, None)

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        latest, *sums = ranges.fold(tuple(map(numbers, columns)), (_NEVER, 0.0, 0.0), self._joined)
        return [array_of(part, type_) for part, (_, type_) in zip((latest, *sums), self.columns, strict=True)]

    def _added(self, groups: Groups, times: Ints, sums: Floats, weights: Floats, rows: Ints | None) -> list[pa.Array]:
        latest = ~groups.smallest(~times, rows)  # ~ reverses the order
        aged = self._aged((times, sums, weights), groups.spread(latest, rows))
        parts = (latest, *(groups.add(part, rows) for part in aged))
        return [array_of(part, type_) for part, (_, type_) in zip(parts, self.columns, strict=True)]

    def _joined(self, a: State, b: State) -> State:
        latest = np.maximum(a[0], b[0])
        return (latest, *(one + other for one, other in zip(self._aged(a, latest), self._aged(b, latest), strict=True)))

    def _aged(self, state: State, latest: Ints) -> tuple[Vector, Vector]:
        """Return the sums of values and of weights as of a later time."""
        times, sums, weights = state
        age = latest.astype(np.float64) - times  # as integers, the distance from no time would overflow
        factor = np.exp2(-age / self.half_life)
        return np.where(np.isfinite(sums), sums * factor, sums), weights * factor


class DecayedSumResult(Result):
    """decayed_sum(expr, half_life)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        _, sums, weights = map(numbers, partials[0])
        return array_of(sums, pa.float64(), weights > 0)


class DecayedMeanResult(Result):
    """decayed_mean(expr, half_life)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        _, sums, weights = map(numbers, partials[0])
        return array_of(sums / np.where(weights > 0, weights, 1), pa.float64(), weights > 0)


class DecayAccumulator(Accumulator):
    """The latest time, the sum and the weight; None before the first value."""

    def __init__(self, at: int, half_life: int, mean: bool) -> None:
        self._at = at
        self._half_life = half_life
        self._mean = mean

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        return state if value is None else self.merge(state, (row[-1], float(value), 1.0))

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        latest, total, weight = max(a[0], b[0]), 0.0, 0.0
        for time, one, its_weight in (a, b):
            factor = 2.0 ** (-(latest - time) / self._half_life)
            total += one * factor if math.isfinite(one) else one
            weight += its_weight * factor
        return latest, total, weight

    def result(self, state: Any) -> Any:
        if state is None:
            return None
        return state[1] / state[2] if self._mean else state[1]
