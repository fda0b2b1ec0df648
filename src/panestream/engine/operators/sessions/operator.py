"""The session operators: open and local sessions, merged for all keys of a micro-batch at once.

A micro-batch follows Flink's order: its rows are judged by the watermark before it, and merged. Then the watermark advances,
sessions fire, and closed ones are dropped. If a session grows or fires several times within a micro-batch, only its state at the
end is emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.aggregation import standing
from panestream.engine.kernels.columns import Ints, Mask, numbers, valid_of
from panestream.engine.kernels.grouping import Keys, by_key_group, encode_keys, key_groups_of
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.columnar import (
    AggregatingSpec,
    PagedOperator,
    TableLayout,
    explain_aggregates,
    integers_of,
    partials_of,
)
from panestream.engine.operators.sessions.arrivals import MergedSessions, SessionArrivals, Spans
from panestream.engine.operators.sessions.exchange import (
    PANE,
    ROWS,
    ROWS_SCHEMA,
    SESSIONS,
    LocalSessions,
    local_sessions,
    own_ends,
    pack_rows,
    session_schema,
    session_table,
)
from panestream.engine.plan import (
    DELETE,
    FIRINGS,
    INSERT,
    LATE,
    ON_TIME,
    OPS,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Capabilities,
    Chunk,
    Operator,
    WindowPlan,
    WindowQuery,
)
from panestream.engine.rule import PYTHON, DeclaredAggregates, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import TimeStep, firing_columns, window_rows
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, reached_by, share
from panestream.engine.runtime.watermarks import closing_times
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import InvalidWindowError
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import LONGEST_GAP, GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration


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


@dataclass(frozen=True, slots=True)
class SessionSpec(AggregatingSpec):
    """Event-time or processing-time sessions with the default trigger and declared aggregates.

    Attributes:
        gap: in engine units, or the column with the gap of each row.
        longest: sessions are cut at the multiples of this, unless it is None.
    """

    gap: int | GapColumn
    longest: int | None
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation
    by_processing_time: bool = False

    def layout(self, keys: pa.Schema) -> TableLayout:
        """Open sessions: keys, bounds, firings, partials."""
        return TableLayout(SESSIONS, session_schema(keys, self.aggregation, local=False), self.aggregation)

    @property
    def name(self) -> str:
        return "sessions"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            order_sensitive=self.aggregation.follows_arrival,
            uses_processing_time=self.by_processing_time,
            shows_processing_time=self.by_processing_time,
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.aggregation.inputs, *([self.gap.label] if isinstance(self.gap, GapColumn) else []))

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        keys, values = encode_keys(chunk.keys, len(chunk.times)), self._values(chunk)
        ends = self._ends(chunk)
        local = self._sessions(chunk, keys, ends)
        yield SESSIONS, self._table(plan, keys, local)
        if not (self.by_processing_time or chunk.never_late):
            whole = chunk.rows if plan.late_tag is not None else None
            yield ROWS, pack_rows(local, chunk.times, ends, values, whole)

    def pack_key_groups(self, plan: WindowPlan, chunk: Chunk, key_groups: Ints) -> list[tuple[int, str, pa.Table]] | None:
        if not chunk.never_late or self.aggregation.runs_users_code:
            return None  # rows that may be late cross the exchange too
        keys = encode_keys(chunk.keys, len(chunk.times))
        of_key = key_groups_of(keys, key_groups)
        if of_key is None:
            return None
        local = self._sessions(chunk, keys, self._ends(chunk))
        parts = by_key_group(self._table(plan, keys, local), of_key[local.codes])
        return [(number, SESSIONS, table) for number, table in parts]

    def _sessions(self, chunk: Chunk, keys: Keys, ends: Ints) -> LocalSessions:
        codes, times = keys.codes.astype(np.int64), self._times(chunk)
        return local_sessions(self.aggregation, codes, times, ends, self._values(chunk), chunk.times, self.longest)

    def _table(self, plan: WindowPlan, keys: Keys, local: LocalSessions) -> pa.Table:
        bounds = (local.starts, local.ends, local.firsts)
        return session_table(self.part_schema(plan, SESSIONS), keys.take(local.codes), bounds, local.partials)

    def _values(self, chunk: Chunk) -> list[pa.Array]:
        return chunk.values[: len(self.aggregation.inputs)]

    def _times(self, chunk: Chunk) -> Ints:
        # By processing time, all rows of a micro-batch have the same time. Only the key group has it, so it is 0 until then.
        return np.zeros(len(chunk.times), np.int64) if self.by_processing_time else chunk.times

    def _ends(self, chunk: Chunk) -> Ints:
        return own_ends(self._times(chunk), self._gaps(chunk), self.longest)

    def _gaps(self, chunk: Chunk) -> int | Ints:
        """Return the gap, or the gap of each row; raise InvalidWindowError if one is null or out of range."""
        if not isinstance(self.gap, GapColumn):
            return self.gap
        column = chunk.values[-1]
        gaps: Ints = numbers(column).astype(np.int64, copy=False)
        wrong = (gaps <= 0) | (gaps >= LONGEST_GAP)
        valid = valid_of(column)
        if valid is not None:
            wrong |= ~valid
        if wrong.any():
            first = column[int(np.flatnonzero(wrong)[0])].as_py()
            raise InvalidWindowError(
                f"the session gap {self.gap.expr!r} must be positive (and less than 140,000 years): {int(wrong.sum())} of "
                f"{len(gaps)} rows do not have one, the first has {'null' if first is None else format_duration(first)!r}"
            )
        return gaps

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        return session_schema(plan.key_schema, self.aggregation, local=True) if kind == SESSIONS else ROWS_SCHEMA

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> Operator:
        return (ProcessingTimeSessionOperator if self.by_processing_time else SessionOperator)(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        stored = self.layout(plan.key_schema).restore(saved)
        reached = reached_by(saved, by_processing_time=self.by_processing_time)
        lateness = 0 if self.by_processing_time else plan.allowed_lateness
        each = np.arange(stored.num_rows)
        now = standing(self.aggregation, partials_of(stored, self.aggregation, each), each, each + 1)
        starts, ends, fired, late = (integers_of(stored, name) for name in ("start", "end", "fired", "late"))
        last = ends - 1
        words = np.where(fired == 0, -1, np.where(late > 0, FIRINGS.index(LATE), FIRINGS.index(ON_TIME)))
        kept = plan.keeps_emitted
        rows = WindowRows(
            keys=stored.columns[: len(plan.key_schema)],
            count=stored.num_rows,
            starts=pa.array(starts),
            ends=pa.array(ends),
            results=now.results,
            rows=now.rows,
            firings=fired if kept else None,
            last_firing=words if kept else None,
            due=np.where(last > reached, last, MAX_TIMESTAMP),
            closes=closing_times(last, lateness),
            size=share(saved.table(SESSIONS).nbytes, now.rows),
        )
        schemas = ViewSchemas(plan, group)
        return schemas.with_windows(schemas.windows_of(rows))

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        rows = "whole rows, for the late output" if plan.late_tag else "rows"
        return {
            "sessions": [self._described()],
            "aggregates": explain_aggregates(self.aggregates),
            "exchange": [
                "local sessions are built before the shuffle: one row for each key and session of a chunk",
                *(f"{what} crosses it all the same" for what in self.aggregation.crossing),
                *(
                    []
                    if self.by_processing_time or not streaming
                    else [f"{rows} cross the shuffle too, packed; they are unpacked if one may be late"]
                ),
            ],
            "state": [
                "open sessions, in pages by hash of the key: a micro-batch reads the pages of its keys, and pages that are due"
                if streaming
                else "none: a batch fires every session at the end of input"
            ],
        }

    def _described(self) -> str:
        time = "the clock" if self.by_processing_time else "event time"
        gap = f"a gap for each row, {self.gap.expr}" if isinstance(self.gap, GapColumn) else f"gap {format_duration(self.gap)}"
        cut = "" if self.longest is None else f"; cut at every multiple of {format_duration(self.longest)}"
        return f"of {time}, {gap}{cut}"


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


class SessionOperator(PagedOperator[SessionsAtHand]):
    """The operator of event-time sessions: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: SessionSpec, state: SealedState) -> None:
        self._settings = settings
        self._aggregation = settings.aggregation
        layout = settings.layout(plan.key_schema)
        super().__init__(plan, state, layout, by_processing_time=settings.by_processing_time)

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> SessionsAtHand:
        gathered = self._gather(batch, step.after)
        closed = self._closing.at(step.before)
        # After a restart with a shorter lateness, the state has sessions that are closed by now.
        alive = gathered.stored.ends - 1 > closed
        stored = gathered.stored.filter(alive)
        fresh, late = gathered.arrivals.without_late(stored, closed, self._plan, self._aggregation, self._settings.longest)
        self._emit_late(late.count, late.rows, output)
        output.metrics.windowed_rows = _rows(fresh)
        merged = MergedSessions.of(gathered.keys, stored, fresh, self._aggregation, self._settings.longest)
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
        stored = Spans.of(tables[0], codes[:known], self._aggregation)
        return Gathered(wanted, keys, stored, SessionArrivals.of(batch, codes[known:], self._aggregation))

    def _emit(self, merged: MergedSessions, fired: FiredSessions, output: GroupOutput) -> None:
        rows = session_rows(self._plan, self._aggregation, merged, fired)
        late = int(fired.late.sum())
        self._count_firings(LATE, late, output)
        self._count_firings(ON_TIME, len(fired.late) - late, output)
        self._emit_main(rows, len(fired.places), output)

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

    def _state_tables(self) -> Mapping[str, pa.Table]:
        # After a restart with a shorter lateness, the state has sessions that are closed by now.
        closed = self._closing.at(self._reached)
        return {
            name: stored.filter(pa.array(stored.column("end").to_numpy() - 1 > closed))
            for name, stored in super()._state_tables().items()
        }

    def _write_all(self, rows: pa.Table) -> None:
        # The sessions of a key are always sorted by start, so that changes to several are emitted in that order.
        super()._write_all(rows.take(pa.array(stable_order(integers_of(rows, "start")))))

    def _due_of(self, rows: pa.Table) -> Ints:
        return self._due(integers_of(rows, "end"), self._reached)

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


