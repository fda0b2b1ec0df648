"""Triggers, which decide when a window fires; subclass :class:`Trigger` for others. ``panestream`` exports ``__all__``."""

from panestream.windowing.triggers.after import AfterCount, AfterProcessingTime, AfterWatermark, Repeatedly
from panestream.windowing.triggers.base import OnMergeContext, PurgingTrigger, Trigger, TriggerContext, TriggerResult
from panestream.windowing.triggers.combined import AfterAll, AfterAny, AfterEach, OrFinally
from panestream.windowing.triggers.count import CountTrigger, DeltaFunction, DeltaTrigger
from panestream.windowing.triggers.time import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
)

__all__ = [
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEach",
    "AfterProcessingTime",
    "AfterWatermark",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaFunction",
    "DeltaTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "OnMergeContext",
    "OrFinally",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Repeatedly",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
]
