"""Order codes and stable orders.

Order codes map every orderable column to int64, so that a single integer kernel finds extremes of all types. The codes
of fixed-width types mean the same in every batch (an order-preserving map, undone at the end). Strings, binary and long decimals
get ranks within the current column; only the values themselves are kept and sent.

Stable orders are several times faster than a stable sort. numpy sorts plain int64 with vector instructions, but not stably and
not by several columns. A value of few bits leaves room for the row number in the low bits: sorting such integers is stable, and
the low bits give the order.

Rows from several source partitions are interleaved in an order that merging windows need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, Mask, array_of, numbers, storage_dtype, take, valid_of, words

_FLIP = np.int64(2**63 - 1)
_BITS = 63


@dataclass(frozen=True, slots=True)
class Codes:
    """A column as order codes.

    Attributes:
        codes: int64 per row, with anything for null rows.
        valid: which rows hold a value, or None for all.
        ranked: the distinct values in order if the codes are ranks, or None if they are computed.
    """

    codes: Ints
    valid: Mask | None
    type: pa.DataType
    ranked: pa.Array | None

    def decode(self, codes: Ints, valid: Mask | None) -> pa.Array:
        """Return the values of some codes, null if not ``valid``."""
        if self.ranked is not None:
            return take(self.ranked, codes if valid is None else np.where(valid, codes, 0), valid)
        if valid is not None:
            codes = np.where(valid, codes, 0)
        if pa.types.is_floating(self.type):
            return array_of((codes ^ ((codes >> 63) & _FLIP)).view(np.float64), self.type, valid)
        if pa.types.is_boolean(self.type):
            return array_of(codes.astype(np.int8), pa.int8(), valid).cast(pa.bool_())
        if pa.types.is_decimal(self.type):
            return array_of(np.stack([codes, codes >> 63], axis=1), self.type, valid)
        return array_of(codes.astype(storage_dtype(self.type), copy=False), self.type, valid)


def is_orderable(type_: pa.DataType) -> bool:
    """Return whether :func:`order_codes` takes the type."""
    return _is_fixed(type_) or pa.types.is_boolean(type_) or pa.types.is_decimal128(type_) or _is_text(type_)


def order_codes(array: pa.Array) -> Codes:
    """Return codes with ``codes[i] < codes[j]`` exactly if value i is smaller than value j. NaN is the largest."""
    type_, valid = array.type, valid_of(array)
    if pa.types.is_floating(type_):
        values = numbers(array).astype(np.float64)
        values += 0.0  # a single zero
        values[np.isnan(values)] = np.nan  # a single NaN: the positive one, above infinity
        bits = values.view(np.int64)
        return Codes(bits ^ ((bits >> 63) & _FLIP), valid, type_, None)
    if pa.types.is_boolean(type_):
        return Codes(numbers(array.cast(pa.int8())).astype(np.int64), valid, type_, None)
    if pa.types.is_decimal(type_) and type_.precision <= 18:
        return Codes(np.ascontiguousarray(words(array)[:, 0]), valid, type_, None)
    if _is_fixed(type_):
        return Codes(numbers(array).astype(np.int64, copy=False), valid, type_, None)
    encoded = pc.dictionary_encode(array)
    order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    if len(order) == 0:
        return Codes(np.zeros(len(array), np.int64), valid, type_, encoded.dictionary)
    indices = numbers(encoded.indices)
    codes = rank[indices if valid is None else np.where(valid, indices, 0)]
    return Codes(codes, valid, type_, encoded.dictionary.take(pa.array(order)))


def _is_fixed(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_signed_integer(type_)
        or types.is_float32(type_)
        or types.is_float64(type_)
        or (types.is_temporal(type_) and not types.is_interval(type_))
    )


def _is_text(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(type_) or types.is_large_string(type_) or types.is_binary(type_) or types.is_large_binary(type_)
        or types.is_fixed_size_binary(type_)
    )  # fmt: skip


def stable_order(*columns: Ints) -> Ints:
    """Return the rows ordered by int64 columns, the first counting most; equal rows keep their order."""
    count = len(columns[0])
    low_bits = max(count - 1, 0).bit_length()
    mask = np.int64((1 << low_bits) - 1)
    # packed has a sort value per row, with low bits for its place in `at`, the order so far (None for the given order).
    at: Ints | None = None
    packed, used = np.arange(count), low_bits
    for column in reversed(columns):
        if count == 0:
            break
        least = int(column.min())
        bits = (int(column.max()) - least).bit_length()
        if used + bits > _BITS and used > low_bits:
            at = _places(packed, mask, at)
            packed, used = _ranks(at), low_bits
        if used + bits > _BITS:
            order = _wide_order(column if at is None else column[at])
            at = order if at is None else at[order]
            packed, used = _ranks(at), low_bits
        elif bits:
            packed = packed + ((column - least) << used)
            used += bits
    return _places(packed, mask, at)


def runs(ordered: Ints) -> Mask:
    """Return where a new value begins in an ordered vector."""
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


def _places(packed: Ints, mask: np.int64, at: Ints | None) -> Ints:
    if bool((packed[1:] > packed[:-1]).all()):
        places = packed & mask
    else:
        places = np.sort(packed)
        places &= mask
    return places if at is None else at[places]


def _ranks(order: Ints) -> Ints:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _wide_order(column: Ints) -> Ints:
    """Return the stable order of 64-bit values: sort, then restore the row order among equal values."""
    order = np.argsort(column)
    new = runs(column[order])
    tied = ~new
    tied[:-1] |= ~new[1:]
    if tied.any():
        places = np.flatnonzero(tied)
        order[places] = order[places][stable_order(np.cumsum(new, dtype=np.int64)[places], order[places])]
    return order


def interleaved(keys: Ints, times: Sequence[Ints], origins: Sequence[int]) -> Ints:
    """Return an order of rows in which, for each key, all partitions reach the same event time together.

    Each partition keeps its own order, and a row after a later row of the same key counts as late as the later one. Taking
    partitions one after the other would put the second between sessions opened by the first, and merge most of them. Rows of
    other keys do not count, so the placement of keys in key groups changes nothing. ``times`` has the event times of each part,
    and ``origins`` its partition (or nothing for a single partition).

    >>> times = [np.array([1, 9, 3]), np.array([2, 8])]
    >>> interleaved(np.array([7, 7, 7, 7, 7]), times, [0, 1]).tolist()
    [0, 3, 4, 1, 2]
    >>> interleaved(np.array([7, 5, 7, 7, 7]), times, [0, 1]).tolist()
    [0, 3, 2, 4, 1]
    """
    if len(set(origins)) < 2:
        return np.arange(len(keys))
    partitions = np.repeat(origins, [len(part) for part in times]).astype(np.int64)
    order = stable_order(keys, partitions)
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(keys[order]) != 0) | (np.diff(partitions[order]) != 0)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = running_max(new, np.concatenate(times)[order])
    places: Ints = np.argsort(ranks, kind="stable")
    return places


def running_max(new: Mask, values: Ints) -> Ints:
    """Return the running maximum, restarting at each True in ``new``."""
    if not len(values) or bool(((values[1:] >= values[:-1]) | new[1:]).all()):
        return values
    segment = np.cumsum(new) - 1
    least, most = int(values.min()), int(values.max())
    bits = (most - least).bit_length()
    if bits + int(segment[-1]).bit_length() < 63:
        packed = np.maximum.accumulate((segment << bits) + (values - least))
        unpacked: Ints = packed - (segment << bits) + least
        return unpacked
    # Segment and value do not fit into one number, so use ranks.
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    packed = np.maximum.accumulate(segment * len(values) + rank)
    found: Ints = values[order[packed - segment * len(values)]]
    return found
