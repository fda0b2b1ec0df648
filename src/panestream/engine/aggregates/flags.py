"""Aggregates of conditions: the number of rows for which one is true, and whether it is true for all or for any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.extremes import PartialExtreme
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate
from panestream.engine.aggregates.planning import AggregationPlanner, FirstColumn, unsupported
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implements
from panestream.engine.kernels.columns import Ints, array_of, numbers
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import Aggregate, BoolAnd, BoolOr, CountIf


@implements(CountIf)
class CountIfImplementation(Implementation[CountIf]):
    """``agg.count_if``."""

    def plan(self, recipe: CountIf, planner: AggregationPlanner) -> None:
        _check_condition(recipe, recipe.expr, planner)
        partial = planner.partial(PartialTrueCount(planner.source(recipe.expr)))
        planner.result(FirstColumn, recipe, pa.int64(), partial)

    def accumulator(self, recipe: CountIf, layout: RowLayout) -> Accumulator:
        return TrueCountAccumulator(layout.at(recipe.expr))


@dataclass(frozen=True, slots=True)
class PartialTrueCount(PartialAggregate):
    """The number of rows for which a condition is true."""

    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("true", pa.int64()),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        rows = np.flatnonzero(batch.values[self.source].array.fill_null(False).to_numpy(zero_copy_only=False))
        return [array_of(groups.count(rows), pa.int64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(groups.add(numbers(columns[0])), pa.int64())]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(ranges.sums(numbers(columns[0])), pa.int64())]

    def sql(self, names: Sequence[str]) -> tuple[str, ...]:
        return (f"count_if({names[self.source]})",)


class TrueCountAccumulator(Accumulator):
    """The number of rows for which a condition is true."""

    def __init__(self, at: int) -> None:
        self._at = at

    def start(self) -> Any:
        return 0

    def add(self, state: Any, row: Row) -> Any:
        return state + 1 if row[self._at] else state

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        return state


@implements(BoolAnd, BoolOr)
class AllOrAnyImplementation(Implementation["BoolAnd | BoolOr"]):
    """``agg.bool_and``, ``agg.bool_or``: the smallest or largest value, with the state of ``agg.min`` and ``agg.max``."""

    def plan(self, recipe: BoolAnd | BoolOr, planner: AggregationPlanner) -> None:
        _check_condition(recipe, recipe.expr, planner)
        partial = PartialExtreme(planner.source(recipe.expr), pa.bool_(), isinstance(recipe, BoolOr))
        planner.result(FirstColumn, recipe, pa.bool_(), planner.partial(partial))

    def accumulator(self, recipe: BoolAnd | BoolOr, layout: RowLayout) -> Accumulator:
        return AllOrAnyAccumulator(layout.at(recipe.expr), isinstance(recipe, BoolOr))


class AllOrAnyAccumulator(Accumulator):
    """Whether all values are true, or whether any is."""

    def __init__(self, at: int, any_is_enough: bool) -> None:
        self._at = at
        self._any = any_is_enough

    def add(self, state: Any, row: Row) -> Any:
        return self.merge(state, row[self._at])

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return (a or b) if self._any else (a and b)

    def result(self, state: Any) -> Any:
        return state


def _check_condition(recipe: Aggregate, expr: str, planner: AggregationPlanner) -> None:
    type_ = planner.type_of(expr)
    if not pa.types.is_boolean(type_):
        raise unsupported(recipe, expr, type_, "a condition (boolean), such as 'price > 100'")
