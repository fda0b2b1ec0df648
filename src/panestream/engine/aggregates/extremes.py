"""The smallest and the largest value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.accumulator import Accumulator, Row, RowLayout, ValueOrder
from panestream.engine.aggregates.partial_aggregate import Batch, Input, PartialAggregate, smaller
from panestream.engine.aggregates.planning import AggregationPlanner
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import FirstColumn
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.grouping import LARGEST, Groups
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import Max, Min


@implements(Min, Max)
class ExtremeImplementation(Implementation["Min | Max"]):
    """``agg.min``, ``agg.max``."""

    def plan(self, recipe: Min | Max, planner: AggregationPlanner) -> None:
        type_ = planner.ordered(recipe, recipe.expr)
        partial = PartialExtreme(planner.source(recipe.expr), type_, isinstance(recipe, Max))
        planner.result(FirstColumn, recipe, type_, planner.partial(partial))

    def accumulator(self, recipe: Min | Max, layout: RowLayout) -> Accumulator:
        return ExtremeAccumulator(layout.at(recipe.expr), layout.type_of(recipe.expr), isinstance(recipe, Max))


@dataclass(frozen=True, slots=True)
class PartialExtreme(PartialAggregate):
    """The smallest or largest value, or null without values."""

    type: pa.DataType
    largest: bool

    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("max" if self.largest else "min", self.type),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        return self._reduce(groups, batch.values[self.source])

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return self._reduce(groups, Input(columns[0]))

    def _reduce(self, groups: Groups, column: Input) -> list[pa.Array]:
        codes, rows = self._oriented(column), column.rows
        valid = None if rows is None else groups.count(rows) > 0
        least = groups.smallest(codes if rows is None else codes[rows], rows)
        return [column.codes.decode(~least if self.largest else least, valid)]

    def nothing(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, type_) for _, type_ in self.columns]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        column, valid = Input(columns[0]), None
        codes = self._oriented(column)
        mask = column.codes.valid
        if mask is not None:
            codes = np.where(mask, codes, LARGEST)
            valid = ranges.sums(mask.astype(np.int64)) > 0
        (least,) = ranges.fold((codes,), (int(LARGEST),), smaller, idempotent=True)
        return [column.codes.decode(~least if self.largest else least, valid)]

    def sql(self, names: Sequence[str]) -> tuple[str, ...] | None:
        if not pa.types.is_integer(self.type) and not pa.types.is_temporal(self.type):
            return None
        return (f"{'max' if self.largest else 'min'}({names[self.source]})",)

    def _oriented(self, column: Input) -> Ints:
        # ~ reverses the order of all int64 without overflow, so that the minimum kernel serves both.
        return ~column.codes.codes if self.largest else column.codes.codes


class ExtremeAccumulator(Accumulator):
    """The smallest or largest value."""

    def __init__(self, at: int, type_: pa.DataType, largest: bool) -> None:
        self._at = at
        self._order = ValueOrder(type_)
        self._largest = largest
        self._floats = pa.types.is_floating(type_)

    def add(self, state: Any, row: Row) -> Any:
        return self.merge(state, row[self._at])

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return b if (self._order.less(a, b) if self._largest else self._order.less(b, a)) else a

    def result(self, state: Any) -> Any:
        return state + 0.0 if self._floats and state is not None else state  # SQL has one zero
