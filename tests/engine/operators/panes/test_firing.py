"""When continuous triggers fire."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.panes.firing import FiredWindows, Interval, PaneArrivals
from panestream.windowing.time import MIN_TIMESTAMP

TEN = Interval(10)


def test_window_fires_first_at_next_multiple_after_its_opening_row_also_before_1970():
    opened = {-25: -20, -20: -10, -15: -10, -1: 0, 0: 10, 1: 10, 9: 10, 10: 20}
    assert TEN.next_after(np.array(list(opened))).tolist() == list(opened.values())


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        (5, 9, False),
        (5, 10, True),
        (9, 10, True),
        (10, 10, False),
        (10, 19, False),
        (10, 20, True),
        (20, 5, False),
        (-11, -10, True),
        (-10, -1, False),
        (-1, 0, True),
        (MIN_TIMESTAMP, -100, True),
        (MIN_TIMESTAMP, -99, True),
        (MIN_TIMESTAMP, MIN_TIMESTAMP, False),
    ],
)
def test_passed_is_true_if_time_reaches_a_multiple(before, after, passed):
    assert TEN.passed(before, after) == passed


def test_next_multiple_is_strictly_after_the_time():
    assert [TEN.next_after(time) for time in (-11, -10, -1, 0, 9, 10)] == [-10, 0, 0, 10, 10, 20]


def test_window_is_overdue_if_its_first_multiple_has_passed():
    assert [TEN.overdue(np.array(times, np.int64), 10) for times in ([], [10], [0], [9, 100], [10, 100])] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert not TEN.overdue(np.array([0]), 9)


@pytest.mark.parametrize(
    ("opened_at", "opened_by", "before", "after", "due"),
    [
        (5, 0, 5, 10, True),
        (0, 0, 5, 10, True),
        (10, 9, 5, 10, False),
        (5, 0, 12, 20, True),  # fires at every multiple
        # The interval contains no multiple. Only windows fire whose opening row came since the last step and is overdue.
        (5, 6, 11, 15, False),
        (5, 7, 11, 15, True),
        (5, 8, 11, 15, True),
        (5, 6, 10, 15, False),
        (11, 8, 11, 15, False),
    ],
)
def test_window_is_due_if_time_passes_a_multiple_or_it_is_overdue(opened_at, opened_by, before, after, due):
    assert TEN.due(np.array([opened_at]), np.array([opened_by]), before, after, 7).tolist() == [due]


def test_row_numbers_continue_over_micro_batches():
    arrivals = PaneArrivals()
    schema = pa.schema([("rows", pa.int64()), ("by", pa.int64()), ("min", pa.int64())])

    def number(rows, by, names=("by", "min")):
        table = arrivals.number(pa.table([rows, by, by], schema=schema), names)
        assert table.schema == schema
        return table.select(["by", "min"]).to_pydict(), arrivals.next_number

    assert number([2, 1], [0, 2]) == ({"by": [0, 2], "min": [0, 2]}, 3)
    assert number([1, 4], [0, 1]) == ({"by": [3, 4], "min": [3, 4]}, 8)
    assert number([], []) == ({"by": [], "min": []}, 8)
    # Without columns to number, no rows are counted.
    assert number([1], [0], ()) == ({"by": [0], "min": [0]}, 8)
    arrivals.overdue = True
    arrivals.time_has_moved()
    assert (arrivals.next_number, arrivals.first_recent, arrivals.overdue) == (8, 8, False)


def test_fired_windows_can_be_filtered():
    fired = FiredWindows(1, np.array([4, 5, 6]), pa.table({"n": [1, 2, 3]}))
    assert fired.filter(np.array([True] * 3)) is fired
    remaining = fired.filter(np.array([True, False, True]))
    assert (remaining.kind, remaining.windows.tolist(), remaining.rows.to_pydict()) == (1, [4, 6], {"n": [1, 3]})
