"""Spark's integers for key groups, chosen so that each state partition gets exactly one key group.

Spark places a group by ``pmod(murmur3(value, 42), partitions)``. With the numbers 0, 1, 2 … some partitions would get several
groups and others none. So Spark's integer for a group is the smallest that falls on the partition with its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

_MASK = 0xFFFFFFFF


def spark_hash_of_int(value: int, seed: int = 42) -> int:
    """Return Spark's ``hash(int)``: murmur3 (x86, 32 bit) of one 4-byte block, as a signed integer."""
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
    """Return, for each key group, the integer that Spark places on the partition with the group's number."""
    smallest: dict[int, int] = {}
    value = 0
    while len(smallest) < groups:
        smallest.setdefault(spark_hash_of_int(value) % groups, value)
        value += 1
    return tuple(smallest[group] for group in range(groups))


def group_number(groups: int, value: int) -> int:
    """Return the number of the key group whose integer in Spark is ``value``."""
    return _numbers(groups)[value]


@cache
def _numbers(groups: int) -> Mapping[int, int]:
    return {value: number for number, value in enumerate(group_values(groups))}
