"""CountTrigger fires at every n-th element."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import CountTrigger
from tests.windowing.driven import Driven


def test_count_trigger_fires_at_every_nth_element_with_all_elements():
    driven = Driven(GlobalWindows.create(), CountTrigger.of(2))
    assert [driven.element(0, value) for value in (1, 2, 3, 4)] == [[], [[1, 2]], [], [[1, 2, 3, 4]]]


def test_count_trigger_counts_per_window_and_key_across_restarts():
    driven = Driven(TumblingEventTimeWindows(10), CountTrigger.of(2))
    assert driven.element(1, "a") + driven.element(11, "b") + driven.element(1, "c", key="other") == []
    driven.restart()
    assert driven.element(2, "d") == [["a", "d"]]


def test_count_is_dropped_at_the_end_of_the_window_without_firing():
    driven = Driven(TumblingEventTimeWindows(10), CountTrigger.of(2))
    driven.element(1, "a")
    assert driven.watermark(9) == []
    assert driven.left == (0, 0)


def test_count_trigger_adds_counts_of_merged_sessions():
    driven = Driven(EventTimeSessionWindows(10), CountTrigger.of(4))
    assert driven.element(0, 1) + driven.element(1, 2) + driven.element(15, 3) == []
    assert driven.element(8, 4) == [[1, 2, 3, 4]]


@pytest.mark.parametrize("count", [0, 1])
def test_counts_of_zero_and_one_fire_at_every_element(count):
    driven = Driven(GlobalWindows.create(), CountTrigger.of(count))
    assert [driven.element(0, value) for value in (1, 2)] == [[[1]], [[1, 2]]]


@pytest.mark.parametrize("count", [-1, True, 1.5, "3"])
def test_count_trigger_refuses_invalid_counts(count):
    with pytest.raises(InvalidWindowError, match="an integer >= 0"):
        CountTrigger(count)
