"""The bounds of time windows and of the global window."""

from __future__ import annotations

import pytest

from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import GlobalWindow, TimeWindow


def test_global_window_ends_at_the_maximum_timestamp():
    assert GlobalWindow().max_timestamp() == MAX_TIMESTAMP


def test_last_instant_of_a_window_is_before_its_end():
    assert TimeWindow(3, 10).max_timestamp() == 9


@pytest.mark.parametrize(
    ("other", "together"), [((10, 12), True), ((11, 12), False), ((0, 3), True), ((0, 2), False), ((5, 6), True), ((0, 99), True)]
)
def test_windows_intersect_if_they_overlap_or_touch(other, together):
    one, other = TimeWindow(3, 10), TimeWindow(*other)
    assert one.intersects(other) is other.intersects(one) is together
    assert one.cover(other) == other.cover(one) == TimeWindow(min(3, other.start), max(10, other.end))
