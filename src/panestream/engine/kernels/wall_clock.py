"""The wall clock of a zone for whole columns: see :mod:`panestream.windowing.zones`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from panestream.engine.kernels.slicing import Int64s
from panestream.windowing.zones import PERIOD, TABLE_END, ZoneRules


@dataclass(frozen=True, slots=True)
class WallClock:
    """The conversion between instants and a zone's wall-clock times.

    Attributes:
        begins, offsets: the start and the offset of each span without a change.
        until: what the clock shows at the end of a span, exclusive, for all spans but the last.
        shown: the latest time shown before each span.
    """

    rules: ZoneRules
    begins: Int64s = field(init=False, compare=False, repr=False)
    offsets: Int64s = field(init=False, compare=False, repr=False)
    until: Int64s = field(init=False, compare=False, repr=False)
    shown: Int64s = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        rules, never = self.rules, -(2**63)
        object.__setattr__(self, "begins", np.asarray([never, *rules.changes], np.int64))
        object.__setattr__(self, "offsets", np.asarray(rules.offsets, np.int64))
        object.__setattr__(self, "until", np.asarray(rules.shown, np.int64))
        object.__setattr__(self, "shown", np.asarray([never, *(end - 1 for end in rules.shown)], np.int64))

    def __reduce__(self) -> tuple[type[WallClock], tuple[ZoneRules]]:
        return WallClock, (self.rules,)

    def walls(self, instants: Int64s) -> Int64s:
        turns = _turns(instants)
        instants = instants if turns is None else instants - turns * PERIOD
        span = np.searchsorted(self.begins[1:], instants, "right")
        found: Int64s = np.maximum(instants + self.offsets[span], self.shown[span])
        return found if turns is None else found + turns * PERIOD

    def instants(self, walls: Int64s) -> Int64s:
        """Return the first instants at which the clock shows these times or later ones."""
        turns = _turns(walls)
        walls = walls if turns is None else walls - turns * PERIOD
        span = np.searchsorted(self.until, walls, "right")
        found: Int64s = np.maximum(walls - self.offsets[span], self.begins[span])
        return found if turns is None else found + turns * PERIOD


def _turns(times: Int64s) -> Int64s | None:
    """Return how many periods beyond the table times are, or None if none is."""
    if not len(times) or int(times.max()) < TABLE_END:
        return None
    turns: Int64s = np.maximum((times - TABLE_END) // PERIOD + 1, 0)
    return turns


__all__ = ["WallClock"]
