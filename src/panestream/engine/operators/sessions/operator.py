"""The session operator of event time: open sessions and local ones, merged for all keys of a micro-batch at once.

A micro-batch goes through in Flink's order: its rows are judged against the watermark as it stood before, and merged; then the
watermark advances, sessions fire and closed ones go. Of a session that grows or fires several times within a micro-batch only
the last state is emitted: what it is when the micro-batch is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, plain
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.operators.sessions.arrivals import Arrivals, Spans
from panestream.engine.operators.sessions.exchange import SESSIONS, session_schema, session_table
from panestream.engine.operators.sessions.firing import Fired, main_rows
from panestream.engine.operators.sessions.merged import Merged
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.closing import Closing
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.keyed_store import KeyedStore
from panestream.engine.storage.sealed_state import SealedState
from panestream.windowing.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from panestream.engine.operators.sessions.spec import SessionSpec


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


class SessionOperator:
    """One key group's operator, for one micro-batch: made from the plan and the group's state, used once.

    Args:
        plan: the query.
        spec: its operator, as planned.
        state: the key group's state.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, spec: SessionSpec, state: SealedState) -> None:
        self._plan = plan
        self._spec = spec
        self._schema = session_schema(plan.key_schema, spec.aggregation, local=False)
        self._store = KeyedStore(plan, state, self._schema)
        self._closing = Closing(plan.allowed_lateness, self._store.closed)

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
        after = MAX_TIMESTAMP if batch.end_of_input else tracker.take_in(batch)
        gathered = self._gather(batch, after)
        closed = self._closing.at(before)
        # A lateness shorter than that of an earlier run leaves sessions behind that are closed by now.
        alive = gathered.stored.ends - 1 > closed
        stored = gathered.stored.filter(alive)
        fresh, late = gathered.arrivals.without_late(stored, closed, self._plan, self._spec)
        output.metrics.late_rows = late.count
        for table in late.rows:
            output.emit(self._plan.late_tag or "", table)
        merged = Merged.of(gathered.keys, stored, fresh, self._spec)
        last = merged.sessions.ends - 1
        fired = Fired.of(merged, (last <= after) & (merged.touched | (last > before)), before, self._closing.at(after))
        self._emit(merged, fired, output)
        if not batch.end_of_input:
            self._keep(merged, fired, gathered, gathered.stored.codes[~alive], after)
            self._store.closed = self._closing.reach(after)

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
        stored = Spans.of(tables[0], codes[:known], self._spec)
        return Gathered(wanted, keys, stored, Arrivals.of(batch, codes[known:], self._spec))

    def _emit(self, merged: Merged, fired: Fired, output: GroupOutput) -> None:
        output.metrics.fired_rows += len(fired.places)
        output.emit(MAIN, main_rows(self._plan, self._spec.aggregation, merged, fired))

    # -- state ---------------------------------------------------------------------------------------------------------

    def _keep(self, merged: Merged, fired: Fired, gathered: Gathered, gone: Ints, after: int) -> None:
        """Writes the sessions that are still open to the pages that were read, where anything changed.

        Args:
            merged: all sessions of these pages.
            fired: those that have just fired.
            gathered: what was read.
            gone: key codes of sessions that were stored and are not among ``merged``.
            after: what was due until then has fired.
        """
        read = gathered.read
        if not read.any():
            return
        sessions, lateness = merged.sessions, self._plan.allowed_lateness
        open_ = sessions.ends - 1 > self._closing.at(after)
        kept = np.flatnonzero(open_)
        keys = merged.keys.take(sessions.codes[kept])
        columns = (sessions.starts[kept], sessions.ends[kept], *(column[kept] for column in self._emitted(merged, fired)))
        table = session_table(self._schema, keys, columns, merged.partials.take(pa.array(kept)))
        last = sessions.ends[kept] - 1
        due = np.where(last > after, last, np.minimum(last, MAX_TIMESTAMP - lateness) + lateness)
        # A session that was not there before and is not there now changes no page.
        changed = np.where(merged.was_stored, merged.touched | ~open_, open_)
        if self._plan.keeps_emitted:
            changed[fired.places] |= open_[fired.places]
        codes = np.concatenate([sessions.codes[changed], gone])
        hashes = key_hashes(merged.keys.take(codes), len(codes))
        self._store.pages.write(read, hashes, table, key_hashes(keys, len(kept)), due)

    def _emitted(self, merged: Merged, fired: Fired) -> tuple[Ints, Ints]:
        """How often sessions have fired, and whether last because of a late row; nothing where the plan does not ask."""
        if not self._plan.keeps_emitted:
            nothing = np.zeros(len(merged.sessions), np.int64)
            return nothing, nothing
        count, late = merged.fired.copy(), merged.fired_late.copy()
        count[fired.places] += 1
        late[fired.places] = fired.late
        return count, late

    def _keys_of(self, table: pa.Table) -> list[pa.Array]:
        return [plain(table.column(place)) for place in range(len(self._plan.key_schema))]
