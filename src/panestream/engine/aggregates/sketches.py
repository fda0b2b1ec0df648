"""Sketches: a pane keeps few items as they are, in an Arrow list, and many as a sketch of Apache DataSketches.

Lists are worked on as columns. A sketch is an object of the library, one at a time: but each of them stands for more items than
the limit of a list, so that what Python spends on it is little beside what the library does.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.aggregates.lists import distinct_over, sparse
from panestream.engine.aggregates.partials import Batch, PartialAggregate
from panestream.engine.kernels.columns import (
    Ints,
    Mask,
    Vector,
    array_of,
    list_of,
    list_parts,
    numbers,
    offsets_of,
)
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.hashing import coupons
from panestream.engine.kernels.ranges import Ranges, State, fold_ranges, sum_ranges
from panestream.engine.kernels.sorting import runs
from panestream.errors import EnvironmentNotReadyError

Sketches = npt.NDArray[np.object_]
"""Sketches as the library's objects, None where there is none."""

_CHUNK = 1 << 12
"""(key, window) pairs whose sketches are in memory at a time."""
_LG_LARGEST = 21
_COUPONS_AT_ONCE = 3 << 16
"""What a set of coupons in a sketch of the largest size holds before it becomes an array of registers."""


def library() -> Any:
    """Apache DataSketches, imported where it is needed.

    Raises:
        EnvironmentNotReadyError: it is not installed.
    """
    try:
        import datasketches
    except ImportError:
        raise EnvironmentNotReadyError(
            "approximate aggregates need Apache DataSketches: pip install 'panestream[sketches]', on the executors too"
        ) from None
    return datasketches


@dataclass(frozen=True, slots=True)
class PartialSketch(PartialAggregate):
    """Items of each pane: a list of them, or, where there are more than :attr:`limit`, a sketch and an empty list."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """The most items that are kept as they are."""

    @abstractmethod
    def made(self, held: Iterable[bytes], items: Vector) -> bytes:
        """The sketch of some sketches, in order, and some items."""

    @abstractmethod
    def loaded(self, held: bytes | None, items: Vector) -> Any:
        """A sketch as an object, or one that is made of items."""

    @abstractmethod
    def joined(self, a: Any, b: Any) -> Any:
        """The union of two sketches, which stay as they are; ``a`` is of earlier panes."""

    def packed(
        self, size: int, owner: Ints, items: Vector, type_: pa.DataType, held: pa.Array | None, ids: Ints
    ) -> list[pa.Array]:
        """The two columns.

        Args:
            size: how many groups there are.
            owner: the group of every item, ascending.
            items: the items.
            type_: of the items.
            held: sketches that go into it, null where there is none.
            ids: the groups of these.
        """
        lengths = np.bincount(owner, minlength=size)
        large = lengths > self.limit
        sketched = np.zeros(0, np.int64) if held is None else np.flatnonzero(held.is_valid())
        large[ids[sketched]] = True
        if not large.any():
            return [list_of(array_of(items, type_), lengths), pa.nulls(size, pa.binary())]
        which = np.flatnonzero(large)
        offsets = offsets_of(lengths)
        by_group = sketched[np.argsort(ids[sketched], kind="stable")]
        bounds = np.searchsorted(ids[by_group], np.append(which, size))
        made = [
            self.made(
                (held[place].as_py() for place in by_group[bounds[i] : bounds[i + 1]].tolist()) if held is not None else (),
                items[offsets[group] : offsets[group + 1]],
            )
            for i, group in enumerate(which.tolist())
        ]
        places = np.zeros(size, np.int64)
        places[which] = np.arange(len(which))
        sketches = pa.array(made, pa.binary()).take(pa.array(places, mask=~large))
        return [list_of(array_of(items[~large[owner]], type_), np.where(large, 0, lengths)), sketches]

    def folded(
        self, lists: pa.Array, held: pa.Array, start: Ints, end: Ints, idempotent: bool, result: Callable[[Any], Any]
    ) -> Iterator[Any]:
        """What ``result`` makes of the sketch of each range of panes.

        Args:
            lists: the items of all panes.
            held: their sketches.
            start: the first pane of each range, which has one at least.
            end: the pane after its last.
            idempotent: whether a sketch may be joined with itself.
            result: of a sketch.
        """
        items, lengths = list_parts(lists)
        values, offsets = numbers(items), offsets_of(lengths)
        order = np.argsort(start, kind="stable")  # ranges side by side share their panes
        found = np.empty(len(start), object)
        for first in range(0, len(order), _CHUNK):
            ours = order[first : first + _CHUNK]
            steps = np.bincount(start[ours], minlength=len(lists) + 1) - np.bincount(end[ours], minlength=len(lists) + 1)
            needed = np.flatnonzero(np.cumsum(steps))
            sketches = np.empty(len(needed), object)
            sketches[:] = [self.loaded(held[p].as_py(), values[offsets[p] : offsets[p + 1]]) for p in needed.tolist()]
            left, right = np.searchsorted(needed, start[ours]), np.searchsorted(needed, end[ours])
            (unions,) = fold_ranges((sketches,), left, right, (None,), self._combine, idempotent)
            for place, union in zip(ours.tolist(), unions, strict=True):
                found[place] = result(union)
        return iter(found)

    def _combine(self, a: State, b: State) -> State:
        unions = np.empty(len(a[0]), object)
        unions[:] = [right if left is None else self.joined(left, right) for left, right in zip(a[0], b[0], strict=True)]
        return (unions,)


@dataclass(frozen=True, slots=True)
class PartialHll(PartialSketch):
    """The distinct coupons of :mod:`~panestream.engine.kernels.hashing`, or a HyperLogLog sketch of 2**lg_k registers.

    Both depend on the set of values alone. The library's estimate need not: it is better for values that were counted one by one
    than for a union of sketches, and the same only for the same order. A union with itself makes every sketch a union.

    Attributes:
        lg_k: the logarithm of the number of registers.
    """

    lg_k: int

    @property
    def limit(self) -> int:
        return 1 << min(self.lg_k - 2, 15)  # where a list is as large as a sketch; and where coupons are still as good as values

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


def any_held(held: pa.Array, start: Ints, end: Ints) -> Mask:
    """Which ranges have a sketch."""
    if held.null_count == len(held):
        return np.zeros(len(start), np.bool_)
    some: Mask = sum_ranges(np.asarray(held.is_valid()).astype(np.int64), start, end) > 0
    return some


def _set_of(sketches: Any, items: Vector) -> Any:
    """Coupons as a sketch of the largest size, which is still a plain set of them, in DataSketches' published format.

    Bytes: 3 ints of preamble, version 1, family 7 (HLL), lg_k, unused, compact, unused, a set (1) for HLL_8 (2); then the count.
    """
    if len(items) == 0:
        return sketches.hll_sketch(_LG_LARGEST)
    preamble = struct.pack("<8BI", 3, 1, 7, _LG_LARGEST, 0, 8, 0, 1 | 2 << 2, len(items))
    return sketches.hll_sketch.deserialize(preamble + items.astype("<i4", copy=False).tobytes())
