"""Continuous triggers in columns: which open windows fire at an interval.

The trigger's state per key and window is the time of its next firing. It follows from the row that opened the window for that
key: the next multiple of the interval after it, and from then on every multiple that time passes. So it need not be stored: two
hidden aggregates, carried by the partials like any other, find that row's time again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.kernels.slicing import Int64s
from panestream.windowing import aggregates as agg
from panestream.windowing.time import MIN_TIMESTAMP

TIME, ARRIVAL = "__opened at", "__opened by"
"""Hidden inputs: the time that counts for the trigger, and the number of the row in the order of arrival."""
HIDDEN = (agg.min_by(TIME, ARRIVAL).alias(TIME), agg.min(ARRIVAL).alias(ARRIVAL))
HIDDEN_TYPES = {TIME: pa.int64(), ARRIVAL: pa.int64()}


@dataclass(frozen=True, slots=True)
class Interval:
    """A continuous trigger.

    Attributes:
        length: of the interval, in engine units.
        purging: whether what has fired is dropped.
    """

    length: int
    purging: bool = False

    def first_firing(self, times: Int64s) -> Int64s:
        """When the window that a row of this time opened fires first."""
        # Flink takes the remainder towards zero: before the epoch the first firing is one interval later than floor would give.
        return times - np.fmod(times, self.length) + self.length

    def passed(self, before: int, after: int) -> bool:
        """Whether time passed a multiple of the interval on its way."""
        return after > before and (before == MIN_TIMESTAMP or after // self.length > before // self.length)

    def next_after(self, time: int) -> int:
        """The next multiple after ``time``."""
        return (time // self.length + 1) * self.length

    def due(self, opened_at: Int64s, opened_by: Int64s, before: int, after: int, recent: int) -> npt.NDArray[np.bool_]:
        """Which windows, all of them open, fire while time goes from ``before`` to ``after``.

        Args:
            opened_at: the time of the row that opened each.
            opened_by: that row's number.
            before: where time was.
            after: where it is now; later.
            recent: the number of the first row that came since time last moved.
        """
        first = self.first_firing(opened_at)
        due = first <= after
        if not self.passed(before, after):
            # A row behind its time opened the window with a firing that was due already: it comes with the next step of time.
            due &= (first > before) | (opened_by >= recent)
        return due

    def overdue(self, opened_at: Int64s, time: int) -> bool:
        """Whether a row opened a window whose first firing was due already."""
        return bool((self.first_firing(opened_at) <= time).any())
