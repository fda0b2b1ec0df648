"""AfterCount fires once after a number of rows."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import AfterCount, Repeatedly
from tests.windowing.driven import Driven


def test_after_count_fires_once_and_later_rows_are_dropped():
    driven = Driven(GlobalWindows.create(), AfterCount.of(2))
    driven.element(0, 1)
    driven.restart()
    assert [driven.element(0, value) for value in (2, 3, 4, 5)] == [[[1, 2]], [], [], []]
    assert driven.end() == []
    assert driven.left == (0, 1), "all that is left is that it has finished"


def test_after_count_stays_finished_after_a_restart():
    driven = Driven(TumblingEventTimeWindows(10), AfterCount.of(1))
    assert driven.element(1, "a") == [["a"]]
    driven.restart()
    assert driven.element(2, "b") == []
    assert driven.watermark(9) == []
    assert driven.left == (0, 0)


def test_after_count_adds_counts_of_merged_sessions():
    driven = Driven(EventTimeSessionWindows(10), Repeatedly.of(AfterCount.of(3)))
    assert driven.element(0, 1) + driven.element(15, 2) == []
    driven.restart()
    assert driven.element(8, 3) == [[1, 2, 3]]


def test_unfinished_session_still_fires_after_merging_with_a_finished_one():
    driven = Driven(EventTimeSessionWindows(10), AfterCount.of(2))
    driven.element(0, 1)
    assert driven.element(1, 2) == [[1, 2]]
    driven.element(18, 3)
    driven.restart()
    assert driven.element(9, 4) == [[3, 4]], "the other one's rows still fire"
    assert driven.element(9, 5) == []


def test_after_count_of_merged_finished_sessions_is_finished():
    driven = Driven(EventTimeSessionWindows(10), AfterCount.of(1))
    assert driven.element(0, 1) + driven.element(18, 2) == [[1], [2]]
    assert driven.element(9, 3) == []
    driven.end()
    assert driven.left == (0, 0)


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3"])
def test_after_count_refuses_invalid_counts(count):
    with pytest.raises(InvalidWindowError, match="AfterCount counts rows"):
        AfterCount.of(count)
