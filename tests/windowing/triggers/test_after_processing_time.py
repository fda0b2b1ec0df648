"""AfterProcessingTime fires once, a delay after the first row."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows
from panestream.windowing.triggers import AfterProcessingTime, AfterWatermark, Repeatedly
from tests.windowing.driven import Driven


def test_after_processing_time_counts_from_the_first_row():
    driven = Driven(GlobalWindows.create(), AfterProcessingTime(10))
    driven.clock(3)
    driven.element(0, 1)
    driven.restart()
    driven.clock(7)
    driven.element(0, 2)
    assert [driven.clock(12), driven.clock(13), driven.clock(99)] == [[], [[1, 2]], []]
    assert driven.element(0, 3) == []


def test_repeated_after_processing_time_counts_from_the_next_row():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterProcessingTime(10)))
    driven.element(0, 1)
    assert driven.clock(50) == [[1]]
    assert driven.clock(70) == [], "nothing came"
    driven.element(0, 2)
    driven.restart()
    assert driven.harness.next_processing_time_timer() == 79
    assert [driven.clock(79), driven.clock(80)] == [[], [[1, 2]]]


def test_zero_delay_fires_for_every_row():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterProcessingTime(0)))
    assert [driven.element(0, value) for value in (1, 2)] == [[[1]], [[1, 2]]]


def test_after_processing_time_of_merged_sessions_uses_the_earliest_timer():
    driven = Driven(EventTimeSessionWindows(10), AfterWatermark().early(AfterProcessingTime(10)))
    driven.element(0, 1)
    driven.clock(5)
    driven.element(15, 2)
    driven.element(8, 3)
    driven.restart()
    assert [driven.clock(9), driven.clock(10), driven.clock(15)] == [[], [[1, 2, 3]], []]
    assert driven.watermark(24) == [[1, 2, 3]]
    assert driven.left == (0, 0)


def test_after_processing_time_declares_that_it_uses_the_clock():
    assert AfterProcessingTime(1).uses_processing_time
    assert AfterWatermark().early(Repeatedly.of(AfterProcessingTime(1))).uses_processing_time
    assert not AfterWatermark().uses_processing_time


@pytest.mark.parametrize("delay", [-1, "1 minute", None])
def test_after_processing_time_refuses_invalid_delays(delay):
    with pytest.raises(InvalidWindowError, match="AfterProcessingTime"):
        AfterProcessingTime(delay)


def test_session_that_grows_after_the_delay_sets_a_new_timer():
    driven = Driven(EventTimeSessionWindows(10), AfterWatermark().early(AfterProcessingTime(10)))
    driven.element(0, 1)
    assert driven.clock(10) == [[1]]
    assert driven.element(8, 2) == []
    assert [driven.clock(19), driven.clock(20)] == [[], [[1, 2]]]
