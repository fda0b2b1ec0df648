"""Increase and rate of counters, and means weighted by time, from values in the order of event time.

A pane keeps its values with their times, because rows may come in any order. Windows that overlap do not repeat them: each pane
is summarized once, and summaries are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.lists import ListAccumulator, PartialList
from panestream.engine.aggregates.partial_aggregate import sparse
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Accumulator, Implementation, RowLayout, implements
from panestream.engine.kernels.columns import Floats, Ints, Mask, array_of, floats_of, list_parts, numbers, offsets_of, take
from panestream.engine.kernels.ranges import Ranges, State
from panestream.windowing.aggregates import Increase, Rate, TimeWeightedMean

_IDENTITY = (0, 0, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
"""The summary of no values: their number, the first time and value, the last time and value, the increase, and two areas."""
_SECOND = 1_000_000


@implements(Increase, Rate, TimeWeightedMean)
class PointsImplementation(Implementation["Increase | Rate | TimeWeightedMean"]):
    """``agg.increase``, ``agg.rate``, ``agg.time_weighted_mean``."""

    def plan(self, recipe: Increase | Rate | TimeWeightedMean, planner: AggregationPlanner) -> None:
        type_ = planner.number(recipe, recipe.expr)
        partial = planner.partial(PartialPoints(planner.source(recipe.expr), type_))
        planner.result(PointsResult, recipe, pa.float64(), partial, of=_of(recipe))

    def accumulator(self, recipe: Increase | Rate | TimeWeightedMean, layout: RowLayout) -> Accumulator:
        return PointsAccumulator(layout.at(recipe.expr), _of(recipe))


def _of(recipe: Increase | Rate | TimeWeightedMean) -> str:
    return recipe.between if isinstance(recipe, TimeWeightedMean) else recipe.function


@dataclass(frozen=True, slots=True)
class PartialPoints(PartialList):
    """All values with their event times, like the partial of lists; over windows, a summary of them."""

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        values, times, lengths = _points([take(column, ranges.order) for column in columns])
        key = np.repeat(ranges.key_of_place, lengths)
        if bool(((times[1:] < times[:-1]) & (key[1:] == key[:-1])).any()):
            # Panes of processing time need not be in the order of event time.
            own, times, items, lengths = self.in_ranges(ranges, columns)
            return _arrays(_summaries(floats_of(own)[items], times[items], offsets_of(lengths)))
        panes = _summaries(values, times, offsets_of(lengths))
        return _arrays(ranges.fold_in_order(panes, _IDENTITY, _joined))

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, times, lengths = _points(columns)
        return _arrays(_summaries(values, times, offsets_of(lengths)))


def _points(columns: Sequence[pa.Array]) -> tuple[Floats, Ints, Ints]:
    values, lengths = list_parts(columns[0])
    return floats_of(values), numbers(list_parts(columns[1])[0]), lengths


def _arrays(summary: State) -> list[pa.Array]:
    return [pa.array(part) for part in summary]


def _steps(value: Floats, then: Floats, micros: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the increase from one value to the next, and the areas below a constant and a straight line, times a microsecond."""
    increase = np.where(then < value, then, then - value)
    moved = micros > 0  # infinity times 0 would be NaN
    return increase, np.where(moved, value * micros, 0.0), np.where(moved, (value / 2 + then / 2) * micros, 0.0)


def _summaries(values: Floats, times: Ints, offsets: Ints) -> State:
    counts = np.diff(offsets)
    size, owner = len(counts), np.repeat(np.arange(len(counts)), counts)
    inside = np.flatnonzero(owner[1:] == owner[:-1])
    steps = _steps(values[inside], values[inside + 1], times[inside + 1] - times[inside])
    sums = [np.bincount(owner[inside], step, size).astype(np.float64) for step in steps]  # of no values it has integers
    some = counts > 0
    ends: list[Any] = []
    for at in (offsets[:-1][some], offsets[1:][some] - 1):
        for column in (times, values):
            end = np.zeros(size, column.dtype)
            end[some] = column[at]
            ends.append(end)
    return (counts, *ends, *sums)


def _joined(a: State, b: State) -> State:
    """Join summaries of earlier and later values."""
    left, right = a[0] > 0, b[0] > 0
    both = left & right
    first = [np.where(left, one, other) for one, other in zip(a[1:3], b[1:3], strict=True)]
    last = [np.where(right, other, one) for one, other in zip(a[3:5], b[3:5], strict=True)]
    steps = _steps(a[4], b[2], np.where(both, b[1] - a[3], 0))
    sums = [one + other + np.where(both, step, 0.0) for one, other, step in zip(a[5:], b[5:], steps, strict=True)]
    return (a[0] + b[0], *first, *last, *sums)


@dataclass(frozen=True, slots=True)
class PointsResult(Result):
    """increase(expr), rate(expr), time_weighted_mean(expr, between): ``of`` is the function, or ``between``."""

    of: str

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        count, first, _, last, value, increase, constant, linear = map(numbers, partials[0])
        span = last - first
        moved: Mask = span > 0
        if self.of == "increase":
            return array_of(increase, pa.float64(), count > 1)
        if self.of == "rate":
            return array_of(increase / (np.where(moved, span, 1) / _SECOND), pa.float64(), moved)
        mean = (linear if self.of == "linear" else constant) / np.where(moved, span, 1)
        return array_of(np.where(moved, mean, value), pa.float64(), count > 0)


class PointsAccumulator(ListAccumulator):
    """All values with their times, in the order of arrival, like the accumulator of lists."""

    def __init__(self, at: int, of: str) -> None:
        super().__init__(at)
        self._of = of

    def result(self, state: Any) -> Any:
        points = [(time, float(value)) for time, value in sorted(state, key=lambda point: point[0])]
        if not points:
            return None
        seconds = (points[-1][0] - points[0][0]) / _SECOND
        if self._of in ("increase", "rate"):
            grown = sum((then if then < value else then - value) for (_, value), (_, then) in pairwise(points))
            if self._of == "increase":
                return float(grown) if len(points) > 1 else None
            return grown / seconds if seconds else None
        if not seconds:
            return points[-1][1]
        area = 0.0
        for (time, value), (later, then) in pairwise(points):
            if later > time:
                area += (value if self._of == "last" else value / 2 + then / 2) * ((later - time) / _SECOND)
        return area / seconds
