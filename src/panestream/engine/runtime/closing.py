"""Which windows are closed: those that time, less the allowed lateness, has passed; and they stay closed. The same in panes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from panestream.engine.kernels.slicing import AlignedWindows, Int64s, PaneGrid
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

BEYOND_ALL = 2**62
"""Beyond every pane and window number: event times are kept within ±2**62."""


@dataclass(slots=True)
class Closing:
    """How far windows of event time are closed in one key group.

    What a closed window held is gone: if rows were taken for it again, a result of these few would stand beside the whole one, or
    in its place. So what was closed under one lateness stays closed under a larger one, and the operators keep :attr:`until` in
    their meta records.

    Attributes:
        lateness: how long after its end a window takes rows.
        until: windows whose last instant is this or before were closed in an earlier micro-batch. It never goes back.
    """

    lateness: int = 0
    until: int = MIN_TIMESTAMP

    def at(self, time: int) -> int:
        """Windows whose last instant is this or before are closed when time has come to ``time``."""
        if time in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return max(time, self.until)
        return max(time - self.lateness, self.until)

    def reach(self, time: int) -> int:
        """Time has come to ``time`` and a micro-batch is over: what is closed now is closed for good. Returns :meth:`at`."""
        self.until = self.at(time)
        return self.until


def last_ended(one: AlignedWindows, time: int) -> int:
    """The last window whose ``max_timestamp`` time has reached."""
    if time == MIN_TIMESTAMP:
        return -BEYOND_ALL
    return BEYOND_ALL if time == MAX_TIMESTAMP else one.first_ending_after(time + 1) - 1


@dataclass(slots=True)
class LatenessPolicy:
    """The ends of windows and of panes.

    Attributes:
        grid: the panes.
        closing: how far windows are closed; by processing time without lateness.
    """

    grid: PaneGrid
    closing: Closing

    def closed(self, time: int) -> int:
        """Windows that end up to then take no more rows."""
        return self.closing.at(time)

    def first_live_pane(self, closed: int) -> int:
        """The first pane that a window still needs."""
        if closed == MIN_TIMESTAMP:
            return -BEYOND_ALL
        if closed == MAX_TIMESTAMP:
            return BEYOND_ALL
        return min(self.grid.pane_of(one.start_of(last_ended(one, closed) + 1)) for one in self.grid.windows)

    def taken(self, panes: Int64s, closed: int) -> npt.NDArray[np.bool_]:
        """Which panes lie in a window that still takes rows."""
        return self.grid.taken(panes, [last_ended(one, closed) + 1 for one in self.grid.windows])

    def too_late(self, panes: Int64s, times: Int64s, closed: int) -> npt.NDArray[np.bool_]:
        """Which rows are late: no window takes them, and time has passed them (a row between two windows may be early)."""
        found = ~self.taken(panes, closed)
        if self.grid.has_gaps:
            found &= ~self.grid.in_gap(panes) | (times <= closed)
        return found

    def first_open_pane(self, time: int) -> int:
        """The first pane whose end time has not reached."""
        if time == MIN_TIMESTAMP:
            return -BEYOND_ALL
        return BEYOND_ALL if time == MAX_TIMESTAMP else self.grid.pane_of(time + 1)


__all__ = ["BEYOND_ALL", "Closing", "LatenessPolicy", "last_ended"]
