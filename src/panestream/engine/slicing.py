"""Slices of time: the grid of panes under a query's windows.

A pane is a span of time in which no window of the query begins or ends, so every window is a whole number of panes and a row
is aggregated once, into its pane, however many windows overlap there. The edges of a sliding window's panes are its starts and
its ends: one pane per slide where the slide divides the size, else two unequal ones (never the many equal ones of the gcd).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PaneGrid:
    """Panes numbered along time, and the windows over them.

    Pane ``i`` is ``[start_of(i), start_of(i + 1))``. Window ``n`` is ``[offset + n*slide, offset + n*slide + size)``.

    Attributes:
        size, slide, offset: of the windows, in engine units.
        edges: where panes begin within one slide, ascending, first 0.
    """

    size: int
    slide: int
    offset: int
    edges: tuple[int, ...]

    @classmethod
    def of(cls, size: int, slide: int, offset: int) -> PaneGrid:
        """The grid with the fewest panes for windows of ``size``, one every ``slide``."""
        end = size % slide
        return cls(size, slide, offset, (0, end) if end else (0,))

    def panes_of(self, timestamps: Int64s) -> Int64s:
        """The pane of each instant."""
        shifted = timestamps - self.offset if self.offset else timestamps
        slides = shifted // self.slide
        if len(self.edges) == 1:
            return slides
        within = shifted - slides * self.slide
        return slides * 2 + (within >= self.edges[1])

    def start_of(self, pane: int) -> int:
        """The instant at which a pane begins."""
        slides, edge = divmod(pane, len(self.edges))
        return self.offset + slides * self.slide + self.edges[edge]

    def windows_over(self, panes: Int64s) -> tuple[Int64s, Int64s]:
        """The first and the last window that contain each pane; last < first where none does (a gap between windows)."""
        slides, edge = np.divmod(panes, len(self.edges))
        starts = slides * self.slide + np.asarray(self.edges, np.int64)[edge]
        first = -((self.size - starts - 1) // self.slide)  # the smallest n with n*slide + size > start
        return first, slides

    def in_gap(self, panes: Int64s) -> npt.NDArray[np.bool_]:
        """Which panes lie in no window. Only where the slide is larger than the size."""
        if self.slide <= self.size:
            return np.zeros(len(panes), np.bool_)
        odd: npt.NDArray[np.bool_] = (panes & 1) == 1
        return odd

    @property
    def has_gaps(self) -> bool:
        return self.slide > self.size

    def start_of_window(self, window: Int64s) -> Int64s:
        return self.offset + window * self.slide

    def first_pane(self, window: Int64s) -> Int64s:
        """The first pane of each window."""
        return window * len(self.edges)

    def end_pane(self, window: Int64s) -> Int64s:
        """The pane after the last one of each window."""
        whole = window + self.size // self.slide
        return whole * len(self.edges) + (1 if self.size % self.slide else 0)

    def last_closed_window(self, watermark: int) -> int:
        """The last window whose ``max_timestamp`` the watermark has reached."""
        return (watermark + 1 - self.size - self.offset) // self.slide

    def first_live_pane(self, watermark: int) -> int:
        """The first pane that lies in a window whose ``max_timestamp`` the watermark has not reached."""
        return (self.last_closed_window(watermark) + 1) * len(self.edges)

    def windows_of(self, panes: Int64s, after: int, until: int) -> Int64s:
        """The windows with ``after < n <= until`` that contain at least one of ``panes`` (sorted, distinct), ascending.

        Looks only at what the panes touch: a hole of a year between two rows costs nothing.
        """
        if not len(panes):
            return np.empty(0, np.int64)
        first, last = self.windows_over(panes)
        first, last = np.maximum(first, after + 1), np.minimum(last, until)
        previous = np.concatenate(([after], np.maximum.accumulate(last)[:-1]))
        first = np.maximum(first, previous + 1)
        counts = np.maximum(last - first + 1, 0)
        total = int(counts.sum())
        ends = np.cumsum(counts)
        return np.repeat(first - (ends - counts), counts) + np.arange(total, dtype=np.int64)

    def __str__(self) -> str:
        return f"{len(self.edges)} per slide" if len(self.edges) > 1 else "1 per slide"
