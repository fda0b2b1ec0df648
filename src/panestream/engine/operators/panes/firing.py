"""Firing: which open windows a continuous trigger fires, and the combination of panes into many windows at once.

For each key and window, a continuous trigger needs the time of its next firing. That time follows from the row that opened the
window for the key: it is the next multiple of the interval after the row, and then every multiple that time passes. It is not
stored, because two hidden aggregates in the partials find the time of that row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.pairs import is_among, numbered
from panestream.engine.kernels.slicing import Int64s, IntOrInts, PaneGrid
from panestream.engine.operators.panes.rollups import Rollups
from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.group_operator import window_rows
from panestream.engine.storage.blocks import pane_range
from panestream.windowing import aggregates as agg
from panestream.windowing.time import MIN_TIMESTAMP

TIME, ARRIVAL = "__opened at", "__opened by"
"""Hidden inputs: the time that the trigger uses, and the number of the row in the order of arrival."""
HIDDEN = (agg.min_by(TIME, ARRIVAL).alias(TIME), agg.min(ARRIVAL).alias(ARRIVAL))
HIDDEN_TYPES = {TIME: pa.int64(), ARRIVAL: pa.int64()}


@dataclass(frozen=True, slots=True)
class Interval:
    """A continuous trigger with an interval of ``length`` engine units; ``purging`` drops the fired rows."""

    length: int
    purging: bool = False

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
        due = first <= after
        if not self.passed(before, after):
            # A row behind its time opened the window when a firing was already due. It fires with the next step of time.
            due &= opened_by >= recent
        return due

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


__all__ = ["HIDDEN", "HIDDEN_TYPES", "Combiner", "FiredWindows", "Interval", "PaneArrivals", "rows_of"]
