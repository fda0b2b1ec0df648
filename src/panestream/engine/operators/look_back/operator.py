"""The look-back operator: for every row passed by time, aggregates of its key's nearby rows, for all keys at once.

State has two parts. *Waiting rows*, with the result columns, remain until the watermark has passed them and the time that follows
them. The *history* has partials of each key and instant, until no later row looks back to them. So a row is stored whole while
rows may come out of order, and as a narrow partial for the length of the look-back.
:mod:`~panestream.engine.operators.look_back.history` describes which part of the history a micro-batch reads.

Results are correct because no row can arrive in the window of an emitted row. Therefore a row is late as soon as the watermark
has reached its time, even if later windows could still contain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import partials_found, partials_saved
from panestream.engine.kernels.columns import Ints, numbers, plain
from panestream.engine.kernels.frames import KeyedTimeline
from panestream.engine.kernels.grouping import Keys, encode_keys
from panestream.engine.kernels.key_hashing import key_hashes
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.look_back.history import MOST_MERGED, RowsByTime
from panestream.engine.plan import ON_TIME, WindowPlan
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep
from panestream.engine.runtime.timed_rows import TimedRows
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import PaneBlocks, StoredBlocks, pane_range
from panestream.engine.storage.limits import look_back_too_large
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, integers, key_columns, key_fields, named_columns, with_types
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners.look_back import LookBackWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

WAITING, HISTORY = "waiting", "history"
"""The state tables; the pane of both is the event time itself."""

_MANY_FOR_EACH = 4
"""If the history has this many times more partials than there are rows, other keys' partials are removed before sorting."""


@dataclass(frozen=True, slots=True)
class LookBackSettings:
    """The operator's part of the query.

    Attributes:
        bare: the aggregation over places on a line, without key columns.
        keyed: the aggregation by key and instant, whose partials are the history.
        texts, kept: the plan's expressions for the row columns in results, and these columns.
    """

    look_backs: Mapping[str, LookBackWindows]
    aggregates: tuple[Aggregate, ...]
    bare: Aggregation
    keyed: Aggregation
    texts: tuple[str, ...]
    kept: pa.Schema
    keys: pa.Schema

    @property
    def all_inputs(self) -> tuple[str, ...]:
        """The inputs that cross the exchange, each expression once."""
        return tuple(dict.fromkeys((*self.bare.inputs, *self.texts)))

    @property
    def input_types(self) -> tuple[pa.DataType, ...]:
        known = dict(zip(self.texts, self.kept.types, strict=True)) | dict(
            zip(self.bare.inputs, self.bare.input_types, strict=True)
        )
        return tuple(known[text] for text in self.all_inputs)

    @property
    def longest(self) -> int:
        """The maximum time that rows look back."""
        return max(one.size for one in self.look_backs.values())

    @property
    def ahead(self) -> int:
        """The maximum time after a row until its results are known."""
        return max(one.following for one in self.look_backs.values())

    @property
    def waiting_schema(self) -> pa.Schema:
        """Keys, event time, row columns and arrival number. The names are generated because users' names are arbitrary."""
        row = [pa.field(f"row {place}", field.type) for place, field in enumerate(self.kept)]
        return pa.schema([*key_fields(self.keys), pa.field("pane", pa.int64()), *row, pa.field("arrival", pa.int64())])


@dataclass(frozen=True, slots=True)
class FreshRows:
    """A micro-batch's rows like waiting rows, in order of arrival, and their partials by key and instant, sorted by time."""

    rows: pa.Table
    partials: pa.Table


