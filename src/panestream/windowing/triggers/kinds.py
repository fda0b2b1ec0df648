"""What triggers of one kind have in common: those that one kind of time means nothing to, and those that go by one kind."""

from __future__ import annotations

from abc import abstractmethod

from panestream.windowing.triggers.base import Trigger, TriggerContext, TriggerResult
from panestream.windowing.windows import Window


class NoEventTime(Trigger):
    """A trigger that registers no timers of event time: at a window's cleanup it does nothing."""

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE


class NoProcessingTime(Trigger):
    """A trigger that registers no timers of the clock: at a window's cleanup it does nothing."""

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE


class ByTime(Trigger):
    """A trigger that exists twice, by event time and by the clock: what it does is written once, in terms of these."""

    @abstractmethod
    def _now(self, ctx: TriggerContext) -> int:
        """How far time has come."""

    @abstractmethod
    def _register(self, time: int, ctx: TriggerContext) -> None:
        """A timer of the trigger's kind of time."""

    @abstractmethod
    def _delete(self, time: int, ctx: TriggerContext) -> None:
        """Takes it back."""


class ByEventTime(NoProcessingTime, ByTime):
    """By the watermark."""

    def _now(self, ctx: TriggerContext) -> int:
        return ctx.get_current_watermark()

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ByProcessingTime(NoEventTime, ByTime):
    """By the clock."""

    @property
    def uses_processing_time(self) -> bool:
        return True

    def _now(self, ctx: TriggerContext) -> int:
        return ctx.get_current_processing_time()

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)
