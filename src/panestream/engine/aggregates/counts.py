"""Counts of rows, and of values that are not null."""

from __future__ import annotations

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
from panestream.engine.kernels.columns import Ints, array_of
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import Count


@implements(Count)
class CountImplementation(Implementation[Count]):
    """``agg.count``. Every partial row contains its number of rows, but a count of values needs a partial."""

    def plan(self, recipe: Count, planner: AggregationPlanner) -> None:
        if recipe.expr is None:
            planner.result(RowCountResult, recipe, pa.int64())
        else:
            planner.type_of(recipe.expr)
            partial = planner.partial(PartialCount(planner.source(recipe.expr)))
            planner.result(ValueCountResult, recipe, pa.int64(), partial)

    def accumulator(self, recipe: Count, layout: RowLayout) -> Accumulator:
        return CountAccumulator(None if recipe.expr is None else layout.at(recipe.expr))


@dataclass(frozen=True, slots=True)
class PartialCount(PartialAggregate):
    """The number of rows with a value. Null means *all rows*, which makes columns without nulls free to count."""

    counts: ClassVar[str | None] = "n"
    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("n", pa.int64()),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        rows = batch.values[self.source].rows
        return [all_rows(groups.size) if rows is None else array_of(groups.count(rows), pa.int64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        if columns[0].null_count == len(rows):
            return [all_rows(groups.size)]
        return [array_of(groups.add(counts_of(columns[0], rows)), pa.int64())]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        if columns[0].null_count == len(rows):
            return [all_rows(len(ranges.windows))]
        return [array_of(ranges.sums(counts_of(columns[0], rows)), pa.int64())]

    def nothing(self, count: int) -> list[pa.Array]:
        return [array_of(np.zeros(count, np.int64), pa.int64())]

    def sql(self, names: Sequence[str]) -> tuple[str, ...]:
        return (f"count({names[self.source]})",)


@dataclass(frozen=True, slots=True)
class PartialCountOfSum(PartialCount):
    """The number of values in a sum.

    It differs from the partial of ``count(expr)``, although it counts the same. If a sum is added to open windows, both the sum
    and this number only include later rows, while an older count includes all.
    """


class RowCountResult(Result):
    """count()"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(rows, pa.int64())


class ValueCountResult(Result):
    """count(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(counts_of(partials[0][0], rows), pa.int64())


class CountAccumulator(Accumulator):
    """The number of rows or, given a place, of values that are not null."""

    def __init__(self, at: int | None) -> None:
        self._at = at

    def start(self) -> Any:
        return 0

    def add(self, state: Any, row: Row) -> Any:
        return state + 1 if self._at is None or row[self._at] is not None else state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        return state
