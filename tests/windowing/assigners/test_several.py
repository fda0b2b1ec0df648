"""SeveralWindows: each row goes to the windows of all assigners, which are distinguished by a label."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.several import SeveralWindows, label_of
from tests.windowing.driven import Driven

FIVES, TENS = TumblingEventTimeWindows(5), SlidingEventTimeWindows(10, 5)


def test_row_is_in_the_windows_of_each_assigner():
    both = SeveralWindows.of({"fives": FIVES, "tens": TENS})
    assert both.assign_windows(None, 7, 0) == (*FIVES.assign_windows(None, 7, 0), *TENS.assign_windows(None, 7, 0))
    assert both.labels == ("fives", "tens")
    assert both.is_event_time
    assert Driven(both).windows(7) == {(5, 10): [7], (5, 15): [7], (0, 10): [7]}


def test_several_windows_can_have_one_assigner_and_have_a_repr():
    alone = SeveralWindows.of({"fives": FIVES})
    assert alone.is_event_time
    assert repr(alone) == "SeveralWindows.of({'fives': TumblingEventTimeWindows.of('5 microseconds')})"


def test_windows_have_default_labels():
    assert label_of(TumblingEventTimeWindows.of("1 hour")) == "1 hour"
    assert label_of(SlidingEventTimeWindows.of("1 hour", "5 minutes")) == "1 hour / 5 minutes"
    assert label_of(CumulatingEventTimeWindows.of("1 day", "1 hour")) == "1 day / 1 hour"
    assert label_of(EventTimeSessionWindows.with_gap("1 hour")) == "EventTimeSessionWindows.with_gap('1 hour')"


@pytest.mark.parametrize(
    "windows", [{}, {"": FIVES}, {3: FIVES}, {"a": TumblingEventTimeWindows}, {"a": FIVES, "b": TumblingProcessingTimeWindows(5)}]
)
def test_invalid_several_windows_are_refused(windows):
    with pytest.raises(InvalidPlanError):
        SeveralWindows.of(windows)
