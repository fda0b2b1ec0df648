"""The exact number of distinct values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates.accumulator import Accumulator, Row, RowLayout
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, is_hashable, unsupported
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import Result
from panestream.engine.kernels.columns import Ints, array_of, list_of, list_parts, normal_floats, numbers
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ordering import runs, stable_order
from panestream.engine.kernels.ranges import Ranges, SparseRanges
from panestream.windowing.aggregates import CountDistinct


@implements(CountDistinct)
class DistinctImplementation(Implementation[CountDistinct]):
    """``agg.count_distinct``."""

    def plan(self, recipe: CountDistinct, planner: AggregationPlanner) -> None:
        type_ = planner.type_of(recipe.expr)
        if not is_hashable(type_):
            raise unsupported(recipe, recipe.expr, type_, "a type whose values can be hashed, not a nested one")
        partial = planner.partial(PartialDistinct(planner.source(recipe.expr), type_))
        planner.result(DistinctResult, recipe, pa.int64(), partial)

    def accumulator(self, recipe: CountDistinct, layout: RowLayout) -> Accumulator:
        return DistinctAccumulator(layout.at(recipe.expr), layout.type_of(recipe.expr))


@dataclass(frozen=True, slots=True)
class PartialDistinct(PartialAggregate):
    """Each distinct value once, in the order of first arrival; over windows, only the number of values."""

    type: pa.DataType

    grows: ClassVar[str] = "every distinct value"
    needs_rows: ClassVar[bool] = True
    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("distinct", pa.list_(self.type)),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        return self._distinct(groups.size, groups.ids if column.rows is None else groups.ids[column.rows], column.present)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, lengths = list_parts(columns[0])
        return self._distinct(groups.size, np.repeat(groups.ids, lengths), values)

    @staticmethod
    def _distinct(size: int, ids: Ints, values: pa.Array) -> list[pa.Array]:
        encoded = pc.dictionary_encode(normal_floats(values))
        width = max(len(encoded.dictionary), 1)
        pairs = np.sort(ids * width + numbers(encoded.indices))
        pairs = pairs[runs(pairs)]
        owner = pairs // width
        distinct = encoded.dictionary.take(pa.array(pairs - owner * width))
        return [list_of(distinct, np.bincount(owner, minlength=size))]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        values, lengths = list_parts(columns[0].take(pa.array(ranges.order)))
        codes = numbers(pc.dictionary_encode(values).indices).astype(np.int64)
        return [array_of(distinct_over(ranges, codes, lengths), pa.int64())]


class DistinctResult(Result):
    """count_distinct(expr): the partial counts over overlapping windows, while a merge leaves the values."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        column = partials[0][0]
        return array_of(list_parts(column)[1], pa.int64()) if pa.types.is_list(column.type) else column


class DistinctAccumulator(Accumulator):
    """The number of distinct values. The two zeros are equal, and NaN is stored as None."""

    def __init__(self, at: int, type_: pa.DataType) -> None:
        self._at = at
        self._floats = pa.types.is_floating(type_)

    def start(self) -> Any:
        return set()

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is not None:
            state.add((None if math.isnan(value) else value + 0.0) if self._floats else value)
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return a | b

    def result(self, state: Any) -> Any:
        return len(state)


def distinct_over(ranges: SparseRanges, codes: Ints, lengths: Ints) -> Ints:
    """Return the number of distinct codes per pair: each window counts once for a key and code in any of its panes.

    ``codes`` has the codes of all partial rows in the order of key and pane, and ``lengths`` their number in each row. A row must
    not repeat a code.
    """
    place = np.repeat(np.arange(len(lengths)), lengths)  # in the order of key and pane
    order = stable_order(codes)  # by value, then key and pane
    codes, place = codes[order], place[order]
    key = ranges.key_of_place[place]
    begin, until = ranges.from_window[place], ranges.until_window[place]
    same = (codes[1:] == codes[:-1]) & (key[1:] == key[:-1])
    # Windows that contain this pane but not the value's previous pane.
    fresh = begin.copy()
    np.maximum(begin[1:], until[:-1], out=fresh[1:], where=same)
    news = np.maximum(until - fresh, 0)
    pair = ranges.first_pair[place] + fresh - ranges.first_window[place]
    count = len(ranges.windows)
    kept = news > 0
    steps = np.bincount(pair[kept], minlength=count + 1) - np.bincount((pair + news)[kept], minlength=count + 1)
    found: Ints = np.cumsum(steps)[:count][ranges.by_window]
    return found
