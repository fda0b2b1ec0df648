"""A hash of key columns that is equal in every process, machine and version, and decides where keys are stored.

The row operator hashes single keys; this module hashes columns of keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, normal_floats, numbers, plain, valid_of, words

Words = npt.NDArray[np.uint64]

HASH_BITS = 62
"""The size of a hash: 0 <= hash < 2**62."""
_NULL = np.uint64(0x6E756C6C)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def key_hashes(columns: Sequence[pa.Array], rows: int) -> Ints:
    """Return the hash of each key. The types are groupable; without columns all keys are equal."""
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        hashes = _mixed(hashes * np.uint64(31) + _column(plain(column)))
    found: Ints = (hashes >> np.uint64(64 - HASH_BITS)).astype(np.int64)
    return found


def _column(column: pa.Array) -> Words:
    hashes = _values(column)
    valid = valid_of(column)
    return hashes if valid is None else np.where(valid, hashes, _NULL)


def _values(column: pa.Array) -> Words:
    """Return hashes of the values, with anything for nulls."""
    types, type_ = pa.types, column.type
    if types.is_null(type_):
        return np.zeros(len(column), np.uint64)
    if types.is_struct(type_):
        hashes = np.zeros(len(column), np.uint64)
        for part in column.flatten():
            hashes = _mixed(hashes * np.uint64(31) + _column(plain(part)))
        return hashes
    if types.is_decimal(type_):
        parts = words(column).view(np.uint64)
        return _mixed(_mixed(parts[:, 0]) ^ parts[:, 1])
    if types.is_floating(type_):
        return _mixed(numbers(normal_floats(column.fill_null(0))).astype(np.float64).view(np.uint64))
    if types.is_boolean(type_):
        return _mixed(numbers(column.cast(pa.int8())).astype(np.uint64))
    if types.is_integer(type_) or (types.is_temporal(type_) and not types.is_interval(type_)):
        return _mixed(numbers(column).astype(np.int64).view(np.uint64))
    encoded = pc.dictionary_encode(column)
    hashes = _of_bytes(encoded.dictionary.cast(pa.large_binary()))
    if not len(hashes):
        return np.zeros(len(column), np.uint64)
    return hashes[numbers(encoded.indices.fill_null(0))]


def _of_bytes(array: pa.LargeBinaryArray) -> Words:
    """Hash eight bytes of every value at a time, while any value has bytes left."""
    offsets = np.frombuffer(array.buffers()[1], np.int64, count=len(array) + array.offset + 1)[array.offset :]
    start, lengths = offsets[:-1], np.diff(offsets)
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)[: offsets[-1]]
    # Eight bytes can be read from every place, including the end.
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    at_byte: Words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    hashes = _mixed(lengths.astype(np.uint64))
    rows = np.arange(len(array))
    for place in range(0, int(lengths.max(initial=0)), 8):
        rows = rows[lengths[rows] > place]
        left = np.minimum(lengths[rows] - place, 8).astype(np.uint64)
        word = at_byte[start[rows] + place] << (np.uint64(64) - left * np.uint64(8))
        hashes[rows] = _mixed(hashes[rows] ^ word)
    return hashes


def _mixed(x: Words) -> Words:
    """Apply the finisher of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = x + _STEP
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
