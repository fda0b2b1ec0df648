"""The session operator of event time: open sessions and local ones, merged for all keys of a micro-batch at once.

A micro-batch goes through in Flink's order: its rows are judged against the watermark as it stood before, and merged; then the
watermark advances, sessions fire and closed ones go. Of a session that grows or fires several times within a micro-batch only
the last state is emitted: what it is when the micro-batch is over. (A session that had fired and is now part of a larger one is a
stored row whose end the old watermark had passed, and whose merged bounds are others: what a changelog has to delete.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panestream.engine.aggregation.columns import Ints, Mask, plain
from panestream.engine.aggregation.grouping import Keys, encode_keys
from panestream.engine.aggregation.sorting import stable_order
from panestream.engine.operators.base import GroupInput, GroupOutput
from panestream.engine.operators.keyed.hashing import key_hashes
from panestream.engine.operators.keyed.store import KeyedStore, with_bounds
from panestream.engine.operators.sessions.arrivals import Arrivals, Spans
from panestream.engine.operators.sessions.exchange import PANE, SESSIONS, session_schema, session_table
from panestream.engine.operators.sessions.spans import Sessions, merge_touching
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.state import State
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from panestream.engine.operators.sessions.operation import SessionOperation


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a micro-batch has to do with.

    Attributes:
        read: the pages that were read.
        keys: of all sessions, those stored in these pages first.
        stored: their sessions.
        arrivals: what the micro-batch brings.
    """

    read: Mask
    keys: Keys
    stored: Spans
    arrivals: Arrivals


@dataclass(frozen=True)
class Merged:
    """The sessions of the keys at hand after a micro-batch.

    Attributes:
        keys: of the rows that went in; ``sessions.codes`` are theirs.
        sessions: what became of stored and fresh sessions, which are the spans, in this order.
        stored: how many of the spans were stored.
        partials: one row for each session, the pane is its number.
    """

    keys: Keys
    sessions: Sessions
    stored: int
    partials: pa.Table

    @cached_property
    def touched(self) -> Mask:
        """Which sessions have a row of this micro-batch."""
        return self._holds(self.sessions.ids[self.stored :])

    @cached_property
    def was_stored(self) -> Mask:
        """Which sessions are made of, among others, one that was stored."""
        return self._holds(self.sessions.ids[: self.stored])

    def _holds(self, ids: Ints) -> Mask:
        found = np.zeros(len(self.sessions), np.bool_)
        found[ids] = True
        return found


def merge_spans(keys: Keys, stored: Spans, fresh: Sequence[Spans], work: SessionOperation) -> Merged:
    """Merges the sessions that are open and those that have come, in the order of arrival."""
    spans = [stored, *fresh]
    codes, starts, ends = (np.concatenate([getattr(one, name) for one in spans]) for name in ("codes", "starts", "ends"))
    sessions = merge_touching(codes, starts, ends, work.longest)
    partials = pa.concat_tables([one.partials for one in spans]).set_column(0, PANE, pa.array(sessions.ids))
    return Merged(keys, sessions, len(stored.codes), work.aggregation.merge([partials]))


