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
    everything = np.concatenate(times)
    begin = 0
    for place, part in enumerate(times):
        # A row that comes after a later one is as late as that one.
        end = begin + len(part)
        first = begin - 1 if place and begin and origins[place] == origins[place - 1] else begin
        np.maximum.accumulate(everything[first:end], out=everything[first:end])
        begin = end
    return np.argsort(everything, kind="stable")
