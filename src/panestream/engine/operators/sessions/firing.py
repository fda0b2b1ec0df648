"""Main-output rows of firing sessions, with firing numbers and changes if the plan requires them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import Ints, Mask
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.sessions.exchange import PANE
from panestream.engine.operators.sessions.merged import MergedSessions
from panestream.engine.plan import (
    DELETE,
    FIRINGS,
    INSERT,
    LATE,
    ON_TIME,
    OPS,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    WindowPlan,
)
from panestream.engine.runtime.group_operator import firing_columns, window_rows


@dataclass(frozen=True, slots=True)
class FiredSessions:
    """Firing sessions, in the order of their ends.

    ``places`` are their places among the merged sessions. ``late`` marks those that a late row caused to fire, and ``last`` those
    that cannot fire again.
    """

    places: Ints
    late: Mask
    last: Mask

    @classmethod
    def of(cls, merged: MergedSessions, which: Mask, before: int, closed: int) -> FiredSessions:
        """Return the firing sessions, marked by ``which``.

        ``before`` is the watermark before the micro-batch: sessions that it had reached fire again. Windows whose last instant is
        at or before ``closed`` are now closed.
        """
        places = np.flatnonzero(which)
        places = places[stable_order(merged.sessions.ends[places])] if len(places) else places
        last = merged.sessions.ends[places] - 1
        return cls(places, last <= before, last <= closed)


def session_rows(plan: WindowPlan, aggregation: Aggregation, merged: MergedSessions, fired: FiredSessions) -> pa.Table:
    """Return the rows of firing sessions; a changelog also has the rows that they replace."""
    sessions, places = merged.sessions, fired.places
    results = _results(aggregation, merged.partials, places)
    keys = merged.keys.take(sessions.codes[places])
    numbers = merged.fired[places]
    op = np.where(numbers > 0, OPS.index(UPDATE_AFTER), OPS.index(INSERT))
    firing = firing_columns(plan, _when(fired.late), numbers, fired.last, op)
    after = window_rows(plan, keys, (sessions.starts[places], sessions.ends[places]), results, firing)
    before, late = merged.stored.fired, merged.stored.late
    if not plan.changelog or before is None or late is None:
        return after
    # Fired sessions to retract: those that fire again, in their former state, and those merged into larger ones.
    rank = np.full(len(sessions), -1)
    rank[places] = np.arange(len(places))
    old = np.flatnonzero((before > 0) & (~merged.same_bounds | (rank[merged.stored_ids] >= 0)))
    if not len(old):
        return after
    gone = ~merged.same_bounds[old]
    order = np.concatenate([np.where(gone, -1, 2 * rank[merged.stored_ids[old]]), 2 * np.arange(len(places)) + 1])
    op = np.where(gone, OPS.index(DELETE), OPS.index(UPDATE_BEFORE))
    firing = firing_columns(plan, _when(late[old] > 0), before[old] - 1, gone, op)
    taken_back = _before(plan, aggregation, merged, old, firing)
    return pa.concat_tables([taken_back, after]).take(pa.array(stable_order(order)))


def _before(plan: WindowPlan, aggregation: Aggregation, merged: MergedSessions, old: Ints, firing: list[pa.Array]) -> pa.Table:
    """Return stored sessions as they last fired. This is their stored state, because every later row makes them fire again."""
    stored = merged.stored
    keys, bounds = merged.keys.take(stored.codes[old]), (stored.starts[old], stored.ends[old])
    return window_rows(plan, keys, bounds, _results(aggregation, stored.partials, old), firing)


def _results(aggregation: Aggregation, partials: pa.Table, places: Ints) -> list[pa.ChunkedArray]:
    numbered = np.arange(len(places))
    partials = partials.take(pa.array(places)).set_column(0, PANE, pa.array(numbered))
    _, results = aggregation.windows(partials, numbered, numbered + 1)
    return list(results.columns)


def _when(late: Mask) -> Ints:
    """Return the kind of firing by its place in ``FIRINGS``."""
    return np.where(late, FIRINGS.index(LATE), FIRINGS.index(ON_TIME))
