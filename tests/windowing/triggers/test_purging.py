"""PurgingTrigger drops the rows that its inner trigger has fired."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import (
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    TriggerResult,
)
from panestream.windowing.windows import TimeWindow
from tests.windowing.driven import Driven


def test_fired_rows_do_not_fire_again():
    driven = Driven(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(2)))
    assert [driven.element(0, value) for value in (1, 2, 3, 4)] == [[], [[1, 2]], [], [[3, 4]]]


def test_purging_trigger_keeps_the_state_of_its_inner_trigger():
    driven = Driven(GlobalWindows.create(), PurgingTrigger.of(DeltaTrigger.of(2, lambda old, new: abs(new - old))))
    # The value 4 fires and stays the reference, although it was dropped.
    assert [driven.element(0, value) for value in (1, 4, 5, 7)] == [[], [[1, 4]], [], [[5, 7]]]


def test_late_row_of_a_purged_window_fires_alone():
    driven = Driven(TumblingEventTimeWindows(10), PurgingTrigger.of(EventTimeTrigger.create()), lateness=5)
    driven.element(1, "a")
    assert driven.watermark(9) == [["a"]]
    assert driven.element(2, "b") == [["b"]]


def test_purging_trigger_merges_if_its_inner_trigger_does():
    driven = Driven(EventTimeSessionWindows(10), PurgingTrigger.of(CountTrigger.of(3)))
    assert driven.element(0, 1) + driven.element(15, 2) == []
    assert driven.element(8, 3) == [[1, 2, 3]]
    with pytest.raises(InvalidPlanError, match="PurgingTrigger"):
        Driven(EventTimeSessionWindows(10), PurgingTrigger.of(DeltaTrigger.of(1, lambda old, new: new - old)))


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        (TriggerResult.CONTINUE, TriggerResult.CONTINUE),
        (TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE),
        (TriggerResult.PURGE, TriggerResult.PURGE),
        (TriggerResult.FIRE_AND_PURGE, TriggerResult.FIRE_AND_PURGE),
    ],
)
def test_purging_trigger_adds_purge_only_to_firings(said, becomes):
    class Says(CountTrigger):
        def on_element(self, element, timestamp, window, ctx):
            return said

    assert PurgingTrigger.of(Says(1)).on_element(None, 0, TimeWindow(0, 1), None) == becomes


def test_purging_trigger_uses_the_clock_if_its_inner_trigger_does():
    assert not PurgingTrigger.of(CountTrigger.of(1)).uses_processing_time
    assert PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(1), "1 second")).uses_processing_time


@pytest.mark.parametrize("inner", [CountTrigger, None])
def test_purging_trigger_refuses_anything_but_triggers(inner):
    with pytest.raises(InvalidWindowError, match="PurgingTrigger needs a trigger"):
        PurgingTrigger.of(inner)
