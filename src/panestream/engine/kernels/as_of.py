"""The rows of one table nearest in time to each row of another, by key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.ordering import stable_order


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The right rows around each left row, by their numbers; -1 if there are none.

    Attributes:
        before: the last right row of the key at or before the time of each left row.
        after: the first right row of the key at or after it.
        newest: the last right row of each key.
    """

    before: Ints
    after: Ints
    newest: Ints

    @classmethod
    def of(cls, codes: Ints, times: Ints, right: int) -> Neighbours:
        """Search among the first ``right`` rows, in order of arrival. The others are left rows.

        Rows of a key have equal codes. If several right rows of a key have the same time, only the last to arrive counts.
        """
        order = stable_order(codes, times)
        codes, times = codes[order], times[order]
        is_right = order < right
        counts = is_right.copy()
        counts[:-1] &= ~(is_right[1:] & (codes[1:] == codes[:-1]) & (times[1:] == times[:-1]))
        places, end = np.arange(len(order)), len(order)
        # At equal times right rows come first, so the row before a left row may have its time.
        left = np.flatnonzero(~is_right)
        before = np.maximum.accumulate(np.where(counts, places, -1))[left]
        after = np.minimum.accumulate(np.where(counts, places, end)[::-1])[::-1][left]
        has_before = (before >= 0) & (codes[before] == codes[left])
        after = np.where(has_before & (times[before] == times[left]), before, after)
        has_after = after < end
        has_after &= codes[np.minimum(after, end - 1)] == codes[left]
        found = np.full((2, len(left)), -1)
        found[0, order[left] - right] = np.where(has_before, order[before], -1)
        found[1, order[left] - right] = np.where(has_after, order[np.minimum(after, end - 1)], -1)
        counting = np.flatnonzero(counts)
        is_last = np.ones(len(counting), np.bool_)
        is_last[:-1] = codes[counting[1:]] != codes[counting[:-1]]
        return cls(found[0], found[1], order[counting[is_last]])


def last_of_each(codes: Ints, times: Ints) -> Ints:
    """Return the last row of each key and time, in the given order.

    >>> last_of_each(np.array([7, 8, 7, 7]), np.array([1, 1, 1, 2])).tolist()
    [1, 2, 3]
    """
    order = stable_order(codes, times)
    codes, times = codes[order], times[order]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
    return np.sort(order[is_last])


__all__ = ["Neighbours", "last_of_each"]
