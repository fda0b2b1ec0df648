"""Counts: of rows, of values that are not null, and of distinct values, exact or approximate.

The approximation counts exactly if there are few values, and by a HyperLogLog sketch otherwise.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, all_rows, counts_of, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, FirstColumn, Result, is_hashable, unsupported
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implements
from panestream.engine.aggregates.sketches import PartialSketch, any_held, library
from panestream.engine.kernels.columns import Ints, Vector, array_of, list_of, list_parts, normal_floats, numbers
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.hashing import coupons
from panestream.engine.kernels.ordering import is_orderable, runs, stable_order
from panestream.engine.kernels.ranges import Ranges, SparseRanges
from panestream.windowing.aggregates import ApproxCountDistinct, Count, CountDistinct


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


_LG_LARGEST = 21
_COUPONS_AT_ONCE = 3 << 16
"""Number of coupons in a sketch of maximum size before the set becomes an array of registers."""


@implements(ApproxCountDistinct)
class ApproxDistinctImplementation(Implementation[ApproxCountDistinct]):
    """``agg.approx_count_distinct``; stores rows when run row by row."""

    def plan(self, recipe: ApproxCountDistinct, planner: AggregationPlanner) -> None:
        library()
        type_ = planner.type_of(recipe.expr)
        if not is_orderable(type_):
            raise unsupported(recipe, recipe.expr, type_, "a number, string, binary, boolean, date or timestamp")
        # The error of a union of HyperLogLog sketches is 1.04 / sqrt(registers).
        lg_k = max(7, ceil(2 * log2(1.04 / recipe.relative_sd)))
        partial = planner.partial(PartialHll(planner.source(recipe.expr), lg_k))
        planner.result(FirstColumn, recipe, pa.int64(), partial)


@dataclass(frozen=True, slots=True)
class PartialHll(PartialSketch):
    """The distinct coupons of :mod:`~panestream.engine.kernels.hashing`, or a HyperLogLog sketch of 2**lg_k registers.

    Both depend only on the set of values, but the library's estimate does not: it is better for values counted one by one than
    for a union of sketches, and equal only for equal order. A union with itself turns every sketch into a union.
    """

    lg_k: int

    @property
    def limit(self) -> int:
        return 1 << min(self.lg_k - 2, 15)  # where a list is as large as a sketch, and coupons are still as accurate as values

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("coupons", pa.list_(pa.int32())), ("hll", pa.binary()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        ids = groups.ids if column.rows is None else groups.ids[column.rows]
        return self._distinct(groups.size, ids, coupons(column.present), None, ids)

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        values, lengths = _coupons_of(columns[0])
        return self._distinct(groups.size, np.repeat(groups.ids, lengths), values, columns[1], groups.ids)

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        lists, held = (column.take(pa.array(ranges.order)) for column in columns)
        counts = distinct_over(ranges, *_coupons_of(lists))
        return [self._estimates(counts, lists, held, ranges.start, ranges.end)]

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        places = np.arange(len(rows))
        return [self._estimates(list_parts(columns[0])[1], columns[0], columns[1], places, places + 1)]

    def _distinct(self, size: int, ids: Ints, values: Ints, held: pa.Array | None, held_ids: Ints) -> list[pa.Array]:
        pairs = np.sort(ids << 32 | values)
        pairs = pairs[runs(pairs)]
        items = pairs.astype(np.uint32).view(np.int32)
        return self.packed(size, pairs >> 32, items, pa.int32(), held, held_ids)

    def _estimates(self, counts: Ints, lists: pa.Array, held: pa.Array, start: Ints, end: Ints) -> pa.Array:
        many = (counts > self.limit) | any_held(held, start, end)
        if many.any():
            pairs = np.flatnonzero(many)
            estimates = self.folded(
                lists, held, start[pairs], end[pairs], True, lambda union: self._as_union(union).get_estimate()
            )
            counts = counts.copy()
            counts[pairs] = np.rint(np.fromiter(estimates, np.float64, len(pairs))).astype(np.int64)
        return array_of(counts, pa.int64())

    def made(self, held: Iterable[bytes], items: Vector) -> bytes:
        sketches = library()
        union = sketches.hll_union(self.lg_k)
        for one in held:
            union.update(sketches.hll_sketch.deserialize(one))
        for start in range(0, len(items), _COUPONS_AT_ONCE):
            union.update(_set_of(sketches, items[start : start + _COUPONS_AT_ONCE]))
        data: bytes = self._as_union(union.get_result(sketches.HLL_8)).serialize_compact()
        return data

    def loaded(self, held: bytes | None, items: Vector) -> Any:
        sketches = library()
        return _set_of(sketches, items) if held is None else sketches.hll_sketch.deserialize(held)

    def joined(self, a: Any, b: Any) -> Any:
        sketches = library()
        union = sketches.hll_union(self.lg_k)
        union.update(a)
        union.update(b)
        return union.get_result(sketches.HLL_8)

    def _as_union(self, sketch: Any) -> Any:
        return self.joined(sketch, sketch)


def _coupons_of(lists: pa.Array) -> tuple[Ints, Ints]:
    items, lengths = list_parts(lists)
    return numbers(items).view(np.uint32).astype(np.int64), lengths


def _set_of(sketches: Any, items: Vector) -> Any:
    """Return coupons as a sketch of maximum size, which is still a plain set, in DataSketches' published format.

    Bytes: 3 ints of preamble, version 1, family 7 (HLL), lg_k, unused, compact, unused, a set (1) for HLL_8 (2); then the count.
    """
    if len(items) == 0:
        return sketches.hll_sketch(_LG_LARGEST)
    preamble = struct.pack("<8BI", 3, 1, 7, _LG_LARGEST, 0, 8, 0, 1 | 2 << 2, len(items))
    return sketches.hll_sketch.deserialize(preamble + items.astype("<i4", copy=False).tobytes())
