"""The aligned-pane operator: tumbling, sliding, cumulating and calendar windows over declared aggregates.

Rows arrive as partials per (key, pane). A window combines its panes, for all keys at once, when time passes its end. A
micro-batch follows Flink's order. Event time: judge rows by the watermark before the micro-batch, add them, advance the
watermark, fire due windows, drop closed ones. Processing time: the clock moves, windows fire, then rows are added. Panes that
open and close in one micro-batch never touch the state.

A micro-batch emits at most one firing of each key and window: the last that Flink would emit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.aggregation import standing
from panestream.engine.aggregates.saved_partials import partials_saved
from panestream.engine.kernels.columns import Ints
from panestream.engine.kernels.grouping import is_among, numbered
from panestream.engine.kernels.panes import Int64s, PaneGrid
from panestream.engine.operators.columnar import AggregatingSpec
from panestream.engine.operators.panes.arriving import GAPS, PARTIALS, ROWS, PanedOperator, rows_in
from panestream.engine.operators.panes.firing import (
    ARRIVAL,
    HIDDEN_TYPES,
    LAST,
    TIME,
    Combiner,
    FiredWindows,
    FiringHistory,
    Interval,
    NumberedRows,
    PaneArrivals,
    PurgedWindows,
    rows_of,
)
from panestream.engine.operators.panes.rollups import FAN_OUT, Rollups, resolutions
from panestream.engine.operators.panes.rule import described_panes, interval_of, pane_grid, why_not_panes
from panestream.engine.operators.panes.tables import EMITTED, PANES, PURGED, PaneTables, firings_before
from panestream.engine.plan import EARLY, LATE, ON_TIME, Capabilities, Chunk, Operator, WindowPlan, WindowQuery
from panestream.engine.rule import AT_EVERY_ROW, PYTHON, DeclaredAggregates, Supported, Unsupported, WindowRequest
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import TimeStep, largest_per_window
from panestream.engine.runtime.state_views import ViewSchemas, WindowRows, reached_by, share
from panestream.engine.runtime.watermarks import BEYOND_ALL, ClosedWindows, LatenessPolicy, closing_times, last_ended
from panestream.engine.storage.blocks import PaneBlocks, StoredBlocks, pane_range
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state_tables import StateTables, StateViews
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration

_GAPS_SCHEMA = pa.schema([("time", pa.int64())])


@dataclass(frozen=True, slots=True)
class PaneSpec(AggregatingSpec):
    """Aligned windows (tumbling, sliding, cumulating, calendar) of one or several kinds, with declared aggregates.

    Attributes:
        aggregation: runs ``aggregates`` and, for a continuous trigger, the hidden aggregates.
        interval: the continuous trigger. None if windows fire only at their end.
        fires_again: whether windows accept rows after their end.
        fires_at_rows: whether open windows fire in each micro-batch with rows for them.
    """

    grid: PaneGrid
    aggregates: tuple[Aggregate, ...]
    aggregation: Aggregation
    by_processing_time: bool = False
    interval: Interval | None = None
    fires_again: bool = False
    fires_at_rows: bool = False

    @property
    def result_schema(self) -> pa.Schema:
        # A user's function may return several results; the hidden aggregates come last.
        shown = len(self.aggregation.output_schema) - (len(self.interval.hidden) if self.interval is not None else 0)
        return pa.schema(list(self.aggregation.output_schema)[:shown])

    @property
    def purges(self) -> bool:
        """True if fired rows are dropped before the window ends."""
        return self.interval is not None and self.interval.purging

    @property
    def keeps_order(self) -> bool:
        """True if panes are combined in order, because several panes of processing time may contain equal event times."""
        return self.by_processing_time and self.aggregation.keeps_order

    @property
    def levels(self) -> int:
        """The number of resolutions of settled panes."""
        return resolutions(self.grid.longest)

    @property
    def hidden_columns(self) -> tuple[str, ...]:
        """The partial columns of the hidden aggregates: the time of the opening row, its number twice, and the last number."""
        if self.interval is None:
            return ()
        own = len(self.interval.hidden) + 2  # an earliest value has three columns
        opened_at, opened_by, _, *numbers = self.aggregation.partial_schema.names[-own:]
        return opened_at, opened_by, *numbers

    @property
    def name(self) -> str:
        return "aligned panes"

    @property
    def capabilities(self) -> Capabilities:
        parts = "a purging trigger fires parts of a window, none of which takes the place of another"
        return Capabilities(
            # A continuous trigger starts with the row that opens a window, which its hidden aggregates find.
            order_sensitive=self.aggregation.follows_arrival,
            fires_once=self.interval is None and not self.fires_again and not self.fires_at_rows,
            no_changelog=parts if self.purges else None,
            uses_processing_time=self.by_processing_time,
            shows_processing_time=self.by_processing_time,
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.aggregation.inputs)[: len(self.aggregation.inputs) - (2 if self.interval else 0)]

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"aggregates", "partials", "panes", "windows", "fill", "listed keys"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        times, keys, values = chunk.times, chunk.keys, chunk.values
        if self.by_processing_time:
            # Only the operator has the clock, and so the pane, which is the same for all rows of a micro-batch.
            if len(times):
                yield PARTIALS, self._partials(keys, np.zeros(len(times), np.int64), values, times)
            return
        panes = self.grid.panes_of(times)
        if plan.late_tag is not None and chunk.rows is not None:
            yield ROWS, chunk.rows.append_column("__pane", pa.array(panes)).append_column("__time", pa.array(times))
        if self.grid.has_gaps:
            gap = self.grid.in_gap(panes)
            if gap.any():
                yield GAPS, pa.table({"time": np.sort(times[gap])})
                inside = pa.array(~gap)
                keys, values = [key.filter(inside) for key in keys], [value.filter(inside) for value in values]
                times, panes = times[~gap], panes[~gap]
        if len(times):
            yield PARTIALS, self._partials(keys, panes, values, times)

    def pack_key_groups(self, plan: WindowPlan, chunk: Chunk, key_groups: Ints) -> list[tuple[int, str, pa.Table]] | None:
        if (
            plan.split is not None
            or plan.late_tag is not None
            or self.interval is not None
            or self.grid.has_gaps
            or self.aggregation.runs_users_code
        ):
            return None
        times = chunk.times
        panes = np.zeros(len(times), np.int64) if self.by_processing_time else self.grid.panes_of(times)
        stamps = times if self.aggregation.needs_timestamps else None
        tables = self.aggregation.partials_of_key_groups(chunk.keys, panes, chunk.values, stamps, key_groups)
        return None if tables is None else [(number, PARTIALS, table) for number, table in tables]

    def _partials(self, keys: list[pa.Array], panes: np.ndarray, values: list[pa.Array], times: np.ndarray) -> pa.Table:
        if self.interval is not None:
            # The operator converts these numbers within the chunk to numbers within the stream.
            values = [*values, pa.array(times), pa.array(np.arange(len(times)))]
        return self.aggregation.partials(keys, panes, values, times if self.aggregation.needs_timestamps else None)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        if kind == PARTIALS:
            return self.aggregation.partial_schema
        if kind == GAPS or plan.row_schema is None:
            return _GAPS_SCHEMA
        return pa.schema([*plan.row_schema, pa.field("__pane", pa.int64()), pa.field("__time", pa.int64())])

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> Operator:
        return PaneOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        grid, width = self.grid, len(self.result_schema)
        reached = reached_by(saved, by_processing_time=self.by_processing_time)
        closing = ClosedWindows(0 if self.by_processing_time else plan.allowed_lateness, saved.header["closed"])
        closed = closing.at(reached)
        own = PaneTables(plan.key_schema, grid, LatenessPolicy(grid, closing), closed)
        partials = own.unmerged(saved, self.aggregation)
        times = np.unique(grid.starts_of(partials.column("pane").to_numpy()))
        schemas, parts = ViewSchemas(plan, group), []
        for kind, one in enumerate(grid.windows):
            windows = one.over(times, times, last_ended(one, closed), BEYOND_ALL)
            starts, ends = one.start_of(windows), one.end_of(windows)
            found = standing(self.aggregation, partials, grid.panes_of(starts), grid.panes_of(ends))
            which = found.which
            last = ends[which] - 1
            firings, last_firing = firings_before(plan, saved, kind, one, found, windows[which])
            rows = WindowRows(
                keys=found.keys,
                count=len(which),
                starts=pa.array(starts[which]),
                ends=pa.array(ends[which]),
                kinds=np.full(len(which), kind),
                results=None if found.results is None else found.results[:width],
                rows=found.rows,
                firings=firings,
                last_firing=last_firing,
                due=_due(self, last, reached),
                closes=closing_times(last, closing.lateness),
                size=share(saved.table(PANES).nbytes, found.rows),
            )
            parts.append(schemas.windows_of(rows))
        return schemas.with_windows(pa.concat_tables(parts))

    def own_identity(self) -> Mapping[str, str]:
        purges = {"purges": "true"} if self.purges else {}
        return {"panes": f"second layout, {self.levels} resolutions", **purges}

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        return {
            "panes": described_panes(self.grid),
            "firing": self._firing(plan),
            "aggregates": [
                f"{aggregate!r}: {'invertible' if aggregate.invertible else 'not invertible'}; {aggregate.merge_rule}"
                for aggregate in self.aggregates
            ],
            "exchange": [
                "pre-aggregated per (key, pane) before the shuffle",
                *(f"{what} crosses it all the same" for what in self.aggregation.crossing),
                *(
                    ["whole rows cross the shuffle too, for the late output"]
                    if plan.late_tag and not self.by_processing_time
                    else []
                ),
            ],
            "state": self._state(plan) if streaming else ["none: a batch fires every window at the end of input"],
        }

    def _firing(self, plan: WindowPlan) -> list[str]:
        time = "the clock" if self.by_processing_time else "the watermark"
        lines = [f"a window fires when {time} reaches its end"]
        if self.interval is not None:
            purged = "; what has fired is dropped" if self.interval.purging else ""
            changed = "; both only if it got rows since it last fired" if self.interval.only_changed else ""
            lines.append(f"and at every {format_duration(self.interval.length)} before it, once a micro-batch{purged}{changed}")
        if self.fires_at_rows:
            lines.append("and before it, for the keys concerned, in each micro-batch that brings rows for it")
        if plan.allowed_lateness:
            lines.append("and again, for the keys concerned, in each micro-batch that brings rows for it after its end")
        return lines

    def _state(self, plan: WindowPlan) -> list[str]:
        lines = ["one block of partials per micro-batch and key group, appended, only for panes that stay open; merged by eights"]
        if self.grid.overlaps or plan.allowed_lateness:
            sizes = ", ".join(str(FAN_OUT**level) for level in range(self.levels))
            lines.append(f"panes that time has passed are kept merged, {sizes} at a time; a window reads at most eight of each")
        if plan.keeps_emitted:
            lines.append("what was emitted for windows that may fire again" + (", with its values" if plan.changelog else ""))
        return lines


class PaneOperator(PanedOperator):
    """The operator of aligned panes: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: PaneSpec, state: SealedState) -> None:
        self._settings = settings
        self._grid = settings.grid
        self._aggregation = settings.aggregation
        self._rollups = Rollups.of(state, settings.aggregation, settings.grid.longest, settings.levels)
        self._purged = PurgedWindows.over(state, plan.key_schema, settings.grid) if settings.purges else None
        histories: list[FiringHistory] = []
        if plan.with_firing or plan.changelog:
            # Also if windows fire once: lateness may change and make them fire again, but the state's layout may not change.
            values = settings.result_schema if plan.changelog else pa.schema([])
            kinds = range(len(settings.grid.windows))
            histories = [FiringHistory.over(state, f"emitted {kind}", plan.key_schema, values) for kind in kinds]
        self._numbered = NumberedRows(plan, settings.grid, histories) if histories else None
        purged = [self._purged.blocks] if self._purged is not None else []
        stores = [*self._rollups.stores(), *purged, *(history.blocks for history in histories), *self._own_stores()]
        blocks = StoredBlocks(state, stores)
        super().__init__(plan, state, blocks, by_processing_time=settings.by_processing_time)
        self._lateness = LatenessPolicy(settings.grid, self._closing)
        self._arrivals = PaneArrivals(*self._saved.get("arrived", ()))
        if self._saved:
            self._rollups.settled, self._rollups.built = self._saved["settled"], self._saved["built"]

    def _own_stores(self) -> list[PaneBlocks]:
        """Return the stores that a subclass adds."""
        return []

    def _own_metadata(self) -> Mapping[str, Any]:
        arrivals = self._arrivals
        arrived = [arrivals.next_number, arrivals.first_recent, arrivals.overdue]
        return {"settled": self._rollups.settled, "built": self._rollups.built, "arrived": arrived}

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _own_header(self) -> Mapping[str, Any]:
        # Counted from the last step of time, so that the rows of several key groups are comparable.
        counters = {
            "largest": {
                "next row": self._arrivals.next_number - self._arrivals.first_recent,
                "kept from": self._lateness.kept_from(self._closing.until),
            },
            "any": {"overdue": self._arrivals.overdue},
        }
        return {"partials": partials_saved(self._aggregation), "counters": counters, "labels": list(self._plan.labels)}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        own, rollups = self._as_tables(), self._rollups
        parts = [*rollups.levels[0].read(-BEYOND_ALL, rollups.settled), *rollups.arrivals.read(rollups.settled, BEYOND_ALL)]
        shifted, by = self._settings.hidden_columns[1:], self._arrivals.first_recent
        tables = {PANES: own.panes(parts, self._aggregation, shifted, by)}
        if self._numbered is not None:
            tables[EMITTED] = own.emitted(self._numbered.histories, self._numbered.values)
        if self._purged is not None:
            tables[PURGED] = own.purged(self._purged.blocks)
        return tables

    def _write_tables(self, saved: StateTables) -> None:
        own, counters = self._as_tables(), saved.header["counters"]
        self._lateness.check_kept(counters["largest"]["kept from"], self._closing.until)
        self._arrivals = PaneArrivals(counters["largest"]["next row"], 0, counters["any"]["overdue"])
        partials = own.partials(saved, self._aggregation)
        self._rollups.roll_up(
            partials, self._lateness.first_open_pane(self._reached), self._lateness.first_live_pane(self._closing.until)
        )
        if self._numbered is not None:
            own.keep_emitted(saved, self._plan.labels, self._numbered.histories, self._numbered.values)
        if self._purged is not None:
            own.keep_purged(saved, self._purged.blocks)

    def _as_tables(self) -> PaneTables:
        return PaneTables(self._plan.key_schema, self._grid, self._lateness, self._closing.until)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> pa.Table:
        if self._by_processing_time:
            partials = [self._at_processing_time(table) for table in batch.of(PARTIALS)]
            output.metrics.windowed_rows = rows_in(partials)
            output.metrics.outside_rows = rows_in(batch.of(PARTIALS)) - output.metrics.windowed_rows
            return self._merged(partials)
        fresh = self._merged(self._drop_late(batch, step.before, output))
        self._note_overdue(fresh, step.before)
        return fresh

    def _at_processing_time(self, table: pa.Table) -> pa.Table:
        """Assign partials to the pane of the current processing time."""
        time = self._processing_time
        pane = self._grid.pane_of(time)
        if self._grid.has_gaps and bool(self._grid.in_gap(np.asarray([pane]))[0]):
            return table.slice(0, 0)
        values = dict.fromkeys(self._settings.hidden_columns, time) | {"pane": pane}
        for name, value in values.items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(place), pa.array(np.full(table.num_rows, value)))
        return table

    def _note_overdue(self, fresh: pa.Table, time: int) -> None:
        """Record whether a row opened a window whose continuous trigger was already due: it fires when time next moves."""
        interval = self._settings.interval
        if interval is not None and not interval.only_changed and fresh.num_rows and time != MIN_TIMESTAMP:
            opened = fresh.column(self._settings.hidden_columns[0]).to_numpy()
            self._arrivals.overdue = self._arrivals.overdue or interval.overdue(opened, time)

    def _with_numbers(self, arrived: pa.Table) -> pa.Table:
        return self._arrivals.number(arrived, self._settings.hidden_columns[1:])

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: pa.Table, step: TimeStep, output: GroupOutput) -> pa.Table:
        if not self._by_processing_time:
            return self._fire_between(fresh, step.before, step.after, output)
        # Processing-time windows that have ended fire without the rows of the micro-batch.
        before, now, nothing = step.before, self._processing_time - 1, self._aggregation.partial_schema.empty_table()
        if not step.end_of_input:
            self._fire_between(nothing, before, now, output)
            return fresh
        # A batch cannot wait for a clock: windows that are open at the end of the input fire then.
        if self._settings.purges:
            self._fire_between(nothing, before, now, output)
            before = now
        return self._fire_between(fresh, before, MAX_TIMESTAMP, output)

    def _fire_between(self, fresh: pa.Table, before: int, after: int, output: GroupOutput) -> pa.Table:
        """Emit the windows that fire while time goes from ``before`` to ``after``, and return the remaining fresh rows."""
        combiner = Combiner(self._grid, self._aggregation, self._rollups, fresh, self._settings.keeps_order)
        closed = self._lateness.closed(after)
        if self._lateness.closing.lateness:
            self._emit(self._late_firings(combiner, before), LATE, closed, output)
        if self._settings.fires_at_rows and after != MAX_TIMESTAMP:
            ended = [(last_ended(one, max(before, after)), BEYOND_ALL) for one in self._grid.windows]
            self._emit(self._touched(combiner, fresh, ended), EARLY, closed, output)
        if after <= before:
            return fresh
        low, high = self._spans(fresh)
        ended = [(last_ended(one, before), last_ended(one, after)) for one in self._grid.windows]
        due = [one.over(low, high, *bounds) for one, bounds in zip(self._grid.windows, ended, strict=True)]
        fired = [self._changed(one, before) for one in combiner.combine(due)]
        self._emit(fired, ON_TIME, closed, output)
        if self._settings.interval is not None and after != MAX_TIMESTAMP:
            fresh = self._fire_early(combiner, [until for _, until in ended], before, after, output)
        return fresh

    def _spans(self, fresh: pa.Table) -> tuple[Int64s, Int64s]:
        """Return the spans of instants that have rows, ascending."""
        low, high = self._rollups.spans()
        panes = np.unique(fresh.column("pane").to_numpy())
        low, high = np.concatenate((low, panes)), np.concatenate((high, panes))
        order = np.argsort(low, kind="stable")
        # The whole last pane counts: windows begin and end with panes.
        return self._grid.starts_of(low[order]), self._grid.starts_of(high[order])

    def _late_firings(self, combiner: Combiner, before: int) -> list[FiredWindows]:
        """Return windows that ended before but still accept rows, for the keys with new rows in them."""
        behind = pane_range(combiner.fresh, None, self._rollups.settled)
        if not behind.num_rows:
            return []
        closed = self._lateness.closed(before)
        return self._touched(combiner, behind, [(last_ended(one, closed), last_ended(one, before)) for one in self._grid.windows])

    def _touched(self, combiner: Combiner, behind: pa.Table, bounds: list[tuple[int, int]]) -> list[FiredWindows]:
        """Return the windows between bounds that fresh partials belong to, for their keys."""
        if not behind.num_rows:
            return []
        times = self._grid.starts_of(np.unique(behind.column("pane").to_numpy()))
        windows = [one.over(times, times, *between) for one, between in zip(self._grid.windows, bounds, strict=True)]
        counting = Aggregation.build([agg.count()], {}, self._plan.key_schema)
        touched = {fired.kind: fired for fired in combiner.touched(behind, windows, counting)}
        again = []
        for fired in combiner.combine(windows, of_keys=behind):
            width, other = len(self._plan.key_schema), touched[fired.kind]
            ours, theirs, size = numbered(fired.rows.columns[:width], other.rows.columns[:width], fired.windows, other.windows)
            again.append(fired.filter(is_among(ours, theirs, size)))
        return again

    def _fire_early(self, combiner: Combiner, ended: list[int], before: int, after: int, output: GroupOutput) -> pa.Table:
        """Emit the open windows whose continuous trigger is due, and return the fresh rows that are not purged."""
        interval, fresh = self._settings.interval, combiner.fresh
        assert interval is not None  # noqa: S101 - the caller asked
        if interval.passed(before, after) or self._arrivals.overdue:
            low, high = self._spans(fresh)
            windows = [one.over(low, high, until, BEYOND_ALL) for one, until in zip(self._grid.windows, ended, strict=True)]
            fired = []
            for each in combiner.combine(windows):
                one = self._changed(each, before)
                opened_at, opened_by = (one.rows.column(name).to_numpy() for name in (TIME, ARRIVAL))
                due = interval.due(opened_at, opened_by, before, after, self._arrivals.first_recent)
                if self._purged is not None:
                    known = self._purged.has(one)
                    due = np.where(known, interval.passed(before, after), due)
                fired.append(one.filter(due))
            self._emit(fired, EARLY, self._lateness.closed(after), output)
            if self._purged is not None:
                for one in fired:
                    fresh = self._purged.purge(one, self._rollups, fresh)
        if not interval.only_changed or interval.passed(before, after):
            self._arrivals.time_has_moved()
        return fresh

    def _changed(self, fired: FiredWindows, before: int) -> FiredWindows:
        """Leave out windows without a row since their last firing, if only changed windows fire."""
        interval = self._settings.interval
        if interval is None or not interval.only_changed:
            return fired
        opened_at = fired.rows.column(TIME).to_numpy()
        # Rows from a savepoint of a query that fires all windows have no number of the last row: they may not have been shown.
        last_by = pc.fill_null(fired.rows.column(LAST), MAX_TIMESTAMP).to_numpy()
        # By processing time, the number of a row is the clock. Its own multiple was still ahead.
        recent = before // interval.length * interval.length + 1 if self._by_processing_time else self._arrivals.first_recent
        return fired.filter(interval.changed(opened_at, last_by, before, recent))

    def _emit(self, fired: list[FiredWindows], firing: str, closed: int, output: GroupOutput) -> None:
        for one in fired:
            if not len(one.windows):
                continue
            self._count_firings(firing, len(one.windows), output)
            if self._plan.top is not None:
                names = list(self._plan.key_names)
                which, rows = largest_per_window(one.windows, one.rows, self._plan.top, names)
                one = FiredWindows(one.kind, which, rows)  # noqa: PLW2901 - the same, less
            numbers = np.unique(one.windows) * len(self._grid.windows) + one.kind
            output.metrics.fired_windows += numbers.tolist()
            self._emit_main(self._rows(one, firing, closed), len(one.windows), output)

    def _rows(self, fired: FiredWindows, firing: str, closed: int) -> pa.Table:
        if self._numbered is None:
            return rows_of(self._plan, self._grid, fired)
        return self._numbered.of(fired, firing, last_ended(self._grid.windows[fired.kind], closed))

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: pa.Table, step: TimeStep) -> None:
        closed = self._closing.reach(step.after)
        first_live = self._lateness.first_live_pane(closed)
        self._rollups.roll_up(fresh, self._lateness.first_open_pane(step.after), first_live)
        if self._purged is not None:
            self._purged.drop_before(last_ended(self._grid.windows[0], closed) + 1)
        for one, history in zip(self._grid.windows, self._numbered.histories if self._numbered else (), strict=False):
            history.drop_before(last_ended(one, closed) + 1)

    def _wake_up(self, step: TimeStep) -> int | None:
        if step.end_of_input or not self._by_processing_time:
            return None
        low, high = self._spans(self._aggregation.partial_schema.empty_table())
        ends: list[int] = []
        for one in self._grid.windows:
            first = np.maximum(one.first_ending_after(low), last_ended(one, step.after) + 1)
            open_ones = first[first <= one.last_starting_by(high)]
            if len(open_ones):
                ends.append(int(one.end_of(open_ones).min()) - 1)
        if ends and self._settings.interval is not None:
            ends.append(self._settings.interval.next_after(step.after))
        return min(ends, default=None)

    def _open_windows(self, step: TimeStep) -> tuple[int, int] | None:
        one = self._grid.windows[0]
        low, high = self._spans(self._aggregation.partial_schema.empty_table())
        if not len(low):
            return None
        first = max(int(one.first_ending_after(low).min()), last_ended(one, step.after) + 1)
        last = int(one.last_starting_by(high).max())
        return (first, last) if first <= last else None


