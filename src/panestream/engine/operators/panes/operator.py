"""The aligned-pane operator: tumbling, sliding and cumulating windows over declared aggregates.

Rows arrive as partials per (key, pane); a window is the combination of its panes, made for all keys at once when time passes
its end. A micro-batch goes through in Flink's order. Event time: judge rows against the watermark as it stood before, add them,
advance the watermark, fire what is due, drop what is closed. Processing time: the clock moves, windows fire, then rows are
added. Panes that open and close in one micro-batch never touch the state.

Of each key and window at most one firing leaves in a micro-batch: the last that Flink would emit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.identity import check_identity
from panestream.engine.kernels.pairs import is_among, numbered
from panestream.engine.kernels.slicing import Int64s
from panestream.engine.operators.panes.early import ARRIVAL, TIME
from panestream.engine.operators.panes.firing import Combiner, Fired
from panestream.engine.operators.panes.firing_history import FiringHistory
from panestream.engine.operators.panes.lateness_policy import NEVER, LatenessPolicy, last_ended
from panestream.engine.operators.panes.main_rows import MainRows
from panestream.engine.operators.panes.purged_windows import PurgedWindows
from panestream.engine.operators.panes.rollups import Rollups
from panestream.engine.plan import EARLY, LATE, MAIN, ON_TIME, WindowPlan
from panestream.engine.runtime.closing import Closing
from panestream.engine.runtime.group_io import GroupInput, GroupMetrics, GroupOutput
from panestream.engine.runtime.top import largest_per_window
from panestream.engine.runtime.watermarks import WatermarkTracker
from panestream.engine.storage.block_index import Meta
from panestream.engine.storage.blocks import pane_range
from panestream.engine.storage.sealed_state import SealedState
from panestream.windowing import aggregates as agg
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from panestream.engine.operators.panes.spec import PaneSpec

PARTIALS, ROWS, GAPS = "partials", "rows", "gaps"
"""What crosses the exchange: partials, each table sorted by pane; whole rows with ``__pane`` and ``__time``, where late rows are
wanted; event times of rows that fall between windows."""


class PaneOperator:
    """One key group's operator, for one micro-batch: made from the plan and the group's state, used once.

    Args:
        plan: the query.
        spec: its operator, as planned.
        state: the key group's state.

    Raises:
        PlanMismatchError: the state belongs to another plan.
    """

    def __init__(self, plan: WindowPlan, spec: PaneSpec, state: SealedState) -> None:
        self._plan = plan
        self._spec = spec
        self._grid = spec.grid
        self._aggregation = spec.aggregation
        self._state = state
        self._rollups = Rollups.of(self._state, spec.aggregation, spec.grid.longest, spec.levels)
        self._purged = PurgedWindows.over(self._state, plan.key_schema, spec.grid) if spec.purges else None
        emitted: list[FiringHistory] = []
        if plan.with_firing or plan.changelog:
            # Also where windows fire once: the lateness, and with it that, may change, the layout of the state may not.
            values = spec.result_schema if plan.changelog else pa.schema([])
            emitted = [
                FiringHistory.over(self._state, f"emitted {kind}", plan.key_schema, values)
                for kind in range(len(spec.grid.windows))
            ]
        self._main = MainRows(plan, spec.grid, emitted)
        purged = [self._purged.blocks] if self._purged is not None else []
        self._meta = Meta(self._state, [*self._rollups.stores(), *purged, *(store.blocks for store in emitted)])
        self._tracker = WatermarkTracker(plan.watermark)
        self._ends = LatenessPolicy(spec.grid, Closing(0 if spec.by_processing_time else plan.allowed_lateness))
        self._clock, self._arrived, self._recent, self._overdue = 0, 0, 0, False
        self._load()

    def process(self, batch: GroupInput) -> GroupOutput:
        """Takes in a micro-batch; returns what it emits. The state is then complete: there is no separate commit."""
        output = GroupOutput()
        for table in batch.invalid:
            output.emit(self._plan.invalid_tag or "", table)
        before = self._tracker.watermark
        advanced = self._tracker.take_in(batch)
        if self._spec.by_processing_time:
            after = self._by_clock(batch, output)
        else:
            after = MAX_TIMESTAMP if batch.end_of_input else advanced
            fresh = self._merged(self._drop_late(batch, before, output))
            self._note_overdue(fresh, before)
            fresh = self._fire(fresh, before, after, output)
            self._close(fresh, after, batch.end_of_input)
        if not batch.end_of_input:
            self._save()
            output.wake_up = self._next_timer(after) if self._spec.by_processing_time else None
        self._measure(batch, after, output.metrics)
        return output

    def _by_clock(self, batch: GroupInput, output: GroupOutput) -> int:
        """A micro-batch by the clock: windows that are over fire without its rows."""
        before, self._clock = self._clock - 1, max(self._clock, batch.batch_time)
        now, nothing = self._clock - 1, self._aggregation.partial_schema.empty_table()
        fresh = self._merged([self._at_clock(table) for table in batch.of(PARTIALS)])
        if batch.end_of_input:
            # A batch has no clock to wait for: what is open at the end of the input fires then.
            if self._spec.purges:
                self._fire(nothing, before, now, output)
                before = now
            self._fire(fresh, before, MAX_TIMESTAMP, output)
            return MAX_TIMESTAMP
        self._fire(nothing, before, now, output)
        self._close(fresh, now, end_of_input=False)
        return now

    def _at_clock(self, table: pa.Table) -> pa.Table:
        """Partials with the pane of the clock: windows of processing time know no other."""
        pane = self._grid.pane_of(self._clock)
        if self._grid.has_gaps and bool(self._grid.in_gap(np.asarray([pane]))[0]):
            return table.slice(0, 0)
        values = dict.fromkeys(self._spec.hidden_columns, self._clock) | {"pane": pane}
        for name, value in values.items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(place), pa.array(np.full(table.num_rows, value)))
        return table

    def _merged(self, parts: list[pa.Table]) -> pa.Table:
        parts = [part for part in parts if part.num_rows]
        return parts[0] if len(parts) == 1 else self._aggregation.merge(parts)

    # -- late rows -----------------------------------------------------------------------------------------------------

    def _drop_late(self, batch: GroupInput, watermark: int, output: GroupOutput) -> list[pa.Table]:
        """The partials that some window still takes. Late rows are counted, and emitted where the plan has a tag for them."""
        closed, late, live = self._ends.closed(watermark), 0, []
        first_live = self._ends.first_live_pane(closed)
        for table in map(self._in_order_of_arrival, batch.of(PARTIALS)):
            kept = pane_range(table, first_live, None)
            if self._grid.holes:
                kept = kept.filter(pa.array(self._ends.taken(kept.column("pane").to_numpy(), closed)))
            if kept.num_rows < table.num_rows:
                late += pc.sum(table.column("rows")).as_py() - (pc.sum(kept.column("rows")).as_py() or 0)
            live.append(kept)
        # A row between two windows vanishes, unless the watermark has passed the row itself: then it is late.
        late += sum(int((table.column("time").to_numpy() <= closed).sum()) for table in batch.of(GAPS))
        if self._plan.late_tag is not None:
            for table in batch.of(ROWS):
                panes, times = (column.to_numpy() for column in table.columns[-2:])
                too_late = self._ends.too_late(panes, times, closed)
                if too_late.any():
                    output.emit(self._plan.late_tag, table.filter(pa.array(too_late)).select(range(table.num_columns - 2)))
        output.metrics.late_rows = late
        return live

    def _in_order_of_arrival(self, table: pa.Table) -> pa.Table:
        """Partials whose rows are numbered through the whole stream, where the trigger wants to know."""
        for name in self._spec.hidden_columns[1:]:
            place = table.schema.get_field_index(name)
            numbers = table.column(name).to_numpy() + self._arrived
            table = table.set_column(place, table.schema.field(place), pa.array(numbers))
        if self._spec.hidden_columns:
            self._arrived += pc.sum(table.column("rows")).as_py() or 0
        return table

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: pa.Table, before: int, after: int, output: GroupOutput) -> pa.Table:
        """Emits what fires while time goes from ``before`` to ``after``; returns what is left of the fresh rows."""
        combiner = Combiner(self._grid, self._aggregation, self._rollups, fresh, self._spec.keeps_order)
        closed = self._ends.closed(after)
        if self._ends.closing.lateness:
            self._emit(self._late_firings(combiner, before), LATE, closed, output)
        if after <= before:
            return fresh
        low, high = self._spans(fresh)
        ended = [(last_ended(one, before), last_ended(one, after)) for one in self._grid.windows]
        due = [one.over(low, high, *bounds) for one, bounds in zip(self._grid.windows, ended, strict=True)]
        fired = combiner.combine(due)
        self._emit(fired, ON_TIME, closed, output)
        if self._spec.interval is not None and after != MAX_TIMESTAMP:
            fresh = self._fire_early(combiner, [until for _, until in ended], before, after, output)
        return fresh

    def _spans(self, fresh: pa.Table) -> tuple[Int64s, Int64s]:
        """Spans of instants that have rows, ascending."""
        low, high = self._rollups.spans()
        panes = np.unique(fresh.column("pane").to_numpy())
        low, high = np.concatenate((low, panes)), np.concatenate((high, panes))
        order = np.argsort(low, kind="stable")
        # The whole last pane counts: windows begin and end with panes.
        return self._grid.starts_of(low[order]), self._grid.starts_of(high[order])

    def _late_firings(self, combiner: Combiner, before: int) -> list[Fired]:
        """The windows that time had passed and that still take rows, for the keys that have new ones there."""
        behind = pane_range(combiner.fresh, None, self._rollups.settled)
        if not behind.num_rows:
            return []
        closed, times = self._ends.closed(before), self._grid.starts_of(np.unique(behind.column("pane").to_numpy()))
        windows = [one.over(times, times, last_ended(one, closed), last_ended(one, before)) for one in self._grid.windows]
        counting = Aggregation.build([agg.count()], {}, self._plan.key_schema)
        touched = {fired.kind: fired for fired in combiner.touched(behind, windows, counting)}
        found = []
        for fired in combiner.combine(windows, of_keys=behind):
            width, other = len(self._plan.key_schema), touched[fired.kind]
            ours, theirs, size = numbered(fired.rows.columns[:width], other.rows.columns[:width], fired.windows, other.windows)
            found.append(fired.filter(is_among(ours, theirs, size)))
        return found

    def _fire_early(self, combiner: Combiner, ended: list[int], before: int, after: int, output: GroupOutput) -> pa.Table:
        """Emits the open windows whose continuous trigger is due; returns the fresh rows that are not purged."""
        interval, fresh = self._spec.interval, combiner.fresh
        assert interval is not None  # noqa: S101 - the caller asked
        if interval.passed(before, after) or self._overdue:
            low, high = self._spans(fresh)
            windows = [one.over(low, high, until, NEVER) for one, until in zip(self._grid.windows, ended, strict=True)]
            fired = []
            for one in combiner.combine(windows):
                opened_at, opened_by = (one.rows.column(name).to_numpy() for name in (TIME, ARRIVAL))
                due = interval.due(opened_at, opened_by, before, after, self._recent)
                if self._purged is not None:
                    known = self._purged.has(one)
                    due = np.where(known, interval.passed(before, after), due)
                fired.append(one.filter(due))
            self._emit(fired, EARLY, self._ends.closed(after), output)
            if self._purged is not None:
                for one in fired:
                    fresh = self._purged.purge(one, self._rollups, fresh)
        self._recent, self._overdue = self._arrived, False
        return fresh

    def _note_overdue(self, fresh: pa.Table, time: int) -> None:
        """Whether a row opened a window whose continuous trigger was due already: it fires when time next moves."""
        if self._spec.interval is not None and fresh.num_rows and time != MIN_TIMESTAMP:
            opened = fresh.column(self._spec.hidden_columns[0]).to_numpy()
            self._overdue = self._overdue or self._spec.interval.overdue(opened, time)

    def _emit(self, fired: list[Fired], firing: str, closed: int, output: GroupOutput) -> None:
        for one in fired:
            if not len(one.windows):
                continue
            if self._plan.top is not None:
                names = list(self._plan.key_names)
                which, rows = largest_per_window(one.windows, one.rows, self._plan.top, names)
                one = Fired(one.kind, which, rows)  # noqa: PLW2901 - the same, less
            output.metrics.fired_rows += len(one.windows)
            numbers = np.unique(one.windows) * len(self._grid.windows) + one.kind
            output.metrics.fired_windows += numbers.tolist()
            output.emit(MAIN, self._main.of(one, firing, last_ended(self._grid.windows[one.kind], closed)))

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: pa.Table, after: int, end_of_input: bool) -> None:
        """Keeps what windows still need, and drops the rest."""
        if end_of_input:
            return
        closed = self._ends.closing.reach(after)
        first_live = self._ends.first_live_pane(closed)
        self._rollups.settle(fresh, self._ends.first_open_pane(after), first_live)
        if self._purged is not None:
            self._purged.drop_before(last_ended(self._grid.windows[0], closed) + 1)
        for one, store in zip(self._grid.windows, self._main.emitted, strict=False):
            store.drop_before(last_ended(one, closed) + 1)

    def _load(self) -> None:
        header = self._meta.load()
        if header is None:
            return
        check_identity(header["identity"], self._plan.identity(), "the checkpoint")
        self._tracker = WatermarkTracker.from_json(self._plan.watermark, header["watermarks"])
        self._rollups.settled, self._rollups.built = header["settled"], header["built"]
        self._ends.closing.until, self._clock = header["closed"], header["clock"]
        self._arrived, self._recent, self._overdue = header["arrived"]

    def _save(self) -> None:
        header: dict[str, Any] = {
            "identity": self._plan.identity(),
            "watermarks": self._tracker.to_json(),
            "settled": self._rollups.settled,
            "built": self._rollups.built,
            "closed": self._ends.closing.until,
            "clock": self._clock,
            "arrived": [self._arrived, self._recent, self._overdue],
        }
        self._meta.save(header)

    def _next_timer(self, time: int) -> int | None:
        """The instant that the clock must pass for something to fire; None: nothing is open."""
        low, high = self._spans(self._aggregation.partial_schema.empty_table())
        ends: list[int] = []
        for one in self._grid.windows:
            first = np.maximum(one.first_ending_after(low), last_ended(one, time) + 1)
            open_ones = first[first <= one.last_starting_by(high)]
            if len(open_ones):
                ends.append(int(one.end_of(open_ones).min()) - 1)
        if ends and self._spec.interval is not None:
            ends.append(self._spec.interval.next_after(time))
        return min(ends, default=None)

    def _measure(self, batch: GroupInput, time: int, metrics: GroupMetrics) -> None:
        self._tracker.measure(batch, metrics)
        one = self._grid.windows[0]
        low, high = self._spans(self._aggregation.partial_schema.empty_table())
        if len(low):
            first = max(int(one.first_ending_after(low).min()), last_ended(one, time) + 1)
            last = int(one.last_starting_by(high).max())
            metrics.open_windows = (first, last) if first <= last else None
        blocks = [block for store in self._meta.stores for block in store.index]
        metrics.blocks = len(blocks)
        metrics.state_bytes = sum(block.size for block in blocks)
        self._state.measure(metrics)