class LookBackOperator(GroupOperator[FreshRows]):
    """The operator of look-backs: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: LookBackSettings, state: SealedState) -> None:
        self._settings = settings
        self._width = len(settings.keys)
        self._schema = settings.waiting_schema
        self._waiting = PaneBlocks(state, WAITING, self._schema, by_time, MOST_MERGED, max(settings.longest, 1))
        self._history = RowsByTime(state, settings.keyed, settings.longest)
        super().__init__(plan, state, StoredBlocks(state, [self._waiting, *self._history.stores]))
        self._arrived = self._saved.get("arrived", 0)
        if self._saved:
            self._history.resume(self._saved["history"])

    def _kept(self) -> Mapping[str, Any]:
        return {"arrived": self._arrived, "history": self._history.kept()}

    def _emitted(self, watermark: int) -> int:
        """Return the time up to which rows have been emitted at a watermark."""
        if watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return -BEYOND_ALL if watermark == MIN_TIMESTAMP else BEYOND_ALL
        return watermark - self._settings.ahead

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _take_in(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> FreshRows:
        settings = self._settings
        taken = TimedRows.of(batch, self._plan, len(settings.all_inputs), step.before)
        if taken is None:
            return FreshRows(self._schema.empty_table(), settings.keyed.partial_schema.empty_table())
        keys, times = taken.keys, taken.times
        self._emit_late(taken.late, taken.late_rows, output)
        output.metrics.windowed_rows = len(times)
        inputs = dict(zip(settings.all_inputs, taken.inputs, strict=True))
        numbers_ = pa.array(self._arrived + np.arange(len(times)))
        self._arrived += len(times)
        row = [inputs[text] for text in settings.texts]
        rows = pa.Table.from_arrays([*keys, pa.array(times), *row, numbers_], schema=self._schema)
        values = [inputs[text] for text in settings.keyed.inputs]
        return FreshRows(rows, settings.keyed.partials(keys, times, values, times if settings.keyed.needs_timestamps else None))

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: FreshRows, step: TimeStep, output: GroupOutput) -> FreshRows:
        since, until = self._emitted(step.before), self._emitted(step.after)
        if until <= since:
            return fresh
        due = _pane(fresh.rows) <= until
        ours = fresh.rows if due.all() else fresh.rows.filter(pa.array(due))
        rows = pa.concat_tables([*self._waiting.read(since + 1, until + 1), ours])
        if rows.num_rows:
            self._emit_computed(rows, fresh.partials, output)
        return fresh

    def _emit_computed(self, rows: pa.Table, fresh: pa.Table, output: GroupOutput) -> None:
        """Emit rows with their results, key by key in order of time."""
        settings = self._settings
        times = _pane(rows)
        partials, keys = self._near(rows, times, fresh)
        known = partials.num_rows
        codes = keys.codes.astype(np.int64)
        instants, order, places = KeyedTimeline.of(codes[:known], _pane(partials))
        line = self._on_a_line(partials, order, places)
        order = stable_order(codes[known:], times)
        codes, times = codes[known:][order], times[order]
        where = instants.places(codes, times)
        new = np.ones(len(where), np.bool_)
        new[1:] = where[1:] != where[:-1]
        fired, of = where[new], np.cumsum(new) - 1
        results: list[pa.Array] = []
        for one in settings.look_backs.values():
            begin, end = instants.near(one.size, one.following)
            found = settings.bare.over_places(line, begin[fired], end[fired])
            results += found.columns if len(fired) == len(where) else found.take(pa.array(of)).columns
        kept = rows.select(range(self._width + 1, rows.num_columns - 1))
        kept = kept if bool((order[1:] > order[:-1]).all()) else kept.take(pa.array(order))
        columns = [*keys.take(codes), *kept.columns, *results]
        self._count_firings(ON_TIME, len(codes), output)
        self._emit_main(pa.Table.from_arrays(columns, schema=self._plan.main_schema), len(codes), output)

    def _near(self, rows: pa.Table, times: Ints, fresh: pa.Table) -> tuple[pa.Table, Keys]:
        """Return the partials that rows look back to, older first, and the keys of these partials followed by the rows' keys."""
        settings = self._settings
        ours = pane_range(fresh, int(times.min()) - settings.longest, int(times.max()) + settings.ahead + 1)
        partials = pa.concat_tables([*self._history_of(rows, times, ours.nbytes), ours])
        both = [pa.chunked_array([*partials.column(n).chunks, *rows.column(n).chunks]) for n in range(self._width)]
        return partials, encode_keys([plain(column) for column in both], partials.num_rows + rows.num_rows)

    def _history_of(self, rows: pa.Table, times: Ints, size: int) -> Iterator[pa.Table]:
        """Yield the history that rows need, block by block; if there are few rows, only their keys, so that less is sorted.

        Raises MemoryLimitError if the history is too large for memory.
        """
        spans = self._history.near(times, list(self._settings.look_backs.values()))
        few = sum(span.rows for span in spans) > _MANY_FOR_EACH * rows.num_rows
        wanted = np.unique(self._hashes(rows)) if few else None
        for block in chain.from_iterable(span.scan() for span in spans):
            part = block
            if wanted is not None:
                hashes = self._hashes(block)
                found = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
                part = block.filter(pa.array(wanted[found] == hashes))
            size += part.nbytes
            if size > self._plan.most_bytes:
                raise look_back_too_large(size, self._plan.most_bytes)
            yield part

    def _hashes(self, table: pa.Table) -> Ints:
        return key_hashes([plain(column) for column in table.columns[: self._width]], table.num_rows)

    def _on_a_line(self, partials: pa.Table, order: Ints, places: Ints) -> pa.Table:
        """Return the partials of each place, without key columns; not empty, because rows look back to themselves."""
        bare = self._settings.bare
        at = pa.array(order)
        columns = [pa.array(places), *(column.take(at) for column in partials.columns[self._width + 1 :])]
        line = pa.Table.from_arrays(columns, schema=bare.partial_schema)
        return line if places[-1] + 1 == len(places) else bare.merge([line])

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: FreshRows, step: TimeStep) -> None:
        emitted = self._emitted(step.after)
        # New rows are later than the watermark and look back from it; waiting rows look back from the first one.
        needed = emitted + 1 - self._settings.longest
        waiting = fresh.rows.filter(pa.array(_pane(fresh.rows) > emitted))
        self._waiting.drop_before(emitted + 1)
        self._waiting.append(by_time([waiting]))
        self._waiting.compact(emitted + 1)
        self._history.add(pane_range(fresh.partials, needed, None), step.before, step.after, needed)

    def _kept_windows(self) -> int:
        return sum(block.rows for block in self._waiting.index)

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _described(self) -> Mapping[str, Any]:
        return {"partials": partials_saved(self._settings.keyed), "counters": {"largest": {"arrived": self._arrived}}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        emitted = self._emitted(self._reached)
        waiting = pa.concat_tables([self._schema.empty_table(), *self._waiting.read(emitted + 1, BEYOND_ALL)])
        history = self._history.all_from(emitted + 1 - self._settings.longest)
        return {WAITING: _with_times(waiting), HISTORY: _with_times(history)}

    def _put(self, saved: StateTables) -> None:
        self._arrived = saved.header["counters"]["largest"]["arrived"]
        table = saved.table(WAITING)
        names = ["time" if name == "pane" else name for name in self._schema.names]
        rows = with_types(named_columns(table, names), self._schema)
        self._waiting.append(by_time([rows.take(pa.array(stable_order(integers(table, "arrival"))))]))
        table, keyed = saved.table(HISTORY), self._settings.keyed
        own = [*key_columns(table, self._settings.keys), *named_columns(table, ["time", "rows"])]
        history = with_types([*own, *partials_found(table, saved.header, keyed)], keyed.partial_schema)
        self._history.put(keyed.merge([history]))


def by_time(tables: Sequence[pa.Table]) -> pa.Table:
    """Sort rows by time, keeping the given order at equal times."""
    table = pa.concat_tables(tables)
    times = _pane(table)
    return table if bool((times[1:] >= times[:-1]).all()) else table.take(pa.array(stable_order(times))).combine_chunks()


def _pane(table: pa.Table) -> Ints:
    times: Ints = numbers(plain(table.column("pane")))
    return times


def _with_times(table: pa.Table) -> pa.Table:
    return table.rename_columns(["time" if name == "pane" else name for name in table.column_names])


__all__ = ["HISTORY", "WAITING", "LookBackOperator", "LookBackSettings", "by_time"]
