"""Variance and standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator import Accumulator, Row, RowLayout
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, all_rows, counts_of
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import Result
from panestream.engine.kernels.columns import Floats, Ints, array_of, numbers
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges, State
from panestream.windowing.aggregates import Stddev, Var


@implements(Var, Stddev)
class MomentsImplementation(Implementation["Var | Stddev"]):
    """``agg.var``, ``agg.stddev``: two results of the same partial."""

    def plan(self, recipe: Var | Stddev, planner: AggregationPlanner) -> None:
        planner.number(recipe, recipe.expr)
        kind = VarianceResult if isinstance(recipe, Var) else DeviationResult
        planner.result(kind, recipe, pa.float64(), planner.partial(PartialMoments(planner.source(recipe.expr))))

    def accumulator(self, recipe: Var | Stddev, layout: RowLayout) -> Accumulator:
        return MomentsAccumulator(layout.at(recipe.expr), isinstance(recipe, Stddev))


@dataclass(frozen=True, slots=True)
class PartialMoments(PartialAggregate):
    """Count, mean and sum of squared deviations, which give the variance without cancellation (Chan et al. 1979).

    Finite values of any size have a variance: 0 if all are equal, infinity if it exceeds the range of floats. With an infinite
    value it is NaN, like the value's distance from any mean.
    """

    counts: ClassVar[str | None] = "n"

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("n", pa.int64()), ("mean", pa.float64()), ("m2", pa.float64()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        rows, values = column.rows, column.floats
        count = groups.count(rows)
        mean = groups.means(values, count, rows)
        off = values - groups.spread(mean, rows)
        m2 = groups.add(off * off, rows)
        n = all_rows(groups.size) if rows is None else array_of(count, pa.int64())
        return [n, array_of(mean, pa.float64()), array_of(m2, pa.float64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts = counts_of(columns[0], rows)
        n, mean, m2 = counts.astype(np.float64), numbers(columns[1]), numbers(columns[2])
        total = groups.add(counts)
        some = None if n.all() else np.flatnonzero(n)  # the mean of no values must not enter differences
        own, share = (mean, n) if some is None else (mean[some], n[some])
        whole = groups.means(own, total, some, share)
        off = own - groups.spread(whole, some)
        spread = groups.add(m2) + groups.add(off * share * off, some)
        complete = columns[0].null_count == len(rows)
        return [
            all_rows(groups.size) if complete else array_of(total, pa.int64()),
            array_of(whole, pa.float64()),
            array_of(spread, pa.float64()),
        ]

    def nothing(self, count: int) -> list[pa.Array]:
        return [
            array_of(np.zeros(count, type_), arrow)
            for type_, (_, arrow) in zip((np.int64, float, float), self.columns, strict=True)
        ]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts = counts_of(columns[0], rows)
        states = (counts.astype(np.float64), numbers(columns[1]), numbers(columns[2]))
        _, mean, m2 = ranges.fold(states, (0.0, 0.0, 0.0), _chan)
        complete = columns[0].null_count == len(rows)
        n = all_rows(len(ranges.windows)) if complete else array_of(ranges.sums(counts), pa.int64())
        return [n, array_of(mean, pa.float64()), array_of(m2, pa.float64())]


class VarianceResult(Result):
    """var(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(self._variance(partials, rows), pa.float64(), counts_of(partials[0][0], rows) > 1)

    @staticmethod
    def _variance(partials: Sequence[Sequence[pa.Array]], rows: Ints) -> Floats:
        variance: Floats = numbers(partials[0][2]) / np.maximum(counts_of(partials[0][0], rows) - 1, 1)
        return variance


class DeviationResult(VarianceResult):
    """stddev(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(np.sqrt(self._variance(partials, rows)), pa.float64(), counts_of(partials[0][0], rows) > 1)


class MomentsAccumulator(Accumulator):
    """Sample variance or standard deviation, from count, mean and squared deviations (Welford 1962, Chan et al. 1979)."""

    def __init__(self, at: int, root: bool) -> None:
        self._at = at
        self._root = root

    def start(self) -> Any:
        return 0, 0.0, 0.0

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is None:
            return state
        number = float(value)
        return self.merge(state, (1, number, number - number))  # for infinity NaN, like its distance from any mean

    def merge(self, a: Any, b: Any) -> Any:
        (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
        if not n_a or not n_b:
            return b if not n_a else a
        n, off = n_a + n_b, mean_b - mean_a
        mean = mean_a * (n_a / n) + mean_b * (n_b / n) if math.isinf(off) else mean_a + off * (n_b / n)
        return n, mean, m2_a + m2_b + off * (n_a * n_b / n) * off

    def result(self, state: Any) -> Any:
        n, _, m2 = state
        if n < 2:
            return None
        return math.sqrt(m2 / (n - 1)) if self._root else m2 / (n - 1)


def _chan(a: State, b: State) -> State:
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
    n = n_a + n_b
    share = n_b / np.maximum(n, 1.0)
    # The distance from the mean of no values must be 0: its square may be infinite, and 0 times infinity is NaN.
    off = np.where((n_a > 0) & (n_b > 0), mean_b - mean_a, 0.0)
    mean = np.where(n_a > 0, mean_a, mean_b) + off * share
    far = np.isinf(off)
    if far.any():
        mean[far] = (mean_a * (1 - share) + mean_b * share)[far]
    return n, mean, m2_a + m2_b + off * (n_a * share) * off
