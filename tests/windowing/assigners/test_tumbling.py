"""Tumbling windows: every instant is in exactly one."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.windows import TimeWindow
from tests.windowing.driven import Driven


@pytest.mark.parametrize(
    ("time", "offset", "start"),
    [(0, 0, 0), (9, 0, 0), (10, 0, 10), (-1, 0, -10), (-10, 0, -10), (2, 3, -7), (3, 3, 3), (6, -3, -3), (7, -3, 7)],
)
def test_tumbling_window_of_an_instant(time, offset, start):
    assert TumblingEventTimeWindows(10, offset).assign_windows(None, time, 0) == (TimeWindow(start, start + 10),)
    assert TumblingProcessingTimeWindows(10, offset).assign_windows(None, 0, time) == (TimeWindow(start, start + 10),)


def test_rows_are_emitted_in_their_tumbling_windows():
    assert Driven(TumblingEventTimeWindows(10)).windows(1, 9, 10, 25) == {(0, 10): [1, 9], (10, 20): [10], (20, 30): [25]}


def test_processing_time_window_ignores_the_event_time():
    driven = Driven(TumblingProcessingTimeWindows(10))
    driven.element(10**9, "a")
    driven.clock(9)
    driven.element(0, "b")
    assert driven.clock(10) == [["a", "b"]]


@pytest.mark.parametrize(
    "build",
    [
        lambda: TumblingEventTimeWindows(0),
        lambda: TumblingProcessingTimeWindows(-1),
        lambda: TumblingEventTimeWindows(10, 10),
        lambda: TumblingEventTimeWindows(10, -10),
        lambda: TumblingEventTimeWindows(10, stagger="random"),
    ],
)
def test_invalid_tumbling_windows_are_refused(build):
    with pytest.raises(InvalidWindowError):
        build()


def test_smallest_tumbling_window_is_one_instant():
    assert TumblingEventTimeWindows(1).assign_windows(None, 7, 0) == (TimeWindow(7, 8),)
    with pytest.raises(InvalidWindowError, match="must be positive"):
        TumblingEventTimeWindows(0)
