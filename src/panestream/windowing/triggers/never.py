"""The triggers of global windows, which fire never or at the end of input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.windowing.triggers.base import TriggerContext, TriggerResult
from panestream.windowing.triggers.kinds import NoEventTime, NoProcessingTime
from panestream.windowing.windows import Window


@dataclass(frozen=True, slots=True)
class NeverTrigger(NoEventTime, NoProcessingTime):
    """Never fires; for all windows except sessions. Flink: ``GlobalWindows.NeverTrigger``, for global windows only.

    >>> NeverTrigger()
    NeverTrigger()
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        pass


@dataclass(frozen=True, slots=True)
class EndOfStreamTrigger(NeverTrigger):
    """Fires only when the input has ended (the final watermark). Flink: ``GlobalWindows.EndOfStreamTrigger``.

    >>> EndOfStreamTrigger()
    EndOfStreamTrigger()
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE
