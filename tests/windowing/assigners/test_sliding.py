"""Sliding windows: one starts every slide, so an instant is in several windows, or in a gap."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from panestream.windowing.windows import TimeWindow
from tests.windowing.driven import Driven


@pytest.mark.parametrize(
    ("size", "slide", "offset", "time", "starts"),
    [
        (10, 5, 0, 12, [10, 5]),
        (10, 5, 0, 10, [10, 5]),
        (10, 5, 0, -1, [-5, -10]),
        (10, 4, 0, 12, [12, 8, 4]),
        (10, 4, 0, 13, [12, 8, 4]),
        (10, 4, 0, 14, [12, 8]),
        (10, 5, 2, 12, [12, 7]),
        (10, 5, -2, 12, [8, 3]),
        (3, 10, 0, 12, [10]),
        (3, 10, 0, 13, []),
    ],
)
def test_sliding_windows_are_listed_newest_first(size, slide, offset, time, starts):
    for windows in (
        SlidingEventTimeWindows(size, slide, offset).assign_windows(None, time, 0),
        SlidingProcessingTimeWindows(size, slide, offset).assign_windows(None, 0, time),
    ):
        assert [(window.start, window.end) for window in windows] == [(start, start + size) for start in starts]


def test_row_is_emitted_in_all_its_sliding_windows():
    assert Driven(SlidingEventTimeWindows(10, 5)).windows(1, 7) == {(-5, 5): [1], (0, 10): [1, 7], (5, 15): [7]}


@pytest.mark.parametrize(
    "build",
    [
        lambda: SlidingEventTimeWindows(10, 0),
        lambda: SlidingEventTimeWindows(0, 10),
        lambda: SlidingProcessingTimeWindows(10, 5, 5),
    ],
)
def test_invalid_sliding_windows_are_refused(build):
    with pytest.raises(InvalidWindowError):
        build()


def test_smallest_sliding_window_is_one_instant():
    assert SlidingEventTimeWindows(1, 1).assign_windows(None, 7, 0) == (TimeWindow(7, 8),)
    with pytest.raises(InvalidWindowError, match="must be positive"):
        SlidingEventTimeWindows(1, 0)
