"""AfterAny fires after the first of several triggers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.triggers import (
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    CountTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    Repeatedly,
    Trigger,
    TriggerResult,
)
from tests.windowing.driven import Driven

FIRST = AfterAny.of(AfterCount.of(3), AfterProcessingTime(10))


def test_after_any_fires_once_with_the_first_trigger():
    driven = Driven(GlobalWindows.create(), FIRST)
    assert [driven.element(0, value) for value in (1, 2)] == [[], []]
    driven.restart()
    assert driven.clock(10) == [[1, 2]]
    assert [driven.element(0, 3), driven.clock(99)] == [[], []]


def test_repeated_after_any_starts_all_triggers_again():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(FIRST))
    driven.element(0, 1)
    driven.element(0, 2)
    assert driven.clock(10) == [[1, 2]]
    driven.restart()
    assert [driven.element(0, value) for value in (3, 4, 5)] == [[], [], [[1, 2, 3, 4, 5]]]
    assert driven.clock(99) == [], "the clock was not waited for any more"
    assert driven.left == (0, 1)


def test_flink_trigger_does_not_finish_after_any():
    driven = Driven(TumblingEventTimeWindows(10), AfterAny.of(CountTrigger.of(2), AfterWatermark()), lateness=5)
    assert [driven.element(1, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    driven.restart()
    assert driven.watermark(9) == [[1, 2, 3]]
    assert driven.element(1, 4) == [], "but the end of the window did"


def test_after_any_of_merged_sessions_combines_their_counts():
    driven = Driven(EventTimeSessionWindows(10), Repeatedly.of(FIRST))
    driven.element(0, 1)
    driven.element(15, 2)
    driven.restart()
    assert driven.element(8, 3) == [[1, 2, 3]]


@pytest.mark.parametrize("given", [(), (CountTrigger,), (None, AfterCount(1))])
def test_after_any_refuses_anything_but_triggers(given):
    with pytest.raises(InvalidWindowError, match="AfterAny needs"):
        AfterAny.of(*given)
    with pytest.raises(InvalidWindowError, match="AfterAny needs"):
        AfterAny(AfterCount(1))


def test_after_any_finishes_if_one_of_the_firing_triggers_has():
    driven = Driven(GlobalWindows.create(), AfterAny.of(CountTrigger.of(2), AfterCount.of(2)))
    assert [driven.element(0, value) for value in (1, 2, 3, 4)] == [[], [[1, 2]], [], []]


def test_repeated_after_any_deletes_timers_after_firing():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(FIRST))
    for value in (1, 2, 3):
        driven.element(0, value)
    assert driven.left == (0, 1)


def test_after_any_of_merged_finished_sessions_is_finished():
    driven = Driven(EventTimeSessionWindows(10), AfterAny.of(AfterCount.of(1), AfterWatermark()))
    assert [driven.element(time, time) for time in (0, 15, 8)] == [[[0]], [[15]], []]
    assert driven.watermark(24) == []


def test_flink_triggers_inside_after_any_use_the_clock():
    driven = Driven(TumblingProcessingTimeWindows(10), AfterAny.of(ProcessingTimeTrigger.create(), AfterCount.of(5)))
    driven.clock(3)
    driven.element(0, 1)
    assert [driven.clock(9), driven.clock(10)] == [[], [[1]]]
    again = ProcessingTimeoutTrigger(CountTrigger.of(3), 10, reset_timer_on_new_record=True)
    driven = Driven(GlobalWindows.create(), AfterAny.of(again, AfterCount.of(9)))
    driven.clock(100)
    driven.element(0, 1)
    driven.clock(105)
    driven.element(0, 2)
    assert driven.harness.num_timers() == 1
    assert [driven.clock(111), driven.clock(115), driven.clock(116)] == [[], [], [[1, 2]]]


@dataclass(frozen=True)
class Deadline(Trigger):
    """Fires at five past the first row, unless a second row arrives."""

    def on_element(self, element, timestamp, window, ctx):
        known = ctx.get_partitioned_state(DEADLINE)
        if known.value() is None:
            known.update(timestamp + 5)
            ctx.register_event_time_timer(timestamp + 5)
        else:
            ctx.delete_event_time_timer(known.value())
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def clear(self, window, ctx):
        ctx.get_partitioned_state(DEADLINE).clear()


DEADLINE = ValueStateDescriptor("deadline")


def test_user_trigger_inside_after_any_can_delete_its_timer():
    for more, fired in (((), [[1]]), ((2,), [])):
        driven = Driven(TumblingEventTimeWindows(100), AfterAny.of(Deadline(), AfterCount.of(9)))
        for value in (1, *more):
            driven.element(10, value)
        assert driven.watermark(15) == fired
