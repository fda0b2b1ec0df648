"""Late rows of sessions: decided per window, after merging, row by row in the order of arrival, as Flink does.

A row whose own window ``[ts, ts + gap)`` is still open is always taken. A row whose window is closed is taken only if it touches
a live session when it arrives. Every live session ends after the close. So a live session that touches a closed window spans the
close, each key has at most one, and only its start matters. This *frontier* moves back with every row that is taken, and a row is
taken if its window ends at the frontier or later.

The windows of one key, in the order of arrival from top to bottom, time from left to right::

    time          -----------------------------------------close---------->
    open session                                [---------------------)     in time; it begins at F1
    row a                             [------)               |              ends before F1: late
    row b                                 [-----)            |              reaches F1: taken; it begins at F2
    row c                           [-----)                  |              reaches F2: taken; it begins at F3
    row d                      [----)                        |              reaches F3: taken
                                    F3    F2    F1

Row a would have been taken after b: only the order of arrival decides.

The frontier before each row is a running minimum over the rows taken before it, which in turn depend on the frontier. Therefore
:func:`_taken` works in rounds, which can only err on one side:

- Every row marked as taken *is* taken. At first, these are the rows in time. A round adds the rows that reach the frontier of the
  marked rows. The true frontier is not later, so they are really taken. After each marked row, the round also adds its followers
  while each touches its predecessor's start (a *run*: b, c, d above), because each moves the frontier for the next.
- A round that adds no row ends the loop. Then all marks are complete: before the first missing row, all marks would be right and
  the frontier true, so this round would have found it.

Marks are never removed, so the number of rounds is at most the number of runs. One or two rounds suffice for all but the most
contrived orders.
"""

from __future__ import annotations

import numpy as np

from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.interleaving import running_max
from panestream.engine.kernels.ordering import stable_order


def late_rows(units: Ints, starts: Ints, ends: Ints, closed: int) -> Mask:
    """Return which spans no session takes.

    Args:
        units: the key of each span, or its key and period if sessions are cut into periods. Only equal units merge.
        starts: the starts of the spans: first the open sessions, then the windows of rows, in the order of arrival.
        ends: their ends.
        closed: windows whose last instant is at or before this are closed.
    """
    in_time = ends - 1 > closed
    suspects = np.zeros(int(units.max(initial=-1)) + 1, np.bool_)
    suspects[units[~in_time]] = True
    rows = np.flatnonzero(suspects[units])
    late = np.zeros(len(units), np.bool_)
    if len(rows):
        rows = rows[stable_order(units[rows])]
        late[rows] = ~_taken(units[rows], starts[rows], ends[rows], in_time[rows])
    return late


def _taken(units: Ints, starts: Ints, ends: Ints, in_time: Mask) -> Mask:
    """Return which spans are taken, for spans sorted by unit and then by arrival.

    The invariant of the loop: Flink also takes every span in ``taken``. See the drawing in the module docstring.
    """
    new = np.ones(len(units), np.bool_)
    new[1:] = units[1:] != units[:-1]
    # A run is taken from its first taken span on: each later one touches its predecessor's start.
    breaks = new.copy()
    breaks[1:] |= ends[1:] < starts[:-1]
    run = np.cumsum(breaks) - 1
    place = np.arange(len(units))
    taken = in_time
    while True:
        now = taken | (ends >= _frontier(new, starts, taken))
        first_of_run = np.full(int(run[-1]) + 1, len(units))
        np.minimum.at(first_of_run, run[now], place[now])
        now = place >= first_of_run[run]
        if bool((now == taken).all()):
            return taken
        taken = now


def _frontier(new: Mask, starts: Ints, taken: Mask) -> Ints:
    """Return the start of the session that spans the close before each span, or the end of time if it does not exist."""
    latest = int(starts.max())
    # Counted backwards from the latest start, the least start is the largest number. Spans not taken do not count.
    reach = running_max(new, np.where(taken, latest - starts, -1))
    before = np.full(len(starts), -1)
    before[1:] = np.where(new[1:], -1, reach[:-1])
    return np.where(before < 0, np.iinfo(np.int64).max, latest - before)
