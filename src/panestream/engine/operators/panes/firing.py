"""Firing: the panes of many windows combined at once, and rows of the main output made of the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.pairs import is_among, numbered
from panestream.engine.kernels.slicing import Int64s, PaneGrid
from panestream.engine.kernels.sorting import stable_order
from panestream.engine.operators.panes.rollups import Rollups
from panestream.engine.storage.blocks import pane_range


@dataclass(slots=True)
class Fired:
    """Windows of one kind that fired.

    Attributes:
        kind: the number of the kind of windows.
        windows: the window of each row, ascending.
        rows: key columns and results.
    """

    kind: int
    windows: Int64s
    rows: pa.Table

    def filter(self, mask: npt.NDArray[np.bool_]) -> Fired:
        """Some of the rows."""
        return self if bool(mask.all()) else Fired(self.kind, self.windows[mask], self.rows.filter(pa.array(mask)))


@dataclass(slots=True)
class Combiner:
    """Makes windows of panes.

    Attributes:
        grid: the panes.
        aggregation: what they hold.
        rollups: those in the state.
        fresh: those of the micro-batch, sorted by pane; in no block yet.
        keeps_order: whether of equal rows the one in the earliest pane counts.
    """

    grid: PaneGrid
    aggregation: Aggregation
    rollups: Rollups
    fresh: pa.Table
    keeps_order: bool = False

    def combine(self, windows: Sequence[Int64s], of_keys: pa.Table | None = None) -> list[Fired]:
        """The results of windows, for every key that has a row there.

        Args:
            windows: of each kind, ascending.
            of_keys: only the keys of this table (whose first columns they are).
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
            # Between two cuts all panes are in the same windows: one row per key will do.
            table = self._by_segment(table, cuts)
            bounds = [(np.searchsorted(cuts, first), np.searchsorted(cuts, end)) for first, end in bounds]
        fired = []
        for kind, (some, (first, end)) in enumerate(zip(windows, bounds, strict=True)):
            if len(some):
                which, rows = self.aggregation.windows(table, first, end)
                fired.append(Fired(kind, some[which], rows))
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

    def touched(self, behind: pa.Table, windows: Sequence[Int64s], counting: Aggregation) -> list[Fired]:
        """The keys and windows that some partials belong to."""
        table = behind.select([*range(len(self.aggregation.key_schema) + 2)])
        found = []
        for kind, (one, some) in enumerate(zip(self.grid.windows, windows, strict=True)):
            if len(some):
                first, end = self.grid.panes_of(one.start_of(some)), self.grid.panes_of(one.end_of(some))
                which, rows = counting.windows(table, first, end)
                found.append(Fired(kind, some[which], rows))
        return found


__all__ = ["Combiner", "Fired"]
