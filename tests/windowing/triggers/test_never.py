"""NeverTrigger and EndOfStreamTrigger: the triggers of global windows."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import EndOfStreamTrigger, NeverTrigger
from tests.windowing.driven import Driven


def test_never_fires_neither_by_elements_nor_by_time_nor_at_the_end():
    driven = Driven(GlobalWindows.create(), NeverTrigger())
    assert driven.element(0, 1) + driven.watermark(10**9) + driven.clock(10**9) + driven.end() == []


def test_never_takes_time_windows_which_go_without_a_result():
    driven = Driven(TumblingEventTimeWindows(10), NeverTrigger())
    assert driven.element(0, 1) + driven.watermark(9) == []
    assert driven.left == (0, 0)


@pytest.mark.parametrize("trigger", [NeverTrigger(), EndOfStreamTrigger()])
def test_they_cannot_serve_sessions(trigger):
    with pytest.raises(InvalidPlanError, match=type(trigger).__name__):
        Driven(EventTimeSessionWindows(10), trigger)


def test_end_of_stream_fires_once_at_the_end_of_a_bounded_input():
    driven = Driven(GlobalWindows.create_with_end_of_stream_trigger())
    assert driven.element(0, 1) + driven.element(5, 2) + driven.watermark(10**9) == []
    driven.restart()
    assert driven.end() == [[1, 2]]
