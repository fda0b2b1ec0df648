"""The operator of windows by predicates, which cuts the rows passed by time into windows, for all keys at once.

A row may arrive before an older one, and the windows depend on the order of times. Therefore rows wait, as partials by key and
instant, until the watermark has passed them. An open window is then stored as one partial of its key, because no later row
precedes its last step. A row is late as soon as the watermark has reached its time.

Both are in pages by the hash of the key. A waiting step is due at its time, an open window a gap after its last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found, partials_saved
from panestream.engine.kernels.columns import Ints, Mask, numbers, plain
from panestream.engine.kernels.frames import KeyedTimeline
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.predicates.cuts import ENDS, OPEN, STARTS, Runs
from panestream.engine.plan import ON_TIME, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep, window_rows
from panestream.engine.runtime.timed_rows import TimedRows
from panestream.engine.storage.keyed_pages import KeyedPages
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, integers, key_columns, key_fields, named_columns, with_types
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import PredicateWindows
from panestream.windowing.time import MAX_TIMESTAMP

STEPS = "steps"
"""The state table."""
_OWN = ("start", "time", "flags")


@dataclass(frozen=True, slots=True)
class PredicateSettings:
    """The operator's part of the query. ``bare`` runs the aggregates over places on a line, without key columns."""

    windows: PredicateWindows
    aggregates: tuple[Aggregate, ...]
    bare: Aggregation
    keys: pa.Schema

    @property
    def steps_schema(self) -> pa.Schema:
        """Keys, start of the window (the time for a waiting step), time of the (last) step, flags, partials."""
        own = [pa.field(name, pa.int64()) for name in _OWN]
        return pa.schema([*key_fields(self.keys), *own, *list(self.bare.partial_schema)[1:]])


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of keys, by key and time. ``starts``, ``times``, ``flags``: see :attr:`PredicateSettings.steps_schema`.

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


class PredicateOperator(GroupOperator[Steps]):
    """The operator of windows by predicates: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: PredicateSettings, state: SealedState) -> None:
        self._settings = settings
        self._width = len(settings.keys)
        self._schema = settings.steps_schema
        self._pages = KeyedPages(state, self._schema)
        super().__init__(plan, state, self._pages)

    def _kept_windows(self) -> int:
        return sum(page.rows for page in self._pages.index)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> Steps:
        fresh = self._fresh(batch, step, output)
        changed = self._hashes(fresh)
        read = self._pages.due(step.after)
        if fresh.num_rows:
            read |= self._pages.holding(changed)
        stored = self._pages.read(read)
        table = pa.concat_tables([stored, fresh])
        keys = encode_keys([plain(column) for column in table.columns[: self._width]], table.num_rows)
        instants, order, places = KeyedTimeline.of(keys.codes.astype(np.int64), _ints(table, "time"))
        count = len(instants.times)
        starts, flags = np.full(count, MAX_TIMESTAMP), np.zeros(count, np.int64)
        np.minimum.at(starts, places, _ints(table, "start")[order])
        np.bitwise_or.at(flags, places, _ints(table, "flags")[order])
        partials = self._on_a_line(table, order, places)
        return Steps(read, changed, keys, instants.codes, starts, instants.times, flags, partials)

    def _fresh(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> pa.Table:
        """Return rows that are not late as steps, one per key and instant."""
        settings, values_of = self._settings, len(self._settings.bare.inputs)
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
        partials = settings.bare.partials([], ids, values, times if settings.bare.needs_timestamps else None)
        first = order[np.searchsorted(places, np.arange(len(instants.times)))]
        own = [pa.array(instants.times), pa.array(instants.times), pa.array(merged)]
        own = [*(key.take(pa.array(first)) for key in keys), *own]
        return pa.Table.from_arrays([*own, *(plain(column) for column in partials.columns[1:])], schema=self._schema)

    def _on_a_line(self, table: pa.Table, order: Ints, places: Ints) -> pa.Table:
        """Return the partials of each place, without key columns."""
        bare = self._settings.bare
        taken = [column.take(pa.array(order)) for column in table.columns[self._width + len(_OWN) :]]
        line = pa.Table.from_arrays([pa.array(places), *taken], schema=bare.partial_schema)
        return line if not len(places) or places[-1] + 1 == len(places) else bare.merge([line])

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
            _, results = self._settings.bare.windows(fresh.partials, first[fired], last[fired] + 1)
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
            self._settings.bare.merge([partials]),
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
        self._pages.write(fresh.read, changed, table, self._hashes(table), self._due(fresh.times, fresh.flags))

    def _due(self, times: Ints, flags: Ints) -> Ints:
        gap = self._settings.windows.gap
        return np.where(flags & OPEN > 0, MAX_TIMESTAMP if gap is None else times + gap, times)

    def _hashes(self, table: pa.Table) -> Ints:
        return key_hashes([plain(column) for column in table.columns[: self._width]], table.num_rows)

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _described(self) -> Mapping[str, Any]:
        return {"partials": partials_saved(self._settings.bare), "counters": {}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        return {STEPS: self._pages.read(np.ones(len(self._pages.index), np.bool_))}

    def _put(self, saved: StateTables) -> None:
        table = saved.table(STEPS)
        own = [*key_columns(table, self._settings.keys), *named_columns(table, [*_OWN, "rows"])]
        steps = with_types([*own, *partials_found(table, saved.header, self._settings.bare)], self._schema)
        hashes, due = self._hashes(steps), self._due(integers(steps, "time"), integers(steps, "flags"))
        self._pages.write(np.ones(len(self._pages.index), np.bool_), hashes, steps, hashes, due)


def label_of(predicate: str) -> str:
    """Return the name of the column with a predicate's value for each row."""
    return f"whether {predicate}"


def _ints(table: pa.Table, name: str) -> Ints:
    found: Ints = numbers(plain(table.column(name)))
    return found


__all__ = ["STEPS", "PredicateOperator", "PredicateSettings", "label_of"]
