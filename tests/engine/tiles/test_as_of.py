"""Answers as of an instant, by hand: which rows they are of, in which order, and what is refused."""

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
IN_ORDER = Aggregation.build([agg.count().alias("n"), agg.user(Story(), "text", "int").alias("told")], TYPES, KEYS)
PANES = pane_grid(TumblingEventTimeWindows(10))

A = [("a", time) for time in range(100)]
B = [("b", time) for time in (7, 8, 30, 59, 60, 61, 70)]
UNTIL = 60
"""Of what came later there are no tiles."""


def rows_of(aggregation, came):
    keys, times = [key for key, _ in came], [time for _, time in came]
    values = [pa.array(times if text == "int" else list(map(str, times)), TYPES[text]) for text in aggregation.inputs]
    return AsOfRows([pa.array(keys, pa.string())], np.array(times, np.int64), values)


def tiles_of(aggregation, came):
    rows = rows_of(aggregation, came)
    merged = aggregation.merge([aggregation.partials(rows.keys, PANES.panes_of(rows.times), rows.values, rows.times)])
    keys, panes, *partials = (column.combine_chunks() for column in merged.columns)
    starts = PANES.starts_of(panes.to_numpy())
    return Tiles([keys], starts, starts + 10, partials)


def answers(questions, length, aggregation=IN_ORDER, *, came=(*A, *B), alone=False, exact_start=True):
    """What is found: rows that are in no pane where a window begins or ends are in tiles only."""
    asked = AsOfRequest([pa.array([key for key, _ in questions], pa.string())], np.array([at for _, at in questions], np.int64))
    cut = {at // 10 for _, at in questions} | {(at - length) // 10 for _, at in questions}
    beside = [(key, time) for key, time in came if time >= UNTIL or time // 10 in cut]
    tiles = tiles_of(aggregation, [(key, time) for key, time in came if alone or time < UNTIL])
    as_of = AsOf(aggregation, PANES, (length,), UNTIL, exact_start)
    (table,) = as_of.answers(asked, tiles, None if alone else rows_of(aggregation, beside))
    return [tuple(row.values()) for row in table.to_pylist()]


def told(times):
    times = list(times)
    return (len(times), repr((list(map(str, times)), sum(times)))) if times else (0, None)


@pytest.mark.parametrize(
    ("at", "length", "start"),
    [
        (45, 30, 15),
        (40, 30, 10),
        (45, 35, 10),
        (40, 35, 5),
        (47, 10, 37),  # it begins in one pane, and ends in the next
        (44, 3, 41),  # within a pane
        (44, 4, 40),
        (59, 58, 1),
        (70, 10, 60),  # a pane that has no tile yet
        (95, 94, 1),
        (99, 69, 30),
    ],
)
def test_a_window_ends_before_its_instant_and_begins_to_the_microsecond(at, length, start):
    """Rows are told in the order of time, of whatever pieces a window is made."""
    found = answers([("b", at), ("a", at), ("z", at)], length)
    assert found == [told(time for _, time in B if start <= time < at), told(range(start, at)), (0, None)]
    assert answers([("a", at)], length, COUNT) == [(at - start,)]


@pytest.mark.parametrize(("at", "length", "start"), [(45, 30, 10), (40, 30, 10), (44, 3, 40), (42, 3, 30), (95, 94, 0)])
def test_without_an_exact_start_the_slice_in_which_a_window_begins_is_whole(at, length, start):
    assert answers([("a", at)], length, exact_start=False) == [told(range(start, at))]


@pytest.mark.parametrize(("at", "length", "start", "end"), [(45, 30, 10, 40), (40, 30, 10, 40), (99, 90, 0, 90), (9, 10, -10, 0)])
def test_by_tiles_alone_a_window_ends_where_the_slice_of_its_instant_begins(at, length, start, end):
    inside = range(max(start, 0), end)
    assert answers([("a", at), ("z", at)], length, COUNT, alone=True) == [(len(inside),), (0,)]
    assert answers([("a", at)], length, alone=True) == [told(inside)]


@pytest.mark.parametrize("alone", [False, True])
def test_questions_are_answered_in_their_order_and_the_same_ones_alike(alone):
    questions = [("b", 70), ("a", 30), ("b", 10), ("a", 30), ("a", 10), ("z", 10), ("b", 20)]
    came = [*A[:5], *B]
    assert answers(questions, 20, COUNT, came=came, alone=alone) == [(3,), (0,), (2,), (0,), (5,), (0,), (2,)]


@pytest.mark.parametrize("rows", [None, rows_of(COUNT, A)])
@pytest.mark.parametrize(("start", "end"), [(13, 20), (10, 21), (10, 30)])
def test_the_first_tile_of_other_slices_is_named(rows, start, end):
    tiles = Tiles([pa.array(["a"] * 3)], np.array([0, start, 31]), np.array([10, end, 40]), [pa.array([1, 1, 1], pa.int64())])
    asked = AsOfRequest([pa.array(["a"])], np.array([50], np.int64))
    with pytest.raises(InvalidPlanError) as refused:
        AsOf(COUNT, PANES, (20,)).answers(asked, tiles, rows)
    assert str(refused.value) == (
        f"a tile goes from 1970-01-01 00:00:00.0000{start}+00:00 to 1970-01-01 00:00:00.0000{end}+00:00, "
        "which is no pane of those that its column 'tile' names"
    )
