"""The cost of a delay: how many rows or panes wait at once for the watermark that closes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panestream.advisor.frontier import UNKNOWN
from panestream.advisor.needed import needed
from panestream.engine.kernels.columns import Ints

STEPS = 2_000
"""Number of steps into which the time from the first to the last frontier is divided."""


@dataclass(frozen=True, slots=True)
class WaitingCounts:
    """A counter of waiting rows or panes for each step of the frontier from ``first`` to ``last``.

    With delay ``d``, a row waits while the frontier moves from its arrival to its closing time plus ``d``, unless it is late.
    """

    delays: tuple[int, ...]
    first: int
    last: int

    @property
    def step(self) -> int:
        return max(1, -(-(self.last - self.first + 1) // STEPS))

    @property
    def steps(self) -> int:
        return (self.last - self.first) // self.step + 1

    def changes(self, frontier: Ints, closes: Ints) -> Ints:
        """Return the increase in waiting rows at each step, in one row for each delay."""
        late_by = needed(frontier, closes)
        came = np.clip(np.where(frontier == UNKNOWN, self.first, frontier), self.first, self.last)
        begins = (came - self.first) // self.step
        found = np.zeros((len(self.delays), self.steps + 1), np.int64)
        for place, delay in enumerate(self.delays):
            kept = late_by <= delay
            until = np.clip(closes[kept] + delay, came[kept], self.last)
            ends = (until - self.first) // self.step + 1
            found[place] = np.bincount(begins[kept], minlength=self.steps + 1) - np.bincount(ends, minlength=self.steps + 1)
        return found

    def most(self, changes: Ints) -> list[int]:
        """Return the most rows that wait in one step, for each delay."""
        return [int(np.cumsum(row[: self.steps]).max(initial=0)) for row in changes]


def windows_of_a_key(sizes: Sequence[tuple[int, int]], lateness: int, delay: int) -> int:
    """Return the maximum number of open windows of a key, given the size and slide of each kind of windows.

    >>> windows_of_a_key([(60, 10)], 0, 0), windows_of_a_key([(60, 60)], 0, 5), windows_of_a_key([(60, 60)], 60, 5)
    (6, 2, 3)
    """
    return sum(-(-(size + lateness + delay) // slide) for size, slide in sizes)


__all__ = ["STEPS", "WaitingCounts", "windows_of_a_key"]
