"""Evictors over the rows of many windows at once.

A window that fires once drops its rows afterwards, so evictions need not be stored. An evictor only selects the rows for the
function, and has no effect if it runs after the function.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from panestream.engine.kernels.slicing import Int64s
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor


def why_not_evicted(evictor: Evictor | None, allowed_lateness: int) -> list[str]:
    """Return why an evictor needs the row operator; empty if it does not."""
    if evictor is None:
        return []
    if allowed_lateness:
        return ["what an evictor removes stays removed when a late row makes the window fire again"]
    # An evictor that may remove all rows would call the function without rows.
    if isinstance(evictor, TimeEvictor) and evictor.size > 0:
        return []
    if isinstance(evictor, CountEvictor) and evictor.max_count > 0:
        return []
    return [f"the evictor {evictor!r} looks at single rows, or may leave none"]


def kept(evictor: Evictor, windows: Int64s, keys: Int64s, times: Int64s) -> npt.NDArray[np.bool_]:
    """Return which rows the function gets, for an evictor accepted by :func:`why_not_evicted`.

    ``windows``, ``keys`` (as codes) and ``times`` describe each row. The rows are sorted by window, key and arrival.
    """
    if not isinstance(evictor, (TimeEvictor, CountEvictor)) or evictor.do_evict_after:
        return np.ones(len(windows), np.bool_)
    changes = (windows[1:] != windows[:-1]) | (keys[1:] != keys[:-1])
    begins = np.concatenate(([0], np.flatnonzero(changes) + 1))
    counts = np.diff(np.concatenate((begins, [len(windows)])))
    if isinstance(evictor, TimeEvictor):
        newest = np.maximum.reduceat(times, begins)
        recent: npt.NDArray[np.bool_] = times > np.repeat(newest - evictor.size, counts)
        return recent
    last: npt.NDArray[np.bool_] = np.arange(len(windows)) >= np.repeat(begins + counts - evictor.max_count, counts)
    return last
