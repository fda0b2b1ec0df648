"""Triggers at the end of the window: the defaults of time windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.windowing.triggers.base import OnMergeContext, Trigger, TriggerContext, TriggerResult
from panestream.windowing.windows import Window


@dataclass(frozen=True, slots=True, repr=False)
class EventTimeTrigger(Trigger):
    """Fires when the watermark reaches the window's last instant. Flink: ``EventTimeTrigger``.

    ==============================================  ================================================
    what happens                                    what follows
    ==============================================  ================================================
    watermark reaches ``max_timestamp``             fires once
    element, watermark already there (lateness)     fires at once, for every such element, everything
    ==============================================  ================================================

    >>> EventTimeTrigger.create()
    EventTimeTrigger.create()
    """

    @classmethod
    def create(cls) -> EventTimeTrigger:
        """The trigger; it has no parameters."""
        return cls()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        # A merged end that has already passed fires with the element that merged it; a timer would fire it again.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())

    def __repr__(self) -> str:
        return "EventTimeTrigger.create()"


@dataclass(frozen=True, slots=True, repr=False)
class ProcessingTimeTrigger(Trigger):
    """Fires when the clock has passed the window's last instant. Flink: ``ProcessingTimeTrigger``.

    On event-time windows of the past it fires right after each element: their end is behind the clock.

    >>> ProcessingTimeTrigger.create()
    ProcessingTimeTrigger.create()
    """

    @classmethod
    def create(cls) -> ProcessingTimeTrigger:
        """The trigger; it has no parameters."""
        return cls()

    @property
    def uses_processing_time(self) -> bool:
        return True

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())

    def __repr__(self) -> str:
        return "ProcessingTimeTrigger.create()"
