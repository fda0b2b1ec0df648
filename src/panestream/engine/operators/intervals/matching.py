"""Matching of rows with the intervals of another table's rows of the same key, by sorting all at once."""

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
    """The right rows by key and time (``order``), with the start and the row count of each left row's interval in it."""

    order: Ints
    begins: Ints
    counts: Ints

    @classmethod
    def of(
        cls, left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], times: tuple[Ints, Ints], bounds: tuple[int, int]
    ) -> Matches:
        """Match rows by key columns, times and bounds. Keys with nulls match nothing, as in SQL.

        A right row matches if its time is from the left time plus the first bound to the left time plus the second, inclusive.
        """
        ours, theirs, _ = numbered(left, right)
        instants, ranks = np.unique(times[1], return_inverse=True)
        # With times as ranks, key and rank fit one number for all times.
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
        """Return the right rows that match ``rows``, concatenated."""
        return self.order[spans(self.begins[rows], self.counts[rows])]


__all__ = ["Matches"]
