"""Where time has come, in windows and panes: what has ended, what is closed, what still takes rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from panestream.engine.kernels.slicing import AlignedWindows, Int64s, PaneGrid
from panestream.engine.runtime.closing import Closing
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

NEVER = 2**62
"""Beyond every pane and window number: event times are kept within ±2**62."""


def last_ended(one: AlignedWindows, time: int) -> int:
    """The last window whose ``max_timestamp`` time has reached."""
    if time == MIN_TIMESTAMP:
        return -NEVER
    return NEVER if time == MAX_TIMESTAMP else one.first_ending_after(time + 1) - 1


@dataclass(slots=True)
class LatenessPolicy:
    """The ends of windows and of panes.

    Attributes:
        grid: the panes.
        closing: how far windows are closed; without lateness by the clock.
    """

    grid: PaneGrid
    closing: Closing = field(default_factory=Closing)

    def closed(self, time: int) -> int:
        """Windows that end up to then take no more rows."""
        return self.closing.at(time)

    def first_live_pane(self, closed: int) -> int:
        """The first pane that a window still needs."""
        if closed == MIN_TIMESTAMP:
            return -NEVER
        if closed == MAX_TIMESTAMP:
            return NEVER
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
            return -NEVER
        return NEVER if time == MAX_TIMESTAMP else self.grid.pane_of(time + 1)


__all__ = ["NEVER", "LatenessPolicy", "last_ended"]
