"""ContinuousEventTimeTrigger and ContinuousProcessingTimeTrigger fire at intervals while a window is open."""

from __future__ import annotations

from datetime import timedelta

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from tests.windowing.driven import Driven


def test_continuous_event_time_fires_at_intervals_and_at_the_end():
    driven = Driven(TumblingEventTimeWindows(100), ContinuousEventTimeTrigger(30))
    driven.element(35, "a")
    driven.element(5, "b")  # an earlier row does not bring the first firing forward
    assert [driven.watermark(time) for time in (59, 60, 89, 90, 99, 200)] == [
        [],
        [["a", "b"]],
        [],
        [["a", "b"]],
        [["a", "b"]],
        [],
    ]
    assert driven.left == (0, 0)


def test_watermark_jump_fires_once_for_each_interval():
    driven = Driven(TumblingEventTimeWindows(100), ContinuousEventTimeTrigger(30))
    driven.element(5, "a")
    assert driven.watermark(70) == [["a"], ["a"]]


def test_pending_continuous_firing_survives_a_restart():
    driven = Driven(TumblingEventTimeWindows(100), ContinuousEventTimeTrigger(30))
    driven.element(5, "a")
    driven.restart()
    assert driven.watermark(30) == [["a"]]


def test_continuous_trigger_fires_at_once_for_a_late_row():
    driven = Driven(TumblingEventTimeWindows(100), ContinuousEventTimeTrigger(30), lateness=50)
    assert driven.watermark(120) == []
    assert driven.element(5, "a") == [["a"]]


def test_merged_sessions_keep_the_earliest_pending_firing():
    driven = Driven(EventTimeSessionWindows(20), ContinuousEventTimeTrigger(30))
    driven.element(25, "a")  # pending: 30
    driven.element(50, "b")  # pending: 60
    driven.element(40, "c")
    assert [driven.watermark(29), driven.watermark(30)] == [[], [["a", "b", "c"]]]


def test_continuous_processing_time_fires_at_intervals_and_at_the_end():
    driven = Driven(TumblingProcessingTimeWindows(100), ContinuousProcessingTimeTrigger(30))
    driven.clock(35)
    driven.element(0, "a")
    assert [driven.clock(time) for time in (60, 61, 91, 99, 100)] == [[], [["a"]], [["a"]], [], [["a"]]]
    assert driven.left == (0, 0)


def test_only_continuous_processing_time_uses_the_clock():
    assert not ContinuousEventTimeTrigger(30).uses_processing_time
    assert ContinuousProcessingTimeTrigger(30).uses_processing_time


