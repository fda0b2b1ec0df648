"""The wall clock of a zone on whole columns: see :mod:`panestream.windowing.zones`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panestream.engine.kernels.slicing import Int64s
from panestream.windowing.zones import PERIOD, TABLE_END, ZoneRules


@dataclass(frozen=True, slots=True)
class WallClock:
    """What the wall clock of a zone shows, and when.

    Attributes:
        rules: of the zone.
    """

    rules: ZoneRules

    def walls(self, instants: Int64s) -> Int64s:
        """What it shows at some instants."""
        turns = _turns(instants)
        instants = instants if turns is None else instants - turns * PERIOD
        span = np.searchsorted(np.asarray(self.rules.changes, np.int64), instants, "right")
        shown = np.asarray([-(2**63), *(end - 1 for end in self.rules.shown)], np.int64)
        found: Int64s = np.maximum(instants + np.asarray(self.rules.offsets, np.int64)[span], shown[span])
        return found if turns is None else found + turns * PERIOD

    def instants(self, walls: Int64s) -> Int64s:
        """The first instants at which it shows some times or later ones."""
        turns = _turns(walls)
        walls = walls if turns is None else walls - turns * PERIOD
        span = np.searchsorted(np.asarray(self.rules.shown, np.int64), walls, "right")
        begins = np.asarray([-(2**63), *self.rules.changes], np.int64)
        found: Int64s = np.maximum(walls - np.asarray(self.rules.offsets, np.int64)[span], begins[span])
        return found if turns is None else found + turns * PERIOD


def _turns(times: Int64s) -> Int64s | None:
    """How many periods beyond the table times are; None: none is."""
    if not len(times) or int(times.max()) < TABLE_END:
        return None
    turns: Int64s = np.maximum((times - TABLE_END) // PERIOD + 1, 0)
    return turns


__all__ = ["WallClock"]
