"""Base classes of triggers: the kind of time that a trigger uses, or ignores."""

from __future__ import annotations

import pytest

from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    TriggerResult,
)
from panestream.windowing.triggers.kinds import ByEventTime, ByProcessingTime, NoEventTime, NoProcessingTime
from panestream.windowing.windows import TimeWindow


class Context:
    """A context that returns the time and records timers."""

    def __init__(self):
        self.calls = []

    def get_current_watermark(self):
        return 1

    def get_current_processing_time(self):
        return 2

    def __getattr__(self, name):
        return lambda time: self.calls.append((name, time))


@pytest.mark.parametrize(
    ("trigger", "kind", "now", "timers"),
    [
        (EventTimeTrigger.create(), ByEventTime, 1, "event_time_timer"),
        (ContinuousEventTimeTrigger(5), ByEventTime, 1, "event_time_timer"),
        (ProcessingTimeTrigger.create(), ByProcessingTime, 2, "processing_time_timer"),
        (ContinuousProcessingTimeTrigger(5), ByProcessingTime, 2, "processing_time_timer"),
    ],
)
def test_trigger_uses_its_kind_of_time(trigger, kind, now, timers):
    ctx = Context()
    assert isinstance(trigger, kind)
    assert trigger._now(ctx) == now
    trigger._register(7, ctx)
    trigger._delete(7, ctx)
    assert ctx.calls == [(f"register_{timers}", 7), (f"delete_{timers}", 7)]
    assert trigger.uses_processing_time is (kind is ByProcessingTime)


def test_trigger_ignores_the_other_kind_of_time():
    window, ctx = TimeWindow(0, 10), Context()
    for trigger in (EventTimeTrigger.create(), ContinuousEventTimeTrigger(5), CountTrigger(1)):
        assert isinstance(trigger, NoProcessingTime)
        assert trigger.on_processing_time(9, window, ctx) is TriggerResult.CONTINUE
    for trigger in (ProcessingTimeTrigger.create(), ContinuousProcessingTimeTrigger(5), CountTrigger(1)):
        assert isinstance(trigger, NoEventTime)
        assert trigger.on_event_time(9, window, ctx) is TriggerResult.CONTINUE
    assert ctx.calls == []
