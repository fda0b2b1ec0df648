"""The session operators: open and local sessions, merged for all keys of a micro-batch at once.

A micro-batch follows Flink's order: its rows are judged by the watermark before it, and merged. Then the watermark advances,
sessions fire, and closed ones are dropped. If a session grows or fires several times within a micro-batch, only its state at the
end is emitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates.saved_partials import partials_found, partials_saved
from panestream.engine.kernels.columns import Ints, Mask, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.sessions.arrivals import SessionArrivals, Spans
from panestream.engine.operators.sessions.exchange import SESSIONS, session_schema, session_table
from panestream.engine.operators.sessions.firing import FiredSessions, session_rows
from panestream.engine.operators.sessions.local import SessionSettings
from panestream.engine.operators.sessions.merged import MergedSessions
from panestream.engine.plan import LATE, ON_TIME, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep
from panestream.engine.runtime.watermarks import closing_times
from panestream.engine.storage.keyed_pages import KeyedPages
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, integers, named_columns, with_types
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Gathered:
    """The sessions of the pages ``read`` and those that arrive; ``keys`` has the keys of all, stored ones first."""

    read: Mask
    keys: Keys
    stored: Spans
    arrivals: SessionArrivals


@dataclass(frozen=True, slots=True)
class SessionsAtHand:
    """The sessions of a micro-batch's rows and of the pages ``read``.

    Attributes:
        gone: key codes of sessions that were stored in the pages and are not in ``merged``.
        merged: all other sessions.
        fired: the sessions in ``merged`` that have just fired, or None.
        over: for processing time, the sessions that had ended before the rows arrived.
    """

    read: Mask
    gone: Ints
    merged: MergedSessions
    fired: FiredSessions | None = None
    over: MergedSessions | None = None


class SessionOperator(GroupOperator[SessionsAtHand]):
    """The operator of event-time sessions: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: SessionSettings, state: SealedState) -> None:
        self._settings = settings
        self._schema = session_schema(plan.key_schema, settings.aggregation, local=False)
        self._pages = KeyedPages(state, self._schema)
        super().__init__(plan, state, self._pages, by_processing_time=settings.by_processing_time)

    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> SessionsAtHand:
        gathered = self._gather(batch, step.after)
        closed = self._closing.at(step.before)
        # After a restart with a shorter lateness, the state has sessions that are closed by now.
        alive = gathered.stored.ends - 1 > closed
        stored = gathered.stored.filter(alive)
        fresh, late = gathered.arrivals.without_late(stored, closed, self._plan, self._settings)
        self._emit_late(late.count, late.rows, output)
        output.metrics.windowed_rows = _rows(fresh)
        merged = MergedSessions.of(gathered.keys, stored, fresh, self._settings)
        return SessionsAtHand(gathered.read, gathered.stored.codes[~alive], merged)

    def _fire(self, fresh: SessionsAtHand, step: TimeStep, output: GroupOutput) -> SessionsAtHand:
        merged = fresh.merged
        last = merged.sessions.ends - 1
        due = (last <= step.after) & (merged.touched | (last > step.before))
        fired = FiredSessions.of(merged, due, step.before, self._closing.at(step.after))
        self._emit(merged, fired, output)
        return replace(fresh, fired=fired)

    def _close(self, fresh: SessionsAtHand, step: TimeStep) -> None:
        self._keep(fresh, step.after)
        self._closing.reach(step.after)

    def _gather(self, batch: GroupInput, due: int) -> Gathered:
        """Return the micro-batch, and the sessions of pages with one of its keys or with a due session."""
        pages, fresh = self._pages, batch.of(SESSIONS)
        wanted = pages.due(due)
        for table in fresh:
            wanted |= pages.holding(key_hashes(self._keys_of(table), table.num_rows))
        tables = [pages.read(wanted), *fresh]
        columns = self._keys_of(pa.concat_tables([table.select(range(len(self._plan.key_schema))) for table in tables]))
        keys = encode_keys(columns, sum(table.num_rows for table in tables))
        codes, known = keys.codes.astype(np.int64), tables[0].num_rows
        stored = Spans.of(tables[0], codes[:known], self._settings)
        return Gathered(wanted, keys, stored, SessionArrivals.of(batch, codes[known:], self._settings))

    def _emit(self, merged: MergedSessions, fired: FiredSessions, output: GroupOutput) -> None:
        rows = session_rows(self._plan, self._settings.aggregation, merged, fired)
        late = int(fired.late.sum())
        self._count_firings(LATE, late, output)
        self._count_firings(ON_TIME, len(fired.late) - late, output)
        self._emit_main(rows, len(fired.places), output)

    def _kept_windows(self) -> int:
        return sum(page.rows for page in self._pages.index)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _keep(self, at_hand: SessionsAtHand, after: int) -> None:
        """Write open sessions to the pages that were read, if anything changed; everything due until ``after`` has fired."""
        read, merged, fired = at_hand.read, at_hand.merged, at_hand.fired
        if not read.any():
            return
        sessions = merged.sessions
        open_ = sessions.ends - 1 > self._closing.at(after)
        kept = np.flatnonzero(open_)
        keys = merged.keys.take(sessions.codes[kept])
        columns = (sessions.starts[kept], sessions.ends[kept], *(column[kept] for column in self._emitted(merged, fired)))
        table = session_table(self._schema, keys, columns, merged.partials.take(pa.array(kept)))
        due = self._due(sessions.ends[kept], after)
        # A session that was not stored and is not open changes no page.
        changed = np.where(merged.was_stored, merged.touched | ~open_, open_)
        if self._plan.keeps_emitted and fired is not None:
            changed[fired.places] |= open_[fired.places]
        codes = np.concatenate([sessions.codes[changed], at_hand.gone])
        hashes = key_hashes(merged.keys.take(codes), len(codes))
        self._pages.write(read, hashes, table, key_hashes(keys, len(kept)), due)

    def _due(self, ends: Ints, after: int) -> Ints:
        """Return when sessions are due next; everything due until ``after`` has fired."""
        last, lateness = ends - 1, self._plan.allowed_lateness
        due: Ints = np.where(last > after, last, closing_times(last, lateness))
        return due

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _described(self) -> Mapping[str, Any]:
        return {"partials": partials_saved(self._settings.aggregation), "counters": {}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        stored = self._pages.read(np.ones(len(self._pages.index), np.bool_))
        # After a restart with a shorter lateness, the state has sessions that are closed by now.
        return {SESSIONS: stored.filter(pa.array(stored.column("end").to_numpy() - 1 > self._closing.at(self._reached)))}

    def _put(self, saved: StateTables) -> None:
        table = saved.table(SESSIONS)
        own = named_columns(table, [*self._schema.names[: len(self._plan.key_schema)], "start", "end", "fired", "late", "rows"])
        columns = [*own, *partials_found(table, saved.header, self._settings.aggregation)]
        # The sessions of a key are always sorted by start, so that changes to several are emitted in that order.
        sessions = with_types(columns, self._schema)
        sessions = sessions.take(pa.array(stable_order(integers(sessions, "start"))))
        hashes = key_hashes(self._keys_of(sessions), sessions.num_rows)
        due = self._due(integers(sessions, "end"), self._reached)
        self._pages.write(np.ones(len(self._pages.index), np.bool_), hashes, sessions, hashes, due)

    def _emitted(self, merged: MergedSessions, fired: FiredSessions | None) -> tuple[Ints, Ints]:
        """Return the number of firings, and whether a late row caused the last one; zeros if the plan does not need them."""
        if not self._plan.keeps_emitted:
            nothing = np.zeros(len(merged.sessions), np.int64)
            return nothing, nothing
        count, late = merged.fired.copy(), merged.fired_late.copy()
        if fired is not None:
            count[fired.places] += 1
            late[fired.places] = fired.late
        return count, late

    def _keys_of(self, table: pa.Table) -> list[pa.Array]:
        return [plain(table.column(place)) for place in range(len(self._plan.key_schema))]


class ProcessingTimeSessionOperator(SessionOperator):
    """Like :class:`SessionOperator` for processing time: all rows of a micro-batch have the time of the micro-batch.

    No row is late, and sessions that have ended fire before the rows of the micro-batch are added. Therefore a distance of
    exactly the gap makes two sessions here: when time reaches the end of a session, it has just fired and been dropped.
    """

    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> SessionsAtHand:
        gathered, now = self._gather(batch, step.after), self._processing_time
        ended = gathered.stored.ends <= now
        over = MergedSessions.of(gathered.keys, gathered.stored.filter(ended), [], self._settings)
        fresh = [chunk.after(now) for chunk in gathered.arrivals.chunks]
        output.metrics.windowed_rows = _rows(fresh)
        merged = MergedSessions.of(gathered.keys, gathered.stored.filter(~ended), fresh, self._settings)
        return SessionsAtHand(gathered.read, gathered.stored.codes[ended], merged, over=over)

    def _fire(self, fresh: SessionsAtHand, step: TimeStep, output: GroupOutput) -> SessionsAtHand:
        # A batch cannot wait for a clock: sessions that are open at the end of the input fire then.
        for merged in (fresh.over, fresh.merged if step.end_of_input else None):
            if merged is not None:
                every = np.ones(len(merged.sessions), np.bool_)
                self._emit(merged, FiredSessions.of(merged, every, MIN_TIMESTAMP, MAX_TIMESTAMP), output)
        return fresh

    def _close(self, fresh: SessionsAtHand, step: TimeStep) -> None:
        self._keep(fresh, step.after)

    def _wake_up(self, step: TimeStep) -> int | None:
        due = MAX_TIMESTAMP if step.end_of_input else min(page.due for page in self._pages.index)
        return None if due == MAX_TIMESTAMP else due


def _rows(spans: Sequence[Spans]) -> int:
    return sum(pc.sum(one.partials.column("rows")).as_py() or 0 for one in spans)
