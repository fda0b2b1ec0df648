"""The base class of assigners: default trigger, merging, and user-defined assigners."""

from __future__ import annotations

from panestream.windowing.assigners import (
    GlobalWindows,
    MergingWindowAssigner,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    merge_touching,
)
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger, PurgingTrigger
from panestream.windowing.windows import TimeWindow
from tests.windowing.driven import Driven


def test_assigners_have_default_triggers():
    assert TumblingEventTimeWindows(5).get_default_trigger() == EventTimeTrigger.create()
    assert SlidingProcessingTimeWindows(5, 1).get_default_trigger() == ProcessingTimeTrigger.create()
    assert GlobalWindows.create().get_default_trigger() == NeverTrigger()
    assert CountWindows(5).parts[1:] == (PurgingTrigger(CountTrigger(5)), None)


def test_merge_touching_joins_windows_that_touch():
    a, b, c = TimeWindow(0, 10), TimeWindow(10, 20), TimeWindow(21, 30)
    assert merge_touching([c, b, a]) == [(TimeWindow(0, 20), [a, b])]
    assert merge_touching([]) == []


class NeighbourTens(MergingWindowAssigner):
    """An assigner that merges adjacent tens with data into one window."""

    is_event_time = True

    def assign_windows(self, element, timestamp, processing_time):
        start = timestamp - timestamp % 10
        return [TimeWindow(start, start + 10)]

    def merge_windows(self, windows):
        return merge_touching(windows)


def test_user_assigner_can_merge_windows():
    assert Driven(NeighbourTens()).windows(3, 35, 12) == {(0, 20): [3, 12], (30, 40): [35]}
