"""Which rows are late: decided per window, after merging, row by row in the order of arrival, as Flink does.

A row whose own window ``[ts, ts + gap)`` is still open is taken, whatever happens. One whose window is closed is taken only if
it touches a session that is alive when it arrives. Every live session ends after the close; so a live session that a closed
window touches reaches over the close itself, there is one such per key at most, and all that matters of it is where it starts.
This *frontier* moves back with every row that is taken, and a row is taken if its window ends at the frontier or later.

The windows of one key, in the order of arrival from top to bottom, time from left to right::

    time          -----------------------------------------close---------->
    open session                                [---------------------)     in time; it begins at F1
    row a                             [------)               |              ends before F1: late
    row b                                 [-----)            |              reaches F1: taken; it begins at F2
    row c                           [-----)                  |              reaches F2: taken; it begins at F3
    row d                      [----)                        |              reaches F3: taken
                                    F3    F2    F1

Row a would have been taken after b: only the order of arrival decides.

The frontier before each row is a running minimum over the rows taken so far; but what is taken depends on the frontier. So it is
found in rounds (:func:`_taken`), and the rounds can only err on one side:

- A row that is marked as taken *is* taken. At first these are the rows in time. A round adds those that reach the frontier which
  the rows marked so far make: the true frontier is no later, so they are taken indeed. And from a marked row on it adds all that
  follow for as long as each touches where its predecessor begins (a *run*: b, c, d above): each moves the frontier for the next.
- A round that adds nothing ends it. Then no row is left out: of the first one that were, all before it are marked rightly, so the
  frontier before it is the true one, and this round would have found it.

Marks are never taken back, so there are at most as many rounds as runs. One round, or two, do for all but the most contrived
orders.
"""

from __future__ import annotations

import numpy as np

from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.interleaving import running_max
from panestream.engine.kernels.ordering import stable_order


def late_rows(units: Ints, starts: Ints, ends: Ints, closed: int) -> Mask:
    """Which spans no session takes.

    Args:
        units: what may merge at all: the key, or the key and the lot of time in which its sessions are cut.
        starts: where the spans begin, in the order of arrival: first the open sessions, then the windows of rows.
        ends: where they end.
        closed: windows whose last instant is this or before are closed.
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
    """The same for spans by unit, then in the order of arrival: those that are taken.

    The invariant of the loop: every span in ``taken`` is taken by Flink, too. See the drawing at the top of this module.
    """
    new = np.ones(len(units), np.bool_)
    new[1:] = units[1:] != units[:-1]
    # A run is taken from its first taken span on: every other one touches where its predecessor begins.
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
    """Where the session begins that reaches over the close, before each span; the end of time where there is none."""
    latest = int(starts.max())
    # Counted backwards from the latest start, the least start is the largest number. Spans that are not taken count nothing.
    reach = running_max(new, np.where(taken, latest - starts, -1))
    before = np.full(len(starts), -1)
    before[1:] = np.where(new[1:], -1, reach[:-1])
    return np.where(before < 0, np.iinfo(np.int64).max, latest - before)
