"""AfterWatermark fires before, at and after the end of the window."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import (
    AfterCount,
    AfterWatermark,
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Repeatedly,
)
from tests.windowing.driven import Driven

BOTH = AfterWatermark().early(AfterCount.of(2)).late(AfterCount.of(3))


def test_after_watermark_fires_early_on_time_and_late():
    driven = Driven(TumblingEventTimeWindows(10), BOTH, lateness=100)
    assert [driven.element(1, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    driven.restart()
    assert driven.watermark(9) == [[1, 2, 3]]
    driven.restart()
    assert [driven.element(1, value) for value in (4, 5)] == [[], []], "what was counted early does not count late"
    driven.restart()
    assert driven.element(1, 6) == [[1, 2, 3, 4, 5, 6]]
    assert driven.watermark(500) == []
    assert driven.left == (0, 0)


def test_on_time_firing_happens_without_new_rows():
    driven = Driven(TumblingEventTimeWindows(10), BOTH)
    driven.element(1, 1)
    assert driven.element(1, 2) == [[1, 2]]
    assert driven.watermark(9) == [[1, 2]]


def test_purged_window_without_new_rows_does_not_fire_on_time():
    driven = Driven(TumblingEventTimeWindows(10), PurgingTrigger.of(BOTH), lateness=100)
    driven.element(1, 1)
    assert driven.element(1, 2) == [[1, 2]]
    assert driven.watermark(9) == []
    assert [driven.element(1, value) for value in (3, 4, 5)] == [[], [], [[3, 4, 5]]]


def test_late_rows_are_dropped_without_a_late_trigger():
    driven = Driven(TumblingEventTimeWindows(10), AfterWatermark(), lateness=100)
    driven.element(1, 1)
    assert driven.watermark(9) == [[1]]
    driven.restart()
    assert driven.element(1, 2) == []
    assert driven.watermark(500) == []
    assert driven.left == (0, 0)


def test_window_that_opens_late_fires_at_once():
    driven = Driven(TumblingEventTimeWindows(10), BOTH, lateness=100)
    driven.watermark(50)
    assert [driven.element(1, value) for value in (1, 2, 3, 4)] == [[[1]], [], [], [[1, 2, 3, 4]]]


def test_session_that_grows_after_its_end_is_early_again():
    driven = Driven(EventTimeSessionWindows(10), BOTH, lateness=100)
    driven.element(0, 1)
    assert driven.watermark(9) == [[1]]
    driven.restart()
    assert driven.element(8, 2) == [], "until 18 there is time: this is early again"
    driven.restart()
    assert driven.element(8, 3) == [[1, 2, 3]]
    assert driven.watermark(17) == [[1, 2, 3]]
    assert driven.element(2, 4) == [], "and this is late"
    driven.watermark(999)
    assert driven.left == (0, 0)


def test_early_and_late_counts_restart_when_a_session_ends_again():
    driven = Driven(EventTimeSessionWindows(10), BOTH, lateness=100)
    driven.element(0, 1)
    assert driven.watermark(9) == [[1]]
    assert [driven.element(0, value) for value in (2, 3)] == [[], []], "two of three late rows"
    assert driven.element(8, 4) == [], "on time again, with the first of two early rows"
    assert driven.watermark(17) == [[1, 2, 3, 4]]
    assert [driven.element(2, value) for value in (5, 6)] == [[], []], "the first two late rows do not count any more"
    driven.restart()
    assert driven.element(2, 7) == [[1, 2, 3, 4, 5, 6, 7]]


def test_late_trigger_adds_counts_of_merged_sessions():
    driven = Driven(EventTimeSessionWindows(10), BOTH, lateness=100)
    driven.element(0, 1)
    driven.element(20, 2)
    driven.watermark(50)
    driven.element(1, 3)
    driven.element(21, 4)
    driven.restart()
    assert driven.element(10, 5) == [[1, 3, 2, 4, 5]]


def test_early_and_on_time_timers_of_one_instant_fire_once():
    early = ContinuousEventTimeTrigger(10)
    driven = Driven(TumblingEventTimeWindows(31), AfterWatermark().early(early))
    driven.element(1, 1)
    driven.restart()
    assert [driven.watermark(time) for time in (9, 10, 29, 30)] == [[], [[1]], [[1]], [[1]]]
    assert driven.left == (0, 0)


def test_watermark_jump_fires_timers_in_order_of_time():
    driven = Driven(TumblingEventTimeWindows(31), PurgingTrigger.of(AfterWatermark().early(ContinuousEventTimeTrigger(10))))
    driven.element(1, 1)
    driven.element(2, 2)
    assert driven.watermark(100) == [[1, 2]]


def test_repeated_after_watermark_equals_flinks_event_time_trigger():
    ours, theirs = (
        Driven(TumblingEventTimeWindows(10), trigger, lateness=20)
        for trigger in (Repeatedly.of(AfterWatermark()), EventTimeTrigger.create())
    )
    for driven in (ours, theirs):
        driven.element(1, 1)
    for _ in range(2):
        assert ours.watermark(9) == theirs.watermark(9)
        assert ours.element(2, 2) == theirs.element(2, 2) != []
    assert ours.watermark(99) == theirs.watermark(99) == []


def test_after_watermark_of_the_global_window_fires_at_the_end_of_input():
    driven = Driven(GlobalWindows.create(), AfterWatermark().early(CountTrigger.of(2)))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    assert driven.watermark(10**9) == []
    assert driven.end() == [[1, 2, 3]]


@pytest.mark.parametrize("what", ["early", "late"])
@pytest.mark.parametrize("inner", [None, CountTrigger, 3])
def test_after_watermark_refuses_anything_but_triggers(what, inner):
    with pytest.raises(InvalidWindowError, match=f"AfterWatermark\\(\\).{what} needs a trigger"):
        getattr(AfterWatermark(), what)(inner)


def test_purging_trigger_inside_after_watermark_is_refused():
    with pytest.raises(InvalidWindowError, match="only the whole trigger"):
        AfterWatermark().early(PurgingTrigger.of(CountTrigger.of(2)))


def test_repr_of_after_watermark_shows_its_parts():
    assert repr(BOTH) == "AfterWatermark().early(AfterCount.of(2)).late(AfterCount.of(3))"


def test_window_that_opens_at_its_last_instant_fires_once():
    driven = Driven(TumblingEventTimeWindows(10), BOTH, lateness=100)
    driven.watermark(9)
    assert driven.element(1, 1) == [[1]]
    assert driven.harness.num_timers() == 1, "the one that cleans up"
    assert driven.watermark(50) == []


@pytest.mark.parametrize("watermark", [14, 30])
def test_session_that_grows_within_the_past_is_late(watermark):
    driven = Driven(EventTimeSessionWindows(10), BOTH, lateness=100)
    driven.element(0, 1)
    assert driven.watermark(9) == [[1]]
    driven.watermark(watermark)
    assert [driven.element(5, value) for value in (2, 3, 4)] == [[], [], [[1, 2, 3, 4]]]
    assert driven.watermark(50) == []
