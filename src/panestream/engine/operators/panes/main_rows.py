"""The rows of the main output: keys, window, results, and what the plan wants to know of the firing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.slicing import Int64s, PaneGrid
from panestream.engine.operators.panes.firing import Fired
from panestream.engine.operators.panes.firing_history import FiringHistory
from panestream.engine.plan import FIRINGS, INSERT, OPS, UPDATE_AFTER, UPDATE_BEFORE, WindowPlan

Columns = dict[str, pa.Array | pa.ChunkedArray]


@dataclass(slots=True)
class MainRows:
    """Turns what fired into rows of the main output.

    Attributes:
        plan: the query.
        grid: the windows.
        emitted: what was emitted before, of each kind of windows; empty where the plan does not ask.
        once: whether a window can fire only once.
    """

    plan: WindowPlan
    grid: PaneGrid
    emitted: list[FiringHistory] = field(default_factory=list)
    once: bool = True

    def of(self, fired: Fired, firing: str, closed: int) -> pa.Table:
        """The rows, and what is to be remembered of them.

        Args:
            fired: the windows.
            firing: which firing of theirs it is.
            closed: the last window that does not fire any more.
        """
        columns = self._columns(fired)
        count = len(fired.windows)
        if not (self.plan.with_firing or self.plan.changelog):
            return self._table(columns)
        last = fired.windows <= closed
        numbers, before, old = np.zeros(count, np.int64), np.full(count, -1, np.int64), None
        if self.emitted:
            store = self.emitted[fired.kind]
            keys = fired.rows.columns[: len(self.plan.key_schema)]
            before, old = store.look_up(keys, fired.windows)
            known = before >= 0
            numbers[known] = old.column("number").to_numpy()[before[known]] + 1
            self._remember(store, fired, numbers, FIRINGS.index(firing), last)
        columns |= _firing_columns(np.full(count, FIRINGS.index(firing)), numbers, last)
        if not self.plan.changelog:
            return self._table(columns)
        columns["op"] = _words(OPS, np.where(before < 0, OPS.index(INSERT), OPS.index(UPDATE_AFTER)))
        after = self._table(columns)
        if old is None or not (before >= 0).any():
            return after
        return _interleaved(self._before(columns, old, before), after, np.flatnonzero(before >= 0))

    def _columns(self, fired: Fired) -> Columns:
        one = self.grid.windows[fired.kind]
        columns: Columns = dict(zip(fired.rows.column_names, fired.rows.columns, strict=True))
        columns["window_start"] = pa.array(one.start_of(fired.windows))
        columns["window_end"] = pa.array(one.end_of(fired.windows))
        if self.plan.labels:
            columns["window"] = _words(self.plan.labels, np.full(len(fired.windows), fired.kind))
        return columns

    def _before(self, columns: Columns, old: pa.Table, places: Int64s) -> pa.Table:
        """The same rows as they were last emitted."""
        changed = np.flatnonzero(places >= 0)
        was = old.take(pa.array(places[changed]))
        rows: Columns = {name: column.take(pa.array(changed)) for name, column in columns.items()}
        for place, name in enumerate(self.plan.operator.result_schema.names):
            rows[name] = was.column(f"value {place}")
        firings, numbers = was.column("firing").to_numpy(), was.column("number").to_numpy()
        rows |= _firing_columns(firings, numbers, np.zeros(len(changed), np.bool_))
        rows["op"] = _words(OPS, np.full(len(changed), OPS.index(UPDATE_BEFORE)))
        return self._table(rows)

    def _remember(self, store: FiringHistory, fired: Fired, numbers: Int64s, firing: int, last: np.ndarray) -> None:
        kept = fired.rows if not last.any() else fired.rows.filter(pa.array(~last))
        names = self.plan.operator.result_schema.names if self.plan.changelog else []
        width = len(self.plan.key_schema)
        values = [kept.column(name) for name in names]
        store.keep(kept.columns[:width], fired.windows[~last], numbers[~last], firing, values)

    def _table(self, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
        schema = self.plan.main_schema
        arrays = [
            columns[field.name].cast(field.type) if field.name in ("window_start", "window_end") else columns[field.name]
            for field in schema
        ]
        return pa.Table.from_arrays(arrays, schema=schema)


def _firing_columns(firings: np.ndarray, numbers: Int64s, last: np.ndarray) -> Columns:
    return {"firing": _words(FIRINGS, firings), "firing_number": pa.array(numbers), "is_last": pa.array(last)}


def _words(words: tuple[str, ...], places: np.ndarray) -> pa.Array:
    return pa.array(words).take(pa.array(places.astype(np.int64)))


def _interleaved(before: pa.Table, after: pa.Table, changed: Int64s) -> pa.Table:
    """Each row of ``before`` ahead of the row of ``after`` that it changed into."""
    order = np.argsort(np.concatenate((changed * 2, np.arange(after.num_rows) * 2 + 1)), kind="stable")
    return pa.concat_tables([before, after]).take(pa.array(order))


__all__ = ["MainRows"]
