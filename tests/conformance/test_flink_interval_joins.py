"""The cases of Flink's ``IntervalJoinOperatorTest`` (2.x), as answers: bounds, late rows, a restart, stored rows.

It has 19 cases, and 14 are here. The others are about Flink's API: the times in the context of a join function (3), and rows
without a timestamp (2), which are invalid rows here. Flink drops a row when the watermark *reaches* the last time that the row
could meet. Here the row goes when the watermark is past that time. So a row exactly at the watermark is not late, and still finds
its partners.
"""

from __future__ import annotations

import pytest

from panestream.engine.runtime.sides import SIDES
from panestream.engine.storage.state import MemoryState
from tests.comparison import intervals
from tests.comparison.joins import Row


def rows(side, *times):
    return [Row(side, "key", time, time) for time in times]


def join(lower, lower_included, upper, upper_included, delay=-1):
    """Return a join whose watermark is the largest time, as in Flink's test."""
    lower += 0 if lower_included else 1
    upper -= 0 if upper_included else 1
    return intervals.Interval(lower, upper, "inner", (delay, delay)).plan()


def pairs_of(found):
    return sorted((row[1], row[3]) for each in found for row in each.rows.elements())


FROM_1_TO_4 = [
    ("negative, included", (-2, True, -1, True), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]),
    (
        "around, included",
        (-1, True, 1, True),
        [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4)],
    ),
    ("positive, included", (1, True, 2, True), [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]),
    ("negative, excluded", (-3, False, -1, False), [(3, 1), (4, 2)]),
    ("around, excluded", (-1, False, 1, False), [(1, 1), (2, 2), (3, 3), (4, 4)]),
    ("positive, excluded", (1, False, 3, False), [(1, 3), (2, 4)]),
    ("mirrored", (1, True, 3, False), [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]),
    ("mirror", (-3, False, -1, True), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]),
]


@pytest.mark.parametrize(("bounds", "expected"), [case[1:] for case in FROM_1_TO_4], ids=[case[0] for case in FROM_1_TO_4])
@pytest.mark.parametrize("first", SIDES)
def test_interval_join_meets_rows_within_its_bounds(bounds, expected, first):
    """Send one stream completely, then the other. Each row is a micro-batch."""
    second = "right" if first == "left" else "left"
    batches = [[[row]] for side in (first, second) for row in rows(side, 1, 2, 3, 4)]
    found = intervals.found(join(*bounds), batches)
    assert pairs_of(found) == expected
    assert not any(each.late[side] for each in found for side in SIDES)


def test_late_rows_are_not_joined():
    begin = [rows("left", 1, 2, 3) + rows("right", 1, 2, 3)]
    later = [rows("left", 1), rows("left", 4), rows("right", 4), rows("left", 5), rows("right", 5)]
    expected = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4), (4, 5), (5, 4), (5, 5)]
    assert pairs_of(intervals.found(join(-1, True, 1, True), [begin, later])) == expected


def test_late_rows_of_each_side_go_to_the_late_output():
    later = [rows("left", 4), rows("right", 4), rows("left", 1), rows("right", 2), rows("left", 5), rows("right", 5)]
    found = intervals.found(join(-1, True, 1, True), [[rows("left", 3) + rows("right", 3)], later])
    assert pairs_of(found) == [(3, 3), (3, 4), (4, 3), (4, 4), (4, 5), (5, 4), (5, 5)]
    assert {side: [row[1] for row in found[1].late[side]] for side in SIDES} == {"left": [1], "right": [2]}


def test_restarted_interval_join_keeps_its_rows():
    plan, state = join(-1, True, 1, True), MemoryState()
    begin = [[rows(side, time)] for time in (1, 2, 3) for side in SIDES]
    assert pairs_of(intervals.found(plan, begin, state=state)) == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)]
    again = MemoryState(dict(state.values))
    assert pairs_of(intervals.found(plan, [[rows(side, 4)] for side in SIDES], state=again)) == [(3, 4), (4, 3), (4, 4)]


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ((-1, True, 0, True), {1: ([2, 3, 4, 5], [1, 2, 3, 4, 5]), 4: ([5], [4, 5])}),
        ((-2, False, 1, False), {1: ([2, 3, 4, 5], [1, 2, 3, 4, 5]), 4: ([5], [4, 5])}),
        ((0, True, 1, True), {1: ([1, 2, 3, 4, 5], [2, 3, 4, 5]), 4: ([4, 5], [5])}),
        ((-1, False, 2, False), {1: ([1, 2, 3, 4, 5], [2, 3, 4, 5]), 4: ([4, 5], [5])}),
    ],
)
def test_interval_join_stores_rows_that_can_still_meet_others(bounds, kept):
    """At a watermark one past Flink's, the same rows remain."""
    for watermark, expected in {**kept, 6: ([], [])}.items():
        plan, state = join(*bounds, delay=100), MemoryState()
        intervals.found(plan, [[rows("left", 1, 2, 3, 4, 5) + rows("right", 1, 2, 3, 4, 5)]], state=state)
        operator = plan.operator.for_group(plan, state, 0)
        operator._tracker.watermark = watermark + 1
        tables = operator.tables().tables
        assert tuple(tables[side].column("time").to_pylist() for side in SIDES) == expected
