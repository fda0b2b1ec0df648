"""Which integer stands for which key group, so that every state partition gets exactly one.

Spark places a group by ``pmod(murmur3(value, 42), partitions)``; groups numbered 0, 1, 2 … would meet on some partitions and
leave others empty. So each group is known to Spark by the smallest integer that lands on the partition of its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

_MASK = 0xFFFFFFFF


def spark_hash_of_int(value: int, seed: int = 42) -> int:
    """Spark's ``hash(int)``: murmur3 (x86, 32 bit) of one 4-byte block, as a signed integer."""
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotated(k, 15) * 0x1B873593 & _MASK
    h = _rotated((seed & _MASK) ^ k, 13) * 5 + 0xE6546B64 & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h & 0x80000000 else h


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK


@cache
def group_values(groups: int) -> tuple[int, ...]:
    """For each key group the integer that Spark puts on the partition with the group's number, of ``groups`` partitions."""
    smallest: dict[int, int] = {}
    value = 0
    while len(smallest) < groups:
        smallest.setdefault(spark_hash_of_int(value) % groups, value)
        value += 1
    return tuple(smallest[group] for group in range(groups))


def group_number(groups: int, value: int) -> int:
    """The number of the key group that Spark knows by ``value``, of ``groups``."""
    return _numbers(groups)[value]


@cache
def _numbers(groups: int) -> Mapping[int, int]:
    return {value: number for number, value in enumerate(group_values(groups))}
