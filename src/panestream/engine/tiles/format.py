"""The columns of tiles: their names, conversion of results to tiles and of tiles to partials, and windows combined from tiles.

A tile has the key columns, ``window_start`` and ``window_end`` of its pane, ``rows`` (the number of rows) and for each partial a
struct of its columns. The struct's name depends only on the description of the partial. Tiles of other aggregates have the same
column for the same partial, so aggregates can be added to a store of tiles or omitted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.partial_aggregate import PartialAggregate
from panestream.engine.aggregates.saved_partials import KeptPartial, parts_of
from panestream.engine.kernels.columns import Ints, array_of, numbers, typed
from panestream.engine.kernels.grouping import encode_keys
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.kernels.panes import EvenGrid, Int64s, PaneGrid
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.time import format_duration

TILES_FORMAT = 1
"""Format version of tiles, increased with every incompatible change."""
START, END, ROWS = "window_start", "window_end", "rows"
_LONGEST = 40
"""Maximum number of letters of an expression in a column name."""


def recipes_of_tiles(aggregates: Sequence[Aggregate], aggregation: Aggregation) -> list[Aggregate]:
    """Return the aggregates that a window must compute so that its results are a tile with ``aggregates``' partials."""
    kept = tuple(aggregates)
    columns = [
        KeptPartial(of, kept, output_name=name)
        for name, of in zip(partial_columns(aggregation), parts_of(aggregation), strict=True)
    ]
    return [agg.count().alias(ROWS), *columns]


def partial_columns(aggregation: Aggregation) -> list[str]:
    """Return the names of partials in tiles, in order; raise InvalidPlanError if two are equal, which is unlikely."""
    named = zip(aggregation.partial_aggregates, parts_of(aggregation), strict=True)
    names = [_column_of(partial, of, aggregation.inputs) for partial, of in named]
    if len(set(names)) < len(names):
        raise InvalidPlanError(f"two partials have one name in tiles ({', '.join(names)}): write one expression in another way")
    return names


def _column_of(partial: PartialAggregate, of: str, inputs: Sequence[str]) -> str:
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(partial).__name__.removeprefix("Partial")).lower()
    text = inputs[partial.source] if partial.expressions and inputs else ""
    told = re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_")[:_LONGEST]
    digest = sha256(f"{TILES_FORMAT} {of}".encode()).hexdigest()[:8]
    return "_".join(part for part in (kind, told, digest) if part)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles in memory, one for each key and pane.

    ``partials`` has the columns of a partial table after keys and pane: the number of rows and the partials.
    """

    keys: list[pa.Array]
    starts: Int64s
    ends: Int64s
    partials: list[pa.Array]

    @classmethod
    def of(cls, keys: Sequence[pa.Array], columns: Sequence[pa.Array], aggregation: Aggregation) -> Tiles:
        """Return stored tiles, keeping the tile with the most rows of each key and pane.

        A window that fires again for a late row contains all its former rows, so the tile with the most rows is the last.
        ``columns`` are start and end in microseconds, rows, and the columns of the partials.

        Raises:
            InvalidPlanError: tiles lack a partial, because they were made before its aggregate was added.
        """
        starts, ends, rows = (numbers(column) for column in columns[:3])
        last = _last(keys, starts, rows)
        if last is not None:
            at = pa.array(last)
            keys, columns = [key.take(at) for key in keys], [column.take(at) for column in columns]
            starts, ends, rows = starts[last], ends[last], rows[last]
        partials = [array_of(rows, pa.int64())]
        for partial, name, kept in zip(aggregation.partial_aggregates, partial_columns(aggregation), columns[3:], strict=True):
            if kept.null_count:
                raise InvalidPlanError(
                    f"{kept.null_count} tiles lack the column {name!r}: they were made before there was an aggregate that needs "
                    "it. Read later tiles only (.where('window_start >= ...')), or make the older ones again from their rows"
                )
            partials += [typed(part, type_) for part, (_, type_) in zip(kept.flatten(), partial.columns, strict=True)]
        return cls(list(keys), starts, ends, partials)

    def take(self, places: Ints) -> Tiles:
        at = pa.array(places)
        return Tiles(
            [key.take(at) for key in self.keys],
            self.starts[places],
            self.ends[places],
            [column.take(at) for column in self.partials],
        )

    def table(self, aggregation: Aggregation, panes: Int64s) -> pa.Table:
        """Return partials of panes, in the layout of :attr:`Aggregation.partial_schema`."""
        columns = [*self.keys, array_of(panes, pa.int64()), *self.partials]
        return pa.Table.from_arrays(columns, schema=aggregation.partial_schema)


def without_keys(aggregation: Aggregation) -> Aggregation:
    """Return the same aggregates over all rows together."""
    bare = pa.schema(list(aggregation.partial_schema)[len(aggregation.key_schema) :])
    return replace(aggregation, key_schema=pa.schema([]), partial_schema=bare)


def _last(keys: Sequence[pa.Array], starts: Int64s, rows: Ints) -> Ints | None:
    """Return the place of the tile with the most rows of each key and pane, or None if each has one tile."""
    coded = encode_keys(keys, len(starts)).codes.astype(np.int64)
    order = stable_order(coded, starts, rows)
    coded, starts = coded[order], starts[order]
    again = (coded[1:] == coded[:-1]) & (starts[1:] == starts[:-1])
    if not again.any():
        return None
    return np.sort(order[np.append(~again, True)])


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
