"""In what order rows of several source partitions are taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def interleaved(times: Sequence[npt.NDArray[np.int64]], origins: Sequence[int]) -> npt.NDArray[np.int64]:
    """Places in the parts, one after the other, so that all partitions come to the same event time together.

    Each partition keeps its own order. Were they taken one after the other, the second would fall between sessions that the first
    had opened, and merge most of them.

    Args:
        times: event times of the parts, those of one partition in their order.
        origins: the partition of each part.

    >>> interleaved([np.array([1, 9, 3]), np.array([2, 8])], [0, 1]).tolist()
    [0, 3, 4, 1, 2]
    """
    ranks = np.concatenate(times)
    partition = np.repeat(origins, [len(part) for part in times])
    for origin in set(origins):
        # A row that comes after a later one is as late as that one.
        rows = partition == origin
        ranks[rows] = np.maximum.accumulate(ranks[rows])
    return np.argsort(ranks, kind="stable")