class SessionOperator:
    """One key group's operator, for one micro-batch: made from the plan and the group's state, used once.

    Args:
        plan: the query.
        work: its operation.
        state: the key group's state.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, work: SessionOperation, state: State) -> None:
        self._plan = plan
        self._work = work
        self._schema = session_schema(plan.key_schema, work.aggregation, local=False)
        self._store = KeyedStore(plan, state, self._schema)

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""
        output = GroupOutput()
        for table in batch.invalid:
            output.emit(self._plan.invalid_tag or "", table)
        self._process(batch, output)
        if not batch.end_of_input:
            self._store.save()
        self._store.measure(batch, output.metrics)
        return output

    def _process(self, batch: GroupInput, output: GroupOutput) -> None:
        tracker = self._store.tracker
        before = tracker.watermark
        after = MAX_TIMESTAMP if batch.end_of_input else tracker.advance(batch.seen, batch.batch_time, batch.watermarks)
        gathered = self._gather(batch, after)
        closed = self._closed_by(before)
        # A lateness shorter than that of the last run leaves sessions behind that are closed by now.
        alive = gathered.stored.ends - 1 > closed
        stored = gathered.stored.filter(alive)
        fresh, late = gathered.arrivals.without_late(stored, closed, self._plan, self._work)
        output.metrics.late_rows = late.count
        for table in late.rows:
            output.emit(self._plan.late_tag or "", table)
        merged = merge_spans(gathered.keys, stored, fresh, self._work)
        last = merged.sessions.ends - 1
        self._emit(merged, (last <= after) & (merged.touched | (last > before)), output)
        if not batch.end_of_input:
            self._keep(merged, gathered.read, gathered.stored.codes[~alive], after)

    def _gather(self, batch: GroupInput, due: int) -> Gathered:
        """The micro-batch, and the sessions in the pages that have one of its keys, or one that is due."""
        pages, fresh = self._store.pages, batch.of(SESSIONS)
        wanted = pages.due(due)
        for table in fresh:
            wanted |= pages.holding(key_hashes(self._keys_of(table), table.num_rows))
        tables = [pages.read(wanted), *fresh]
        columns = self._keys_of(pa.concat_tables([table.select(range(len(self._plan.key_schema))) for table in tables]))
        keys = encode_keys(columns, sum(table.num_rows for table in tables))
        codes, known = keys.codes.astype(np.int64), tables[0].num_rows
        stored = Spans.of(tables[0], codes[:known], self._work)
        return Gathered(wanted, keys, stored, Arrivals.of(batch, codes[known:], self._work))

    def _emit(self, merged: Merged, which: Mask, output: GroupOutput) -> None:
        """Emits sessions in the order of their ends."""
        sessions = merged.sessions
        places = np.flatnonzero(which)
        if not len(places):
            return
        places = places[stable_order(sessions.ends[places])]
        numbered = np.arange(len(places))
        partials = merged.partials.take(pa.array(places)).set_column(0, PANE, pa.array(numbered))
        _, results = self._work.aggregation.windows(partials, numbered, numbered + 1)
        keys = merged.keys.take(sessions.codes[places])
        output.metrics.fired_rows += len(places)
        output.emit(MAIN, with_bounds(self._plan, keys, sessions.starts[places], sessions.ends[places], results))

    # -- state ---------------------------------------------------------------------------------------------------------

    def _keep(self, merged: Merged, read: Mask, gone: Ints, after: int) -> None:
        """Writes the sessions that are still open to the pages that were read, where anything changed.

        Args:
            merged: all sessions of these pages.
            read: the pages.
            gone: key codes of sessions that were stored and are not among ``merged``.
            after: what was due until then has fired.
        """
        if not read.any():
            return
        sessions, lateness = merged.sessions, self._plan.allowed_lateness
        open_ = sessions.ends - 1 > self._closed_by(after)
        kept = np.flatnonzero(open_)
        keys = merged.keys.take(sessions.codes[kept])
        bounds = (sessions.starts[kept], sessions.ends[kept])
        table = session_table(self._schema, keys, bounds, merged.partials.take(pa.array(kept)))
        last = sessions.ends[kept] - 1
        due = np.where(last > after, last, np.minimum(last, MAX_TIMESTAMP - lateness) + lateness)
        # A session that was not there before and is not there now changes no page.
        changed = np.where(merged.was_stored, merged.touched | ~open_, open_)
        codes = np.concatenate([sessions.codes[changed], gone])
        hashes = key_hashes(merged.keys.take(codes), len(codes))
        self._store.pages.write(read, hashes, table, key_hashes(keys, len(kept)), due)

    def _keys_of(self, table: pa.Table) -> list[pa.Array]:
        return [plain(table.column(place)) for place in range(len(self._plan.key_schema))]

    def _closed_by(self, watermark: int) -> int:
        """The watermark less the allowed lateness: windows whose last instant is this or before are closed."""
        if watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return watermark
        return max(watermark - self._plan.allowed_lateness, MIN_TIMESTAMP)
