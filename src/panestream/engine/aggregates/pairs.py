"""Statistics of two expressions together, all from one partial aggregate: counts, means, and products of deviations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implements
from panestream.engine.aggregates.sums import chan
from panestream.engine.kernels.columns import Floats, Ints, Mask, array_of, both_valid, floats_of, numbers, valid_of
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges, State
from panestream.windowing.aggregates import Corr, CovarPop, CovarSamp, RegrIntercept, RegrR2, RegrSlope
from panestream.windowing.aggregates.pairs import OfPair


class Moments(NamedTuple):
    """Moments of pairs (x, y), as columns or of one group.

    Attributes:
        n: the number of pairs.
        x: the mean of the first expression.
        y: the mean of the second.
        xx: the sum of squared deviations of the first.
        yy: the sum of squared deviations of the second.
        co: the sum of products of deviations.
    """

    n: Any
    x: Any
    y: Any
    xx: Any
    yy: Any
    co: Any


@dataclass(frozen=True, slots=True)
class PartialComoments(PartialAggregate):
    """Moments of two expressions over the rows that have both. ``other`` is the number of the second expression."""

    other: int

    expressions: ClassVar[tuple[str, ...]] = ("source", "other")

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return tuple((name, pa.int64() if name == "n" else pa.float64()) for name in Moments._fields)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        arrays = [batch.values[number].array for number in (self.source, self.other)]
        x, y = map(floats_of, arrays)
        valid, rows = both_valid(*map(valid_of, arrays)), None
        if valid is not None:
            rows = np.flatnonzero(valid)
            x, y = x[rows], y[rows]
        return self._arrays(groups.count(rows), *_moments(groups, x, y, rows, groups.count(rows)))

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts, x, y, *products = map(numbers, columns)
        total, some = groups.add(counts), np.flatnonzero(counts)  # the mean of no values must not enter differences
        between = _moments(groups, x[some], y[some], some, total, counts[some].astype(np.float64))
        own = [groups.add(part) for part in products]
        return self._arrays(total, *between[:2], *(a + b for a, b in zip(own, between[2:], strict=True)))

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts, *rest = map(numbers, columns)
        n, *moments = ranges.fold((counts.astype(np.float64), *rest), (0.0,) * len(Moments._fields), _joined)
        return self._arrays(n.astype(np.int64), *moments)

    def _arrays(self, *parts: Any) -> list[pa.Array]:
        return [array_of(part, type_) for part, (_, type_) in zip(parts, self.columns, strict=True)]


def _moments(groups: Groups, x: Floats, y: Floats, rows: Ints | None, total: Ints, weights: Floats | None = None) -> list[Floats]:
    """Return means and sums of products of deviations per group; ``total`` is the weight of each group."""
    means = [groups.means(part, total, rows, weights) for part in (x, y)]
    off = [part - groups.spread(mean, rows) for part, mean in zip((x, y), means, strict=True)]
    weighted = off if weights is None else [part * weights for part in off]
    return [*means, *(groups.add(a * b, rows) for a, b in zip((*weighted, weighted[0]), (*off, off[1]), strict=True))]


def _joined(a: State, b: State) -> State:
    (n_a, x_a, y_a, xx_a, yy_a, co_a), (n_b, x_b, y_b, xx_b, yy_b, co_b) = a, b
    n, x, xx = chan((n_a, x_a, xx_a), (n_b, x_b, xx_b))
    _, y, yy = chan((n_a, y_a, yy_a), (n_b, y_b, yy_b))
    both = (n_a > 0) & (n_b > 0)
    between = np.where(both, x_b - x_a, 0.0) * (n_a * (n_b / np.maximum(n, 1.0))) * np.where(both, y_b - y_a, 0.0)
    return n, x, y, xx, yy, co_a + co_b + between


@dataclass(frozen=True, slots=True)
class PairResult(Result):
    """A statistic of pairs, by the name of its function."""

    function: str

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values, valid = _COLUMNS[self.function](Moments(*map(numbers, partials[0])))
        return array_of(values, pa.float64(), valid)


_COLUMNS: dict[str, Callable[[Moments], tuple[Floats, Mask]]] = {
    "covar_samp": lambda m: (m.co / np.maximum(m.n - 1, 1), m.n > 1),
    "covar_pop": lambda m: (m.co / np.maximum(m.n, 1), m.n > 0),
    "corr": lambda m: (np.clip(m.co / np.sqrt(m.xx) / np.sqrt(m.yy), -1, 1), (m.xx != 0) & (m.yy != 0)),
    "regr_slope": lambda m: (m.co / m.yy, m.yy != 0),
    "regr_intercept": lambda m: (m.x - m.co / m.yy * m.y, m.yy != 0),
    "regr_r2": lambda m: (np.where(m.xx == 0, 1.0, (m.co / m.yy) * (m.co / m.xx)), m.yy != 0),
}
"""Compute each statistic from the columns of :class:`PartialComoments`, with a mask of the results that exist."""


class PairAccumulator(Accumulator):
    """Means and sums of products of deviations, and the statistic of them."""

    def __init__(self, at: int, other: int, function: str) -> None:
        self._at = at
        self._other = other
        self._function = function

    def start(self) -> Any:
        return 0, 0.0, 0.0, 0.0, 0.0, 0.0

    def add(self, state: Any, row: Row) -> Any:
        x, y = row[self._at], row[self._other]
        if x is None or y is None:
            return state
        x, y = float(x), float(y)
        x_off, y_off = x - x, y - y  # for infinity NaN, like its distance from any mean
        return self.merge(state, (1, x, y, x_off * x_off, y_off * y_off, x_off * y_off))

    def merge(self, a: Any, b: Any) -> Any:
        (n_a, x_a, y_a, *own), (n_b, x_b, y_b, *others) = a, b
        if not n_a or not n_b:
            return b if not n_a else a
        n = n_a + n_b
        dx, dy = x_b - x_a, y_b - y_a
        products = [(dx, dx), (dy, dy), (dx, dy)]
        sums = [p + q + u * (n_a * n_b / n) * v for p, q, (u, v) in zip(own, others, products, strict=True)]
        return n, _mean(x_a, n_a, x_b, n_b), _mean(y_a, n_a, y_b, n_b), *sums

    def result(self, state: Any) -> Any:
        return _ROWS[self._function](Moments(*state))


def _mean(a: float, n_a: int, b: float, n_b: int) -> float:
    n, off = n_a + n_b, b - a
    return a * (n_a / n) + b * (n_b / n) if math.isinf(off) else a + off * (n_b / n)


def _corr(m: Moments) -> float | None:
    if m.xx == 0 or m.yy == 0:
        return None
    value: float = m.co / math.sqrt(m.xx) / math.sqrt(m.yy)
    return value if math.isnan(value) else max(-1.0, min(1.0, value))


_ROWS: dict[str, Callable[[Moments], float | None]] = {
    "covar_samp": lambda m: m.co / (m.n - 1) if m.n > 1 else None,
    "covar_pop": lambda m: m.co / m.n if m.n else None,
    "corr": _corr,
    "regr_slope": lambda m: m.co / m.yy if m.yy != 0 else None,
    "regr_intercept": lambda m: m.x - m.co / m.yy * m.y if m.yy != 0 else None,
    "regr_r2": lambda m: None if m.yy == 0 else 1.0 if m.xx == 0 else (m.co / m.yy) * (m.co / m.xx),
}
"""The same statistics of one pair of expressions, or None where they do not exist."""


@implements(CovarSamp, CovarPop, Corr, RegrSlope, RegrIntercept, RegrR2)
class PairImplementation(Implementation[OfPair]):
    """``agg.covar_samp``, ``agg.covar_pop``, ``agg.corr`` and ``agg.regr_…``: results of the same partial."""

    def plan(self, recipe: OfPair, planner: AggregationPlanner) -> None:
        for expr in recipe.inputs:
            planner.number(recipe, expr)
        partial = planner.partial(PartialComoments(planner.source(recipe.expr), planner.source(recipe.other)))
        planner.result(PairResult, recipe, pa.float64(), partial, function=recipe.function)

    def accumulator(self, recipe: OfPair, layout: RowLayout) -> Accumulator:
        return PairAccumulator(layout.at(recipe.expr), layout.at(recipe.other), recipe.function)
