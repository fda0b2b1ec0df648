"""Windows that rows begin and end, as columns: rows that time has passed are cut into windows by their predicates.

A row may arrive before an older one, and the windows depend on the order of times. Therefore rows wait, as partials by key and
instant, until the watermark has passed them. An open window is then stored as one partial of its key, because no later row
precedes its last step. A row is late as soon as the watermark has reached its time.

Both are in pages by the hash of the key. A waiting step is due at its time, an open window a gap after its last step.

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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.aggregation import standing
from panestream.engine.kernels.columns import Ints, Mask, key_fields, plain
from panestream.engine.kernels.frames import KeyedTimeline
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.columnar import (
    AggregatingSpec,
    PagedOperator,
    TableLayout,
    explain_aggregates,
    integers_of,
    on_a_line,
)
from panestream.engine.plan import ON_TIME, Capabilities, Chunk, WindowPlan, WindowQuery
from panestream.engine.rule import Supported, WindowRequest, on_columns_only
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import TimeStep, window_rows
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, share
from panestream.engine.runtime.timed_rows import ROWS, TimedRows, pack_timed, timed_schema
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews, key_columns
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import PredicateWindows
from panestream.windowing.time import MAX_TIMESTAMP, format_duration

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


STEPS = "steps"
"""The state table."""
_OWN = ("start", "time", "flags")


@dataclass(frozen=True, slots=True)
class PredicateSpec(AggregatingSpec):
    """Event-time windows by predicates with declared aggregates, which run over places on a line, without key columns."""

    windows: PredicateWindows
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation
    keys: pa.Schema

    @property
    def layout(self) -> TableLayout:
        """Keys, start of the window (the time for a waiting step), time of the (last) step, flags, partials."""
        own = [pa.field(name, pa.int64()) for name in _OWN]
        schema = pa.schema([*key_fields(self.keys), *own, *list(self.aggregation.partial_schema)[1:]])
        return TableLayout(STEPS, schema, self.aggregation)

    @property
    def name(self) -> str:
        return "predicates"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            order_sensitive=self.aggregation.follows_arrival,
            fires_by_time=self.windows.gap is not None,
            late_by_time=0,
            no_firings="each of these windows fires once",
            no_changelog="each of these windows fires once, and no later result takes its place",
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.aggregation.inputs, *map(label_of, self.windows.predicates))

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        return pack_timed(plan, chunk, self.part_schema(plan, ROWS))

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        """Return keys, event time, aggregate inputs, predicates, and the whole row for a late output."""
        return timed_schema(plan, [*self.aggregation.input_types, *[pa.bool_()] * len(self.windows.predicates)])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> PredicateOperator:
        return PredicateOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        """Return the views of a key group.

        The end of an open window is unknown: the view shows a gap after its last row, or an instant after it without a gap. A
        waiting step is shown as a window of its instant, because its window is not determined yet.
        """
        stored, gap = self.layout.restore(saved), self.windows.gap
        each = np.arange(stored.num_rows)
        now = standing(self.aggregation, self.layout.partials(stored), each, each + 1)
        starts, times, flags = (integers_of(stored, name) for name in _OWN)
        is_open = flags & OPEN > 0
        due = self.due_of(times, flags)
        rows = WindowRows(
            keys=key_columns(saved.table(STEPS), plan.key_schema),
            count=stored.num_rows,
            starts=pa.array(starts),
            ends=pa.array(times + np.where(is_open, 1 if gap is None else gap, 1)),
            results=now.results,
            rows=now.rows,
            due=due,
            closes=due,
            size=share(saved.table(STEPS).nbytes, now.rows),
        )
        schemas = ViewSchemas(plan, group)
        return schemas.with_windows(schemas.windows_of(rows))

    def due_of(self, times: Ints, flags: Ints) -> Ints:
        """Return the times at which steps need attention."""
        gap = self.windows.gap
        return np.where(flags & OPEN > 0, MAX_TIMESTAMP if gap is None else times + gap, times)

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        return {
            "predicates": [
                "rows of each key in the order of their times, when the watermark has passed them; older rows are late",
                self._told(),
            ],
            "aggregates": explain_aggregates(self.aggregates),
            "exchange": [
                "values cross the shuffle, marked if their row begins or ends a window",
                *(["whole rows cross too, for the late output"] if plan.late_tag else []),
            ],
            "state": [
                "open windows, and partials of each key and instant that waits for the watermark, in pages by hash of the key"
                if streaming
                else "none: a batch computes all windows at once, and does not emit windows without an end"
            ],
        }

    def _told(self) -> str:
        windows = self.windows
        begin = "a row that is in none yet" if windows.start is None else f"a row where {windows.start}"
        ends = [] if windows.end is None else [f"behind a row where {windows.end}"]
        ends += [] if windows.start is None else ["before the next start"]
        ends += [] if windows.gap is None else [f"{format_duration(windows.gap)} after the last row"]
        return f"a window begins with {begin}, and ends {' or '.join(ends)}"


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of keys, by key and time. ``starts``, ``times``, ``flags``: see :attr:`PredicateSpec.layout`.

    Attributes:
        read: the pages that were read, all of whose steps are included.
        changed: hashes of the keys with rows in this micro-batch.
        partials: one for each step, whose number is its place.
    """

    read: Mask
    changed: Ints
    keys: Keys
    codes: Ints
    starts: Ints
    times: Ints
    flags: Ints
    partials: pa.Table


