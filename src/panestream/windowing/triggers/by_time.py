"""Triggers that fire without further rows."""

from __future__ import annotations

from panestream.windowing.triggers.after_count import AfterCount
from panestream.windowing.triggers.after_watermark import AfterWatermark
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from panestream.windowing.triggers.count import CountTrigger
from panestream.windowing.triggers.delta import DeltaTrigger
from panestream.windowing.triggers.never import NeverTrigger
from panestream.windowing.triggers.purging import PurgingTrigger
from panestream.windowing.triggers.repeatedly import Repeatedly
from panestream.windowing.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from panestream.windowing.triggers.timeout import ProcessingTimeoutTrigger


def fires_by_time(trigger: Trigger, *, event_time: bool) -> bool | None:
    """Return whether a window without further rows still fires by its end, or None if user code or a race of clocks decides.

    >>> fires_by_time(PurgingTrigger.of(CountTrigger.of(3)), event_time=True)
    False
    >>> fires_by_time(EventTimeTrigger.create(), event_time=True)
    True
    """
    if isinstance(trigger, PurgingTrigger):
        return fires_by_time(trigger.inner, event_time=event_time)
    if type(trigger) in (CountTrigger, DeltaTrigger, NeverTrigger, AfterCount):
        return False
    if isinstance(trigger, Repeatedly):
        return fires_by_time(trigger.inner, event_time=event_time)
    of_its_time = (
        (EventTimeTrigger, ContinuousEventTimeTrigger, AfterWatermark)
        if event_time
        else (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger)
    )
    # Any timer fires a timeout, including the window's last.
    return True if type(trigger) in (*of_its_time, ProcessingTimeoutTrigger) else None


__all__ = ["fires_by_time"]