def panes_rule(window: WindowQuery, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan aligned windows over declared aggregates. As the last rule, it explains why panes do not run unsupported queries."""
    reasons = why_not_panes(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append(PYTHON)
    if reasons or not isinstance(asked, DeclaredAggregates):
        return Unsupported(reasons)
    return Supported(_spec(window, asked))


def _spec(window: WindowQuery, asked: DeclaredAggregates) -> PaneSpec:
    aggregates, assigner = tuple(asked.aggregates), window.assigner
    if isinstance(assigner, SeveralWindows) and "window" in [*asked.keys.names, *(one.name for one in aggregates)]:
        raise InvalidPlanError("results of several windows have a column 'window' with the label. Rename the other column")
    interval = interval_of(window)
    hidden = interval.hidden if interval is not None else ()
    aggregation = Aggregation.build([*aggregates, *hidden], {**asked.types, **(HIDDEN_TYPES if hidden else {})}, asked.keys)
    by_processing_time = not assigner.is_event_time
    again = bool(window.allowed_lateness) and not by_processing_time
    grid, at_every_row = pane_grid(assigner), window.firing_trigger == AT_EVERY_ROW
    return PaneSpec(grid, aggregates, aggregation, by_processing_time, interval, again, at_every_row)


def _due(settings: PaneSpec, last: Ints, reached: int) -> Ints:
    """Return when windows fire next: at their end, or with a continuous trigger not before its next multiple."""
    due = last
    if settings.interval is not None and reached not in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        due = np.minimum(last, settings.interval.next_after(reached))
    return np.where(last > reached, due, MAX_TIMESTAMP)
