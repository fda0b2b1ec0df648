"""What a delay costs: how many rows, or panes, wait at once for the watermark that closes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panestream.advisor.frontier import UNKNOWN
from panestream.advisor.needed import needed
from panestream.engine.kernels.columns import Ints

STEPS = 2_000
"""Into so many steps the time from the first to the last frontier is cut."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Counts what waits, step by step of the frontier.

    What comes at a frontier and closes at an instant waits, with a delay of ``d``, while the frontier goes from the one to the
    other plus ``d``; what is late already does not.

    Attributes:
        delays: to count for.
        first: the first frontier.
        last: the last one.
    """

    delays: tuple[int, ...]
    first: int
    last: int

    @property
    def step(self) -> int:
        """The length of a step."""
        return max(1, -(-(self.last - self.first + 1) // STEPS))

    @property
    def steps(self) -> int:
        """How many there are."""
        return (self.last - self.first) // self.step + 1

    def changes(self, frontier: Ints, closes: Ints) -> Ints:
        """How many more wait from each step on: a row for each delay."""
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
        """The most that wait in one step, for each delay."""
        return [int(np.cumsum(row[: self.steps]).max(initial=0)) for row in changes]


def windows_of_a_key(sizes: Sequence[tuple[int, int]], lateness: int, delay: int) -> int:
    """How many windows of one key are open at once, at most.

    >>> windows_of_a_key([(60, 10)], 0, 0), windows_of_a_key([(60, 60)], 0, 5), windows_of_a_key([(60, 60)], 60, 5)
    (6, 2, 3)

    Args:
        sizes: of each kind of windows, and how often one begins.
        lateness: for so long after its end a window takes rows.
        delay: of the watermark.
    """
    return sum(-(-(size + lateness + delay) // slide) for size, slide in sizes)


__all__ = ["STEPS", "Waiting", "windows_of_a_key"]
