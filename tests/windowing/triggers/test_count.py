"""CountTrigger: at every n-th element."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import CountTrigger
from tests.windowing.driven import Driven


def test_it_fires_at_every_nth_element_with_all_of_them():
    driven = Driven(GlobalWindows.create(), CountTrigger.of(2))
    assert [driven.element(0, value) for value in (1, 2, 3, 4)] == [[], [[1, 2]], [], [[1, 2, 3, 4]]]


def test_it_counts_each_window_and_key_apart_and_through_restarts():
    driven = Driven(TumblingEventTimeWindows(10), CountTrigger.of(2))
    assert driven.element(1, "a") + driven.element(11, "b") + driven.element(1, "c", key="other") == []
    driven.restart()
    assert driven.element(2, "d") == [["a", "d"]]


def test_the_end_of_a_window_does_not_fire_and_takes_the_count_with_it():
    driven = Driven(TumblingEventTimeWindows(10), CountTrigger.of(2))
    driven.element(1, "a")
    assert driven.watermark(9) == []
    assert driven.left == (0, 0)


def test_counts_of_merged_sessions_are_added():
    driven = Driven(EventTimeSessionWindows(10), CountTrigger.of(4))
    assert driven.element(0, 1) + driven.element(1, 2) + driven.element(15, 3) == []
    assert driven.element(8, 4) == [[1, 2, 3, 4]]


@pytest.mark.parametrize("count", [0, 1])
def test_none_and_one_fire_at_every_element(count):
    driven = Driven(GlobalWindows.create(), CountTrigger.of(count))
    assert [driven.element(0, value) for value in (1, 2)] == [[[1]], [[1, 2]]]


@pytest.mark.parametrize("count", [-1, True, 1.5, "3"])
def test_what_is_no_number_of_elements_is_refused(count):
    with pytest.raises(InvalidWindowError, match="an integer >= 0"):
        CountTrigger(count)
