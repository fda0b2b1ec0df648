"""Starts and ends of windows by predicates, for the steps of all keys at once.

A *step* is all rows of a key at one instant. The steps of each key, in time order, are cut into *runs*. A new run begins with a
step that starts a window, after a step that ends one, and after a gap. The steps of a run are either all in one window or in
none, as its first step determines. ::

    time        1     4     5     7     9     30
    starts            x                 x
    ends                          x
    runs        0  |  1     1     1  |  2  |  3          (a gap of 10)
    window     none  [4, 8)              [9, 19)  none, unless any step begins one
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panestream.engine.kernels.columns import Ints, Mask
from panestream.windowing.assigners import PredicateWindows

STARTS, ENDS, OPEN = 1, 2, 4
"""Flags of a step: a row in it begins a window, a row in it ends one, or it is a window that was already open."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of steps.

    ``first`` and ``last`` are the places of their first and last steps, and ``in_window`` marks those that are windows. ``ends``
    has the ends that are ``closed``, which means that they are known.
    """

    first: Ints
    last: Ints
    in_window: Mask
    ends: Ints
    closed: Mask

    @classmethod
    def of(cls, windows: PredicateWindows, codes: Ints, times: Ints, flags: Ints, reached: int) -> Runs:
        """Return the runs of steps, sorted by key and time, up to ``reached``; no step can arrive at or before that time."""
        begins = np.ones(len(codes), np.bool_)
        starts, ends = flags & STARTS > 0, flags & ENDS > 0
        begins[1:] = (codes[1:] != codes[:-1]) | ends[:-1] | (starts[1:] if windows.start is not None else False)
        if windows.gap is not None:
            begins[1:] |= times[1:] - times[:-1] > windows.gap
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(codes)) - 1
        in_window = np.ones(len(first), np.bool_) if windows.start is None else flags[first] & (STARTS | OPEN) > 0
        bounds, closed = _ends(windows, codes, times, ends, last, reached)
        return cls(first, last, in_window, bounds, closed)


def _ends(windows: PredicateWindows, codes: Ints, times: Ints, ends: Mask, last: Ints, reached: int) -> tuple[Ints, Mask]:
    """Return the end of each run and whether it is known: after its last step, before the next step, or a gap later."""
    after, behind = np.minimum(last + 1, len(codes) - 1), times[last]
    followed = (last + 1 < len(codes)) & (codes[after] == codes[last])
    by_end = ends[last]
    closed = by_end | followed
    bounds = np.where(by_end, behind + 1, times[after])
    if windows.gap is not None:
        silent = ~by_end & np.where(followed, times[after] - behind > windows.gap, behind + windows.gap <= reached)
        bounds = np.where(silent, behind + windows.gap, bounds)
        closed |= silent
    return bounds, closed


__all__ = ["ENDS", "OPEN", "STARTS", "Runs"]
