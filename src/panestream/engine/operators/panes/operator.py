"""The aligned-pane operator: tumbling and sliding event-time windows over declared aggregates.

Rows arrive as partials per (key, pane); a window is the combination of its panes, made for all keys at once when the
watermark passes its end. A micro-batch goes through in Flink's order: judge rows against the watermark as it stood before, add
them, advance the watermark, fire what is due, drop what is closed. Panes that open and close in one micro-batch never touch
the state.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine import payload
from panestream.engine.operators.base import GroupInput, GroupMetrics, GroupOutput
from panestream.engine.operators.panes.blocks import Block, PaneBlocks, pane_range
from panestream.engine.plan import MAIN, WindowPlan, check_identity
from panestream.engine.slicing import Int64s
from panestream.engine.state import CountingState, State
from panestream.engine.top import largest_per_window
from panestream.engine.watermarks import WatermarkTracker
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from panestream.engine.operators.panes.operation import PaneOperation

PARTIALS, ROWS, GAPS = "partials", "rows", "gaps"
"""What crosses the exchange: partials, each table sorted by pane; whole rows with ``__pane`` and ``__time``, where late rows are
wanted; event times of rows that fall between windows."""
_META = "meta"
_INDEX_COLUMNS = ("key", "order", "level", "low", "high", "rows", "size")
_NEVER = 2**62
"""Beyond every window number: event times are kept within ±2**62."""


class PaneOperator:
    """One key group's operator, for one micro-batch: made from the plan and the group's state, used once.

    Args:
        plan: the query.
        work: its operation.
        state: the key group's state.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, work: PaneOperation, state: State) -> None:
        self._plan = plan
        self._grid = work.grid
        self._aggregation = work.aggregation
        self._state = CountingState(state)
        self._blocks = PaneBlocks(self._state, work.aggregation)
        self._tracker = WatermarkTracker(plan.watermark)
        self._load_meta()

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""
        output = GroupOutput()
        before = self._tracker.watermark
        live = self._drop_late(batch, before, output)
        for table in batch.invalid:
            output.emit(self._plan.invalid_tag or "", table)
        fresh = live[0] if len(live) == 1 else self._aggregation.merge(live)
        after = MAX_TIMESTAMP if batch.end_of_input else self._tracker.advance(batch.seen, batch.batch_time)
        self._fire(fresh, before, after, output)
        first_live = self._first_live_pane(after)
        self._blocks.drop_before(first_live)
        if not batch.end_of_input:
            self._blocks.append(pane_range(fresh, first_live, None))
            self._blocks.compact(first_live)
            self._save_meta()
        self._measure(batch, output.metrics)
        return output

    # -- late rows -----------------------------------------------------------------------------------------------------

    def _drop_late(self, batch: GroupInput, watermark: int, output: GroupOutput) -> list[pa.Table]:
        """The partials that some window still takes. Late rows are counted, and emitted where the plan has a tag for them."""
        first_live = self._first_live_pane(watermark)
        late = 0
        live = []
        for table in batch.of(PARTIALS):
            kept = pane_range(table, first_live, None)
            late += pc.sum(table.column("rows").slice(0, table.num_rows - kept.num_rows)).as_py() or 0
            live.append(kept)
        # A row between two windows vanishes, unless the watermark has passed the row itself: then it is late.
        closed = self._closed_until(watermark)
        late += sum(int((table.column("time").to_numpy() <= closed).sum()) for table in batch.of(GAPS))
        if self._plan.late_tag is not None:
            for table in batch.of(ROWS):
                panes, times = (column.to_numpy() for column in table.columns[-2:])
                too_late = panes < first_live
                if self._grid.has_gaps:
                    gap = self._grid.in_gap(panes)
                    too_late = np.where(gap, times <= closed, too_late)
                if too_late.any():
                    output.emit(self._plan.late_tag, table.filter(pa.array(too_late)).select(range(table.num_columns - 2)))
        output.metrics.late_rows = late
        return live

    def _closed_until(self, watermark: int) -> int:
        """The watermark less the allowed lateness: what ends there or before is closed."""
        return watermark if watermark == MIN_TIMESTAMP else watermark - self._plan.allowed_lateness

    def _first_live_pane(self, watermark: int) -> int:
        if watermark == MIN_TIMESTAMP:
            return -_NEVER
        return _NEVER if watermark == MAX_TIMESTAMP else self._grid.first_live_pane(self._closed_until(watermark))

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: pa.Table, before: int, after: int, output: GroupOutput) -> None:
        """Emits the windows whose end the watermark passed between ``before`` and ``after``."""
        fired = self._last_closed(before)
        due = self._last_closed(after)
        if due <= fired:
            return
        first = -_NEVER if fired == -_NEVER else int(self._grid.first_pane(np.asarray(fired + 1)))
        end = _NEVER if due == _NEVER else int(self._grid.end_pane(np.asarray(due)))
        parts = [*self._blocks.read(first, end), pane_range(fresh, first, end)]
        table = pa.concat_tables([part for part in parts if part.num_rows] or parts[-1:])
        if not table.num_rows:
            return
        panes = np.unique(table.column("pane").to_numpy())
        windows = self._grid.windows_of(panes, fired, due)
        which, results = self._aggregation.windows(table, self._grid.first_pane(windows), self._grid.end_pane(windows))
        if self._plan.top is not None:
            which, results = largest_per_window(which, results, self._plan.top, self._plan.key_names)
        output.metrics.fired_rows = results.num_rows
        output.metrics.fired_windows = windows[np.unique(which)].tolist()
        output.emit(MAIN, self._with_bounds(self._grid.start_of_window(windows[which]), results))

    def _last_closed(self, watermark: int) -> int:
        if watermark == MIN_TIMESTAMP:
            return -_NEVER
        return _NEVER if watermark == MAX_TIMESTAMP else self._grid.last_closed_window(watermark)

    def _with_bounds(self, starts: Int64s, results: pa.Table) -> pa.Table:
        schema = self._plan.main_schema
        bounds = {"window_start": starts, "window_end": starts + self._grid.size}
        columns = [
            pa.array(bounds[field.name]).cast(field.type) if field.name in bounds else results.column(field.name)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _load_meta(self) -> None:
        saved = self._state.get(_META, 0)
        if saved is None:
            return
        table, header = payload.decode(saved)
        check_identity(header["identity"], self._plan.identity(), "the checkpoint")
        self._tracker = WatermarkTracker.from_json(self._plan.watermark, header["watermarks"])
        columns = [column.cast(pa.int64()).to_pylist() for column in table.columns]
        self._blocks.index = [Block(*values) for values in zip(*columns, strict=True)]
        self._blocks.next_key = header["next_block"]

    def _save_meta(self) -> None:
        rows = [astuple(block) for block in self._blocks.index]
        arrays = [pa.array([row[position] for row in rows], pa.int64()) for position in range(len(_INDEX_COLUMNS))]
        header: dict[str, Any] = {
            "identity": self._plan.identity(),
            "watermarks": self._tracker.to_json(),
            "next_block": self._blocks.next_key,
        }
        self._state.put(_META, 0, payload.encode(pa.Table.from_arrays(arrays, names=list(_INDEX_COLUMNS)), header))

    def _measure(self, batch: GroupInput, metrics: GroupMetrics) -> None:
        index = self._blocks.index
        metrics.input_rows, metrics.invalid_rows = batch.input_rows, batch.invalid_rows
        watermark = self._tracker.watermark
        metrics.watermark = None if watermark == MIN_TIMESTAMP else watermark
        metrics.max_event_time = max((known.max_timestamp for known in self._tracker.partitions.values()), default=None)
        if index:
            low = max(min(block.low for block in index), self._first_live_pane(watermark))
            first, last = self._grid.windows_over(np.asarray([low, max(block.high for block in index)]))
            metrics.open_windows = (max(int(first[0]), self._last_closed(watermark) + 1), int(last[1]))
        metrics.blocks = len(index)
        metrics.state_bytes = sum(block.size for block in index)
        metrics.state_calls = self._state.calls
        metrics.bytes_read, metrics.bytes_written = self._state.bytes_read, self._state.bytes_written
