"""Answers as of an instant: the rows that they include, the order of rows, and errors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.panes.rule import pane_grid
from panestream.engine.tiles.as_of import AsOf, AsOfRequest, AsOfRows
from panestream.engine.tiles.format import Tiles
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.engine.aggregates.test_against_naive import Story

KEYS = pa.schema([("key", pa.string())])
TYPES = {"text": pa.string(), "int": pa.int64()}
COUNT = Aggregation.build([agg.count().alias("n")], TYPES, KEYS)
IN_ORDER = Aggregation.build([agg.count().alias("n"), agg.user(Story(), "text", "int").alias("story")], TYPES, KEYS)
PANES = pane_grid(TumblingEventTimeWindows(10))

A = [("a", time) for time in range(100)]
B = [("b", time) for time in (7, 8, 30, 59, 60, 61, 70)]
UNTIL = 60
"""Later rows are not in tiles."""


def rows_of(aggregation, all_rows):
    keys, times = [key for key, _ in all_rows], [time for _, time in all_rows]
    values = [pa.array(times if text == "int" else list(map(str, times)), TYPES[text]) for text in aggregation.inputs]
    return AsOfRows([pa.array(keys, pa.string())], np.array(times, np.int64), values)


def tiles_of(aggregation, all_rows):
    rows = rows_of(aggregation, all_rows)
    merged = aggregation.merge([aggregation.partials(rows.keys, PANES.panes_of(rows.times), rows.values, rows.times)])
    keys, panes, *partials = (column.combine_chunks() for column in merged.columns)
    starts = PANES.starts_of(panes.to_numpy())
    return Tiles([keys], starts, starts + 10, partials)


def answers(questions, length, aggregation=IN_ORDER, *, all_rows=(*A, *B), alone=False, exact_start=True):
    """Return the answers. Rows in panes without a window bound are only in tiles."""
    request = AsOfRequest([pa.array([key for key, _ in questions], pa.string())], np.array([at for _, at in questions], np.int64))
    cut = {at // 10 for _, at in questions} | {(at - length) // 10 for _, at in questions}
    exact_rows = [(key, time) for key, time in all_rows if time >= UNTIL or time // 10 in cut]
    tiles = tiles_of(aggregation, [(key, time) for key, time in all_rows if alone or time < UNTIL])
    as_of = AsOf(aggregation, PANES, (length,), UNTIL, exact_start)
    (table,) = as_of.answers(request, tiles, None if alone else rows_of(aggregation, exact_rows))
    return [tuple(row.values()) for row in table.to_pylist()]


def answer_of(times):
    times = list(times)
    return (len(times), repr((list(map(str, times)), sum(times)))) if times else (0, None)


@pytest.mark.parametrize(
    ("at", "length", "start"),
    [
        (45, 30, 15),
        (40, 30, 10),
        (45, 35, 10),
        (40, 35, 5),
        (47, 10, 37),  # the window begins in one pane and ends in the next
        (44, 3, 41),  # the window is within a pane
        (44, 4, 40),
        (59, 58, 1),
        (70, 10, 60),  # the pane lacks a tile
        (95, 94, 1),
        (99, 69, 30),
    ],
)
def test_window_begins_exactly_and_ends_before_its_instant(at, length, start):
    """A user function sees rows in time order, whatever the window is assembled from."""
    actual = answers([("b", at), ("a", at), ("z", at)], length)
    assert actual == [answer_of(time for _, time in B if start <= time < at), answer_of(range(start, at)), (0, None)]
    assert answers([("a", at)], length, COUNT) == [(at - start,)]


@pytest.mark.parametrize(("at", "length", "start"), [(45, 30, 10), (40, 30, 10), (44, 3, 40), (42, 3, 30), (95, 94, 0)])
def test_window_without_an_exact_start_includes_its_whole_first_pane(at, length, start):
    assert answers([("a", at)], length, exact_start=False) == [answer_of(range(start, at))]


@pytest.mark.parametrize(("at", "length", "start", "end"), [(45, 30, 10, 40), (40, 30, 10, 40), (99, 90, 0, 90), (9, 10, -10, 0)])
def test_window_of_tiles_alone_ends_at_the_start_of_the_last_pane(at, length, start, end):
    inside = range(max(start, 0), end)
    assert answers([("a", at), ("z", at)], length, COUNT, alone=True) == [(len(inside),), (0,)]
    assert answers([("a", at)], length, alone=True) == [answer_of(inside)]


@pytest.mark.parametrize("alone", [False, True])
def test_questions_are_answered_in_order_and_may_repeat(alone):
    questions = [("b", 70), ("a", 30), ("b", 10), ("a", 30), ("a", 10), ("z", 10), ("b", 20)]
    all_rows = [*A[:5], *B]
    assert answers(questions, 20, COUNT, all_rows=all_rows, alone=alone) == [(3,), (0,), (2,), (0,), (5,), (0,), (2,)]


@pytest.mark.parametrize("rows", [None, rows_of(COUNT, A)])
@pytest.mark.parametrize(("start", "end"), [(13, 20), (10, 21), (10, 30)])
def test_error_names_the_first_tile_that_is_not_a_pane(rows, start, end):
    tiles = Tiles([pa.array(["a"] * 3)], np.array([0, start, 31]), np.array([10, end, 40]), [pa.array([1, 1, 1], pa.int64())])
    request = AsOfRequest([pa.array(["a"])], np.array([50], np.int64))
    with pytest.raises(InvalidPlanError) as refused:
        AsOf(COUNT, PANES, (20,)).answers(request, tiles, rows)
    assert str(refused.value) == (
        f"a tile goes from 1970-01-01 00:00:00.0000{start}+00:00 to 1970-01-01 00:00:00.0000{end}+00:00, "
        "which is not a pane of the tiles in its column 'tile'"
    )