class ProcessingTimeSessionOperator(SessionOperator):
    """Like :class:`SessionOperator` for processing time: all rows of a micro-batch have the time of the micro-batch.

    No row is late, and sessions that have ended fire before the rows of the micro-batch are added. Therefore a distance of
    exactly the gap makes two sessions here: when time reaches the end of a session, it has just fired and been dropped.
    """

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> SessionsAtHand:
        gathered, now = self._gather(batch, step.after), self._processing_time
        ended = gathered.stored.ends <= now
        over = MergedSessions.of(gathered.keys, gathered.stored.filter(ended), [], self._aggregation, self._settings.longest)
        fresh = [chunk.after(now) for chunk in gathered.arrivals.chunks]
        output.metrics.windowed_rows = _rows(fresh)
        merged = MergedSessions.of(
            gathered.keys, gathered.stored.filter(~ended), fresh, self._aggregation, self._settings.longest
        )
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


def sessions_rule(window: WindowQuery, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan sessions over declared aggregates, with a number or a column as gap, and the default trigger."""
    assigner = window.assigner
    if not isinstance(assigner, (EventTimeSessionWindows, ProcessingTimeSessionWindows)):
        return None
    if not isinstance(asked, DeclaredAggregates):
        return None
    gap, reasons = assigner.gap, _why_not(window)
    if asked.then is not None:
        reasons.append(PYTHON)
    if reasons or not isinstance(gap, (int, GapColumn)):
        return Unsupported(reasons)
    aggregation = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    by_processing_time = not assigner.is_event_time
    return Supported(SessionSpec(gap, assigner.longest, tuple(asked.aggregates), aggregation, by_processing_time))


def _why_not(window: WindowQuery) -> list[str]:
    assigner = window.assigner
    if type(assigner) not in (EventTimeSessionWindows, LimitedEventTimeSessionWindows, ProcessingTimeSessionWindows):
        return [f"{type(assigner).__name__} is a user-defined assigner"]
    reasons = []
    if not isinstance(getattr(assigner, "gap", None), (int, GapColumn)):
        reasons.append("the gap is a function in Python: with_gap_column(expression) runs as a column")
    if window.trigger is not None and window.trigger != assigner.get_default_trigger():
        reasons.append(f"the trigger {window.trigger!r} is not the default one")
    if window.evictor is not None:
        reasons.append("an evictor needs all elements")
    if window.every_firing:
        reasons.append("every firing was asked for")
    return reasons
