"""Reading stored tiles: choosing one of several tiles for a slice, and errors."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.panes.rule import pane_grid
from panestream.engine.tiles.format import Tiles, partial_columns, schema_of_windows, windows_of_tiles
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows

KEYS = pa.schema([("key", pa.string())])
AGGREGATION = Aggregation.build([agg.count("v").alias("n"), agg.max("v").alias("top")], {"v": pa.int64()}, KEYS)
COUNT_PARTIAL, MAX_PARTIAL = pa.struct([("n", pa.int64())]), pa.struct([("max", pa.int64())])


def tiles_of(*stored):
    """Return tiles of slices of ten. Each has a key, start, rows, and two partials, either of which may be None."""
    keys, starts, rows, counted, largest = zip(*stored, strict=True)
    columns = [pa.array(starts), pa.array([start + 10 for start in starts]), pa.array(rows)]
    columns.append(pa.array([None if n is None else {"n": n} for n in counted], COUNT_PARTIAL))
    columns.append(pa.array([None if top is None else {"max": top} for top in largest], MAX_PARTIAL))
    return Tiles.of([pa.array(keys, pa.string())], columns, AGGREGATION)


def as_rows(tiles):
    columns = [*tiles.keys, pa.array(tiles.starts), pa.array(tiles.ends), *tiles.partials]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def test_tile_with_the_most_rows_of_a_key_and_slice_is_used():
    tiles = tiles_of(
        ("a", 0, 3, 3, 9), ("a", 10, 1, 1, 4), ("b", 0, 5, 5, 5), ("a", 0, 4, 3, 8), ("a", 0, 2, 2, 9), (None, 0, 1, 0, 0)
    )
    assert as_rows(tiles) == [("a", 10, 20, 1, 1, 4), ("b", 0, 10, 5, 5, 5), ("a", 0, 10, 4, 3, 8), (None, 0, 10, 1, 0, 0)]
    alone = tiles_of(("b", 10, 2, 2, 1), ("a", 0, 1, 1, 3))
    assert as_rows(alone) == [("b", 10, 20, 2, 2, 1), ("a", 0, 10, 1, 1, 3)]


def test_tiles_without_a_needed_partial_are_counted_and_refused():
    counted, largest = partial_columns(AGGREGATION)
    for stored, many, name in (
        ([("a", 0, 1, 1, None), ("b", 0, 1, 1, None), ("a", 10, 1, 1, 3)], 2, largest),
        ([("a", 0, 1, None, 3)], 1, counted),
    ):
        with pytest.raises(InvalidPlanError) as error:
            tiles_of(*stored)
        assert str(error.value) == (
            f"{many} tiles lack the column {name!r}: they were made before there was an aggregate that needs it. Read later tiles "
            "only (.where('window_start >= ...')), or make the older ones again from their rows"
        )
    # An older tile of the same slice is ignored.
    assert as_rows(tiles_of(("a", 0, 1, 1, None), ("a", 0, 2, 2, 7))) == [("a", 0, 10, 2, 2, 7)]


def columns_of(*aggregates, **types):
    return partial_columns(Aggregation.build(aggregates, types, KEYS))


def test_names_of_tile_columns_do_not_change():
    """Stored tiles are found by these names, so the names must not change."""
    assert columns_of(agg.count()) == []
    assert columns_of(agg.complete("n"), agg.count().alias("n"), agg.count("v"), v=pa.int64()) == ["count_v_b6fdb5bd"]
    assert columns_of(agg.mean("Price * 2"), **{"Price * 2": pa.float64()}) == [
        "float_sum_price_2_7716c685",
        "count_of_sum_price_2_e5c3cc8a",
    ]
    assert columns_of(agg.max_by("v", "w"), v=pa.int64(), w=pa.int64()) == ["pick_v_f58f0cd7"]
    long = "a" * 45
    assert columns_of(agg.max(long), **{long: pa.int64()}) == [f"extreme_{'a' * 40}_4a5b376a"]


def test_two_partials_with_the_same_name_are_refused():
    """The digests and the first forty letters of both are equal."""
    texts = [f"{'width * ' * 6}height + {number}" for number in (10960, 43903)]
    with pytest.raises(
        InvalidPlanError, match=r"two partials have one name in tiles \(extreme_width_.*_968332a0, extreme_width_"
    ):
        columns_of(*(agg.max(text) for text in texts), **dict.fromkeys(texts, pa.int64()))


def windows(assigner, tiles):
    table = windows_of_tiles(AGGREGATION, pane_grid(assigner), tiles)
    for place in (1, 2):
        table = table.set_column(place, table.schema.names[place], table.column(place).cast(pa.int64()))
    return [tuple(row.values()) for row in table.to_pylist()]


def test_windows_of_tiles_have_non_nullable_bounds():
    instant = pa.timestamp("us", "UTC")
    expected = [*KEYS, ("window_start", instant, False), ("window_end", instant, False), ("n", pa.int64()), ("top", pa.int64())]
    expected = [field if isinstance(field, pa.Field) else pa.field(*field) for field in expected]
    schema = windows_of_tiles(AGGREGATION, pane_grid(TumblingEventTimeWindows(20)), tiles_of(("a", 0, 1, 1, 3))).schema
    assert list(schema) == expected == list(schema_of_windows(AGGREGATION))


def test_windows_of_tiles_are_those_that_contain_a_tile():
    tiles = tiles_of(("a", 0, 1, 1, 3), ("b", 10, 2, 1, 9), ("a", 50, 4, 4, 2))
    assert windows(TumblingEventTimeWindows(20), tiles) == [
        ("a", 0, 20, 1, 3),
        ("b", 0, 20, 1, 9),
        ("a", 40, 60, 4, 2),
    ]
    assert windows(SlidingEventTimeWindows(20, 10), tiles) == [
        ("a", -10, 10, 1, 3),
        ("a", 0, 20, 1, 3),
        ("b", 0, 20, 1, 9),
        ("b", 10, 30, 1, 9),
        ("a", 40, 60, 4, 2),
        ("a", 50, 70, 4, 2),
    ]


def test_error_names_the_pane_that_a_window_cuts():
    with pytest.raises(InvalidPlanError) as error:
        windows(TumblingEventTimeWindows(15), tiles_of(("a", 0, 1, 1, 3), ("a", 10, 1, 1, 3)))
    assert str(error.value) == (
        "a window begins or ends within the pane from 1970-01-01 00:00:00.000010+00:00 to 1970-01-01 00:00:00.000020+00:00: "
        "windows from tiles are made of whole panes"
    )
