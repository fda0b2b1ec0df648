"""Triggers, which decide when a window fires; subclass :class:`Trigger` for others. ``panestream`` exports ``__all__``."""

from panestream.windowing.triggers.after_all import AfterAll
from panestream.windowing.triggers.after_any import AfterAny
from panestream.windowing.triggers.after_count import AfterCount
from panestream.windowing.triggers.after_each import AfterEach
from panestream.windowing.triggers.after_processing_time import AfterProcessingTime
from panestream.windowing.triggers.after_watermark import AfterWatermark
from panestream.windowing.triggers.base import OnMergeContext, Trigger, TriggerContext, TriggerResult
from panestream.windowing.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from panestream.windowing.triggers.count import CountTrigger
from panestream.windowing.triggers.delta import DeltaFunction, DeltaTrigger
from panestream.windowing.triggers.never import EndOfStreamTrigger, NeverTrigger
from panestream.windowing.triggers.or_finally import OrFinally
from panestream.windowing.triggers.purging import PurgingTrigger
from panestream.windowing.triggers.repeatedly import Repeatedly
from panestream.windowing.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from panestream.windowing.triggers.timeout import ProcessingTimeoutTrigger

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
