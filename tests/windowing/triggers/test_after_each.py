"""AfterEach runs triggers one after another."""

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


def test_after_each_runs_triggers_in_turn():
    driven = Driven(GlobalWindows.create(), AfterEach.of(AfterCount.of(1), AfterCount.of(2)))
    assert driven.element(0, 1) == [[1]]
    driven.restart()
    assert [driven.element(0, value) for value in (2, 3, 4, 5)] == [[], [[1, 2, 3]], [], []]


def test_repeated_after_each_starts_again_with_the_first_trigger():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterEach.of(AfterCount.of(1), AfterCount.of(2))))
    fired = [driven.element(0, value) for value in (1, 2, 3, 4, 5, 6)]
    assert fired == [[[1]], [], [[1, 2, 3]], [[1, 2, 3, 4]], [], [[1, 2, 3, 4, 5, 6]]]


def test_next_trigger_of_after_each_sets_its_timer_without_another_row():
    driven = Driven(TumblingEventTimeWindows(10), AfterEach.of(AfterCount.of(1), AfterWatermark()))
    assert driven.element(1, 1) == [[1]]
    driven.restart()
    assert driven.watermark(9) == [[1]]


def test_after_each_of_merged_sessions_uses_the_furthest_turn():
    driven = Driven(EventTimeSessionWindows(10), AfterEach.of(AfterCount.of(2), AfterCount.of(2)))
    driven.element(0, 1)
    assert driven.element(0, 2) == [[1, 2]]
    driven.element(0, 3)
    driven.element(18, 4)
    driven.restart()
    assert driven.element(9, 5) == [[1, 2, 3, 4, 5]]


def test_after_each_refuses_an_endless_trigger_before_the_last():
    with pytest.raises(InvalidWindowError, match=r"CountTrigger.of\(2\) never finishes"):
        AfterEach.of(CountTrigger.of(2), AfterWatermark())
    AfterEach.of(OrFinally.of(CountTrigger.of(2), AfterCount.of(9)), CountTrigger.of(2))


def test_after_each_refuses_an_empty_list():
    with pytest.raises(InvalidWindowError, match="AfterEach needs"):
        AfterEach.of()


def test_after_each_of_three_triggers_finishes_after_the_last():
    driven = Driven(GlobalWindows.create(), AfterEach.of(AfterCount.of(1), AfterCount.of(2), AfterCount.of(1)))
    assert [bool(driven.element(0, value)) for value in range(6)] == [True, False, True, True, False, False]


def test_trigger_that_fires_without_finishing_keeps_its_turn():
    driven = Driven(GlobalWindows.create(), AfterEach.of(OrFinally.of(CountTrigger.of(2), AfterCount.of(5)), AfterCount.of(1)))
    assert [bool(driven.element(0, value)) for value in range(8)] == [False, True, False, True, True, True, False, False]


def test_finished_trigger_of_after_each_has_no_timers():
    driven = Driven(
        GlobalWindows.create(), AfterEach.of(AfterAny.of(AfterCount.of(1), AfterProcessingTime(10)), AfterCount.of(3))
    )
    assert driven.element(0, 1) == [[1]]
    assert driven.harness.num_timers() == 0


@pytest.mark.parametrize(
    "last", [AfterEach.of(AfterWatermark(), AfterCount.of(5)), AfterAny.of(AfterWatermark(), AfterCount.of(5))]
)
def test_nested_trigger_of_after_each_sets_its_timer_when_its_turn_comes(last):
    driven = Driven(TumblingEventTimeWindows(10), AfterEach.of(AfterCount.of(1), last))
    assert driven.element(1, 1) == [[1]]
    assert driven.watermark(9) == [[1]]


def test_repeated_after_each_sets_the_first_timer_without_another_row():
    turns = AfterEach.of(OrFinally.of(AfterWatermark(), AfterCount.of(1)), AfterCount.of(1))
    driven = Driven(TumblingEventTimeWindows(10), Repeatedly.of(turns))
    assert [driven.element(1, value) for value in (1, 2)] == [[[1]], [[1, 2]]]
    assert driven.watermark(9) == [[1, 2]]


def test_after_each_of_merged_sessions_keeps_the_turn():
    driven = Driven(EventTimeSessionWindows(10), AfterEach.of(AfterCount.of(2), AfterCount.of(2)))
    assert [driven.element(0, value) for value in (1, 2)] == [[], [[1, 2]]]
    driven.element(18, 3)
    assert [driven.element(9, 4), driven.element(9, 5)] == [[], [[1, 2, 3, 4, 5]]]


def test_only_the_last_trigger_of_after_each_may_be_endless():
    with pytest.raises(InvalidWindowError, match=r"CountTrigger.of\(2\) never finishes"):
        AfterEach.of(AfterCount.of(1), CountTrigger.of(2), AfterWatermark())
