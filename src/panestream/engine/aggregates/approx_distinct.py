"""Approximate number of distinct values: counted exactly if there are few, by a HyperLogLog sketch otherwise."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.distinct import distinct_over
from panestream.engine.aggregates.partial_aggregate import Batch, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, unsupported
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.result import FirstColumn
from panestream.engine.aggregates.sketches import PartialSketch, any_held, library
from panestream.engine.kernels.columns import Ints, Vector, array_of, list_parts, numbers
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.hashing import coupons
from panestream.engine.kernels.ordering import is_orderable, runs
from panestream.engine.kernels.ranges import Ranges
from panestream.windowing.aggregates import ApproxCountDistinct

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
