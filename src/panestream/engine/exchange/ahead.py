"""Event times that lie too far ahead to be true: of the clock, or of the other rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def ahead_of_clock(times: Int64s, clock: Int64s, most: int) -> npt.NDArray[np.bool_]:
    """Which event times are more than ``most`` after the processing time of their rows."""
    found: npt.NDArray[np.bool_] = times > clock + most
    return found


def ahead_of_rows(times: Int64s, most: int) -> npt.NDArray[np.bool_]:
    """Which event times come after a gap of more than ``most`` that at least half of all come before.

    In order of time, from the median on: the first gap between neighbours that is larger than ``most`` ends what is believed. So
    rows that go on for years are all believed, and a few behind a hole of years are not.

    >>> ahead_of_rows(np.array([5, 9_999, 7, 6]), 100).tolist()
    [False, True, False, False]
    """
    if not len(times) or int(times.max()) - int(times.min()) <= most:
        return np.zeros(len(times), np.bool_)
    later = np.sort(times)[(len(times) - 1) // 2 :]
    gaps = np.flatnonzero(np.diff(later) > most)
    return np.zeros(len(times), np.bool_) if not len(gaps) else times > later[gaps[0]]


__all__ = ["ahead_of_clock", "ahead_of_rows"]
