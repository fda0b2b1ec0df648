"""Cumulating windows start together, and each ends one step after the one before."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import CumulatingEventTimeWindows, CumulatingProcessingTimeWindows
from panestream.windowing.windows import TimeWindow
from tests.windowing.driven import Driven


@pytest.mark.parametrize(
    ("time", "offset", "start", "ends"),
    [
        (0, 0, 0, [10, 20, 30]),
        (9, 0, 0, [10, 20, 30]),
        (10, 0, 0, [20, 30]),
        (29, 0, 0, [30]),
        (30, 0, 30, [40, 50, 60]),
        (-1, 0, -30, [0]),
        (4, 5, -25, [5]),
        (5, 5, 5, [15, 25, 35]),
    ],
)
def test_cumulating_windows_are_listed_shortest_first(time, offset, start, ends):
    for windows in (
        CumulatingEventTimeWindows(30, 10, offset).assign_windows(None, time, 0),
        CumulatingProcessingTimeWindows(30, 10, offset).assign_windows(None, 0, time),
    ):
        assert [(window.start, window.end) for window in windows] == [(start, end) for end in ends]


def test_cumulating_window_contains_the_rows_of_shorter_ones():
    assert Driven(CumulatingEventTimeWindows(30, 10)).windows(1, 12) == {(0, 10): [1], (0, 20): [1, 12], (0, 30): [1, 12]}


def test_smallest_cumulating_windows_and_repr():
    assert CumulatingEventTimeWindows(1, 1).assign_windows(None, 7, 0) == (TimeWindow(7, 8),)
    assert CumulatingEventTimeWindows(3, 1).assign_windows(None, 2, 0) == (TimeWindow(0, 3),)
    assert repr(CumulatingEventTimeWindows.of("1 day", "1 hour", "-8 hours")) == (
        "CumulatingEventTimeWindows.of('1 day', '1 hour', offset='-8 hours')"
    )


@pytest.mark.parametrize(
    ("size", "step", "offset", "told"),
    [
        *((*sizes, 0, "a multiple of its step, both positive") for sizes in ((30, 7), (0, 10), (30, 0), (-30, -10))),
        *((30, 10, offset, "the offset .* must be smaller than its largest size") for offset in (30, -30)),
    ],
)
@pytest.mark.parametrize("kind", [CumulatingEventTimeWindows, CumulatingProcessingTimeWindows])
def test_invalid_cumulating_windows_are_refused(kind, size, step, offset, told):
    with pytest.raises(InvalidWindowError, match=told):
        kind(size, step, offset)
