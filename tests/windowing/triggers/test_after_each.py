"""AfterEach: one after another."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import (
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    CountTrigger,
    OrFinally,
    Repeatedly,
)
from tests.windowing.driven import Driven


def test_each_has_its_turn():
    driven = Driven(GlobalWindows.create(), AfterEach.of(AfterCount.of(1), AfterCount.of(2)))
    assert driven.element(0, 1) == [[1]]
    driven.restart()
    assert [driven.element(0, value) for value in (2, 3, 4, 5)] == [[], [[1, 2, 3]], [], []]


def test_repeated_it_begins_with_the_first():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterEach.of(AfterCount.of(1), AfterCount.of(2))))
    fired = [driven.element(0, value) for value in (1, 2, 3, 4, 5, 6)]
    assert fired == [[[1]], [], [[1, 2, 3]], [[1, 2, 3, 4]], [], [[1, 2, 3, 4, 5, 6]]]


def test_whose_turn_comes_waits_for_the_end_without_another_row():
    driven = Driven(TumblingEventTimeWindows(10), AfterEach.of(AfterCount.of(1), AfterWatermark()))
    assert driven.element(1, 1) == [[1]]
    driven.restart()
    assert driven.watermark(9) == [[1]]


def test_of_merged_sessions_the_furthest_turn_counts():
    driven = Driven(EventTimeSessionWindows(10), AfterEach.of(AfterCount.of(2), AfterCount.of(2)))
    driven.element(0, 1)
    assert driven.element(0, 2) == [[1, 2]]
    driven.element(0, 3)
    driven.element(18, 4)
    driven.restart()
    assert driven.element(9, 5) == [[1, 2, 3, 4, 5]]


def test_what_never_finishes_comes_last():
    with pytest.raises(InvalidWindowError, match=r"CountTrigger.of\(2\) never finishes"):
        AfterEach.of(CountTrigger.of(2), AfterWatermark())
    AfterEach.of(OrFinally.of(CountTrigger.of(2), AfterCount.of(9)), CountTrigger.of(2))


def test_no_triggers_are_refused():
    with pytest.raises(InvalidWindowError, match="AfterEach wants"):
        AfterEach.of()


def test_each_of_three_has_its_turn_and_then_it_is_over():
    driven = Driven(GlobalWindows.create(), AfterEach.of(AfterCount.of(1), AfterCount.of(2), AfterCount.of(1)))
    assert [bool(driven.element(0, value)) for value in range(6)] == [True, False, True, True, False, False]


def test_one_that_fires_without_finishing_keeps_its_turn():
    driven = Driven(GlobalWindows.create(), AfterEach.of(OrFinally.of(CountTrigger.of(2), AfterCount.of(5)), AfterCount.of(1)))
    assert [bool(driven.element(0, value)) for value in range(8)] == [False, True, False, True, True, True, False, False]


def test_whose_turn_is_over_waits_for_nothing():
    driven = Driven(
        GlobalWindows.create(), AfterEach.of(AfterAny.of(AfterCount.of(1), AfterProcessingTime(10)), AfterCount.of(3))
    )
    assert driven.element(0, 1) == [[1]]
    assert driven.harness.num_timers() == 0


@pytest.mark.parametrize(
    "last", [AfterEach.of(AfterWatermark(), AfterCount.of(5)), AfterAny.of(AfterWatermark(), AfterCount.of(5))]
)
def test_whatever_stands_inside_waits_for_the_end_when_its_turn_comes(last):
    driven = Driven(TumblingEventTimeWindows(10), AfterEach.of(AfterCount.of(1), last))
    assert driven.element(1, 1) == [[1]]
    assert driven.watermark(9) == [[1]]


def test_repeated_the_first_waits_again_without_another_row():
    turns = AfterEach.of(OrFinally.of(AfterWatermark(), AfterCount.of(1)), AfterCount.of(1))
    driven = Driven(TumblingEventTimeWindows(10), Repeatedly.of(turns))
    assert [driven.element(1, value) for value in (1, 2)] == [[[1]], [[1, 2]]]
    assert driven.watermark(9) == [[1, 2]]


def test_of_merged_sessions_whose_turn_it_was_keeps_it():
    driven = Driven(EventTimeSessionWindows(10), AfterEach.of(AfterCount.of(2), AfterCount.of(2)))
    assert [driven.element(0, value) for value in (1, 2)] == [[], [[1, 2]]]
    driven.element(18, 3)
    assert [driven.element(9, 4), driven.element(9, 5)] == [[], [[1, 2, 3, 4, 5]]]


def test_only_the_last_of_many_may_go_on_for_ever():
    with pytest.raises(InvalidWindowError, match=r"CountTrigger.of\(2\) never finishes"):
        AfterEach.of(AfterCount.of(1), CountTrigger.of(2), AfterWatermark())
