"""The declaration of whether time alone fires a window agrees with the harness for each trigger."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream.testing import WindowTestHarness
from panestream.windowing.triggers.by_time import fires_by_time

EVENT, CLOCK = pst.TumblingEventTimeWindows.of("1 minute"), pst.TumblingProcessingTimeWindows.of("1 minute")


class Own(pst.triggers.Trigger):
    """A trigger that never fires, which only its code shows."""

    def on_element(self, element, timestamp, window, ctx):
        return pst.triggers.TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return pst.triggers.TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return pst.triggers.TriggerResult.CONTINUE

    def clear(self, window, ctx):
        pass


SAID = [
    (EVENT, pst.triggers.EventTimeTrigger.create(), True),
    (CLOCK, pst.triggers.ProcessingTimeTrigger.create(), True),
    (EVENT, pst.ContinuousEventTimeTrigger.of("10 seconds"), True),
    (CLOCK, pst.triggers.ContinuousProcessingTimeTrigger.of("10 seconds"), True),
    (EVENT, pst.CountTrigger.of(5), False),
    (CLOCK, pst.PurgingTrigger.of(pst.CountTrigger.of(5)), False),
    (EVENT, pst.triggers.DeltaTrigger.of(5.0, lambda a, b: b - a), False),
    (EVENT, pst.PurgingTrigger.of(pst.triggers.EventTimeTrigger.create()), True),
    (EVENT, pst.triggers.ProcessingTimeoutTrigger.of(pst.CountTrigger.of(5), "1 hour"), True),
    (EVENT, pst.AfterWatermark(), True),
    (EVENT, pst.triggers.AfterCount.of(5), False),
    (EVENT, pst.triggers.Repeatedly.of(pst.AfterWatermark()), True),
    (EVENT, pst.triggers.Repeatedly.of(pst.CountTrigger.of(5)), False),
    (EVENT, Own(), None),
    (EVENT, pst.triggers.ContinuousProcessingTimeTrigger.of("10 seconds"), None),
]


def test_trigger_cannot_merge_by_default():
    assert Own().can_merge() is False


@pytest.mark.parametrize(("assigner", "trigger", "said"), SAID)
def test_declared_firing_by_time_agrees_with_the_harness(assigner, trigger, said):
    assert fires_by_time(trigger, event_time=assigner.is_event_time) is said
    harness = WindowTestHarness(assigner, reduce=max, trigger=trigger, traced=True)
    harness.set_processing_time("30 seconds")
    harness.process_element(1, "30 seconds")
    harness.process_watermark("1 hour")
    harness.set_processing_time("30 minutes")
    if said is not None:
        assert bool(harness.trace().firings) is said
