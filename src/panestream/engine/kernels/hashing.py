"""Hashes as in Apache DataSketches: MurmurHash3 (x64, 128 bits, seed 9001) of whole columns.

Theta sketches keep 63 bits of a hash. A coupon is all that HyperLogLog keeps of a value: 26 bits of its hash select a register in
a sketch of any size, and 6 bits hold the number that competes for this register. The library hashes one value per call. The
hashes here are the same for a whole column, so their sketches can be merged with those from DataSketches elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.kernels.columns import Ints, normal_floats, numbers, words

Words = npt.NDArray[np.uint64]
Kept = Callable[[Words, Words], Ints]
"""Returns what a sketch keeps of the two halves of each hash."""

_SEED = np.uint64(9001)
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_CHUNK = 1 << 14
"""The number of rows hashed at a time, so that their hashes stay in the cache."""


def coupons(array: pa.Array) -> Ints:
    """Return the coupon of every value of an array without nulls; below 2**32."""
    return _hashed(array, _coupons_of)


def theta_hashes(array: pa.Array) -> Ints:
    """Return the hash that a theta sketch keeps of every value of an array without nulls; not negative."""
    return _hashed(array, _upper_bits)


def _hashed(array: pa.Array, of: Kept) -> Ints:
    types = pa.types
    if types.is_floating(array.type):
        return _of_integers(numbers(normal_floats(array)).astype(np.float64, copy=False).view(np.int64), of)
    if types.is_boolean(array.type):
        return _of_integers(numbers(array.cast(pa.int8())).astype(np.int64), of)
    if types.is_integer(array.type) or (types.is_temporal(array.type) and not types.is_interval(array.type)):
        return _of_integers(numbers(array).astype(np.int64, copy=False), of)
    if types.is_decimal128(array.type):
        parts = words(array).view(np.uint64)
        return of(*_finish(*_block(*_seeds(len(array)), parts[:, 0], parts[:, 1]), np.uint64(16)))
    encoded = pc.dictionary_encode(array)
    binary = encoded.dictionary.cast(pa.large_binary())
    return _of_bytes(binary, of)[numbers(encoded.indices)]


def _of_integers(values: Ints, of: Kept) -> Ints:
    result = np.empty(len(values), np.int64)
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK].view(np.uint64)
        h1, h2 = _seeds(len(part))
        result[start : start + _CHUNK] = of(*_finish(h1 ^ _scramble_1(part), h2, np.uint64(8)))
    return result


def _of_bytes(array: pa.LargeBinaryArray, of: Kept) -> Ints:
    """Hash sixteen bytes of every value at a time, while any value has that many left."""
    if len(array) == 0:
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int64, count=len(array) + array.offset + 1)[array.offset :]
    start, lengths = offsets[:-1], np.diff(offsets)
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)[: offsets[-1]]
    # Sixteen bytes can be read from every place, including the end.
    padded = np.concatenate([data, np.zeros(16, np.uint8)])
    at_byte: Words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    h1, h2 = _seeds(len(array))
    longest = int(lengths.max(initial=0))
    rows = np.arange(len(array))
    for block in range(0, longest - 15, 16):
        rows = rows[lengths[rows] >= block + 16]
        place = start[rows] + block
        h1[rows], h2[rows] = _block(h1[rows], h2[rows], at_byte[place], at_byte[place + 8])
    tail, place = lengths % 16, start + lengths // 16 * 16
    low, high = at_byte[place], at_byte[place + 8]
    h1 ^= _scramble_1(low & _first_bytes(np.minimum(tail, 8)))
    h2 ^= _scramble_2(high & _first_bytes(np.maximum(tail - 8, 0)))
    return of(*_finish(h1, h2, lengths.astype(np.uint64)))


def _first_bytes(count: Ints) -> Words:
    masks = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
    return masks[count]


def _coupons_of(h1: Words, h2: Words) -> Ints:
    # A float's exponent gives the highest bit. The bit below it is cleared so that rounding does not reach the next.
    exponent = (h2 & ~(h2 >> np.uint64(1))).astype(np.float64).view(np.int64) >> 52
    leading_zeros = np.minimum(1023 + 63 - exponent, 62)
    found: Ints = (leading_zeros + 1) << 26 | (h1 & np.uint64((1 << 26) - 1)).view(np.int64)
    return found


def _upper_bits(h1: Words, _: Words) -> Ints:
    found: Ints = (h1 >> np.uint64(1)).view(np.int64)
    return found


def _seeds(count: int) -> tuple[Words, Words]:
    return np.full(count, _SEED), np.full(count, _SEED)


def _block(h1: Words, h2: Words, k1: Words, k2: Words) -> tuple[Words, Words]:
    h1 = (_rotated(h1 ^ _scramble_1(k1), 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
    h2 = (_rotated(h2 ^ _scramble_2(k2), 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    return h1, h2


def _scramble_1(k1: Words) -> Words:
    return _rotated(k1 * _C1, 31) * _C2


def _scramble_2(k2: Words) -> Words:
    return _rotated(k2 * _C2, 33) * _C1


def _finish(h1: Words, h2: Words, length: np.uint64 | Words) -> tuple[Words, Words]:
    h1, h2 = h1 ^ length, h2 ^ length
    h1 = h1 + h2
    h2 = h2 + h1
    h1, h2 = _mixed(h1), _mixed(h2)
    h1 = h1 + h2
    return h1, h2 + h1


def _mixed(k: Words) -> Words:
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return k ^ (k >> np.uint64(33))


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))
