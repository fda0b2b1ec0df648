"""Which rows of one table lie in the intervals of the rows of another, of the same key: all at once, by sorting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, spans
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.pairs import numbered


@dataclass(frozen=True, slots=True)
class Matches:
    """For each row of the left the rows of the right in its interval.

    Attributes:
        order: the rows of the right by key and time.
        begins: where in ``order`` the interval of each left row begins.
        counts: how many rows lie in it.
    """

    order: Ints
    begins: Ints
    counts: Ints

    @classmethod
    def of(
        cls, left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], times: tuple[Ints, Ints], bounds: tuple[int, int]
    ) -> Matches:
        """Finds them. A row whose key has a null finds none, as in SQL.

        Args:
            left: the key columns of the left.
            right: those of the right.
            times: of the left rows, and of the right.
            bounds: a right row matches from the left one's time and the first of these on, to its time and the second, inclusive.
        """
        ours, theirs, _ = numbered(left, right)
        instants, ranks = np.unique(times[1], return_inverse=True)
        # Times as ranks: key and rank fit one number, whatever the times are.
        width = len(instants) + 1
        place = theirs * width + ranks
        order = stable_order(place)
        place = place[order]
        first = np.searchsorted(instants, times[0] + bounds[0], "left")
        last = np.searchsorted(instants, times[0] + bounds[1], "right")
        begins = np.searchsorted(place, ours * width + first, "left")
        ends = np.searchsorted(place, ours * width + last, "left")
        counts = np.maximum(ends - begins, 0)
        for column in left:
            if column.null_count:
                counts[column.is_null().to_numpy()] = 0
        return cls(order, begins, counts)

    def of_rows(self, rows: Ints) -> Ints:
        """The right rows of some left ones, end to end."""
        return self.order[spans(self.begins[rows], self.counts[rows])]


__all__ = ["Matches"]
