"""AfterAll fires after all of several triggers."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    CountTrigger,
    EventTimeTrigger,
    Repeatedly,
)
from tests.windowing.driven import Driven


def test_after_all_waits_for_the_last_trigger():
    driven = Driven(GlobalWindows.create(), AfterAll.of(AfterCount.of(2), AfterProcessingTime(10)))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [], []]
    driven.restart()
    assert driven.clock(10) == [[1, 2, 3]]
    assert driven.element(0, 4) == []


def test_after_all_can_complete_after_the_end_of_the_window():
    driven = Driven(TumblingEventTimeWindows(10), AfterAll.of(AfterCount.of(3), AfterWatermark()), lateness=9)
    driven.element(1, 1)
    assert driven.watermark(9) == []
    driven.restart()
    assert [driven.element(1, value) for value in (2, 3, 4)] == [[], [[1, 2, 3]], []]
    driven.watermark(99)
    assert driven.left == (0, 0)


def test_after_all_remembers_firings_of_flinks_triggers():
    driven = Driven(TumblingEventTimeWindows(10), AfterAll.of(CountTrigger.of(2), EventTimeTrigger.create()), lateness=9)
    assert [driven.element(1, value) for value in (1, 2, 3)] == [[], [], []]
    driven.restart()
    assert driven.watermark(9) == [[1, 2, 3]]
    driven.restart()
    assert driven.element(1, 4) == [[1, 2, 3, 4]], "the count went on at the third row: both are ready again"


def test_after_all_does_not_wait_again_for_a_finished_trigger():
    driven = Driven(GlobalWindows.create(), AfterAll.of(AfterCount.of(3), Repeatedly.of(AfterCount.of(2))))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [], [[1, 2, 3]]]
    driven.restart()
    assert [driven.element(0, value) for value in (4, 5, 6)] == [[], [[1, 2, 3, 4, 5]], []]


def test_after_all_of_merged_sessions_keeps_finished_triggers_of_either():
    trigger = AfterAll.of(AfterCount.of(2), Repeatedly.of(AfterCount.of(1)))
    driven = Driven(EventTimeSessionWindows(10), trigger)
    driven.element(0, 1)
    assert driven.element(0, 2) == [[1, 2]]
    driven.element(18, 3)
    driven.restart()
    assert driven.element(9, 4) == [[1, 2, 3, 4]]
    driven.end()
    assert driven.left == (0, 0)


@pytest.mark.parametrize("given", [(), (CountTrigger,)])
def test_after_all_refuses_anything_but_triggers(given):
    with pytest.raises(InvalidWindowError, match="AfterAll needs"):
        AfterAll.of(*given)


def test_after_all_in_a_growing_session_keeps_finished_triggers_and_counts():
    driven = Driven(EventTimeSessionWindows(10), AfterAll.of(AfterCount.of(2), Repeatedly.of(AfterCount.of(1))))
    assert [driven.element(time, time) for time in (0, 5, 9)] == [[], [[0, 5]], [[0, 5, 9]]]
    driven = Driven(EventTimeSessionWindows(10), AfterAll.of(AfterCount.of(3), Repeatedly.of(AfterCount.of(1))))
    assert [driven.element(time, time) for time in (0, 5, 9)] == [[], [], [[0, 5, 9]]]


def test_after_all_in_a_growing_session_remembers_firings_of_flinks_triggers():
    driven = Driven(EventTimeSessionWindows(10), AfterAll.of(CountTrigger.of(2), AfterCount.of(3)))
    assert [driven.element(time, time) for time in (0, 5, 9)] == [[], [], [[0, 5, 9]]]


def test_finished_part_of_after_all_has_no_timers():
    trigger = AfterAll.of(AfterAny.of(AfterCount.of(1), AfterProcessingTime(10)), Repeatedly.of(AfterCount.of(1)))
    driven = Driven(GlobalWindows.create(), trigger)
    assert driven.element(0, 1) == [[1]]
    assert driven.harness.num_timers() == 0


def test_repeated_after_all_starts_again_with_all_triggers():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterAll.of(AfterCount.of(2), AfterCount.of(1))))
    assert [bool(driven.element(0, value)) for value in range(6)] == [False, True] * 3
    # It also starts again if a trigger next to it has finished.
    within = AfterAll.of(AfterCount.of(1), CountTrigger.of(3))
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterAny.of(within, AfterCount.of(2))))
    assert [bool(driven.element(0, value)) for value in range(6)] == [False, True] * 3
    within = AfterAll.of(AfterCount.of(1), AfterAny.of(AfterCount.of(9), CountTrigger.of(1)))
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterAny.of(AfterAll.of(within, AfterCount.of(3)), AfterCount.of(2))))
    assert [bool(driven.element(0, value)) for value in range(6)] == [False, True] * 3


def test_after_all_waits_for_the_longer_of_two_delays():
    driven = Driven(GlobalWindows.create(), AfterAll.of(AfterProcessingTime(10), AfterProcessingTime(11)))
    driven.element(0, 1)
    assert [driven.clock(10), driven.clock(11)] == [[], [[1]]]


def test_after_all_sets_no_timer_for_a_zero_delay():
    driven = Driven(GlobalWindows.create(), AfterAll.of(AfterProcessingTime(0), AfterCount.of(2)))
    assert driven.element(0, 1) == []
    assert driven.harness.num_timers() == 0
    assert driven.element(0, 2) == [[1, 2]]
