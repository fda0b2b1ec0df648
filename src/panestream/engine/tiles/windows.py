"""Windows combined from tiles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import array_of
from panestream.engine.kernels.panes import EvenGrid, Int64s, PaneGrid
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.engine.tiles.format import Tiles
from panestream.errors import InvalidPlanError
from panestream.windowing.time import format_duration

_INSTANT = pa.timestamp("us", tz="UTC")


def windows_of_tiles(aggregation: Aggregation, grid: PaneGrid, tiles: Tiles, rows: pa.Table | None = None) -> pa.Table:
    """Return the windows of tiles and rows: key columns, ``window_start``, ``window_end``, results.

    ``grid`` has the panes of one kind of windows. ``rows`` has partials, by pane of the grid, for rows that the tiles do not
    include.

    Raises:
        InvalidPlanError: a window begins or ends within a pane.
        AggregateOverflowError: a result does not fit its type.
    """
    (one,) = grid.windows
    parts = [tiles.table(aggregation, _panes_of(grid, tiles)), *([] if rows is None else [rows])]
    table = pa.concat_tables(parts)
    panes = np.unique(table.column("pane").to_numpy())
    starts, ends = grid.starts_of(panes), grid.starts_of(panes + 1)
    found = one.over(starts, ends - 1, -BEYOND_ALL, BEYOND_ALL)
    first, end = grid.panes_of(one.start_of(found)), grid.panes_of(one.end_of(found))
    which, results = aggregation.windows(table, first, end)
    windows, width = found[which], len(aggregation.key_schema)
    bounds = [array_of(edge, pa.int64()).cast(_INSTANT) for edge in (one.start_of(windows), one.end_of(windows))]
    columns = [*results.columns[:width], *bounds, *results.columns[width:]]
    return pa.Table.from_arrays(columns, schema=schema_of_windows(aggregation))


def schema_of_windows(aggregation: Aggregation) -> pa.Schema:
    """Return the columns of :func:`windows_of_tiles`."""
    bounds = [pa.field(name, _INSTANT, nullable=False) for name in ("window_start", "window_end")]
    return pa.schema([*aggregation.key_schema, *bounds, *aggregation.output_schema])


def check_whole(panes: PaneGrid, grid: PaneGrid) -> None:
    """Raise InvalidPlanError if windows begin or end within panes.

    Only checked if both repeat after a fixed time; reading tiles detects the other cases.
    """
    if not isinstance(panes, EvenGrid) or not isinstance(grid, EvenGrid):
        return
    # If both repeat, one common period contains all combinations of pane edges.
    if grid.period % panes.period or any((grid.origin + edge - panes.origin) % panes.period for edge in grid.edges):
        raise InvalidPlanError(
            f"windows begin or end within panes of {format_duration(panes.period)}: size, slide, step and offset must be "
            "multiples of a pane's, counted from where panes begin"
        )


def _panes_of(grid: PaneGrid, tiles: Tiles) -> Int64s:
    """Return the pane that contains each tile."""
    panes = grid.panes_of(tiles.starts)
    cut = np.flatnonzero(panes != grid.panes_of(tiles.ends - 1))
    if len(cut):
        start, end = (pa.scalar(int(edge[cut[0]]), _INSTANT) for edge in (tiles.starts, tiles.ends))
        raise InvalidPlanError(
            f"a window begins or ends within the pane from {start} to {end}: windows from tiles are made of whole panes"
        )
    return panes
