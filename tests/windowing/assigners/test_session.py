"""Sessions: rows separated by less than a gap. Event time and processing time, fixed and dynamic gaps, with and without a limit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from panestream.errors import InvalidDurationError, InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import LONGEST_GAP, GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.windows import TimeWindow
from tests.windowing.driven import Driven


def test_rows_up_to_the_gap_apart_are_one_session():
    assert Driven(EventTimeSessionWindows(10)).windows(0, 10, 21) == {(0, 20): [0, 10], (21, 31): [21]}


def test_row_between_two_sessions_merges_them():
    driven = Driven(EventTimeSessionWindows(10))
    driven.element(0, "a")
    driven.element(15, "b")
    driven.restart()
    driven.element(7, "c")
    assert [driven.watermark(9), driven.watermark(24)] == [[], [["a", "b", "c"]]]
    assert driven.left == (0, 0)


def test_processing_time_rows_exactly_the_gap_apart_are_two_sessions():
    driven = Driven(ProcessingTimeSessionWindows(10))
    driven.element(0, "a")
    assert driven.clock(10) == [["a"]]
    driven.element(0, "b")
    driven.clock(19)
    driven.element(0, "c")
    assert [driven.clock(20), driven.clock(29)] == [[], [["b", "c"]]]


def test_dynamic_gaps_are_durations_or_microseconds():
    windows = EventTimeSessionWindows.with_dynamic_gap(lambda element: element["gap"])
    assert windows.assign_windows({"gap": "2 seconds"}, 5, 0) == (TimeWindow(5, 2_000_005),)
    assert EventTimeSessionWindows(lambda element: element).assign_windows(7, 5, 0) == (TimeWindow(5, 12),)
    with pytest.raises(InvalidWindowError, match=r"must be positive .*, got '0 seconds' for 0"):
        EventTimeSessionWindows(lambda element: element).assign_windows(0, 5, 0)
    with pytest.raises(InvalidWindowError, match="must be positive"):
        EventTimeSessionWindows(lambda element: element).assign_windows(LONGEST_GAP, 5, 0)


def test_end_of_a_session_with_dynamic_gaps_never_moves_back():
    driven = Driven(EventTimeSessionWindows(lambda value: value))
    driven.element(0, 100)
    driven.element(50, 1)
    assert [driven.watermark(98), driven.watermark(99)] == [[], [[100, 1]]]


@pytest.mark.parametrize(
    ("gap", "unit", "micros"),
    [(2, "seconds", 2_000_000), (2.5, "milliseconds", 2_500), (7, None, 7), (timedelta(seconds=1), None, 1_000_000)],
)
def test_gap_is_read_from_a_column(gap, unit, micros):
    assert GapColumn("gap", unit)({"gap": gap}) == micros


def test_gap_column_has_a_smallest_gap_and_a_label():
    assert GapColumn("gap")({"gap": 1}) == 1
    assert [GapColumn("gap", unit).label for unit in ("seconds", None)] == [
        "session gap gap in seconds",
        "session gap gap in intervals",
    ]


@pytest.mark.parametrize("gap", [2.5, 3.0, None, "5 seconds"])
def test_dynamic_gap_that_is_not_an_integer_is_refused(gap):
    with pytest.raises(InvalidWindowError, match="must be an integer, in engine units"):
        EventTimeSessionWindows(lambda element: gap).assign_windows(7, 5, 0)


@pytest.mark.parametrize("gap", [None, 0, -1, float("nan"), float("inf"), LONGEST_GAP, 2**62])
def test_gap_column_with_an_invalid_gap_is_refused(gap):
    with pytest.raises(InvalidWindowError, match="must be positive"):
        GapColumn("gap", "microseconds")({"gap": gap})


@pytest.mark.parametrize(("expr", "unit"), [("", None), (" ", None), (3, None), ("gap", "hours")])
def test_invalid_gap_column_is_refused(expr, unit):
    with pytest.raises(InvalidWindowError):
        GapColumn(expr, unit)


def test_maximum_duration_cuts_sessions_at_its_multiples():
    limited = EventTimeSessionWindows(10).max_duration(timedelta(microseconds=25))
    assert limited.longest == 25
    assert EventTimeSessionWindows(10).max_duration(timedelta(microseconds=1)).longest == 1
    assert Driven(limited).windows(15, 22, 30, 26) == {(15, 25): [15, 22], (26, 40): [30, 26]}


@pytest.mark.parametrize(
    "build",
    [
        lambda: EventTimeSessionWindows(0),
        lambda: ProcessingTimeSessionWindows.with_gap("-1 second"),
        lambda: EventTimeSessionWindows("5 minutes"),
        lambda: EventTimeSessionWindows(10).max_duration("0 seconds"),
        lambda: LimitedEventTimeSessionWindows(0, 100),
    ],
)
def test_invalid_sessions_are_refused(build):
    with pytest.raises(InvalidWindowError):
        build()


def test_unreadable_session_gap_is_refused():
    with pytest.raises(InvalidDurationError, match="gap"):
        EventTimeSessionWindows.with_gap("soon")


def test_session_gap_outside_its_limits_is_refused():
    assert [EventTimeSessionWindows(gap).gap for gap in (1, LONGEST_GAP - 1)] == [1, LONGEST_GAP - 1]
    for gap in (0, LONGEST_GAP):
        with pytest.raises(InvalidWindowError, match="must be positive"):
            EventTimeSessionWindows(gap)
