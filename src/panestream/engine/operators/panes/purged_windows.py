"""Purging continuous triggers: fired rows are dropped, and the firing is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.pairs import is_among, numbered
from panestream.engine.kernels.slicing import Int64s, PaneGrid
from panestream.engine.operators.panes.firing import FiredWindows
from panestream.engine.operators.panes.rollups import Rollups
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.storage.blocks import PaneBlocks
from panestream.engine.storage.state import State
from panestream.engine.storage.state_tables import key_fields


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
        return cls(PaneBlocks(state, "purged", pa.schema([*fields, pa.field("pane", pa.int64())]), _in_order), grid)

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


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    return table.take(pa.array(stable_order(table.column("pane").to_numpy())))
