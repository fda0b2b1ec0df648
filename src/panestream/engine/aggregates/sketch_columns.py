"""Sketches as results, in the bytes of Apache DataSketches: HyperLogLog and theta."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.counts import PartialHll
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, sparse
from panestream.engine.aggregates.planning import AggregationPlanner, FirstColumn, Result
from panestream.engine.aggregates.quantiles import in_portions
from panestream.engine.aggregates.registry import Implementation, implements
from panestream.engine.aggregates.sketches import library
from panestream.engine.kernels.columns import Ints, array_of, list_of, list_parts, numbers, offsets_of, spans, take
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.hashing import theta_hashes
from panestream.engine.kernels.ordering import runs, stable_order
from panestream.engine.kernels.ranges import Ranges, sum_ranges
from panestream.windowing.aggregates import HllSketch, ThetaSketch


@implements(HllSketch)
class HllSketchImplementation(Implementation[HllSketch]):
    """``agg.hll_sketch``; stores rows when run row by row."""

    def plan(self, recipe: HllSketch, planner: AggregationPlanner) -> None:
        library()
        planner.ordered(recipe, recipe.expr)
        partial = planner.partial(PartialHllSketch(planner.source(recipe.expr), recipe.lg_k))
        planner.result(FirstColumn, recipe, pa.binary(), partial)


@dataclass(frozen=True, slots=True)
class PartialHllSketch(PartialHll):
    """The same as for an approximate count; over windows, the sketch."""

    def _estimates(self, counts: Ints, lists: pa.Array, held: pa.Array, start: Ints, end: Ints) -> pa.Array:
        found = self.folded(lists, held, start, end, True, lambda union: self._as_union(union).serialize_compact())
        return pa.array(found, pa.binary())


@implements(ThetaSketch)
class ThetaSketchImplementation(Implementation[ThetaSketch]):
    """``agg.theta_sketch``; stores rows when run row by row."""

    def plan(self, recipe: ThetaSketch, planner: AggregationPlanner) -> None:
        planner.ordered(recipe, recipe.expr)
        partial = planner.partial(PartialTheta(planner.source(recipe.expr), recipe.lg_k))
        planner.result(ThetaResult, recipe, pa.binary(), partial, lg_k=recipe.lg_k)


@dataclass(frozen=True, slots=True)
class PartialTheta(PartialAggregate):
    """The ``2**lg_k + 1`` smallest distinct hashes in ascending order: those of a sketch, and its theta.

    This is what a trimmed sketch of the library has, whatever the order of the values, so no library is needed. The finalized
    form has the hashes of all panes, in the order of key and pane, and the first and last pane of each window.
    """

    lg_k: int

    needs_rows: ClassVar[bool] = True
    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("hashes", pa.list_(pa.int64())),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        ids = groups.ids if column.rows is None else groups.ids[column.rows]
        return [smallest(groups.size, ids, theta_hashes(column.present), self.lg_k)]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        hashes, lengths = list_parts(columns[0])
        return [smallest(groups.size, np.repeat(groups.ids, lengths), numbers(hashes), self.lg_k)]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        ranges = sparse(ranges)
        return [take(columns[0], ranges.order), *map(pa.array, (ranges.start, ranges.end))]

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        places = np.arange(len(columns[0]))
        return [columns[0], pa.array(places), pa.array(places + 1)]


def smallest(size: int, owner: Ints, hashes: Ints, lg_k: int) -> pa.Array:
    """Return the ``2**lg_k + 1`` smallest distinct hashes of each owner, ascending. The library ignores a hash of 0."""
    order = stable_order(owner, hashes)
    owner, hashes = owner[order], hashes[order]
    new = (runs(owner) | runs(hashes)) & (hashes > 0)
    owner, hashes = owner[new], hashes[new]
    counts = np.bincount(owner, minlength=size)
    lengths = np.minimum(counts, (1 << lg_k) + 1)
    return list_of(array_of(hashes[spans(offsets_of(counts)[:-1], lengths)], pa.int64()), lengths)


@dataclass(frozen=True, slots=True)
class ThetaResult(Result):
    """theta_sketch(expr, lg_k)"""

    lg_k: int

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        (flat, lengths), first, until = list_parts(partials[0][0]), numbers(partials[0][1]), numbers(partials[0][2])
        hashes, offsets, sizes = numbers(flat), offsets_of(lengths), sum_ranges(lengths, first, until)
        made: list[bytes] = []
        for windows in in_portions(np.arange(len(first)), sizes):
            items = spans(offsets[first[windows]], sizes[windows])
            owner = np.repeat(np.arange(len(windows)), sizes[windows])
            own, counts = list_parts(smallest(len(windows), owner, hashes[items], self.lg_k))
            ends = offsets_of(counts)
            made += [self._bytes(numbers(own)[a:b]) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        return pa.array(made, pa.binary())

    def _bytes(self, hashes: Ints) -> bytes:
        """Return a compact, ordered theta sketch in DataSketches' published format, version 3.

        Bytes: longs of preamble, version 3, family 3 (compact), two unused, flags, and two bytes of the seed's hash. Then the
        number of hashes, then theta if hashes were left out, then the hashes.
        """
        count = 1 << self.lg_k
        if len(hashes) == 0:
            return struct.pack("<6BH", 1, 3, 3, 0, 0, _ALWAYS | _EMPTY, _SEED)
        if len(hashes) == 1:
            return struct.pack("<6BHq", 1, 3, 3, 0, 0, _ALWAYS, _SEED, int(hashes[0]))
        longs = 3 if len(hashes) > count else 2
        head = struct.pack("<6BHq", longs, 3, 3, 0, 0, _ALWAYS, _SEED, min(len(hashes), count))
        theta = struct.pack("<q", int(hashes[count])) if longs == 3 else b""
        return head + theta + hashes[:count].astype("<i8", copy=False).tobytes()


_ALWAYS, _EMPTY = 2 | 8 | 16, 4
"""Flags: read-only, compact and ordered; no hash."""
_SEED = 0x93CC
"""The hash of the seed 9001 by which readers check that hashes are comparable."""
