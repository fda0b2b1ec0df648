"""Exact sums: integers and decimals that may be far larger on the way than at the end, and are never wrapped.

A sum is held in two's complement wider than its type, so that what overflows and comes back is right, and what does not come
back is seen. The fast path adds plain int64; a bound on the largest value and the most rows of a group says when that is safe.
Else the values are cut into 32-bit limbs, whose sums cannot overflow, and the carries are settled at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates.partials import Batch, PartialAggregate
from panestream.engine.kernels.columns import Ints, array_of, numbers, words
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges

_LOW = np.int64(0xFFFFFFFF)
WIDE = pa.decimal256(76, 0)
"""Four 64-bit words: room for every sum of decimals."""
Adder = Callable[[Ints], Ints]
"""Adds int64 values per group or range, modulo 2**64."""


@dataclass(frozen=True, slots=True)
class PartialSum(PartialAggregate):
    """The sum of integers, or of decimals of up to 18 digits (unscaled), as ``high * 2**64 + low`` with a signed ``low``.

    ``high`` is 0 exactly when the sum fits int64.
    """

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("sum", pa.int64()), ("high", pa.int32()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        array, rows = column.present, column.rows
        values = np.ascontiguousarray(words(array)[:, 0]) if pa.types.is_decimal(array.type) else numbers(array)
        values = values.astype(np.int64, copy=False)
        return _sums(values, None, lambda part: groups.add(part, rows), int(groups.counts.max(initial=0)))

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _sums(numbers(columns[0]), numbers(columns[1]), groups.add, int(groups.counts.max(initial=0)))

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _sums(numbers(columns[0]), numbers(columns[1]), ranges.sums, ranges.longest)


@dataclass(frozen=True, slots=True)
class PartialWideSum(PartialAggregate):
    """The sum of decimals of more than 18 digits (unscaled), in 256 bits."""

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("sum", WIDE),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        parts = words(column.present)
        high = parts[:, 1]
        return _wide_sums([parts[:, 0], high, high >> 63], lambda part: groups.add(part, column.rows))

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _wide_sums([words(columns[0])[:, i] for i in range(3)], groups.add)

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _wide_sums([words(columns[0])[:, i] for i in range(3)], ranges.sums)


def _sums(low: Ints, high: Ints | None, add: Adder, most: int) -> list[pa.Array]:
    """Sums of ``high * 2**64 + low``, where no sum has more than ``most`` terms."""
    bound = max(int(low.max(initial=0)), -int(low.min(initial=0))) * most
    if bound < 2**63 and (high is None or not high.any()):
        sums = add(low)
        return [array_of(sums, pa.int64()), array_of(np.zeros(len(sums), np.int32), pa.int32())]
    bottom, middle = add(low & _LOW), add(low >> 32)
    middle = middle + (bottom >> 32)
    sums = (middle << 32) | (bottom & _LOW)
    carry = (middle >> 32) + (sums < 0)
    if high is not None:
        carry = carry + add(high.astype(np.int64))
    return [array_of(sums, pa.int64()), array_of(carry, pa.int32())]


def _wide_sums(parts: list[Ints], add: Adder) -> list[pa.Array]:
    """Sums of numbers given as 64-bit words, lowest first, the last signed."""
    limbs = [limb for part in parts[:2] for limb in (part & _LOW, (part >> 32) & _LOW)]
    sums = [add(limb) for limb in (*limbs, parts[2])]
    carry = np.zeros(len(sums[0]), np.int64)
    for place in range(4):
        total = sums[place] + carry
        sums[place], carry = total & _LOW, total >> 32
    top = sums[4] + carry
    result = np.stack([sums[1] << 32 | sums[0], sums[3] << 32 | sums[2], top, top >> 63], axis=1)
    return [array_of(result, WIDE)]
