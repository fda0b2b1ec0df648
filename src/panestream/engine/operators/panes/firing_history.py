"""Numbering of firings, and the emitted rows of windows that may fire again. Only plans that require them store these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.pairs import numbered, places_of
from panestream.engine.kernels.slicing import Int64s, PaneGrid
from panestream.engine.operators.panes.firing import FiredWindows, rows_of
from panestream.engine.plan import FIRINGS, INSERT, OPS, UPDATE_AFTER, UPDATE_BEFORE, WindowPlan
from panestream.engine.runtime.group_operator import firing_columns
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import PaneBlocks
from panestream.engine.storage.state import State
from panestream.engine.storage.state_tables import key_fields

_WINDOW, _NUMBER, _FIRING = "pane", "number", "firing"


@dataclass(slots=True)
class FiringHistory:
    """The last firing of each key and window of one kind, in blocks by window number; ``keys`` is the number of key columns."""

    blocks: PaneBlocks
    keys: int

    @classmethod
    def over(cls, state: State, space: str, keys: pa.Schema, values: pa.Schema) -> FiringHistory:
        """Return the store of one kind of windows; ``values`` are the columns of emitted values, empty to store only numbers."""
        own = [(_WINDOW, pa.int64()), (_NUMBER, pa.int64()), (_FIRING, pa.int8())]
        fields = key_fields(keys)
        fields += [pa.field(name, type_) for name, type_ in own]
        fields += [pa.field(f"value {place}", field.type) for place, field in enumerate(values)]
        width = len(keys)
        return cls(PaneBlocks(state, space, pa.schema(fields), lambda tables: _latest(tables, width)), width)

    def look_up(self, keys: Sequence[pa.ChunkedArray], windows: Int64s) -> tuple[Int64s, pa.Table]:
        """Return the row number of each pair's last firing, or -1, in the table that is also returned."""
        wanted = np.unique(windows)
        parts = self.blocks.read_spans(wanted, wanted + 1)
        known = pa.concat_tables(parts) if parts else self.blocks.schema.empty_table()
        stored = known.column(_WINDOW).to_numpy()
        ours, theirs, _ = numbered(keys, known.columns[: self.keys], windows, stored)
        return places_of(ours, theirs), known

    def keep(
        self, keys: Sequence[pa.ChunkedArray], windows: Int64s, numbers: Int64s, firing: int, values: Sequence[pa.ChunkedArray]
    ) -> None:
        """Store firings, whose windows must be ascending."""
        own = [pa.array(windows), pa.array(numbers), pa.array(np.full(len(windows), firing, np.int8))]
        self.blocks.append(pa.Table.from_arrays([*keys, *own, *values], schema=self.blocks.schema))

    def latest(self, first: int) -> pa.Table:
        """Return the last firing of each key and window, from window number ``first`` on."""
        parts = self.blocks.read(first, BEYOND_ALL)
        return _latest(parts, self.keys) if parts else self.blocks.schema.empty_table()

    def drop_before(self, window: int) -> None:
        """Drop the windows before ``window``, which are closed."""
        self.blocks.drop_before(window)
        self.blocks.compact(window)


@dataclass(slots=True)
class NumberedRows:
    """Rows of fired windows for plans that number firings or emit a changelog; ``histories`` has earlier firings by kind."""

    plan: WindowPlan
    grid: PaneGrid
    histories: list[FiringHistory] = field(default_factory=list)

    @property
    def values(self) -> pa.Schema:
        """The stored columns of emitted rows."""
        return self.plan.operator.result_schema if self.plan.changelog else pa.schema([])

    def of(self, fired: FiredWindows, firing: str, closed: int) -> pa.Table:
        """Return the rows; in a changelog, each follows the row that it replaces.

        ``firing`` is the kind of firing, and ``closed`` the last window that cannot fire again.
        """
        count, keys = len(fired.windows), fired.rows.columns[: len(self.plan.key_schema)]
        last, firings = fired.windows <= closed, np.full(count, FIRINGS.index(firing))
        numbers, before, known = np.zeros(count, np.int64), np.full(count, -1, np.int64), None
        if self.histories:
            history = self.histories[fired.kind]
            before, known = history.look_up(keys, fired.windows)
            again = before >= 0
            numbers[again] = known.column(_NUMBER).to_numpy()[before[again]] + 1
            self._remember(history, fired, numbers, FIRINGS.index(firing), last)
        ops = np.where(before < 0, OPS.index(INSERT), OPS.index(UPDATE_AFTER))
        columns = firing_columns(self.plan, firings, numbers, last, ops)
        after = rows_of(self.plan, self.grid, fired, columns)
        changed = np.flatnonzero(before >= 0)
        if known is None or not self.plan.changelog or not len(changed):
            return after
        return _interleaved(self._before(fired, changed, known.take(pa.array(before[changed]))), after, changed)

    def _before(self, fired: FiredWindows, changed: Int64s, was: pa.Table) -> pa.Table:
        """Return rows of ``changed`` windows as they were last emitted."""
        keys = [column.take(pa.array(changed)) for column in fired.rows.columns[: len(self.plan.key_schema)]]
        results = self.plan.operator.result_schema
        values = was.columns[was.num_columns - len(results) :]
        rows = pa.Table.from_arrays([*keys, *values], names=[*self.plan.key_schema.names, *results.names])
        firings, numbers = was.column(_FIRING).to_numpy(), was.column(_NUMBER).to_numpy()
        nothing_is_last, ops = np.zeros(len(changed), np.bool_), np.full(len(changed), OPS.index(UPDATE_BEFORE))
        columns = firing_columns(self.plan, firings, numbers, nothing_is_last, ops)
        return rows_of(self.plan, self.grid, FiredWindows(fired.kind, fired.windows[changed], rows), columns)

    def _remember(self, history: FiringHistory, fired: FiredWindows, numbers: Int64s, firing: int, last: np.ndarray) -> None:
        kept = fired.rows if not last.any() else fired.rows.filter(pa.array(~last))
        values = [kept.column(name) for name in self.values.names]
        history.keep(kept.columns[: len(self.plan.key_schema)], fired.windows[~last], numbers[~last], firing, values)


def _latest(tables: Sequence[pa.Table], keys: int) -> pa.Table:
    """Return the last row of each key and window, sorted by window."""
    table = pa.concat_tables(tables)
    windows = table.column(_WINDOW).to_numpy()
    pairs, _, _ = numbered(table.columns[:keys], table.slice(0, 0).columns[:keys], windows, windows[:0])
    last = np.unique(places_of(pairs, pairs))
    return table.take(pa.array(last[stable_order(windows[last])]))


def _interleaved(before: pa.Table, after: pa.Table, changed: Int64s) -> pa.Table:
    """Put each row of ``before`` directly before the row of ``after`` that replaces it."""
    order = np.argsort(np.concatenate((changed * 2, np.arange(after.num_rows) * 2 + 1)), kind="stable")
    return pa.concat_tables([before, after]).take(pa.array(order))


__all__ = ["FiringHistory", "NumberedRows"]
