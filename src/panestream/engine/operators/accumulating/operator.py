"""The accumulating-pane operator: stores the rows of open panes once and passes them to a function when windows fire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.kernels.columns import array_of, key_fields, list_of, one_chunk
from panestream.engine.kernels.grouping import encode_keys, is_among, numbered
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.panes import AlignedWindows, Int64s, PaneGrid
from panestream.engine.kernels.python_values import result_columns
from panestream.engine.operators.accumulating.windowed_rows import (
    AllWindows,
    Now,
    OverRows,
    PerWindow,
    PerWindowWithContext,
    WindowedRows,
    grouped,
)
from panestream.engine.operators.columnar import TableLayout, fields_text, integers_of
from panestream.engine.operators.panes.rule import interval_of, pane_grid, why_not_panes
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import (
    LATE,
    MAIN,
    ON_TIME,
    Capabilities,
    Chunk,
    OperatorSpec,
    WindowPlan,
    WindowQuery,
    not_kept,
    not_numbered,
    stable_repr,
)
from panestream.engine.rule import (
    AT_EVERY_ROW,
    DeclaredAggregates,
    FunctionOfRows,
    FunctionOfTables,
    Supported,
    Unsupported,
    WindowRequest,
)
from panestream.engine.runtime.group_io import GroupInput, GroupOutput
from panestream.engine.runtime.group_operator import GroupOperator, TimeStep, side_schema, window_rows
from panestream.engine.runtime.state_views import INSTANT, ViewSchemas, WindowRows, instants, share
from panestream.engine.runtime.watermarks import BEYOND_ALL, ClosedWindows, LatenessPolicy, closing_times, last_ended
from panestream.engine.storage.blocks import MAX_MERGED_ROWS, PaneBlocks, StoredBlocks, pane_range, sorted_by_pane
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import window_too_large
from panestream.engine.storage.state_tables import StateTables, StateViews, integers, key_columns, named_columns
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor
from panestream.windowing.functions import ProcessWindowFunction, WindowFunction
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import TimeWindow


def why_not_evicted(evictor: Evictor | None, allowed_lateness: int) -> list[str]:
    """Return why an evictor needs the row operator; empty if it does not."""
    if evictor is None:
        return []
    if allowed_lateness:
        return ["what an evictor removes stays removed when a late row makes the window fire again"]
    # An evictor that may remove all rows would call the function without rows.
    if isinstance(evictor, TimeEvictor) and evictor.size > 0:
        return []
    if isinstance(evictor, CountEvictor) and evictor.max_count > 0:
        return []
    return [f"the evictor {evictor!r} looks at single rows, or may leave none"]


def kept(evictor: Evictor, windows: Int64s, keys: Int64s, times: Int64s) -> npt.NDArray[np.bool_]:
    """Return which rows the function gets, for an evictor accepted by :func:`why_not_evicted`.

    ``windows``, ``keys`` (as codes) and ``times`` describe each row. The rows are sorted by window, key and arrival.
    """
    if not isinstance(evictor, (TimeEvictor, CountEvictor)) or evictor.do_evict_after:
        return np.ones(len(windows), np.bool_)
    changes = (windows[1:] != windows[:-1]) | (keys[1:] != keys[:-1])
    begins = np.concatenate(([0], np.flatnonzero(changes) + 1))
    counts = np.diff(np.concatenate((begins, [len(windows)])))
    if isinstance(evictor, TimeEvictor):
        newest = np.maximum.reduceat(times, begins)
        recent: npt.NDArray[np.bool_] = times > np.repeat(newest - evictor.size, counts)
        return recent
    last: npt.NDArray[np.bool_] = np.arange(len(windows)) >= np.repeat(begins + counts - evictor.max_count, counts)
    return last


KEPT = "kept"
"""The part that crosses the exchange: key columns, pane, event time, whole row."""
ROWS = "rows"
"""The state table of stored rows."""
_ARRIVAL = "arrival"
_AT_ONCE = 1 << 22
"""Maximum number of window rows passed to functions at a time; a single window may have more."""
_BYTES_AT_ONCE = 256 << 20
"""The same limit in bytes."""


@dataclass(frozen=True, slots=True)
class AccumulatingSpec(OperatorSpec):
    """Aligned event-time windows (tumbling, sliding, cumulating, calendar) that call a function over rows at their end.

    ``result`` has the columns after keys and window; ``evictor`` None keeps all rows.
    """

    grid: PaneGrid
    function: OverRows
    result: pa.Schema
    rows: pa.Schema
    keys: pa.Schema
    evictor: Evictor | None = None

    @property
    def kept_schema(self) -> pa.Schema:
        """Keys, pane, event time and row columns. The column names are generated because users' names are arbitrary."""
        columns = key_fields(self.keys)
        columns += [pa.field("pane", pa.int64()), pa.field("time", pa.int64())]
        return pa.schema([*columns, *(pa.field(f"row {place}", field.type) for place, field in enumerate(self.rows))])

    @property
    def layout(self) -> TableLayout:
        """Stored rows without their pane, which follows from the time."""
        own = [field for field in self.kept_schema if field.name != "pane"]
        return TableLayout(ROWS, pa.schema([*own, pa.field(_ARRIVAL, pa.int64())]))

    @property
    def name(self) -> str:
        return "accumulating panes"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            takes_rows=True,
            shows_processing_time=self.function.sees_time,
            no_firings=not_numbered(self.name),
            no_changelog=not_kept(self.name),
        )

    @property
    def result_schema(self) -> pa.Schema:
        return self.result

    @property
    def changeable(self) -> frozenset[str]:
        return frozenset({"windows", "results"})

    def pack(self, plan: WindowPlan, chunk: Chunk) -> Iterator[tuple[str, pa.Table]]:
        if chunk.rows is None:
            raise RuntimeError("accumulating panes need whole rows, the exchange brought none")
        columns = [*chunk.keys, pa.array(self.grid.panes_of(chunk.times)), pa.array(chunk.times), *chunk.rows.columns]
        yield KEPT, pa.Table.from_arrays(columns, names=self.part_schema(plan, KEPT).names)

    def part_schema(self, plan: WindowPlan, kind: str) -> pa.Schema:
        return self.kept_schema

    def on_sealed(self, plan: WindowPlan, state: SealedState, group: int) -> AccumulatingOperator:
        return AccumulatingOperator(plan, self, state)

    def views(self, plan: WindowPlan, saved: StateTables, group: int) -> StateViews:
        table, grid = saved.table(ROWS), self.grid
        (one,) = grid.windows
        reached, lateness = saved.header["watermarks"]["watermark"], plan.allowed_lateness
        closed = ClosedWindows(lateness, saved.header["closed"]).at(reached)
        keys = key_columns(table, plan.key_schema)
        times, schemas = integers(table, "time"), ViewSchemas(plan, group, self.rows)
        order = stable_order(times)
        distinct = np.unique(times)
        windows = one.over(distinct, distinct, last_ended(one, closed), BEYOND_ALL)
        starts, ends = one.start_of(windows), one.end_of(windows)
        which, places = expanded(grid.panes_of(times[order]), grid.panes_of(starts), grid.panes_of(ends))
        row = order[places] if len(places) else places
        # One entry per key and window, with the number of its rows.
        coded = encode_keys(keys, table.num_rows)
        pairs, counts = np.unique(which * max(coded.count, 1) + coded.codes.astype(np.int64)[row], return_counts=True)
        window, code = np.divmod(pairs, max(coded.count, 1))
        last = ends[window] - 1
        shown = WindowRows(
            keys=coded.take(code),
            count=len(pairs),
            starts=pa.array(starts[window]),
            ends=pa.array(ends[window]),
            rows=counts,
            due=np.where(last > reached, last, MAX_TIMESTAMP),
            closes=closing_times(last, lateness),
            size=share(table.nbytes, counts),
        )
        by_row = stable_order(row)
        bounds = [array_of(bound[which[by_row]], pa.int64()).cast(INSTANT) for bound in (starts, ends)]
        lists = list_of(pa.StructArray.from_arrays(bounds, ["start", "end"]), np.bincount(row, minlength=table.num_rows))
        columns = {"windows": lists, "place": pa.array(integers(table, "arrival")), "time": instants(times)}
        rows = named_columns(table, [f"row {place}" for place in range(len(self.rows))])
        elements = schemas.elements_of(keys, table.num_rows, columns, rows)
        return schemas.with_windows(schemas.windows_of(shown), elements=elements)

    def identity(self) -> Mapping[str, str]:
        return {
            "function": "all elements",
            "rows": fields_text(self.rows),
            "results": fields_text(self.result),
        }

    def explain(self, plan: WindowPlan, *, streaming: bool) -> Mapping[str, list[str]]:
        kept = "each row once, however many windows it is in: a block per micro-batch and key group, while panes stay open"
        return {
            "function": [stable_repr(self.function), self.function.described],
            **({} if self.evictor is None else {"evictor": [repr(self.evictor)]}),
            "exchange": ["rows cross the shuffle whole, in columns"],
            "state": [kept if streaming else "none: a batch fires every window at the end of input"],
        }


class AccumulatingOperator(GroupOperator[pa.Table]):
    """The operator of accumulating panes: see :class:`~panestream.engine.runtime.group_operator.GroupOperator`."""

    def __init__(self, plan: WindowPlan, settings: AccumulatingSpec, state: SealedState) -> None:
        self._settings = settings
        self._grid = settings.grid
        (self._windows,) = settings.grid.windows
        self._width = len(settings.keys)
        self._schema = settings.kept_schema.append(pa.field(_ARRIVAL, pa.int64()))
        self._blocks = PaneBlocks(state, "rows", self._schema, sorted_by_pane, MAX_MERGED_ROWS, max(settings.grid.longest, 1))
        super().__init__(plan, state, StoredBlocks(state, [self._blocks]))
        self._lateness = LatenessPolicy(settings.grid, self._closing)
        self._arrived = self._saved.get("arrived", 0)

    def _own_metadata(self) -> Mapping[str, Any]:
        return {"arrived": self._arrived}

    # -- as tables -----------------------------------------------------------------------------------------------------

    def _own_header(self) -> Mapping[str, Any]:
        kept_from = self._lateness.kept_from(self._closing.until)
        return {"counters": {"largest": {"arrived": self._arrived, "kept from": kept_from}}}

    def _state_tables(self) -> Mapping[str, pa.Table]:
        parts = self._blocks.read(-BEYOND_ALL, BEYOND_ALL)
        table = pa.concat_tables(parts) if parts else self._schema.empty_table()
        taken = self._lateness.taken(table.column("pane").to_numpy(), self._closing.until)
        return {ROWS: table.filter(pa.array(taken)).drop_columns(["pane"])}

    def _write_tables(self, saved: StateTables) -> None:
        rows, counters = self._settings.layout.restore(saved), saved.header["counters"]["largest"]
        self._lateness.check_kept(counters["kept from"], self._closing.until)
        panes = pa.array(self._grid.panes_of(integers_of(rows, "time")))
        rows = rows.add_column(self._width, self._schema.field(self._width), panes)
        self._arrived = counters["arrived"]
        self._blocks.append(sorted_by_pane([rows.take(pa.array(stable_order(integers_of(rows, _ARRIVAL))))]))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _ingest(self, batch: GroupInput, step: TimeStep, output: GroupOutput) -> pa.Table:
        """Return the rows that some window still accepts, numbered and sorted by pane."""
        # Windows do not end by processing time, but a function may query it.
        self._processing_time = max(self._processing_time, batch.batch_time)
        arrived = batch.of(KEPT)
        if not arrived:
            return self._schema.empty_table()
        table = pa.concat_tables(arrived)
        closed = self._lateness.closed(step.before)
        panes, times = table.column("pane").to_numpy(), table.column("time").to_numpy()
        late = self._lateness.too_late(panes, times, closed)
        if late.any():
            self._emit_late(int(late.sum()), self._late_rows(table, late), output)
        table = table.append_column(_ARRIVAL, pa.array(self._arrived + np.arange(len(panes))))
        self._arrived += len(panes)
        taken = self._lateness.taken(panes, closed)
        output.metrics.windowed_rows = int(taken.sum())
        output.metrics.outside_rows = int((~taken & ~late).sum())
        table = table if taken.all() else table.filter(pa.array(taken))
        return sorted_by_pane([table])

    def _late_rows(self, table: pa.Table, late: np.ndarray) -> Iterable[pa.Table]:
        yield self._rows(table.filter(pa.array(late)))

    def _rows(self, table: pa.Table) -> pa.Table:
        first = self._width + 2
        return pa.Table.from_arrays(table.columns[first : first + len(self._settings.rows)], schema=self._settings.rows)

    # -- firing --------------------------------------------------------------------------------------------------------

    def _fire(self, fresh: pa.Table, step: TimeStep, output: GroupOutput) -> pa.Table:
        if self._closing.lateness:
            self._fire_late(fresh, step, output)
        if step.after > step.before:
            ended = last_ended(self._windows, step.before), last_ended(self._windows, step.after)
            self._fire_windows(self._due(fresh, *ended), fresh, self._now(step.after), output)
        return fresh

    def _open_windows(self, step: TimeStep) -> tuple[int, int] | None:
        spans = [(block.low, block.high) for block in self._blocks.index]
        if not spans:
            return None
        low = self._grid.starts_of(np.asarray([min(first for first, _ in spans)]))
        high = self._grid.starts_of(np.asarray([max(last for _, last in spans)]))
        first = max(int(self._windows.first_ending_after(low)[0]), last_ended(self._windows, step.after) + 1)
        last = int(self._windows.last_starting_by(high)[0])
        return (first, last) if first <= last else None

    def _due(self, fresh: pa.Table, after: int, until: int) -> Int64s:
        spans = {(block.low, block.high) for block in self._blocks.index}
        spans |= {(pane, pane) for pane in np.unique(fresh.column("pane").to_numpy()).tolist()}
        found = np.asarray(sorted(spans), np.int64).reshape(-1, 2)
        return self._windows.over(self._grid.starts_of(found[:, 0]), self._grid.starts_of(found[:, 1]), after, until)

    def _now(self, watermark: int) -> Now:
        return Now(watermark, self._processing_time)

    def _fire_late(self, fresh: pa.Table, step: TimeStep, output: GroupOutput) -> None:
        """Fire windows that ended before but still accept rows, for the keys with new rows in them."""
        before = step.before
        behind = pane_range(fresh, None, self._lateness.first_open_pane(before))
        if not behind.num_rows:
            return
        times = self._grid.starts_of(np.unique(behind.column("pane").to_numpy()))
        closed, ended = last_ended(self._windows, self._lateness.closed(before)), last_ended(self._windows, before)
        windows = self._windows.over(times, times, closed, ended)
        if len(windows):
            self._fire_windows(windows, fresh, self._now(before), output, touched_by=behind)

    def _fire_windows(
        self, windows: Int64s, fresh: pa.Table, now: Now, output: GroupOutput, touched_by: pa.Table | None = None
    ) -> None:
        for some in self._portions(windows, fresh):
            rows = self._windowed(some, fresh, touched_by)
            if rows is None:
                continue
            output.metrics.fired_windows += np.unique(rows.starts).tolist()
            self._count_firings(ON_TIME if touched_by is None else LATE, len(rows.starts), output)
            self._emit_main(self._results(rows, now, output), len(rows.starts), output)

    def _portions(self, windows: Int64s, fresh: pa.Table) -> Iterator[Int64s]:
        """Yield windows in portions whose rows fit in memory, estimated from the rows of their panes."""
        if not len(windows):
            return
        rows = sum(block.rows for block in self._blocks.index) + fresh.num_rows
        size = sum(block.size for block in self._blocks.index) + fresh.nbytes
        # Windows that fit the limit individually must not exceed it together.
        most = min(_BYTES_AT_ONCE, self._plan.most_bytes)
        at_once = max(1, min(_AT_ONCE // max(rows, 1), most // max(size, 1)))
        for begin in range(0, len(windows), at_once):
            yield windows[begin : begin + at_once]

    def _windowed(self, windows: Int64s, fresh: pa.Table, touched_by: pa.Table | None) -> WindowedRows | None:
        """Return the rows of windows, by window, key and arrival."""
        first, end = _panes(self._grid, self._windows, windows)
        low, high = np.asarray([first[0]]), np.asarray([end[-1]])
        self._check_size(windows, int(low[0]), int(high[0]), fresh)
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
        if self._settings.evictor is not None:
            times = table.column("time").to_numpy()[places]
            seen = kept(self._settings.evictor, which, codes[places], times)
            which, places = which[seen], places[seen]
        bounds = (self._windows.start_of(windows[which]), self._windows.end_of(windows[which]))
        keys = table.select(range(self._width)).rename_columns(self._settings.keys.names)
        return grouped(self._rows(table), (which, codes[places]), places, keys, bounds)

    def _check_size(self, windows: Int64s, low: int, high: int, fresh: pa.Table) -> None:
        """Raise MemoryLimitError if one window's rows exceed the query's limit, naming the key with the most rows.

        Rows of several windows cannot exceed it, because windows are read in smaller portions.
        """
        ours = pane_range(fresh, low, high)
        size, most = self._blocks.bytes_of(low, high) + ours.nbytes, self._plan.most_bytes
        if size <= most:
            return
        counts: Counter[Any] = Counter()
        for table in chain(self._blocks.scan(low, high), [ours]):
            keys = table.select(range(self._width))
            found = keys.group_by(keys.column_names, use_threads=False).aggregate([([], "count_all")])
            counts.update(dict(zip(_keys_of(found.select(range(self._width))), found["count_all"].to_pylist(), strict=True)))
        ((key, rows),) = counts.most_common(1)
        bounds = TimeWindow(int(self._windows.start_of(windows)[0]), int(self._windows.end_of(windows)[0]))
        raise window_too_large(key, repr(bounds), rows, size, most)

    def _touched(
        self, table: pa.Table, which: Int64s, places: Int64s, behind: pa.Table, bounds: tuple[Int64s, Int64s]
    ) -> np.ndarray:
        """Return which window rows belong to a key and window with a row in ``behind``."""
        there, rows = expanded(behind.column("pane").to_numpy(), *bounds)
        ours = [column.take(pa.array(places)) for column in table.columns[: self._width]]
        theirs = [column.take(pa.array(rows)) for column in behind.columns[: self._width]]
        return is_among(*numbered(ours, theirs, which, there))

    def _results(self, rows: WindowedRows, now: Now, output: GroupOutput) -> pa.Table:
        """Return the main-output rows, and emit the side outputs."""
        function = self._settings.function
        if isinstance(function, AllWindows):
            return function.main(rows, self._plan.main_schema)
        results = function.results(rows, self._settings.result, now)
        for tag, sent in results.sent.items():
            output.emit(tag, self._sent(rows, tag, sent))
        return self._of_windows(rows, results.of, results.rows.columns)

    def _sent(self, rows: WindowedRows, tag: str, sent: Sequence[tuple[int, Any]]) -> pa.Table:
        of, values = zip(*sent, strict=True)
        columns = result_columns(values, side_schema(self._plan, tag), lambda at: rows.place(of[at]))
        return self._of_windows(rows, np.asarray(of), columns, tag)

    def _of_windows(self, rows: WindowedRows, of: Int64s, columns: Sequence[pa.Array], tag: str = MAIN) -> pa.Table:
        keys, bounds = rows.keys.take(pa.array(of)), (rows.starts[of], rows.ends[of])
        return window_rows(self._plan, keys.columns, bounds, columns, tag=tag)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _close(self, fresh: pa.Table, step: TimeStep) -> None:
        first_live = self._lateness.first_live_pane(self._closing.reach(step.after))
        self._blocks.drop_before(first_live)
        self._blocks.append(pane_range(fresh, first_live, None))
        self._blocks.compact(first_live)


def _keys_of(keys: pa.Table) -> list[Any]:
    """Return keys in the form users see: values if there is one column, tuples if there are several."""
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)) if columns else [()] * keys.num_rows


