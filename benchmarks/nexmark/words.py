"""Pools of texts, made once per seed. A row chooses a text, which costs far less than writing a new one.

Every pool is a function with the seed as an argument, even if it does not depend on it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from benchmarks.nexmark.chance import Chance

_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_HOT = ("Google", "Facebook", "Baidu", "Apple")
HOT_CHANNELS = len(_HOT)
_CHANNELS, _POOL = 10_000, 4_096
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
OTHER_BYTES = {"person": 75, "auction": 115, "bid": 90}
"""The approximate bytes of the columns without ``extra``."""


def _drawn(seed: int, pool: int, count: int, width: int, bound: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return a table of random numbers, which differ by ``pool``."""
    cells = np.arange(count * width, dtype=np.int64)
    return Chance(seed).below(cells, 32 + pool, bound).reshape(count, width)


def _letters(seed: int, pool: int, count: int, shortest: int, longest: int) -> list[str]:
    lengths = _drawn(seed, pool, count, 1, longest - shortest + 1)[:, 0] + shortest
    letters = np.array(list(_LETTERS))[_drawn(seed, pool + 1, count, longest, len(_LETTERS))]
    return ["".join(row[:length]) for row, length in zip(letters, lengths, strict=True)]


@cache
def names(_seed: int) -> pa.Array:
    """Return first and last names."""
    return pa.array([f"{first} {last}" for first in _FIRST for last in _LAST])


@cache
def addresses(seed: int) -> pa.Array:
    """Of mail."""
    users, hosts = _letters(seed, 0, _POOL, 3, 7), _letters(seed, 2, _POOL, 3, 5)
    return pa.array([f"{user}@{host}.com" for user, host in zip(users, hosts, strict=True)])


@cache
def credit_cards(seed: int) -> pa.Array:
    """Return numbers of four times four digits."""
    return pa.array([" ".join(f"{group:04d}" for group in row) for row in _drawn(seed, 4, _POOL, 4, 10_000)])


@cache
def cities(_seed: int) -> pa.Array:
    """In the west."""
    return pa.array(_CITIES)


@cache
def states(_seed: int) -> pa.Array:
    """Return states, chosen independently of the city."""
    return pa.array(_STATES)


@cache
def items(seed: int) -> pa.Array:
    """Return names of auctioned items."""
    return pa.array(_letters(seed, 5, _POOL, 3, 19))


@cache
def descriptions(seed: int) -> pa.Array:
    """Return descriptions of auctioned items."""
    return pa.array(_letters(seed, 7, _POOL, 3, 99))


@cache
def channels(_seed: int) -> pa.Array:
    """Return the channels of bids, the hot ones first."""
    return pa.array([*_HOT, *(f"channel-{number}" for number in range(_CHANNELS))])


@cache
def urls(seed: int) -> pa.Array:
    """Return a URL for each channel. Nine in ten of those that are not hot name a channel id."""
    folders = _letters(seed, 9, 3 * (HOT_CHANNELS + _CHANNELS), 3, 5)
    named = _drawn(seed, 11, _CHANNELS, 1, 10)[:, 0] > 0
    tails = [""] * HOT_CHANNELS + [f"&channel_id={number}" if has else "" for number, has in enumerate(named)]
    return pa.array(
        [
            f"https://www.nexmark.com/{'/'.join(folders[3 * number : 3 * number + 3])}/item.htm?query=1{tail}"
            for number, tail in enumerate(tails)
        ]
    )


@cache
def paddings(size: int, seed: int) -> pa.Array:
    """Return texts of ``size`` characters, plus or minus a fifth."""
    return pa.array(_letters(seed, 13, 512, size * 4 // 5, size * 6 // 5))
