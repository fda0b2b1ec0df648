"""EventTimeTrigger and ProcessingTimeTrigger fire at the end of the window."""

from __future__ import annotations

import pytest

from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger
from tests.windowing.driven import Driven


def test_event_time_fires_once_when_the_watermark_reaches_the_last_instant():
    driven = Driven(TumblingEventTimeWindows(10), EventTimeTrigger.create())
    driven.element(1, "a")
    assert [driven.watermark(8), driven.watermark(9), driven.watermark(20)] == [[], [["a"]], []]
    assert driven.left == (0, 0)


def test_event_time_trigger_fires_at_once_for_every_row_within_the_lateness():
    driven = Driven(TumblingEventTimeWindows(10), EventTimeTrigger.create(), lateness=5)
    driven.element(1, "a")
    assert driven.watermark(13) == [["a"]]
    assert driven.element(2, "b") == [["a", "b"]]
    assert driven.element(3, "c") == [["a", "b", "c"]]
    driven.watermark(14)
    assert driven.element(4, "d") == []
    assert driven.left == (0, 0)


def test_event_time_waits_for_the_end_of_a_merged_session():
    driven = Driven(EventTimeSessionWindows(10), EventTimeTrigger.create())
    driven.element(0, 1)
    driven.element(8, 2)
    assert [driven.watermark(9), driven.watermark(16), driven.watermark(17)] == [[], [], [[1, 2]]]


def test_event_time_trigger_ignores_the_clock():
    driven = Driven(TumblingEventTimeWindows(10), EventTimeTrigger.create())
    assert driven.element(1, "a") + driven.clock(10**9) == []
    assert not EventTimeTrigger.create().uses_processing_time


def test_processing_time_fires_once_the_clock_is_past_the_last_instant():
    driven = Driven(TumblingProcessingTimeWindows(10), ProcessingTimeTrigger.create())
    driven.clock(3)
    driven.element(0, "a")
    assert [driven.clock(9), driven.clock(10), driven.clock(30)] == [[], [["a"]], []]
    assert driven.left == (0, 0)
    assert ProcessingTimeTrigger.create().uses_processing_time


def test_processing_time_waits_for_the_end_of_a_merged_session():
    driven = Driven(ProcessingTimeSessionWindows(10), ProcessingTimeTrigger.create())
    driven.element(0, 1)
    driven.clock(6)
    driven.element(0, 2)
    assert [driven.clock(10), driven.clock(15), driven.clock(16)] == [[], [], [[1, 2]]]


def test_processing_time_trigger_fires_after_each_row_of_a_past_window():
    driven = Driven(TumblingEventTimeWindows(10), ProcessingTimeTrigger.create())
    driven.clock(100)
    assert driven.element(1, "a") == [["a"]]
    assert driven.element(2, "b") == [["a", "b"]]


@pytest.mark.parametrize("watermark", [14, 30])
def test_ended_session_that_grows_fires_once_with_the_row(watermark):
    driven = Driven(EventTimeSessionWindows(10), EventTimeTrigger.create(), lateness=100)
    driven.element(0, 1)
    assert driven.watermark(watermark) == [[1]]
    assert driven.element(5, 2) == [[1, 2]]
    assert driven.watermark(50) == []
