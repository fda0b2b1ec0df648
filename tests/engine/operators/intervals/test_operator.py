"""Interval joins at the bounds of their intervals: matching rows, and rows without a partner."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.intervals.operator import by_time
from panestream.engine.storage.state import MemoryState
from tests.comparison import intervals
from tests.comparison.joins import Row

PATIENT = (1000, 1000)
"""Delays of the watermarks that are so large that no row is late or expires."""
BOUNDS = [(-2, 5), (3, 7), (-7, -3), (0, 0), (-4, 0), (0, 4)]


def rows(side, times, key="a", first=1):
    """Return numbered rows. Some rows have a null name."""
    return [Row(side, key, time, 10 * (first + place) + 1) for place, time in enumerate(times)]


def pairs(left, right):
    """Return the row that the join emits for a left and a right row."""
    return (left.key, *left.values, *right.values)


def rows_emitted(plan, *batches):
    """Return the rows that each micro-batch emits. Each micro-batch has a new operator."""
    return [met.rows for met in intervals.found(plan, [[list(batch)] for batch in batches], state=MemoryState())]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_left_row_matches_only_kept_right_rows_within_its_bounds(lower, upper):
    plan = intervals.Interval(lower, upper, "inner", PATIENT).plan()
    left = rows("left", [100, 130])
    around = [[time + shift for shift in (lower - 1, lower, upper, upper + 1)] for time in (100, 130)]
    right = [rows("right", times, first=10 * place) for place, times in enumerate(around, 1)]
    others = rows("right", [100 + lower, 130 + upper], key="b", first=50)
    expected = Counter(pairs(left_row, right_row) for left_row, near in zip(left, right, strict=True) for right_row in near[1:3])
    # Also in reverse order, because stored rows are sorted by time.
    for kept_rows in ([*right[0], *right[1], *others], [*others, *right[1][::-1], *right[0][::-1]]):
        assert rows_emitted(plan, kept_rows, left) == [Counter(), expected]
        assert rows_emitted(plan, kept_rows, left[::-1]) == [Counter(), expected]
        assert rows_emitted(plan, *[[row] for row in kept_rows], left) == [Counter()] * len(kept_rows) + [expected]
        assert rows_emitted(plan, [*kept_rows, *left]) == [expected]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_right_row_matches_only_kept_left_rows_whose_bounds_contain_it(lower, upper):
    plan = intervals.Interval(lower, upper, "inner", PATIENT).plan()
    right = rows("right", [100, 130])
    around = [[time - shift for shift in (upper + 1, upper, lower, lower - 1)] for time in (100, 130)]
    left = [rows("left", times, first=10 * place) for place, times in enumerate(around, 1)]
    expected = Counter(pairs(left_row, right_row) for right_row, near in zip(right, left, strict=True) for left_row in near[1:3])
    for kept_rows in ([*left[0], *left[1]], [*left[1][::-1], *left[0][::-1]]):
        assert rows_emitted(plan, kept_rows, right) == [Counter(), expected]
        assert rows_emitted(plan, kept_rows, right[::-1]) == [Counter(), expected]
        assert rows_emitted(plan, [*kept_rows, *right]) == [expected]


@pytest.mark.parametrize("how", intervals.HOWS)
def test_row_without_partner_is_emitted_as_soon_as_none_can_come(how):
    """A left row at 10 matches right rows up to 15, a right row at 10 matches left rows up to 12. The watermark is one before
    the rows.
    """
    plan = intervals.Interval(-2, 5, how, (0, 0)).plan()
    (left,), (right,) = rows("left", [10]), rows("right", [10], key="b")
    # Their keys are unique and their times too far apart, so they match nothing.
    moves = [
        [*rows("left", [time], key=f"left {time}"), *rows("right", [time], key=f"right {time}")] for time in (13, 14, 16, 17)
    ]
    (at_13, at_14, at_16, at_17) = rows_emitted(plan, *[[left, right, *moves[0]], *[[*move] for move in moves[1:]]])
    alone_right = Counter([("b", None, None, *right.values)]) if how in ("right", "full") else Counter()
    alone_left = Counter([("a", *left.values, None)]) if how in ("left", "full") else Counter()
    rows_alone = {row for batch in (at_13, at_14, at_16, at_17) for row in batch if row[0] in ("a", "b")}
    assert rows_alone == {*alone_right, *alone_left}
    assert [{row for row in batch if row[0] == "b"} for batch in (at_13, at_14)] == [set(), set(alone_right)]
    assert [{row for row in batch if row[0] == "a"} for batch in (at_16, at_17)] == [set(), set(alone_left)]


@pytest.mark.parametrize(
    ("times_of_parts", "places"),
    [
        ([[]], []),
        ([[3]], [0]),
        ([[1, 2, 2, 3]], [0, 1, 2, 3]),
        ([[1, 3, 2]], [0, 2, 1]),  # all in order but one
        ([[3, 2, 1]], [2, 1, 0]),
        ([[2, 4], [1, 2, 3]], [2, 0, 3, 4, 1]),
        ([[5], [], [5], [4, 5]], [2, 0, 1, 3]),
    ],
)
def test_rows_are_sorted_by_time_and_equal_times_keep_their_order(times_of_parts, places):
    numbers = iter(range(100))
    tables = [
        pa.table({"pane": pa.array(times, pa.int64()), "row": pa.array([next(numbers) for _ in times], pa.int64())})
        for times in times_of_parts
    ]
    actual = by_time(tables)
    assert actual["row"].to_pylist() == places
    assert actual["pane"].to_pylist() == sorted(time for times in times_of_parts for time in times)


def test_many_rows_of_equal_time_keep_their_order():
    """With few rows, even an unstable sort keeps their order."""
    times = np.random.default_rng(7).integers(0, 5, 1000)
    actual = by_time([pa.table({"pane": times, "row": np.arange(1000)})])
    assert actual["row"].to_pylist() == [place for time in range(5) for place in np.flatnonzero(times == time).tolist()]