class PredicateOperator(PagedOperator[Steps]):
    """The operator of windows by predicates: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: PredicateSpec, state: SealedState) -> None:
        self._settings = settings
        super().__init__(plan, state, settings.layout)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Steps:
        fresh = self._fresh(batch, step, output)
        changed = self._hashes(fresh)
        read = self._pages.due(step.after)
        if fresh.num_rows:
            read |= self._pages.holding(changed)
        stored = self._pages.read(read)
        table = pa.concat_tables([stored, fresh])
        keys = encode_keys(self._keys_of(table), table.num_rows)
        instants, order, places = KeyedTimeline.of(keys.codes.astype(np.int64), integers_of(table, "time"))
        count = len(instants.times)
        starts, flags = np.full(count, MAX_TIMESTAMP), np.zeros(count, np.int64)
        np.minimum.at(starts, places, integers_of(table, "start")[order])
        np.bitwise_or.at(flags, places, integers_of(table, "flags")[order])
        partials = on_a_line(self._settings.aggregation, table.columns[self._width + len(_OWN) :], order, places)
        return Steps(read, changed, keys, instants.codes, starts, instants.times, flags, partials)

    def _fresh(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> pa.Table:
        """Return rows that are not late as steps, one per key and instant."""
        settings, values_of = self._settings, len(self._settings.aggregation.inputs)
        taken = TimedRows.of(batch, self._plan, values_of + len(settings.windows.predicates), step.before)
        if taken is None:
            return self._schema.empty_table()
        keys, times = taken.keys, taken.times
        self._emit_late(taken.late, taken.late_rows, output)
        # A row's window is determined only when time has passed it.
        output.metrics.windowed_rows = len(times)
        values, said = taken.inputs[:values_of], taken.inputs[values_of:]
        flags = np.zeros(len(times), np.int64)
        bits = [bit for bit, one in ((STARTS, settings.windows.start), (ENDS, settings.windows.end)) if one is not None]
        for bit, column in zip(bits, said, strict=True):
            flags |= np.where(pc.fill_null(column, False).to_numpy(zero_copy_only=False), bit, 0)
        instants, order, places = KeyedTimeline.of(encode_keys(keys, len(times)).codes.astype(np.int64), times)
        ids = np.empty(len(times), np.int64)
        ids[order] = places
        merged = np.zeros(len(instants.times), np.int64)
        np.bitwise_or.at(merged, ids, flags)
        partials = settings.aggregation.partials([], ids, values, times if settings.aggregation.needs_timestamps else None)
        first = order[np.searchsorted(places, np.arange(len(instants.times)))]
        own = [pa.array(instants.times), pa.array(instants.times), pa.array(merged)]
        own = [*(key.take(pa.array(first)) for key in keys), *own]
        return pa.Table.from_arrays([*own, *(plain(column) for column in partials.columns[1:])], schema=self._schema)

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: Steps, step: TimeStep, output: GroupOutput) -> Steps:
        """Emit the windows that have ended, and return the open windows and waiting steps."""
        passed = np.flatnonzero(fresh.times <= step.after)
        if not len(passed):
            return fresh
        codes, times, flags = fresh.codes[passed], fresh.times[passed], fresh.flags[passed]
        runs = Runs.of(self._settings.windows, codes, times, flags, step.after)
        first, last = passed[runs.first], passed[runs.last]
        fired = np.flatnonzero(runs.in_window & runs.closed)
        if len(fired):
            # A run is a range of places: the steps of a key that time has passed precede those that wait.
            _, results = self._settings.aggregation.windows(fresh.partials, first[fired], last[fired] + 1)
            by_end = stable_order(runs.ends[fired])
            which = fired[by_end]
            keys, bounds = fresh.keys.take(fresh.codes[first[which]]), (fresh.starts[first[which]], runs.ends[which])
            self._count_firings(ON_TIME, len(which), output)
            rows = window_rows(self._plan, keys, bounds, results.take(pa.array(by_end)).columns)
            self._emit_main(rows, len(which), output)
        if step.end_of_input:
            return fresh
        open_ = np.flatnonzero(runs.in_window & ~runs.closed)
        return self._left(fresh, np.flatnonzero(fresh.times > step.after), first[open_], last[open_])

    def _left(self, steps: Steps, waiting: Ints, first: Ints, last: Ints) -> Steps:
        """Return waiting steps, and the steps of each open window as one."""
        lengths = last + 1 - first
        members = np.repeat(first - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
        places = np.concatenate([members, waiting])
        windows = np.concatenate([np.repeat(np.arange(len(first)), lengths), len(first) + np.arange(len(waiting))])
        partials = steps.partials.take(pa.array(places))
        partials = partials.set_column(0, partials.schema.field(0), pa.array(windows))
        begins, ends = np.concatenate([first, waiting]), np.concatenate([last, waiting])
        flags = np.concatenate([np.full(len(first), OPEN), steps.flags[waiting]])
        return Steps(
            steps.read,
            steps.changed,
            steps.keys,
            steps.codes[begins],
            steps.starts[begins],
            steps.times[ends],
            flags,
            self._settings.aggregation.merge([partials]),
        )

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: Steps, step: TimeStep) -> None:
        if not fresh.read.any():
            return
        keys = fresh.keys.take(fresh.codes)
        own = [pa.array(column) for column in (fresh.starts, fresh.times, fresh.flags)]
        table = pa.Table.from_arrays([*keys, *own, *map(plain, fresh.partials.columns[1:])], schema=self._schema)
        every = np.arange(fresh.keys.count)
        # Time may have passed any step that was read.
        changed = np.concatenate([fresh.changed, key_hashes(fresh.keys.take(every), len(every))])
        self._pages.write(fresh.read, changed, table, self._hashes(table), self._settings.due_of(fresh.times, fresh.flags))

    def _due_of(self, rows: pa.Table) -> Ints:
        return self._settings.due_of(integers_of(rows, "time"), integers_of(rows, "flags"))


def label_of(predicate: str) -> str:
    """Return the name of the column with a predicate's value for each row."""
    return f"whether {predicate}"


def predicates_rule(window: WindowQuery, asked: WindowRequest) -> Supported | None:
    """Plan windows by predicates over declared aggregates; raise InvalidPlanError for unsupported queries."""
    assigner = window.assigner
    if not isinstance(assigner, PredicateWindows):
        return None
    asked = on_columns_only(window, asked, "windows by predicates")
    aggregation = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    return Supported(PredicateSpec(assigner, tuple(asked.aggregates), aggregation, asked.keys))
