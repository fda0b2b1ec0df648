"""The trigger that drops the contents after each firing of another trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.windowing.triggers.base import OnMergeContext, Trigger, TriggerContext, TriggerResult, check_inner
from panestream.windowing.windows import Window


@dataclass(frozen=True, slots=True, repr=False)
class PurgingTrigger(Trigger):
    """Turns every FIRE of another trigger into FIRE_AND_PURGE. Flink: ``PurgingTrigger``.

    Only the contents are dropped: the other trigger's state, per-window state and a session's bounds stay.

    >>> from panestream.windowing.triggers.count import CountTrigger
    >>> PurgingTrigger.of(CountTrigger.of(3))
    PurgingTrigger.of(CountTrigger.of(3))
    """

    inner: Trigger

    def __post_init__(self) -> None:
        check_inner(self.inner, "PurgingTrigger")

    @classmethod
    def of(cls, inner: Trigger) -> PurgingTrigger:
        """Purge whenever ``inner`` fires."""
        return cls(inner)

    @property
    def uses_processing_time(self) -> bool:
        return self.inner.uses_processing_time

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _purged(self.inner.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _purged(self.inner.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return _purged(self.inner.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.inner.can_merge()

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        self.inner.on_merge(window, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        self.inner.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger.of({self.inner!r})"


def _purged(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
