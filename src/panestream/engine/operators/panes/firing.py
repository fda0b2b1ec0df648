"""Firing: which open windows a continuous trigger fires, and the combination of panes into many windows at once.

For each key and window, a continuous trigger needs the time of its next firing. That time follows from the row that opened the
window for the key: it is the next multiple of the interval after the row, and then every multiple that time passes. It is not
stored, because two hidden aggregates in the partials find the time of that row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import key_fields
from panestream.engine.kernels.grouping import is_among, numbered, places_of
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.panes import Int64s, IntOrInts, PaneGrid
from panestream.engine.operators.panes.rollups import Rollups
from panestream.engine.plan import FIRINGS, INSERT, OPS, UPDATE_AFTER, UPDATE_BEFORE, WindowPlan
from panestream.engine.runtime.group_operator import firing_columns, window_rows
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import PaneBlocks, pane_range, sorted_by_pane
from panestream.engine.storage.state import State
from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.time import MIN_TIMESTAMP

TIME, ARRIVAL = "__opened at", "__opened by"
"""Hidden inputs: the time that the trigger uses, and the number of the row in the order of arrival."""
LAST = "__last by"
"""The number of a window's last row, if only changed windows fire."""
HIDDEN = (agg.min_by(TIME, ARRIVAL).alias(TIME), agg.min(ARRIVAL).alias(ARRIVAL))
HIDDEN_TYPES = {TIME: pa.int64(), ARRIVAL: pa.int64()}


@dataclass(frozen=True, slots=True)
class Interval:
    """A continuous trigger with an interval of ``length`` engine units.

    ``purging`` drops the fired rows. With ``only_changed``, windows without a row since their last firing do not fire.
    """

    length: int
    purging: bool = False
    only_changed: bool = False

    @property
    def hidden(self) -> tuple[Aggregate, ...]:
        """The hidden aggregates."""
        return (*HIDDEN, agg.max(ARRIVAL).alias(LAST)) if self.only_changed else HIDDEN

    def passed(self, before: int, after: int) -> bool:
        """Return whether time passed a multiple of the interval."""
        return after > before and (before == MIN_TIMESTAMP or after // self.length > before // self.length)

    def next_after(self, time: IntOrInts) -> IntOrInts:
        """Return the next multiple after a time, which is the first firing of a window opened by a row of this time."""
        return (time // self.length + 1) * self.length

    def due(self, opened_at: Int64s, opened_by: Int64s, before: int, after: int, recent: int) -> npt.NDArray[np.bool_]:
        """Return which of the open windows fire while time goes from ``before`` to the later ``after``.

        ``opened_at`` and ``opened_by`` are the time and number of the row that opened each window. ``recent`` is the number of
        the first row that arrived since time last moved.
        """
        first = self.next_after(opened_at)
        due: npt.NDArray[np.bool_] = first <= after
        if not self.passed(before, after):
            if self.only_changed:
                return np.zeros_like(due)
            # A row behind its time opened the window when a firing was already due. It fires with the next step of time.
            due &= opened_by >= recent
        return due

    def changed(self, opened_at: Int64s, last_by: Int64s, before: int, recent: int) -> npt.NDArray[np.bool_]:
        """Return which windows have rows that no firing has shown, given the numbers of their last rows.

        Every due window fired when time last passed a multiple, and ``recent`` is the number of the first row since. A window
        whose first multiple is after ``before`` was not due then.
        """
        return (last_by >= recent) | (self.next_after(opened_at) > before)

    def overdue(self, opened_at: Int64s, time: int) -> bool:
        """Return whether a row opened a window whose first firing was already due."""
        return bool((self.next_after(opened_at) <= time).any())


@dataclass(slots=True)
class PaneArrivals:
    """Numbers the rows of the stream in the order of arrival, for a continuous trigger.

    A row behind its time may open a window whose first firing is already due. The firing comes with the next step of time. So for
    a window whose first firing time has passed, the trigger must know whether its opening row arrived since time last moved (it
    fires now) or before (it has fired)::

        number   0 . . . . . . . . . . . . . . first_recent . . . . . . . . . . . . . . next_number
                 |  arrived before time last    |  arrived since: a window that one of    |  not yet
                 |  moved: due windows that     |  these opened fires with the next step, |  assigned
                 |  they opened have fired      |  even if its first firing is past       |

    ``0 <= first_recent <= next_number`` always holds. ``overdue`` means that a recent row opened such a window. When time moves,
    recent rows become old (:meth:`time_has_moved`). The state stores all three.

    If only changed windows fire, no window is overdue, and rows become old when time passes a multiple of the interval.
    """

    next_number: int = 0
    first_recent: int = 0
    overdue: bool = False

    def time_has_moved(self) -> None:
        """Mark all rows as old, because everything due has fired."""
        self.first_recent, self.overdue = self.next_number, False

    def number(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Convert ``columns`` of partials from row numbers within their chunk to numbers within the stream."""
        for name in columns:
            place = table.schema.get_field_index(name)
            numbers = table.column(name).to_numpy() + self.next_number
            table = table.set_column(place, table.schema.field(place), pa.array(numbers))
        if columns:
            self.next_number += pc.sum(table.column("rows")).as_py() or 0
        return table


@dataclass(slots=True)
class FiredWindows:
    """Windows of kind number ``kind`` that fired: the window of each row, ascending, and ``rows`` with keys and results."""

    kind: int
    windows: Int64s
    rows: pa.Table

    def filter(self, mask: npt.NDArray[np.bool_]) -> FiredWindows:
        return self if bool(mask.all()) else FiredWindows(self.kind, self.windows[mask], self.rows.filter(pa.array(mask)))


@dataclass(slots=True)
class Combiner:
    """Combines panes into windows.

    Attributes:
        fresh: the panes of the micro-batch, sorted by pane and not yet in a block.
        keeps_order: whether the earliest pane decides between equal rows.
    """

    grid: PaneGrid
    aggregation: Aggregation
    rollups: Rollups
    fresh: pa.Table
    keeps_order: bool = False

    def combine(self, windows: Sequence[Int64s], of_keys: pa.Table | None = None) -> list[FiredWindows]:
        """Return the results of windows (ascending, for each kind) for all keys with rows.

        ``of_keys`` restricts the keys to those in its first columns.
        """
        bounds = [
            (self.grid.panes_of(one.start_of(some)), self.grid.panes_of(one.end_of(some)))
            for one, some in zip(self.grid.windows, windows, strict=True)
        ]
        cuts = np.unique(np.concatenate([pane for pair in bounds for pane in pair]))
        if not len(cuts):
            return []
        parts = self.rollups.read(cuts)
        merged = int(cuts[0]) < self.rollups.settled
        parts = [part for part in [*parts, pane_range(self.fresh, int(cuts[0]), int(cuts[-1]))] if part.num_rows]
        if of_keys is not None:
            parts = [part for part in (self._only(part, of_keys) for part in parts) if part.num_rows]
        if not parts:
            return []
        table = pa.concat_tables(parts) if len(parts) > 1 else parts[0]
        if merged:
            # Between two cuts all panes belong to the same windows, so one row per key suffices.
            table = self._by_segment(table, cuts)
            bounds = [(np.searchsorted(cuts, first), np.searchsorted(cuts, end)) for first, end in bounds]
        fired = []
        for kind, (some, (first, end)) in enumerate(zip(windows, bounds, strict=True)):
            if len(some):
                which, rows = self.aggregation.windows(table, first, end)
                fired.append(FiredWindows(kind, some[which], rows))
        return fired

    def _only(self, table: pa.Table, of_keys: pa.Table) -> pa.Table:
        width = len(self.aggregation.key_schema)
        if not width:
            return table
        ours, theirs, size = numbered(table.columns[:width], of_keys.columns[:width])
        return table.filter(pa.array(is_among(ours, theirs, size)))

    def _by_segment(self, table: pa.Table, cuts: Int64s) -> pa.Table:
        panes = table.column("pane").to_numpy()
        if self.keeps_order:
            order = stable_order(panes)
            table, panes = table.take(pa.array(order)), panes[order]
        place = table.schema.get_field_index("pane")
        segments = np.searchsorted(cuts, panes, "right") - 1
        return table.set_column(place, table.schema.field(place), pa.array(segments))

    def touched(self, behind: pa.Table, windows: Sequence[Int64s], counting: Aggregation) -> list[FiredWindows]:
        """Return the keys and windows that partials belong to."""
        table = behind.select([*range(len(self.aggregation.key_schema) + 2)])
        touched = []
        for kind, (one, some) in enumerate(zip(self.grid.windows, windows, strict=True)):
            if len(some):
                first, end = self.grid.panes_of(one.start_of(some)), self.grid.panes_of(one.end_of(some))
                which, rows = counting.windows(table, first, end)
                touched.append(FiredWindows(kind, some[which], rows))
        return touched


def rows_of(plan: WindowPlan, grid: PaneGrid, fired: FiredWindows, firing: Sequence[pa.Array] = ()) -> pa.Table:
    """Return main-output rows of fired windows, whose columns start with keys and results; ``firing`` columns are added."""
    one, width = grid.windows[fired.kind], len(plan.key_schema)
    results = fired.rows.columns[width : width + len(plan.operator.result_schema)]
    bounds = one.start_of(fired.windows), one.end_of(fired.windows)
    return window_rows(plan, fired.rows.columns[:width], bounds, results, firing, kind=fired.kind)


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


@dataclass(slots=True)
class PurgedWindows:
    """The keys and open windows that have fired at least once, and fire at every interval from then on.

    Only for windows that do not overlap: purging a window may drop its panes' rows, because no other window contains them. The
    ``pane`` of ``blocks`` is the number of the window.
    """

    blocks: PaneBlocks
    grid: PaneGrid

    @classmethod
    def over(cls, state: State, keys: pa.Schema, grid: PaneGrid) -> PurgedWindows:
        fields = key_fields(keys)
        return cls(PaneBlocks(state, "purged", pa.schema([*fields, pa.field("pane", pa.int64())]), sorted_by_pane), grid)

    def has(self, fired: FiredWindows) -> npt.NDArray[np.bool_]:
        """Return which keys and windows have fired before."""
        windows = np.unique(fired.windows)
        parts = self.blocks.read_spans(windows, windows + 1)
        if not parts:
            return np.zeros(len(fired.windows), np.bool_)
        known = pa.concat_tables(parts)
        return is_among(*self._numbered(fired, fired.windows, known, known.column("pane").to_numpy()))

    def purge(self, fired: FiredWindows, rollups: Rollups, fresh: pa.Table) -> pa.Table:
        """Drop the rows of fired windows from the state and from the fresh rows; return the remaining fresh rows."""
        if not len(fired.windows):
            return fresh
        width = len(self.blocks.schema) - 1
        known = self.has(fired)
        new = fired.filter(~known)
        self.blocks.append(pa.Table.from_arrays([*new.rows.columns[:width], pa.array(new.windows)], schema=self.blocks.schema))
        kept = [self._rest(part, fired) for part in rollups.arrivals.read(-BEYOND_ALL, BEYOND_ALL)]
        rollups.arrivals.replace(rollups.aggregation.merge([part for part in kept if part.num_rows]))
        return self._rest(fresh, fired)

    def _rest(self, table: pa.Table, fired: FiredWindows) -> pa.Table:
        windows = self.grid.windows[0].last_starting_by(self.grid.starts_of(table.column("pane").to_numpy()))
        gone = is_among(*self._numbered(FiredWindows(0, windows, table), windows, fired.rows, fired.windows))
        return table.filter(pa.array(~gone))

    def _numbered(self, one: FiredWindows, windows: Int64s, other: pa.Table, theirs: Int64s) -> tuple[Int64s, Int64s, int]:
        width = len(self.blocks.schema) - 1
        return numbered(one.rows.columns[:width], other.columns[:width], windows, theirs)

    def drop_before(self, window: int) -> None:
        self.blocks.drop_before(window)
        self.blocks.compact(window)
