"""Triggers by time: at the end of the window (the defaults), never, repeatedly while it is open, or after a timeout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.state import ReducingState, ReducingStateDescriptor, ValueStateDescriptor
from panestream.windowing.time import MAX_TIMESTAMP, Duration, check_micros, format_duration, to_micros
from panestream.windowing.triggers.base import (
    ByEventTime,
    ByProcessingTime,
    ByTime,
    NoEventTime,
    NoProcessingTime,
    OnMergeContext,
    Trigger,
    TriggerContext,
    TriggerResult,
    check_inner,
)
from panestream.windowing.windows import Window

AtEndT = TypeVar("AtEndT", bound="_AtTheEnd")


@dataclass(frozen=True, slots=True, repr=False)
class _AtTheEnd(ByTime):
    @classmethod
    def create(cls: type[AtEndT]) -> AtEndT:  # noqa: PYI019 - typing.Self came with 3.11
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


FIRE_TIME = ReducingStateDescriptor("fire-time", min)
"""The pending interval timer. When sessions merge, the earliest counts."""
CHANGED = ReducingStateDescriptor("changed", max)
"""Present while the window has rows that no firing has shown, if only changed windows fire."""

ContinuousT = TypeVar("ContinuousT", bound="_Continuous")


@dataclass(frozen=True, slots=True, repr=False)
class _Continuous(ByTime):
    interval: int
    only_changed: bool = False

    def __post_init__(self) -> None:
        check_micros(f"{type(self).__name__}.of('5 minutes')", self.interval)
        if self.interval <= 0:
            raise InvalidWindowError(
                f"the interval of {type(self).__name__} must be positive, got {format_duration(self.interval)!r}"
            )
        if type(self.only_changed) is not bool:
            raise InvalidWindowError(f"only_changed of {type(self).__name__} must be True or False, got {self.only_changed!r}")

    @classmethod
    def of(cls: type[ContinuousT], interval: Duration, only_changed: bool = False) -> ContinuousT:  # noqa: PYI019 - typing.Self came with 3.11
        """Fire at every multiple of ``interval`` since the epoch, and at the window's end.

        With ``only_changed``, a window that got no row since its last firing does not fire, not even at its end.
        """
        return cls(to_micros(interval, "interval"), only_changed)

    def _begin(self, time: int, window: Window, ctx: TriggerContext) -> None:
        """Set the interval timer at a window's first element, to the next multiple after ``time``."""
        pending = ctx.get_partitioned_state(FIRE_TIME)
        if self.only_changed:
            ctx.get_partitioned_state(CHANGED).add(1)
            time = max(time, self._now(ctx))
        if pending.get() is None:
            self._schedule(time - time % self.interval, window, ctx, pending)

    def _on_timer(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end, and at the interval timer, which moves by an interval; not at other timers."""
        if time == window.max_timestamp():
            # The pending time is kept: within the lateness, a session that merges into a longer session continues from there.
            return self._fire(ctx)
        pending = ctx.get_partitioned_state(FIRE_TIME)
        if pending.get() != time:
            return TriggerResult.CONTINUE
        if self.only_changed:
            pending.clear()
            reached = self._reached(ctx)
            self._schedule(reached - reached % self.interval, window, ctx, pending)
            # If time has also passed the end, the window fires there.
            return TriggerResult.CONTINUE if reached >= window.max_timestamp() else self._fire(ctx)
        if self._now(ctx) == MAX_TIMESTAMP == window.max_timestamp():
            raise InvalidPlanError(
                f"{self!r} on global windows would fire every interval up to the end of time, now that the input has ended: "
                "use it on time windows, or on a stream that does not end"
            )
        pending.clear()
        self._schedule(time, window, ctx, pending)
        return TriggerResult.FIRE

    def _fire(self, ctx: TriggerContext) -> TriggerResult:
        """Fire, unless only changed windows fire and this one has not changed."""
        if self.only_changed:
            changed = ctx.get_partitioned_state(CHANGED)
            if changed.get() is None:
                return TriggerResult.CONTINUE
            changed.clear()
        return TriggerResult.FIRE

    def _reached(self, ctx: TriggerContext) -> int:
        """Return the last instant whose timers are called. The clock must be past a timer."""
        return self._now(ctx) - self.uses_processing_time

    def _schedule(self, time: int, window: Window, ctx: TriggerContext, pending: ReducingState) -> None:
        """Set the timer one interval after ``time``, but not after the end."""
        following = min(time + self.interval, window.max_timestamp())
        pending.add(following)
        self._register(following, ctx)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(FIRE_TIME)
        state = ctx.get_partitioned_state(FIRE_TIME)
        pending, reached = state.get(), self._reached(ctx)
        if self.only_changed:
            ctx.get_partitioned_state(CHANGED).add(1)
        if pending is not None and self.only_changed and pending <= reached:
            # A session that had ended is open again. In Flink it would fire for each interval since.
            state.clear()
            self._schedule(reached - reached % self.interval, window, ctx, state)
        elif pending is not None:
            self._register(pending, ctx)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        pending = ctx.get_partitioned_state(FIRE_TIME)
        time = pending.get()
        if time is not None:
            self._delete(time, ctx)
            pending.clear()
        if self.only_changed:
            ctx.get_partitioned_state(CHANGED).clear()

    def __repr__(self) -> str:
        only_changed = ", only_changed=True" if self.only_changed else ""
        return f"{type(self).__name__}.of({format_duration(self.interval)!r}{only_changed})"


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

    With ``only_changed=True`` (not in Flink) only windows with new rows fire, for a table that shows current results:

    - A window that got no row since its last firing does not fire, neither at an interval nor at its end.
    - If the watermark jumps over k intervals, a window fires once. If it also jumps over the window's end, it fires there.
    - A row behind the watermark waits for the next interval that the watermark reaches.
    - To also get each window's result at its end, use ``AfterWatermark().early(...)`` with this trigger.

    >>> ContinuousEventTimeTrigger.of("5 minutes")
    ContinuousEventTimeTrigger.of('5 minutes')
    >>> ContinuousEventTimeTrigger.of("5 minutes", only_changed=True)
    ContinuousEventTimeTrigger.of('5 minutes', only_changed=True)
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            if self.only_changed:
                ctx.get_partitioned_state(CHANGED).clear()
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
    ``only_changed`` is that of :class:`ContinuousEventTimeTrigger`.

    >>> ContinuousProcessingTimeTrigger.of("10 seconds")
    ContinuousProcessingTimeTrigger.of('10 seconds')
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._on_timer(time, window, ctx)


TIMEOUT = ValueStateDescriptor("timeout")


@dataclass(frozen=True, slots=True, repr=False)
class ProcessingTimeoutTrigger(Trigger):
    """Fires when another trigger does, or after ``timeout`` of the clock. Flink: ``ProcessingTimeoutTrigger``.

    - The first element sets the timeout; with ``reset_timer_on_new_record`` each element sets it again.
    - If the inner trigger fires by an element, it fires, and timeout and inner trigger are cleared.
    - **Any** timer of the window, also its cleanup timer, fires whatever the inner trigger returns (and purges if it does).
    - With ``should_clear_on_timeout`` that timer also clears both. Without it, the next timeout only comes after the inner
      trigger has fired (or an element has reset it).
    - Session windows are not supported.

    >>> from panestream.windowing.triggers.count import CountTrigger
    >>> ProcessingTimeoutTrigger.of(CountTrigger.of(100), "1 minute")
    ProcessingTimeoutTrigger.of(CountTrigger.of(100), '1 minute')
    """

    inner: Trigger
    timeout: int
    reset_timer_on_new_record: bool = False
    should_clear_on_timeout: bool = True

    def __post_init__(self) -> None:
        check_inner(self.inner, "ProcessingTimeoutTrigger")
        check_micros("ProcessingTimeoutTrigger.of(CountTrigger.of(100), '1 minute')", self.timeout)
        if self.timeout < 0:
            raise InvalidWindowError(
                f"the timeout of ProcessingTimeoutTrigger must not be negative, got {format_duration(self.timeout)!r}"
            )

    @classmethod
    def of(
        cls,
        inner: Trigger,
        timeout: Duration,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """Fire when ``inner`` does, or ``timeout`` after the first element."""
        return cls(inner, to_micros(timeout, "timeout"), reset_timer_on_new_record, should_clear_on_timeout)

    @property
    def uses_processing_time(self) -> bool:
        return True

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        result = self.inner.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        remembered = ctx.get_partitioned_state(TIMEOUT)
        time = remembered.value()
        if time is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(time)
            time = None
        if time is None:
            due = ctx.get_current_processing_time() + self.timeout
            remembered.update(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._timed_out(self.inner.on_event_time(time, window, ctx), window, ctx)

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._timed_out(self.inner.on_processing_time(time, window, ctx), window, ctx)

    def _timed_out(self, result: TriggerResult, window: Window, ctx: TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        remembered = ctx.get_partitioned_state(TIMEOUT)
        time = remembered.value()
        if time is not None:
            ctx.delete_processing_time_timer(time)
            remembered.clear()
        self.inner.clear(window, ctx)

    def __repr__(self) -> str:
        options = ", reset_timer_on_new_record=True" if self.reset_timer_on_new_record else ""
        options += "" if self.should_clear_on_timeout else ", should_clear_on_timeout=False"
        return f"ProcessingTimeoutTrigger.of({self.inner!r}, {format_duration(self.timeout)!r}{options})"
