"""Triggers that fire repeatedly while a window is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.state import ReducingState, ReducingStateDescriptor
from panestream.windowing.time import MAX_TIMESTAMP, Duration, check_micros, format_duration, to_micros
from panestream.windowing.triggers.base import OnMergeContext, TriggerContext, TriggerResult
from panestream.windowing.triggers.kinds import ByEventTime, ByProcessingTime, ByTime
from panestream.windowing.windows import Window

FIRE_TIME = ReducingStateDescriptor("fire-time", min)
"""The pending interval timer. When sessions merge, the earliest counts."""

Self = TypeVar("Self", bound="_Continuous")


@dataclass(frozen=True, slots=True, repr=False)
class _Continuous(ByTime):
    interval: int

    def __post_init__(self) -> None:
        check_micros(f"{type(self).__name__}.of('5 minutes')", self.interval)
        if self.interval <= 0:
            raise InvalidWindowError(
                f"the interval of {type(self).__name__} must be positive, got {format_duration(self.interval)!r}"
            )

    @classmethod
    def of(cls: type[Self], interval: Duration) -> Self:  # noqa: PYI019 - typing.Self came with 3.11
        """Fire at every multiple of ``interval`` since the epoch, and at the window's end."""
        return cls(to_micros(interval, "interval"))

    def _begin(self, time: int, window: Window, ctx: TriggerContext) -> None:
        """Set the interval timer at a window's first element, to the next multiple after ``time``."""
        pending = ctx.get_partitioned_state(FIRE_TIME)
        if pending.get() is None:
            self._schedule(time - time % self.interval, window, ctx, pending)

    def _on_timer(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end, and at the interval timer, which moves by an interval; not at other timers."""
        if time == window.max_timestamp():
            # The pending time is kept: within the lateness, a session that merges into a longer session continues from there.
            return TriggerResult.FIRE
        pending = ctx.get_partitioned_state(FIRE_TIME)
        if pending.get() != time:
            return TriggerResult.CONTINUE
        if self._now(ctx) == MAX_TIMESTAMP == window.max_timestamp():
            raise InvalidPlanError(
                f"{self!r} on global windows would fire every interval up to the end of time, now that the input has ended: "
                "use it on time windows, or on a stream that does not end"
            )
        pending.clear()
        self._schedule(time, window, ctx, pending)
        return TriggerResult.FIRE

    def _schedule(self, time: int, window: Window, ctx: TriggerContext, pending: ReducingState) -> None:
        """Set the timer one interval after ``time``, but not after the end."""
        following = min(time + self.interval, window.max_timestamp())
        pending.add(following)
        self._register(following, ctx)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(FIRE_TIME)
        pending = ctx.get_partitioned_state(FIRE_TIME).get()
        if pending is not None:
            self._register(pending, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        pending = ctx.get_partitioned_state(FIRE_TIME)
        time = pending.get()
        if time is not None:
            self._delete(time, ctx)
            pending.clear()

    def __repr__(self) -> str:
        return f"{type(self).__name__}.of({format_duration(self.interval)!r})"


@dataclass(frozen=True, slots=True, repr=False)
class ContinuousEventTimeTrigger(_Continuous, ByEventTime):
    """Fires every ``interval`` of event time, and at the window's end. Flink: ``ContinuousEventTimeTrigger``.

    - The first element sets the interval timer to the next multiple after it, which an earlier element does not change.
    - When the watermark reaches the timer, it fires, and the timer moves by an interval. If the watermark jumps over k intervals,
      it fires k times, with equal contents; operators on columns emit the last of them.
    - A result has all rows that have come, also newer ones. For the result up to each five minutes take ``pst.cumulating``.
    - An element within the allowed lateness, after the end, fires at once.
    - When sessions merge, the earliest pending timer stays.
    - On global windows, the end of a bounded input raises, since it would fire up to the end of time (in Flink forever).

    >>> ContinuousEventTimeTrigger.of("5 minutes")
    ContinuousEventTimeTrigger.of('5 minutes')
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._on_timer(time, window, ctx)


@dataclass(frozen=True, slots=True, repr=False)
class ContinuousProcessingTimeTrigger(_Continuous, ByProcessingTime):
    """Fires every ``interval`` of processing time, and at the end. Flink: ``ContinuousProcessingTimeTrigger``.

    For processing-time windows: event-time windows of the past have ended by the clock, and fire once, after their first element.

    >>> ContinuousProcessingTimeTrigger.of("10 seconds")
    ContinuousProcessingTimeTrigger.of('10 seconds')
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._on_timer(time, window, ctx)