def expanded(panes: Int64s, first: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Repeat each row for every window over its pane; return the places of windows and of rows.

    ``panes`` are the panes of the rows, ``first`` the first pane of each window, ascending, and ``end`` the pane after its last.
    """
    opened, until = np.searchsorted(end, panes, "right"), np.searchsorted(first, panes, "right")
    counts = np.maximum(until - opened, 0)
    ends = np.cumsum(counts)
    rows = np.repeat(np.arange(len(panes)), counts)
    return np.repeat(opened - (ends - counts), counts) + np.arange(len(rows)), rows


def _panes(grid: Any, one: AlignedWindows, windows: Int64s) -> tuple[Int64s, Int64s]:
    return grid.panes_of(one.start_of(windows)), grid.panes_of(one.end_of(windows))


def accumulating_rule(window: WindowQuery, asked: WindowRequest) -> Supported | Unsupported | None:
    """Plan aligned event-time windows that fire at their end, with a window function or a function over tables."""
    if isinstance(asked, DeclaredAggregates):
        return None
    function = _over_rows(asked)
    if function is None:
        return None
    reasons = why_not_rows(window)
    if isinstance(function, str):
        # The rule for panes reports why other windows are not supported.
        return None if reasons else Unsupported([function])
    if reasons or asked.keys is None:
        return Unsupported(reasons)
    grid = pane_grid(window.assigner)
    return Supported(AccumulatingSpec(grid, function, asked.results, asked.rows, asked.keys, window.evictor))


def why_not_rows(window: WindowQuery) -> list[str]:
    """Return why windows cannot run as panes of whole rows; empty if they can."""
    if isinstance(window.assigner, SeveralWindows):
        return ["several windows in one query need declared aggregates"]
    reasons = why_not_panes(replace(window, evictor=None))
    reasons += why_not_evicted(window.evictor, window.allowed_lateness)
    if not reasons and not window.assigner.is_event_time:
        reasons = ["panes of whole rows know event time only"]
    if not reasons and (interval_of(window) is not None or window.trigger == AT_EVERY_ROW):
        reasons = [f"panes of whole rows fire at the end of the window, not as {window.trigger!r} says"]
    return reasons


def _over_rows(asked: FunctionOfRows | FunctionOfTables) -> OverRows | str | None:
    """Return the function in its form, the reason it needs the row operator, or None if it does not take rows."""
    function = asked.function
    if not isinstance(function, KeepRows):
        return function if isinstance(function, OverRows) else None
    if isinstance(function.function, WindowFunction):
        return PerWindow(function.function)
    if not function.stateless:
        return "process may keep state, per window and per key (stateless=True declares that it does not)"
    if type(function.function).clear is not ProcessWindowFunction.clear:
        return "the function has clear(), which is called when a window goes"
    return PerWindowWithContext(function.function)
