"""The accumulating-pane operator: the rows of each open pane are kept once, and handed to a function when their windows fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panestream.engine.identity import check_identity
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.pairs import is_among, numbered
from panestream.engine.kernels.slicing import AlignedWindows, Int64s
from panestream.engine.kernels.sorting import stable_order
from panestream.engine.operators.accumulating.evicting import kept
from panestream.engine.operators.accumulating.windowed_rows import INSTANT, AllWindows, WindowedRows, grouped
from panestream.engine.operators.panes.lateness_policy import LatenessPolicy, last_ended
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.closing import Closing
from panestream.engine.runtime.group_io import GroupInput, GroupMetrics, GroupOutput
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.storage.block_index import Meta
from panestream.engine.storage.blocks import PaneBlocks, pane_range
from panestream.engine.storage.payload import one_chunk
from panestream.engine.storage.sealed_state import SealedState
from panestream.windowing.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from panestream.engine.operators.accumulating.spec import AccumulatingSpec

KEPT = "kept"
"""What crosses the exchange: key columns, pane, event time, whole row."""
_ARRIVAL = "arrival"
_MOST_MERGED = 1 << 18
"""Runs of rows are merged up to so many: merging saves calls, and nothing else."""
_AT_ONCE = 1 << 22
"""So many rows of windows are handed over at a time; a single window may have more."""


class AccumulatingOperator:
    """One key group's operator, for one micro-batch: made from the plan and the group's state, used once.

    Args:
        plan: the query.
        spec: its operator, as planned.
        state: the key group's state.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, spec: AccumulatingSpec, state: SealedState) -> None:
        self._plan = plan
        self._spec = spec
        self._grid = spec.grid
        (self._windows,) = spec.grid.windows
        self._width = len(spec.keys)
        self._state = state
        part = spec.part_schema(plan, KEPT)
        self._schema = pa.schema([*part, pa.field(_ARRIVAL, pa.int64())])
        self._blocks = PaneBlocks(self._state, "rows", self._schema, by_pane, _MOST_MERGED, max(spec.grid.longest, 1))
        self._meta = Meta(self._state, [self._blocks])
        self._tracker = WatermarkTracker(plan.watermark)
        self._ends = LatenessPolicy(spec.grid, Closing(plan.allowed_lateness))
        self._arrived = 0
        header = self._meta.load()
        if header is not None:
            check_identity(header["identity"], plan.identity(), "the checkpoint")
            self._tracker = WatermarkTracker.from_json(plan.watermark, header["watermarks"])
            self._ends.closing.until, self._arrived = header["closed"], header["arrived"]

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""
        output = GroupOutput()
        for table in batch.invalid:
            output.emit(self._plan.invalid_tag or "", table)
        before = self._tracker.watermark
        fresh = self._taken(batch.of(KEPT), before, output)
        advanced = self._tracker.take_in(batch)
        after = MAX_TIMESTAMP if batch.end_of_input else advanced
        if self._ends.closing.lateness:
            self._fire_late(fresh, before, output)
        if after > before:
            self._fire(self._due(fresh, last_ended(self._windows, before), last_ended(self._windows, after)), fresh, output)
        if not batch.end_of_input:
            self._close(fresh, after)
        self._measure(batch, output.metrics)
        return output

    def _taken(self, arrived: Sequence[pa.Table], watermark: int, output: GroupOutput) -> pa.Table:
        """The rows that some window still takes, numbered, sorted by pane. Late rows are counted, or emitted."""
        if not arrived:
            return self._schema.empty_table()
        table = pa.concat_tables(arrived)
        closed = self._ends.closed(watermark)
        panes, times = table.column("pane").to_numpy(), table.column("time").to_numpy()
        late = self._ends.too_late(panes, times, closed)
        if late.any():
            output.metrics.late_rows = int(late.sum())
            if self._plan.late_tag is not None:
                output.emit(self._plan.late_tag, self._rows(table.filter(pa.array(late))))
        table = table.append_column(_ARRIVAL, pa.array(self._arrived + np.arange(len(panes))))
        self._arrived += len(panes)
        taken = self._ends.taken(panes, closed)
        table = table if taken.all() else table.filter(pa.array(taken))
        return by_pane([table])

    def _rows(self, table: pa.Table) -> pa.Table:
        """The rows as they came."""
        first = self._width + 2
        return pa.Table.from_arrays(table.columns[first : first + len(self._spec.rows)], schema=self._spec.rows)

    # -- firing --------------------------------------------------------------------------------------------------------

    def _due(self, fresh: pa.Table, after: int, until: int) -> Int64s:
        spans = {(block.low, block.high) for block in self._blocks.index}
        spans |= {(pane, pane) for pane in np.unique(fresh.column("pane").to_numpy()).tolist()}
        found = np.asarray(sorted(spans), np.int64).reshape(-1, 2)
        return self._windows.over(self._grid.starts_of(found[:, 0]), self._grid.starts_of(found[:, 1]), after, until)

    def _fire_late(self, fresh: pa.Table, before: int, output: GroupOutput) -> None:
        """The windows that time had passed and that still take rows, for the keys that have new ones there."""
        behind = pane_range(fresh, None, self._ends.first_open_pane(before))
        if not behind.num_rows:
            return
        times = self._grid.starts_of(np.unique(behind.column("pane").to_numpy()))
        closed, ended = last_ended(self._windows, self._ends.closed(before)), last_ended(self._windows, before)
        windows = self._windows.over(times, times, closed, ended)
        if len(windows):
            self._fire(windows, fresh, output, touched_by=behind)

    def _fire(self, windows: Int64s, fresh: pa.Table, output: GroupOutput, touched_by: pa.Table | None = None) -> None:
        for some in self._portions(windows, fresh):
            rows = self._windowed(some, fresh, touched_by)
            if rows is None:
                continue
            output.metrics.fired_rows += len(rows.starts)
            output.metrics.fired_windows += np.unique(rows.starts).tolist()
            output.emit(MAIN, self._results(rows))

    def _portions(self, windows: Int64s, fresh: pa.Table) -> Iterator[Int64s]:
        """Windows in portions whose rows fit the memory; guessed from the rows of their panes."""
        if not len(windows):
            return
        rows = sum(block.rows for block in self._blocks.index) + fresh.num_rows
        at_once = max(1, _AT_ONCE // max(rows, 1))
        for begin in range(0, len(windows), at_once):
            yield windows[begin : begin + at_once]

    def _windowed(self, windows: Int64s, fresh: pa.Table, touched_by: pa.Table | None) -> WindowedRows | None:
        """The rows of windows, by window, key and arrival."""
        first, end = _panes(self._grid, self._windows, windows)
        low, high = np.asarray([first[0]]), np.asarray([end[-1]])
        parts = [*self._blocks.read_spans(low, high), pane_range(fresh, int(low[0]), int(high[0]))]
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return None
        table = pa.concat_tables(parts).combine_chunks()
        which, places = expanded(table.column("pane").to_numpy(), first, end)
        if touched_by is not None:
            touched = self._touched(table, which, places, touched_by, (first, end))
            which, places = which[touched], places[touched]
        if not len(places):
            return None
        codes = encode_keys([one_chunk(column) for column in table.columns[: self._width]], table.num_rows).codes.astype(np.int64)
        order = stable_order(which, codes[places], table.column(_ARRIVAL).to_numpy()[places])
        which, places = which[order], places[order]
        if self._spec.evictor is not None:
            times = table.column("time").to_numpy()[places]
            seen = kept(self._spec.evictor, which, codes[places], times)
            which, places = which[seen], places[seen]
        bounds = (self._windows.start_of(windows[which]), self._windows.end_of(windows[which]))
        keys = table.select(range(self._width)).rename_columns(self._spec.keys.names)
        return grouped(self._rows(table), (which, codes[places]), places, keys, bounds)

    def _touched(
        self, table: pa.Table, which: Int64s, places: Int64s, behind: pa.Table, bounds: tuple[Int64s, Int64s]
    ) -> np.ndarray:
        """Which rows of windows are of a key and window that has a row in ``behind``."""
        there, rows = expanded(behind.column("pane").to_numpy(), *bounds)
        ours = [column.take(pa.array(places)) for column in table.columns[: self._width]]
        theirs = [column.take(pa.array(rows)) for column in behind.columns[: self._width]]
        return is_among(*numbered(ours, theirs, which, there))

    def _results(self, rows: WindowedRows) -> pa.Table:
        schema, function = self._plan.main_schema, self._spec.function
        if isinstance(function, AllWindows):
            return function.main(rows, schema)
        found = function.results(rows, self._spec.result)
        keys = rows.keys.take(pa.array(found.of))
        bounds = [pa.array(edge[found.of]).cast(INSTANT) for edge in (rows.starts, rows.ends)]
        return pa.Table.from_arrays([*keys.columns, *bounds, *found.rows.columns], schema=schema)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: pa.Table, after: int) -> None:
        closed = self._ends.closing.reach(after)
        first_live = self._ends.first_live_pane(closed)
        self._blocks.drop_before(first_live)
        self._blocks.append(pane_range(fresh, first_live, None))
        self._blocks.compact(first_live)
        header: dict[str, Any] = {
            "identity": self._plan.identity(),
            "watermarks": self._tracker.to_json(),
            "closed": closed,
            "arrived": self._arrived,
        }
        self._meta.save(header)

    def _measure(self, batch: GroupInput, metrics: GroupMetrics) -> None:
        self._tracker.measure(batch, metrics)
        metrics.blocks = len(self._blocks.index)
        metrics.state_bytes = sum(block.size for block in self._blocks.index)
        self._state.measure(metrics)


def by_pane(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows sorted by pane, those of a pane in the order in which they are given."""
    table = pa.concat_tables(tables)
    panes = table.column("pane").to_numpy()
    return table if bool((panes[1:] >= panes[:-1]).all()) else table.take(pa.array(stable_order(panes))).combine_chunks()


def expanded(panes: Int64s, first: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Each row as often as there are windows over its pane: the window's place, and the row's.

    Args:
        panes: of the rows.
        first: the first pane of each window, ascending.
        end: the pane after its last.
    """
    opened, until = np.searchsorted(end, panes, "right"), np.searchsorted(first, panes, "right")
    counts = np.maximum(until - opened, 0)
    ends = np.cumsum(counts)
    rows = np.repeat(np.arange(len(panes)), counts)
    return np.repeat(opened - (ends - counts), counts) + np.arange(len(rows)), rows


def _panes(grid: Any, one: AlignedWindows, windows: Int64s) -> tuple[Int64s, Int64s]:
    return grid.panes_of(one.start_of(windows)), grid.panes_of(one.end_of(windows))


__all__ = ["KEPT", "AccumulatingOperator"]
