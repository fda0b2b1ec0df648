"""Base classes of triggers that use one kind of time, or ignore one."""

from __future__ import annotations

from abc import abstractmethod

from panestream.windowing.triggers.base import Trigger, TriggerContext, TriggerResult
from panestream.windowing.windows import Window


class NoEventTime(Trigger):
    """A trigger without event-time timers, which ignores the window's cleanup."""

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE


class NoProcessingTime(Trigger):
    """A trigger without processing-time timers, which ignores the window's cleanup."""

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE


class ByTime(Trigger):
    """A trigger for event time and processing time, written once with these methods."""

    @abstractmethod
    def _now(self, ctx: TriggerContext) -> int:
        """Return the current time."""

    @abstractmethod
    def _register(self, time: int, ctx: TriggerContext) -> None:
        """Register a timer."""

    @abstractmethod
    def _delete(self, time: int, ctx: TriggerContext) -> None:
        """Delete a timer."""


class ByEventTime(NoProcessingTime, ByTime):
    """By the watermark."""

    def _now(self, ctx: TriggerContext) -> int:
        return ctx.get_current_watermark()

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ByProcessingTime(NoEventTime, ByTime):
    """By processing time."""

    @property
    def uses_processing_time(self) -> bool:
        return True

    def _now(self, ctx: TriggerContext) -> int:
        return ctx.get_current_processing_time()

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)
