"""Interval joins at the borders of their intervals: which kept rows are met, by which rows, and when a row is alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.storage.blocks import sorted_by_pane
from panestream.engine.storage.state import MemoryState
from tests.comparison import intervals
from tests.comparison.joins import Row

PATIENT = (1000, 1000)
"""How far the watermarks are behind: nothing is late, and nothing goes."""
BOUNDS = [(-2, 5), (3, 7), (-7, -3), (0, 0), (-4, 0), (0, 4)]


def rows(side, times, key="a", first=1):
    """Rows with numbers of their own; of none the name is null."""
    return [Row(side, key, time, 10 * (first + place) + 1) for place, time in enumerate(times)]


def pairs(one, other):
    """What is emitted of a left row and a right one."""
    return (one.key, *one.values, *other.values)


def emitted(plan, *batches):
    """The rows of each micro-batch, each with an operator of its own."""
    return [met.rows for met in intervals.found(plan, [[list(batch)] for batch in batches], state=MemoryState())]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_a_left_row_meets_the_kept_right_ones_between_its_bounds_and_no_other(lower, upper):
    plan = intervals.Interval(lower, upper, "inner", PATIENT).plan()
    left = rows("left", [100, 130])
    around = [[time + shift for shift in (lower - 1, lower, upper, upper + 1)] for time in (100, 130)]
    right = [rows("right", times, first=10 * place) for place, times in enumerate(around, 1)]
    others = rows("right", [100 + lower, 130 + upper], key="b", first=50)
    expected = Counter(pairs(one, other) for one, near in zip(left, right, strict=True) for other in near[1:3])
    # Last first, as well: what is kept lies by time.
    for kept in ([*right[0], *right[1], *others], [*others, *right[1][::-1], *right[0][::-1]]):
        assert emitted(plan, kept, left) == [Counter(), expected]
        assert emitted(plan, kept, left[::-1]) == [Counter(), expected]
        assert emitted(plan, *[[row] for row in kept], left) == [Counter()] * len(kept) + [expected]
        assert emitted(plan, [*kept, *left]) == [expected]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_a_right_row_meets_the_kept_left_ones_whose_bounds_it_is_between_and_no_other(lower, upper):
    plan = intervals.Interval(lower, upper, "inner", PATIENT).plan()
    right = rows("right", [100, 130])
    around = [[time - shift for shift in (upper + 1, upper, lower, lower - 1)] for time in (100, 130)]
    left = [rows("left", times, first=10 * place) for place, times in enumerate(around, 1)]
    expected = Counter(pairs(one, other) for other, near in zip(right, left, strict=True) for one in near[1:3])
    for kept in ([*left[0], *left[1]], [*left[1][::-1], *left[0][::-1]]):
        assert emitted(plan, kept, right) == [Counter(), expected]
        assert emitted(plan, kept, right[::-1]) == [Counter(), expected]
        assert emitted(plan, [*kept, *right]) == [expected]


@pytest.mark.parametrize("how", intervals.HOWS)
def test_a_row_is_alone_as_soon_as_no_partner_can_come_and_not_before(how):
    """A left row at 10 meets right ones up to 15, a right row at 10 left ones up to 12; watermarks stand one before the rows."""
    plan = intervals.Interval(-2, 5, how, (0, 0)).plan()
    (left,), (right,) = rows("left", [10]), rows("right", [10], key="b")
    # Of keys that nobody else has, and too far apart to meet.
    moves = [
        [*rows("left", [time], key=f"left {time}"), *rows("right", [time], key=f"right {time}")] for time in (13, 14, 16, 17)
    ]
    (at_13, at_14, at_16, at_17) = emitted(plan, *[[left, right, *moves[0]], *[[*move] for move in moves[1:]]])
    alone_right = Counter([("b", None, None, *right.values)]) if how in ("right", "full") else Counter()
    alone_left = Counter([("a", *left.values, None)]) if how in ("left", "full") else Counter()
    told = {row for batch in (at_13, at_14, at_16, at_17) for row in batch if row[0] in ("a", "b")}
    assert told == {*alone_right, *alone_left}
    assert [{row for row in batch if row[0] == "b"} for batch in (at_13, at_14)] == [set(), set(alone_right)]
    assert [{row for row in batch if row[0] == "a"} for batch in (at_16, at_17)] == [set(), set(alone_left)]


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ([[]], []),
        ([[3]], [0]),
        ([[1, 2, 2, 3]], [0, 1, 2, 3]),
        ([[1, 3, 2]], [0, 2, 1]),  # all but one in order
        ([[3, 2, 1]], [2, 1, 0]),
        ([[2, 4], [1, 2, 3]], [2, 0, 3, 4, 1]),
        ([[5], [], [5], [4, 5]], [2, 0, 1, 3]),
    ],
)
def test_rows_are_put_in_the_order_of_their_times_and_else_left_as_they_are(given, places):
    numbers = iter(range(100))
    tables = [
        pa.table({"pane": pa.array(times, pa.int64()), "row": pa.array([next(numbers) for _ in times], pa.int64())})
        for times in given
    ]
    found = sorted_by_pane(tables)
    assert found["row"].to_pylist() == places
    assert found["pane"].to_pylist() == sorted(time for times in given for time in times)


def test_many_rows_of_a_time_too_stay_as_they_are():
    """Few come out as they were of a sort that is not stable, too."""
    times = np.random.default_rng(7).integers(0, 5, 1000)
    found = sorted_by_pane([pa.table({"pane": times, "row": np.arange(1000)})])
    assert found["row"].to_pylist() == [place for time in range(5) for place in np.flatnonzero(times == time).tolist()]
