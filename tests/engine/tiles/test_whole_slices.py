"""Windows from tiles must consist of whole slices. Others are refused as soon as this is known."""

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.panes.spec import pane_grid
from panestream.engine.tiles.format import Tiles
from panestream.engine.tiles.windows import check_whole, windows_of_tiles
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    CalendarDays,
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

SLICES = pane_grid(TumblingEventTimeWindows(10, 3))


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(10, 3),
        TumblingEventTimeWindows(30, 3),
        TumblingEventTimeWindows(30, 23),
        SlidingEventTimeWindows(50, 20, 3),
        CumulatingEventTimeWindows(60, 20, 3),
    ],
)
def test_windows_of_whole_slices_are_accepted(assigner):
    check_whole(SLICES, pane_grid(assigner))


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(30),
        TumblingEventTimeWindows(25, 3),
        SlidingEventTimeWindows(55, 20, 3),  # some of its edges are edges of slices
        CumulatingEventTimeWindows(60, 15, 3),
    ],
)
def test_windows_that_begin_or_end_within_slices_are_refused(assigner):
    with pytest.raises(InvalidPlanError, match="windows begin or end within slices of 10 microseconds"):
        check_whole(SLICES, pane_grid(assigner))


def test_calendar_windows_are_accepted_before_tiles_are_read():
    days = pane_grid(CalendarDays.of(1, zone="UTC"))
    check_whole(SLICES, days)
    check_whole(days, SLICES)


COUNT = Aggregation.build([agg.count().alias("n")], {}, pa.schema([("key", pa.string())]))


def windows_of(assigner, *tiles):
    """Return the windows (key, start, end, count) of tiles (key, start, end, rows)."""
    keys, starts, ends, rows = zip(*tiles, strict=True)
    tiles_ = Tiles([pa.array(keys)], np.asarray(starts), np.asarray(ends), [pa.array(rows, pa.int64())])
    table = windows_of_tiles(COUNT, pane_grid(assigner), tiles_)
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


TILES = [("a", 0, 10, 1), ("a", 10, 20, 2), ("b", 10, 20, 4), ("a", 20, 30, 8), ("b", 90, 100, 16)]


def test_windows_count_the_rows_of_their_tiles():
    assert windows_of(TumblingEventTimeWindows(20), *TILES) == [
        ("a", 0, 20, 3),
        ("a", 20, 40, 8),
        ("b", 0, 20, 4),
        ("b", 80, 100, 16),
    ]
    assert windows_of(SlidingEventTimeWindows(20, 10), ("a", 10, 20, 2)) == [("a", 0, 20, 2), ("a", 10, 30, 2)]
    assert windows_of(TumblingEventTimeWindows(1), ("a", 7, 8, 3)) == [("a", 7, 8, 3)]


@pytest.mark.parametrize(
    ("assigner", "cut"),
    [
        (TumblingEventTimeWindows(20, 1), (0, 10)),  # before its second instant
        (TumblingEventTimeWindows(100, 19), (10, 20)),  # before its last instant
        (TumblingEventTimeWindows(100, 95), (90, 100)),  # only the last tile
        (SlidingEventTimeWindows(13, 20), (10, 20)),  # cut by the end of a window
    ],
)
def test_error_names_the_tile_that_a_window_cuts(assigner, cut):
    """Calendar windows are found to cut slices only when the tiles are read."""
    start, end = (pa.scalar(edge, pa.timestamp("us", "UTC")) for edge in cut)
    with pytest.raises(InvalidPlanError) as error:
        windows_of(assigner, *TILES)
    assert str(error.value) == (
        f"a window begins or ends within the slice from {start} to {end}: windows from tiles are made of whole slices"
    )
