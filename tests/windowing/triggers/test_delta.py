"""DeltaTrigger: when a value has moved far enough from the one that fired last."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import DeltaTrigger
from tests.windowing.driven import Driven


def distance(old, new):
    return abs(new - old)


def test_it_fires_beyond_the_threshold_and_measures_from_what_fired():
    driven = Driven(GlobalWindows.create(), DeltaTrigger.of(2, distance))
    # The first is only remembered; 3 is exactly the threshold away; 4 is more, and from then on what is measured from.
    assert [driven.element(0, value) for value in (1, 3, 4, 6, 1)] == [[], [], [[1, 3, 4]], [], [[1, 3, 4, 6, 1]]]


def test_it_remembers_through_restarts():
    driven = Driven(GlobalWindows.create(), DeltaTrigger.of(2, distance))
    driven.element(0, 1)
    driven.restart()
    assert driven.element(0, 4) == [[1, 4]]


def test_the_end_of_a_window_does_not_fire_and_takes_what_is_remembered():
    driven = Driven(TumblingEventTimeWindows(10), DeltaTrigger.of(2, distance))
    driven.element(1, 1)
    assert driven.watermark(9) == []
    assert driven.left == (0, 0)


def test_it_cannot_serve_sessions():
    with pytest.raises(InvalidPlanError, match="DeltaTrigger"):
        Driven(EventTimeSessionWindows(10), DeltaTrigger.of(2, distance))


@pytest.mark.parametrize("function", [3, lambda one: one])
def test_what_cannot_compare_two_elements_is_refused(function):
    with pytest.raises(InvalidWindowError):
        DeltaTrigger.of(2.0, function)
