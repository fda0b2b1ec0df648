"""Detection of event times too far ahead to be true, compared with the clock or with the other rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def ahead_of_clock(times: Int64s, clock: Int64s, most: int) -> npt.NDArray[np.bool_]:
    """Return which event times are more than ``most`` after the processing time of their rows."""
    found: npt.NDArray[np.bool_] = times > clock + most
    return found


def ahead_of_rows(times: Int64s, most: int) -> npt.NDArray[np.bool_]:
    """Return which event times follow a gap of more than ``most`` that comes after at least half of all event times.

    The search starts at the median of the sorted times and stops at the first gap between neighbours larger than ``most``. So
    rows that span years are all accepted, while a few rows after a gap of years are not.

    >>> ahead_of_rows(np.array([5, 9_999, 7, 6]), 100).tolist()
    [False, True, False, False]
    """
    if not len(times) or int(times.max()) - int(times.min()) <= most:
        return np.zeros(len(times), np.bool_)
    later = np.sort(times)[(len(times) - 1) // 2 :]
    gaps = np.flatnonzero(np.diff(later) > most)
    return np.zeros(len(times), np.bool_) if not len(gaps) else times > later[gaps[0]]
