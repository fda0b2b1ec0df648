"""Grouping: assigns rows to (key, pane) groups, and computes sums and minima per group.

Keys become small integers once per batch; key and pane together become one *slot*. If the matrix of panes and keys is small
relative to the rows, the slot is its cell, without sorting or hashing. Otherwise slots are ranked. Groups are ordered by pane,
then by key code, which is the same in every rerun. Pairs of key and window are looked up among others in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, Vector, array_of, normal_floats, numbers, one_chunk, plain
from panestream.engine.kernels.ordering import is_orderable, runs, stable_order
from panestream.engine.kernels.panes import Int64s

LARGEST = np.int64(2**63 - 1)
"""The start value of a minimum."""
DENSE_FACTOR = 4
"""A matrix with up to this number of cells per row is worth its memory."""
DENSE_CELLS = 1 << 16
"""A matrix with up to this number of cells is always worth its memory."""
_FEW = 16
"""Distinct keys are sorted if there are at least this many rows per key."""
_SAMPLE = 1 << 14
"""The size of the sample that shows whether a column has few distinct values."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The key columns of a batch as one code per row.

    ``codes`` are 0 .. count - 1, in an order that depends on the rows alone; ``columns`` are the distinct keys by code.
    """

    codes: Vector
    count: int
    columns: tuple[pa.Array, ...]

    def take(self, codes: Ints) -> list[pa.Array]:
        if not self.columns:
            return []
        indices = pa.array(codes)
        return [column.take(indices) for column in self.columns]


def encode_keys(columns: Sequence[pa.Array], rows: int) -> Keys:
    """Assign a code to every distinct key, counting null and NaN, as SQL's GROUP BY. Without columns all keys are equal."""
    if not columns:
        return Keys(np.zeros(rows, np.int32), min(rows, 1), ())
    codes, distinct = _encode(columns[0])
    count = len(distinct)
    pairings: list[tuple[pa.Array, Ints, Ints]] = []
    for column in columns[1:]:
        more, values = _encode(column)
        codes, pairs = _encode(array_of(codes.astype(np.int64) * len(values) + more, pa.int64()))
        count = len(pairs)
        pairings.append((values, *np.divmod(numbers(pairs), max(len(values), 1))))
    # In reverse order each column is taken once, regardless of the number of columns after it.
    held, codes_before = [], np.arange(count)
    for values, left, right in reversed(pairings):
        held.append(values.take(pa.array(right[codes_before])))
        codes_before = left[codes_before]
    held.append(distinct.take(pa.array(codes_before)) if pairings else distinct)
    return Keys(codes, count, tuple(reversed(held)))


