"""Counts of the delay that each row needs, in bounded memory for any rows.

Delays below 2,048 units have their own bins, and longer delays share bins at most 0.05 % wide. The largest delay of each bin is
stored. Counts for that delay are exact: the number of rows that need it or less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from panestream.advisor.frontier import UNKNOWN
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.panes import AlignedWindows
from panestream.windowing.time import MAX_TIMESTAMP

_BITS = 11


@dataclass(frozen=True, slots=True)
class Closes:
    """Closing times: at delay zero, a row is late once the frontier is beyond the end of its windows plus ``lateness``."""

    windows: tuple[AlignedWindows, ...] = ()
    lateness: int = 0

    def of(self, times: Ints) -> Ints:
        """Return the instants: the last end of a row's windows, but at least the row's own time, plus the lateness."""
        found = times
        for one in self.windows:
            last = one.end_of(one.last_starting_by(times)) - 1
            found = np.maximum(found, last)
        return found + self.lateness


def needed(frontier: Ints, closes: Ints) -> Ints:
    """Return the smallest delay with which each row is not late."""
    known = frontier != UNKNOWN
    return np.maximum(np.where(known, frontier, closes) - closes, 0)


def bins_of(delays: Ints) -> Ints:
    """Return the bins of delays, which must not be negative.

    >>> bins_of(np.array([0, 2047, 2048, 4095, 4096, 4097, 4098])).tolist()
    [0, 2047, 2048, 4095, 4096, 4096, 4097]
    """
    power = np.frexp(np.maximum(delays, 1).astype(np.float64))[1].astype(np.int64) - 1
    power -= (delays >> power) == 0  # a float rounds up to the next power of two
    shift = np.maximum(power - _BITS, 0)
    return (shift << _BITS) + (delays >> shift)


def counted(delays: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the bins of delays, with their counts and largest delays."""
    bins, of, counts = np.unique(bins_of(delays), return_inverse=True, return_counts=True)
    largest = np.zeros(len(bins), np.int64)
    np.maximum.at(largest, of.reshape(-1), delays)
    return bins.astype(np.int64), counts.astype(np.int64), largest


@dataclass(frozen=True, slots=True)
class Completeness:
    """The number of rows that each delay keeps: ``kept[i]`` rows need at most ``delays[i]``, which are in ascending order."""

    delays: tuple[int, ...]
    kept: tuple[int, ...]
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.kept[-1] if self.kept else 0)

    @classmethod
    def of(cls, bins: Iterable[tuple[int, int]]) -> Completeness:
        """Convert bins, given as pairs of largest delay and count."""
        given = sorted(bins)
        return cls(tuple(delay for delay, _ in given), tuple(accumulate(count for _, count in given)))

    def keeps(self, delay: int) -> int:
        """Return how many rows are not late with a delay. It is exact for members of ``delays``, or else a lower bound."""
        place = bisect_right(self.delays, delay)
        return self.kept[place - 1] if place else 0

    def delay_for(self, share: float) -> int:
        """Return the shortest known delay that keeps a share of the rows, at most 0.05 % longer than the shortest of all.

        >>> Completeness.of([(0, 90), (5, 9), (70, 1)]).delay_for(0.99)
        5
        """
        wanted = share * self.rows
        return next((delay for delay, kept in zip(self.delays, self.kept, strict=True) if kept >= wanted - 1e-9), MAX_TIMESTAMP)


__all__ = ["Closes", "Completeness", "bins_of", "counted", "needed"]