@pytest.mark.parametrize("kind", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
@pytest.mark.parametrize("interval", [0, -1, timedelta(0)])
def test_continuous_interval_that_is_not_positive_is_refused(kind, interval):
    with pytest.raises(InvalidWindowError, match="must be positive"):
        kind.of(interval) if isinstance(interval, timedelta) else kind(interval)


@pytest.mark.parametrize("kind", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
def test_continuous_constructor_refuses_durations(kind):
    with pytest.raises(InvalidWindowError, match=rf"whole microseconds, not '5 minutes': write {kind.__name__}\.of"):
        kind("5 minutes")


def test_first_firing_before_1970_is_at_the_next_multiple():
    driven = Driven(TumblingEventTimeWindows(100), ContinuousEventTimeTrigger(30))
    driven.element(-95, "a")
    assert [driven.watermark(time) for time in (-91, -90, -61, -60, -30, -1)] == [
        [],
        [["a"]],
        [],
        [["a"]],
        [["a"]],
        [["a"]],
    ]


def test_shortest_continuous_interval_fires_at_every_instant():
    driven = Driven(TumblingEventTimeWindows(3), ContinuousEventTimeTrigger(1))
    driven.element(0, "a")
    assert [driven.watermark(time) for time in (0, 1, 2)] == [[], [["a"]], [["a"]]]
    assert ContinuousProcessingTimeTrigger(1).interval == 1


def test_continuous_trigger_sets_no_timers_after_the_end():
    driven = Driven(TumblingEventTimeWindows(100), ContinuousEventTimeTrigger(30), lateness=50)
    driven.element(95, "a")
    assert driven.watermark(99) == [["a"]]
    assert driven.element(5, "b") == [["a", "b"]]
    assert driven.watermark(1000) == []
    assert driven.left == (0, 0)


def test_end_of_input_fires_windows_but_continuous_global_window_is_refused():
    driven = Driven(TumblingEventTimeWindows(100), ContinuousEventTimeTrigger(30))
    driven.element(80, "a")
    assert driven.end() == [["a"], ["a"]]
    driven = Driven(GlobalWindows.create(), ContinuousEventTimeTrigger(30))
    driven.element(80, "a")
    assert driven.watermark(90) == [["a"]]
    with pytest.raises(InvalidPlanError, match="would fire every interval up to the end of time"):
        driven.end()


CHANGED = ContinuousEventTimeTrigger(30, only_changed=True)


def test_only_changed_fires_neither_at_an_interval_nor_at_the_end_without_new_rows():
    driven = Driven(TumblingEventTimeWindows(100), CHANGED)
    driven.element(5, "a")
    assert [driven.watermark(time) for time in (30, 60)] == [[["a"]], []]
    driven.element(70, "b")
    driven.restart()
    assert [driven.watermark(time) for time in (90, 99)] == [[["a", "b"]], []]
    assert driven.left == (0, 0)


def test_only_changed_fires_at_the_end_for_rows_since_the_last_interval():
    driven = Driven(TumblingEventTimeWindows(100), CHANGED)
    driven.element(5, "a")
    assert driven.watermark(95) == [["a"]]
    driven.element(96, "b")
    assert driven.watermark(99) == [["a", "b"]]


def test_only_changed_fires_once_for_several_intervals_and_at_the_end_if_time_passes_it():
    driven = Driven(TumblingEventTimeWindows(100), CHANGED)
    driven.element(5, "a")
    driven.element(105, "b")
    assert driven.watermark(170) == [["a"], ["b"]]
    assert driven.watermark(500) == []
    assert driven.left == (0, 0)


def test_only_changed_shows_a_row_behind_the_watermark_at_the_next_interval():
    driven = Driven(TumblingEventTimeWindows(100), CHANGED)
    driven.watermark(61)
    driven.element(5, "a")
    assert [driven.watermark(time) for time in (62, 89, 90)] == [[], [], [["a"]]]


def test_only_changed_fires_at_once_for_a_late_row_and_not_again():
    driven = Driven(TumblingEventTimeWindows(100), CHANGED, lateness=50)
    driven.element(5, "a")
    assert driven.watermark(120) == [["a"]]
    assert driven.element(6, "b") == [["a", "b"]]
    assert driven.watermark(149) == []


def test_only_changed_fires_merged_sessions_again():
    driven = Driven(EventTimeSessionWindows(20), CHANGED)
    driven.element(5, "a")
    driven.element(50, "b")
    assert driven.watermark(24) == [["a"]]
    driven.element(24, "c")  # the first session is closed
    driven.element(30, "d")  # joins the other two
    assert [driven.watermark(time) for time in (30, 60, 69)] == [[["c", "b", "d"]], [], []]
    assert driven.left == (0, 0)


def test_session_that_had_ended_fires_once_after_it_is_open_again():
    """Flink would fire it at the next watermark, for each interval since its end."""
    driven = Driven(EventTimeSessionWindows(50), CHANGED, lateness=500)
    driven.element(5, "a")
    assert driven.watermark(100) == [["a"]]
    driven.element(55, "b")  # its end is now 105
    assert [driven.watermark(time) for time in (103, 104)] == [[], [["a", "b"]]]


def test_only_changed_by_processing_time_skips_intervals_without_rows():
    driven = Driven(TumblingProcessingTimeWindows(100), ContinuousProcessingTimeTrigger(30, only_changed=True))
    driven.clock(35)
    driven.element(0, "a")
    assert [driven.clock(time) for time in (60, 61, 91)] == [[], [["a"]], []]
    driven.element(0, "b")
    assert [driven.clock(time) for time in (99, 100)] == [[], [["a", "b"]]]
    assert driven.left == (0, 0)


def test_only_changed_ends_on_global_windows():
    driven = Driven(GlobalWindows(), CHANGED)
    driven.element(5, "a")
    assert driven.watermark(30) == [["a"]]
    driven.element(31, "b")
    assert driven.end() == [["a", "b"]]


@pytest.mark.parametrize("kind", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
def test_only_changed_must_be_true_or_false(kind):
    assert repr(kind.of("1 s", only_changed=True)) == f"{kind.__name__}.of('1 second', only_changed=True)"
    with pytest.raises(InvalidWindowError, match=r"only_changed of \w+ must be True or False, got 'yes'"):
        kind.of("1 s", only_changed="yes")
