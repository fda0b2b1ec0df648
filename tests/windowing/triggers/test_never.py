"""NeverTrigger and EndOfStreamTrigger, the triggers of global windows."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import EndOfStreamTrigger, NeverTrigger
from tests.windowing.driven import Driven


def test_never_trigger_does_not_fire_by_elements_time_or_end_of_input():
    driven = Driven(GlobalWindows.create(), NeverTrigger())
    assert driven.element(0, 1) + driven.watermark(10**9) + driven.clock(10**9) + driven.end() == []


def test_time_window_with_never_trigger_is_removed_without_a_result():
    driven = Driven(TumblingEventTimeWindows(10), NeverTrigger())
    assert driven.element(0, 1) + driven.watermark(9) == []
    assert driven.left == (0, 0)


@pytest.mark.parametrize("trigger", [NeverTrigger(), EndOfStreamTrigger()])
def test_never_and_end_of_stream_triggers_refuse_sessions(trigger):
    with pytest.raises(InvalidPlanError, match=type(trigger).__name__):
        Driven(EventTimeSessionWindows(10), trigger)


def test_end_of_stream_trigger_fires_once_at_the_end_of_input():
    driven = Driven(GlobalWindows.create_with_end_of_stream_trigger())
    assert driven.element(0, 1) + driven.element(5, 2) + driven.watermark(10**9) == []
    driven.restart()
    assert driven.end() == [[1, 2]]