def _encode(column: pa.Array) -> tuple[Vector, pa.Array]:
    """Return the code of each row, and the value of each code."""
    column = normal_floats(plain(column))
    if pa.types.is_struct(column.type):
        return _encode_struct(column)
    encoded_integers = _encode_integers(column)
    if encoded_integers is not None:
        return encoded_integers
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    indices, distinct = numbers(encoded.indices), encoded.dictionary
    if len(distinct) * _FEW > len(indices) or not is_orderable(column.type):
        return indices, distinct
    # Few enough to sort, so that partials stay in order after the first merge and are not permuted later.
    by_value = pc.sort_indices(distinct)
    codes = np.empty(len(distinct), np.int32)
    codes[by_value.to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    return codes[indices], distinct.take(by_value)


def _encode_integers(column: pa.Array) -> tuple[Vector, pa.Array] | None:
    """Return codes in the order of the integers, so that merged partials stay ordered. None for other columns."""
    type_, rows, types = column.type, len(column), pa.types
    if (
        column.null_count
        or rows == 0
        or not (types.is_signed_integer(type_) or types.is_temporal(type_))
        or types.is_interval(type_)
    ):
        return None
    values = numbers(column)
    least, most = int(values.min()), int(values.max())
    if most - least < max(2 * rows, 1 << 12):
        places = values.astype(np.int64) - least
        seen = np.zeros(most - least + 1, np.bool_)
        seen[places] = True
        codes = np.cumsum(seen, dtype=np.int32) - np.int32(1)
        return codes[places], array_of((np.flatnonzero(seen) + least).astype(values.dtype), type_)
    sample = values[:: 1 + rows // _SAMPLE].copy()
    if len(pc.unique(array_of(sample, type_))) * 4 < len(sample) * 3:
        # Few distinct values: the hash table stays in the cache, and only they need to be sorted.
        encoded = pc.dictionary_encode(column)
        distinct = numbers(encoded.dictionary)
        by_value = np.argsort(distinct)
        codes = np.empty(len(distinct), np.int32)
        codes[by_value] = np.arange(len(distinct), dtype=np.int32)
        return codes[numbers(encoded.indices)], array_of(distinct[by_value], type_)
    order = stable_order(values.astype(np.int64, copy=False))
    ordered = values[order]
    new = runs(ordered)
    codes = np.empty(rows, np.int32)
    codes[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
    return codes, array_of(ordered[new], type_)


def _encode_struct(column: pa.StructArray) -> tuple[Vector, pa.Array]:
    # Arrow cannot hash structs, so group by its fields and validity, and point at the first row of each group.
    parts = [pc.is_valid(column), *column.flatten()]
    keys = encode_keys(parts, len(column))
    first = np.empty(keys.count, np.int64)
    first[keys.codes[::-1]] = np.arange(len(column))[::-1]
    return keys.codes, column.take(pa.array(first))


def key_groups_of(keys: Keys, key_groups: Ints) -> npt.NDArray[np.uint16] | None:
    """Return the key group of each key, given that of each row, or None if a key has rows in several."""
    of_key = np.zeros(keys.count, np.uint16)
    of_key[keys.codes] = key_groups
    return None if (of_key[keys.codes] != key_groups).any() else of_key


def by_key_group(table: pa.Table, key_groups: npt.NDArray[np.uint16]) -> list[tuple[int, pa.Table]]:
    """Return the rows of each key group that has some, in their order, with its number.

    numpy sorts 16-bit integers by radix, which is far cheaper than a mask and a copy for every group.
    """
    ordered = table.take(pa.array(np.argsort(key_groups, kind="stable"))).combine_chunks()
    ends = np.cumsum(np.bincount(key_groups)).tolist()
    starts = zip([0, *ends[:-1]], ends, strict=True)
    return [(number, ordered.slice(start, end - start)) for number, (start, end) in enumerate(starts) if end > start]


@dataclass(slots=True)
class Groups:
    """Grouped rows, and the kernels that reduce the rows of each group.

    Attributes:
        slots: the slot of every row.
        cells: the number of slots.
        occupied: the slots that have rows, ascending, or None for all slots.
        counts: rows per group.
        panes: the pane of each group, non-decreasing.
        codes: the key code of each group.
        is_matrix: whether the slots are the cells of a matrix of panes by keys, small relative to the rows.
    """

    slots: Ints
    cells: int
    occupied: Ints | None
    counts: Ints
    panes: Ints
    codes: Ints
    is_matrix: bool
    _ids: Ints | None = field(default=None)

    @property
    def size(self) -> int:
        return len(self.counts)

    @property
    def ids(self) -> Ints:
        """The group of every row: 0 .. size - 1."""
        if self._ids is None:
            if self.occupied is None:
                self._ids = self.slots
            else:
                rank = np.zeros(self.cells, np.int64)
                rank[self.occupied] = np.arange(self.size)
                self._ids = rank[self.slots]
        return self._ids

    def count(self, rows: Ints | None) -> Ints:
        """Return how many of the given rows (None for all) each group has."""
        return self.counts if rows is None else self._groups_only(np.bincount(self.slots[rows], minlength=self.cells))

    def add(self, values: Vector, rows: Ints | None = None) -> Vector:
        """Return the sum of ``values`` (one per given row) per group, in their type. The caller rules out integer overflow."""
        sums = np.zeros(self.cells, values.dtype)
        np.add.at(sums, self._slots(rows), values)
        return self._groups_only(sums)

    def means(self, values: Vector, total: Ints, rows: Ints | None = None, weights: Vector | None = None) -> Vector:
        """Return the mean of ``values`` (one per given row) per group: finite if they are, and exact if they are all equal.

        ``total`` is the weight of each group; for weight 0 the mean is 0. The weights of rows are positive, or None for 1.
        """
        slots, total = self._slots(rows), np.maximum(total, 1)
        base = np.zeros(self.cells, values.dtype)
        base[slots] = values  # one value of each group; the distances from it are added
        off = values - base[slots]
        mean: Vector = self._groups_only(base) + self.add(off if weights is None else off * weights, rows) / total
        large = ~np.isfinite(mean)
        if large.any():
            # Distances, or their sum, exceed all floats.
            shares = (1 if weights is None else weights) / self.spread(total, rows)
            mean[large] = self.add(values * shares, rows)[large]
        return mean

    def smallest(self, codes: Ints, rows: Ints | None = None) -> Ints:
        """Return the smallest code per group, or LARGEST for a group without given rows."""
        least = np.full(self.cells, LARGEST)
        np.minimum.at(least, self._slots(rows), codes)
        return self._groups_only(least)

    def pick(self, codes: Ints, last: bool, rows: Ints | None = None) -> Ints:
        """Return the row with the smallest code in each group, or -1. Ties go to the first row, or the last if ``last``.

        ``codes`` has one code per given row, and ``rows`` are ascending, or None for all.
        """
        slots = self._slots(rows)
        least = np.full(self.cells, LARGEST)
        np.minimum.at(least, slots, codes)
        winners = np.flatnonzero(codes == least[slots])
        if not last:
            winners = winners[::-1]  # the last of several assignments to a slot wins
        chosen = np.full(self.cells, -1)
        chosen[slots[winners]] = winners if rows is None else rows[winners]
        return self._groups_only(chosen)

    def spread(self, per_group: Vector, rows: Ints | None = None) -> Vector:
        """Return the value of its group for every given row."""
        ids = self.ids
        return per_group[ids if rows is None else ids[rows]]

    def _slots(self, rows: Ints | None) -> Ints:
        return self.slots if rows is None else self.slots[rows]

    def _groups_only(self, per_slot: Vector) -> Vector:
        return per_slot if self.occupied is None else per_slot[self.occupied]


def group(keys: Keys, panes: Ints) -> Groups:
    """Group rows by pane (any int64 per row) and key."""
    rows = len(panes)
    if rows == 0:
        nothing = np.zeros(0, np.int64)
        return Groups(nothing, 0, None, nothing, nothing, nothing, False)
    least, most = int(panes.min()), int(panes.max())
    span, width = most - least + 1, keys.count
    if span * width <= max(DENSE_FACTOR * rows, DENSE_CELLS):
        slots = (panes - least) * width
        slots += keys.codes
        return _dense(slots, span * width, width, least)
    if span <= max(DENSE_FACTOR * rows, DENSE_CELLS):
        distinct, order = least + np.arange(span), panes - least
    elif bool((panes[1:] >= panes[:-1]).all()):
        # Rows are in the order of time: every instant may be its own pane, without a lookup.
        new = runs(panes)
        distinct, order = panes[new], np.cumsum(new) - 1
    else:
        encoded = pc.dictionary_encode(array_of(panes, pa.int64()))
        seen = numbers(encoded.dictionary)
        by_value = np.argsort(seen)
        rank = np.empty(len(seen), np.int64)
        rank[by_value] = np.arange(len(seen))
        distinct, order = seen[by_value], rank[numbers(encoded.indices)]
    return _ranked(order * width + keys.codes, width, distinct)


def _dense(slots: Ints, cells: int, width: int, least: int) -> Groups:
    counts = np.bincount(slots, minlength=cells)
    taken = counts != 0
    if bool(taken.all()):
        occupied, where = None, np.arange(cells)
    else:
        occupied = where = np.flatnonzero(taken)
        counts = counts[occupied]
    panes = where // width
    return Groups(slots, cells, occupied, counts, panes + least, where - panes * width, True)


def _ranked(slots: Ints, width: int, distinct_panes: Ints) -> Groups:
    by_slot = stable_order(slots)
    ordered = slots[by_slot]
    new = runs(ordered)
    starts = np.flatnonzero(new)
    ids = np.empty(len(slots), np.int64)
    ids[by_slot] = np.cumsum(new) - 1
    where = ordered[starts]
    pane = where // width
    counts = np.diff(np.append(starts, len(slots)))
    return Groups(ids, len(starts), None, counts, distinct_panes[pane], where - pane * width, False)


def numbered(left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], *windows: Int64s) -> tuple[Int64s, Int64s, int]:
    """Give numbers to the (key, window) pairs of two tables, equal numbers for equal pairs, all below the third result.

    ``left`` and ``right`` are the key columns, ``windows`` the windows of both tables' rows (or nothing if only keys count).
    """
    count = len(left[0]) if left else len(windows[0]) if windows else 0
    total = count + (len(right[0]) if right else len(windows[1]) if windows else 0)
    both = [pa.concat_arrays([one_chunk(one), one_chunk(other)]) for one, other in zip(left, right, strict=True)]
    keys = encode_keys(both, total)
    codes, size = keys.codes.astype(np.int64), keys.count
    if windows:
        known, ranks = np.unique(np.concatenate(windows), return_inverse=True)
        codes, size = codes * len(known) + ranks, size * len(known)
    return codes[:count], codes[count:], size


def is_among(pairs: Int64s, others: Int64s, size: int) -> npt.NDArray[np.bool_]:
    """Return which of ``pairs`` are among ``others``, both numbered below ``size``."""
    if size > 8 * (len(pairs) + len(others)) + 1024:
        return np.isin(pairs, others)
    known = np.zeros(size, np.bool_)
    known[others] = True
    return known[pairs]


def places_of(pairs: Int64s, others: Int64s) -> Int64s:
    """Return the last position of each pair among ``others``, or -1."""
    if not len(others):
        return np.full(len(pairs), -1, np.int64)
    order = np.argsort(others, kind="stable")
    ordered = others[order]
    found = np.searchsorted(ordered, pairs, "right") - 1
    known = (found >= 0) & (ordered[np.maximum(found, 0)] == pairs)
    return np.where(known, order[np.maximum(found, 0)], -1)


ONE_KEY = "return a dict, or each key once"
"""The way out."""


class KeyHeldTwice(NamedTuple):
    """A key that a map holds twice.

    Attributes:
        key: the key.
        pairs: of the map.
    """

    key: Any
    pairs: list[Any]


def key_held_twice(column: pa.Array) -> KeyHeldTwice | None:
    """Return the first key that a map of a column holds twice, at any depth, or None if there is none.

    Keys are equal as in Spark: 0.0 and -0.0 are, and so are two NaN.

    >>> key_held_twice(pa.array([[("a", 1)], [("b", 2), ("b", 3)]], pa.map_(pa.string(), pa.int64())))
    KeyHeldTwice(key='b', pairs=[('b', 2), ('b', 3)])
    """
    type_ = column.type
    if not pa.types.is_nested(type_):
        return None
    if pa.types.is_struct(type_):
        parts = column.flatten()
    elif pa.types.is_map(type_):
        twice = _of_maps(column)
        if twice is not None:
            return twice
        parts = [column.keys, column.items]
    elif hasattr(column, "flatten"):
        parts = [column.flatten()]
    else:
        return None
    return next((twice for part in parts if (twice := key_held_twice(part)) is not None), None)


def _of_maps(column: pa.MapArray) -> KeyHeldTwice | None:
    offsets = column.offsets.to_numpy()
    lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    if not len(lengths) or lengths.max() < 2:
        return None
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths - offsets[:-1], lengths)
    keys = column.keys.take(pa.array(places))
    try:
        codes = encode_keys([keys], len(keys)).codes.astype(np.int64)
    except pa.ArrowNotImplementedError:  # keys of lists, say, which Arrow cannot hash
        codes = np.unique(list(map(repr, keys.to_pylist())), return_inverse=True)[1].reshape(-1)
    numbered = rows * (codes.max() + 1) + codes
    order = np.argsort(numbered, kind="stable")
    again = np.flatnonzero(numbered[order][1:] == numbered[order][:-1])
    if not len(again):
        return None
    first = int(order[again + 1].min())
    pairs = column.slice(int(rows[first]), 1).to_pylist()[0]
    return KeyHeldTwice(keys[first].as_py(), pairs if isinstance(pairs, list) else list(pairs.items()))
