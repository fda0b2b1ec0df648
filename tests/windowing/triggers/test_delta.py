"""DeltaTrigger fires when a value differs enough from the value that fired last."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import DeltaTrigger
from tests.windowing.driven import Driven


def distance(old, new):
    return abs(new - old)


def test_delta_trigger_fires_beyond_the_threshold_from_the_last_fired_value():
    driven = Driven(GlobalWindows.create(), DeltaTrigger.of(2, distance))
    # The value 1 is only remembered, and 3 differs by exactly the threshold. The value 4 fires, and is the next reference.
    assert [driven.element(0, value) for value in (1, 3, 4, 6, 1)] == [[], [], [[1, 3, 4]], [], [[1, 3, 4, 6, 1]]]


def test_delta_trigger_remembers_its_value_across_restarts():
    driven = Driven(GlobalWindows.create(), DeltaTrigger.of(2, distance))
    driven.element(0, 1)
    driven.restart()
    assert driven.element(0, 4) == [[1, 4]]


def test_delta_value_is_dropped_at_the_end_of_the_window_without_firing():
    driven = Driven(TumblingEventTimeWindows(10), DeltaTrigger.of(2, distance))
    driven.element(1, 1)
    assert driven.watermark(9) == []
    assert driven.left == (0, 0)


def test_delta_trigger_refuses_sessions():
    with pytest.raises(InvalidPlanError, match="DeltaTrigger"):
        Driven(EventTimeSessionWindows(10), DeltaTrigger.of(2, distance))


@pytest.mark.parametrize("function", [3, lambda one: one])
def test_delta_trigger_refuses_functions_that_cannot_compare_two_elements(function):
    with pytest.raises(InvalidWindowError):
        DeltaTrigger.of(2.0, function)
