"""Which rows are late: decided per window, after merging, row by row in the order of arrival, as Flink does.

A row whose own window ``[ts, ts + gap)`` is still open is taken, whatever happens. One whose window is closed is taken only if
it touches a session that is alive when it arrives. Every live session ends after the close; so a live session that a closed
window touches reaches over the close itself, there is one such per key at most, and all that matters of it is where it starts.
This *frontier* moves back with every row that is taken, and a row is taken if its window ends at the frontier or later.

The frontier before each row is a running minimum over the rows taken so far. Which closed rows are taken is found in rounds: a
round takes those that end at the frontier of the rounds before, and, from a row that is taken, all that follow it for as long
as each touches where its predecessor begins. One round, or two, settle all but the most contrived orders.
"""

from __future__ import annotations

import numpy as np

from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.sessions.spans import running_max


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
    """The same for spans by unit, then in the order of arrival: those that are taken."""
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
        first = np.full(int(run[-1]) + 1, len(units))
        np.minimum.at(first, run[now], place[now])
        now = place >= first[run]
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
