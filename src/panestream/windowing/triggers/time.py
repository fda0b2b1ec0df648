"""Triggers at the end of the window, the defaults of time windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from panestream.windowing.triggers.base import OnMergeContext, TriggerContext, TriggerResult
from panestream.windowing.triggers.kinds import ByEventTime, ByProcessingTime, ByTime
from panestream.windowing.windows import Window

Self = TypeVar("Self", bound="_AtTheEnd")


@dataclass(frozen=True, slots=True, repr=False)
class _AtTheEnd(ByTime):
    @classmethod
    def create(cls: type[Self]) -> Self:  # noqa: PYI019 - typing.Self came with 3.11
        """Return the trigger."""
        return cls()

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        # The element that merged a window whose end has passed fires it; a timer would fire it again.
        if window.max_timestamp() > self._now(ctx):
            self._register(window.max_timestamp(), ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        self._delete(window.max_timestamp(), ctx)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.create()"


@dataclass(frozen=True, slots=True, repr=False)
class EventTimeTrigger(_AtTheEnd, ByEventTime):
    """Fires when the watermark reaches the window's last instant, and for each late element. Flink: ``EventTimeTrigger``.

    >>> EventTimeTrigger.create()
    EventTimeTrigger.create()
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE


@dataclass(frozen=True, slots=True, repr=False)
class ProcessingTimeTrigger(_AtTheEnd, ByProcessingTime):
    """Fires when the clock passes the window's last instant, or after each element if it has. Flink: ``ProcessingTimeTrigger``.

    >>> ProcessingTimeTrigger.create()
    ProcessingTimeTrigger.create()
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE
