"""A query that emits tiles, and the results computed from them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.columns import plain
from panestream.engine.kernels.slicing import EvenGrid
from panestream.engine.operators.panes.spec import pane_grid
from panestream.engine.planner import plan_aggregates
from panestream.engine.tiles.as_of import AsOf, AsOfRequest, AsOfRows
from panestream.engine.tiles.format import Tiles, recipes_of_tiles
from panestream.engine.tiles.windows import windows_of_tiles
from panestream.testing.simulation.disk import OutputRow
from panestream.testing.simulation.formatting import plain_rows
from panestream.testing.simulation.schedule import Row, Settings
from panestream.windowing.assigners import SlidingEventTimeWindows
from tests.testing.simulation.campaign.plans import AGGREGATES, KEYS, TYPES, QueryEngine, plan_with, window_of
from tests.testing.simulation.campaign.queries import Query
from tests.testing.simulation.campaign.reference_model.windows import as_of, windows_of

OF_TILES = Aggregation.build(AGGREGATES, TYPES, KEYS)


def tiles_engine(query: Query, settings: Settings, groups: int) -> QueryEngine:
    """Return the engine of a query that emits tiles."""
    window = window_of(query, settings)
    operator = plan_aggregates(window, recipes_of_tiles(AGGREGATES, OF_TILES), TYPES, KEYS)
    return QueryEngine(plan_with(query, settings, groups, window.assigner, operator))


@dataclass
class TileReader:
    """Reads the output of a query of tiles, with the code that reads stored tiles.

    Attributes:
        query: the query.
        columns: the columns of its output.
    """

    query: Query
    columns: pa.Schema
    _read: dict[OutputRow, OutputRow] = field(default_factory=dict, repr=False)

    def tile(self, row: OutputRow) -> OutputRow:
        """Return one tile: key, bounds, and the aggregates of its rows.

        Raises:
            AssertionError: its count of rows differs from its partials.
        """
        if row not in self._read:
            size, offset = self.query.assigner["size"], self.query.assigner["offset"]
            (((key, start, end), results),) = self.windows([row], size, size, offset).items()
            if (start, end) != row[1:3] or row[3] != results[0]:
                raise AssertionError(f"the tile {row} is read as {results} of the window from {start} to {end}")
            self._read[row] = (key, start, end, *results)
        return self._read[row]

    def windows(self, rows: Sequence[OutputRow], size: int, slide: int, offset: int) -> dict[Any, OutputRow]:
        """Return the windows combined from tiles, by key and bounds."""
        grid = pane_grid(SlidingEventTimeWindows(size, slide, offset))
        return {row[:3]: with_sorted_lists(row[3:]) for row in plain_rows(windows_of_tiles(OF_TILES, grid, self._tiles(rows)))}

    def check_whole(self, rows: Sequence[OutputRow], taken: Sequence[Row]) -> None:
        """Check that longer windows and look-ups give the same results from tiles as from rows.

        Args:
            rows: all emitted tiles in any order, including tiles that a later one of the same slice replaces.
            taken: the rows that were not late.

        Raises:
            AssertionError: the results differ.
        """
        rows = list(rows)
        random.Random(len(rows)).shuffle(rows)
        size, offset = self.query.assigner["size"], self.query.assigner["offset"]
        for many, every in ((2, 1), (3, 2)):
            span = many * size, every * size, offset
            _same(f"windows of {span[0]} every {span[1]}", self.windows(rows, *span), windows_of(taken, *span))
        self._check_questions(rows, taken, size, offset)

    def _check_questions(self, rows: Sequence[OutputRow], taken: Sequence[Row], size: int, offset: int) -> None:
        keys = sorted({row.key for row in taken}, key=repr)
        times = sorted({row.at + later for row in taken for later in (0, 1, size)})
        questions = [(key, time) for key in keys for time in times]
        asked = AsOfRequest(
            [pa.array([key for key, _ in questions], pa.string())], np.array([time for _, time in questions], np.int64)
        )
        lengths = (size, 3 * size)
        by_tiles = AsOf(OF_TILES, self._slices, lengths).answers(asked, self._tiles(rows), None)
        until = max((row[2] for row in rows), default=0)
        exact = AsOf(OF_TILES, self._slices, lengths, until).answers(asked, self._tiles(rows), _rows(taken))
        for length, some, others in zip(lengths, by_tiles, exact, strict=True):
            for (key, time), of_tiles, of_rows in zip(questions, plain_rows(some), plain_rows(others), strict=True):
                where = f"the {length} before {time} of {key!r}"
                _same(f"{where}, by tiles", with_sorted_lists(of_tiles), as_of(taken, key, time, length, size, offset))
                _same(f"{where}, exactly", with_sorted_lists(of_rows), as_of(taken, key, time, length, 1, 0))

    @cached_property
    def _slices(self) -> EvenGrid:
        size, offset = self.query.assigner["size"], self.query.assigner["offset"]
        grid = pane_grid(SlidingEventTimeWindows(size, size, offset))
        assert isinstance(grid, EvenGrid)
        return grid

    def _tiles(self, rows: Sequence[OutputRow]) -> Tiles:
        columns = [[_plain(row[place]) for row in rows] for place in range(len(self.columns))]
        fields = [each.with_type(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in self.columns]
        arrays = [pa.array(column, each.type) for column, each in zip(columns, fields, strict=True)]
        return Tiles.of(arrays[:1], arrays[1:], OF_TILES)


def _rows(taken: Sequence[Row]) -> AsOfRows:
    values = {"v": [row.value for row in taken], "u": [row.number for row in taken]}
    columns = [plain(pa.array(values[text], pa.int64())) for text in OF_TILES.inputs]
    times = np.array([row.at for row in taken], np.int64)
    return AsOfRows([pa.array([row.key for row in taken], pa.string())], times, columns)


def _plain(value: Any) -> Any:
    """Return a struct that is given as names and values."""
    return dict(value) if isinstance(value, tuple) else value


def with_sorted_lists(results: OutputRow) -> OutputRow:
    """Return a row of results in one form for all orders of its lists."""
    return tuple(tuple(sorted(value)) if isinstance(value, tuple) else value for value in results)


def _same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"tiles read as {what} give {found}, must be {wanted}")
