"""Which delay each row needs, counted: exactly, in bounded memory, whatever the rows are.

Delays of less than 2,048 units have a bin of their own; longer ones share bins that are at most 0.05 % wide. Of each bin the
largest delay that is in it is known, so what is said of that delay is exact: so many rows need it or less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from panestream.advisor.frontier import UNKNOWN
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.slicing import AlignedWindows
from panestream.windowing.time import MAX_TIMESTAMP

_BITS = 11


@dataclass(frozen=True, slots=True)
class Closes:
    """From when on a row is late, with a delay of nothing: when the frontier is beyond this instant.

    Attributes:
        windows: each takes rows until its end; none: a row is late as soon as the watermark has passed it.
        lateness: for so long after its end a window takes rows.
    """

    windows: tuple[AlignedWindows, ...] = ()
    lateness: int = 0

    def of(self, times: Ints) -> Ints:
        """The instants, by the last window of each row; a row between windows is late when the watermark has passed it."""
        found = times
        for one in self.windows:
            last = one.end_of(one.last_starting_by(times)) - 1
            found = np.maximum(found, last)
        return found + self.lateness


def needed(frontier: Ints, closes: Ints) -> Ints:
    """The smallest delay with which each row is not late."""
    known = frontier != UNKNOWN
    return np.maximum(np.where(known, frontier, closes) - closes, 0)


def bins_of(delays: Ints) -> Ints:
    """The bins of some delays, none of them negative.

    >>> bins_of(np.array([0, 2047, 2048, 4095, 4096, 4097, 4098])).tolist()
    [0, 2047, 2048, 4095, 4096, 4096, 4097]
    """
    power = np.frexp(np.maximum(delays, 1).astype(np.float64))[1].astype(np.int64) - 1
    power -= (delays >> power) == 0  # a float rounds up to the next power of two
    shift = np.maximum(power - _BITS, 0)
    return (shift << _BITS) + (delays >> shift)


def counted(delays: Ints) -> tuple[Ints, Ints, Ints]:
    """The bins of some delays, how many are in each, and the largest in each."""
    bins, of, counts = np.unique(bins_of(delays), return_inverse=True, return_counts=True)
    largest = np.zeros(len(bins), np.int64)
    np.maximum.at(largest, of.reshape(-1), delays)
    return bins.astype(np.int64), counts.astype(np.int64), largest


@dataclass(frozen=True, slots=True)
class Completeness:
    """How many rows each delay keeps.

    Attributes:
        delays: ascending, as rows need them.
        kept: how many rows need that delay or a shorter one.
    """

    delays: tuple[int, ...]
    kept: tuple[int, ...]
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.kept[-1] if self.kept else 0)

    @classmethod
    def of(cls, bins: Iterable[tuple[int, int]]) -> Completeness:
        """From the bins: the largest delay in each, and how many there are."""
        given = sorted(bins)
        return cls(tuple(delay for delay, _ in given), tuple(accumulate(count for _, count in given)))

    def keeps(self, delay: int) -> int:
        """How many rows are not late with a delay: exact for the delays that are named; else at least so many."""
        place = bisect_right(self.delays, delay)
        return self.kept[place - 1] if place else 0

    def delay_for(self, share: float) -> int:
        """The shortest delay known (at most 0.05 % longer than the shortest there is) that keeps a share of the rows.

        >>> Completeness.of([(0, 90), (5, 9), (70, 1)]).delay_for(0.99)
        5
        """
        wanted = share * self.rows
        return next((delay for delay, kept in zip(self.delays, self.kept, strict=True) if kept >= wanted - 1e-9), MAX_TIMESTAMP)


__all__ = ["Closes", "Completeness", "bins_of", "counted", "needed"]
