"""The trigger that adds a timeout to another trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.triggers.base import Trigger, TriggerContext, TriggerResult, check_inner
from panestream.windowing.windows import Window

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
