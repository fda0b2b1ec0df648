"""The base classes of triggers: their callbacks, results and context, and the trigger that purges after another one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, overload

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.signatures import check_methods
from panestream.windowing.state import ReducingState, ReducingStateDescriptor, ValueState, ValueStateDescriptor
from panestream.windowing.windows import Window


class TriggerResult(IntEnum):
    """The result of a callback. Flink: ``TriggerResult``.

    FIRE runs the window's function, PURGE drops its contents, FIRE_AND_PURGE does both in this order, CONTINUE neither.

    Examples:
        >>> TriggerResult.FIRE_AND_PURGE.is_fire(), TriggerResult.FIRE_AND_PURGE.is_purge()
        (True, True)
    """

    CONTINUE = 0
    FIRE = 1
    PURGE = 2
    FIRE_AND_PURGE = 3

    def is_fire(self) -> bool:
        """Return whether the window's function runs."""
        return self in (TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE)

    def is_purge(self) -> bool:
        """Return whether the window's contents are dropped."""
        return self in (TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE)


class TriggerContext(Protocol):
    """Time, timers and state of one key and window; the latter two are deleted with it. Flink: ``Trigger.TriggerContext``.

    Examples:
        >>> import panestream as pst
        >>> class Tenth(pst.CountTrigger):
        ...     def on_element(self, element, timestamp, window, ctx):
        ...         ctx.register_event_time_timer(window.max_timestamp())  # also fire at the end
        ...         return super().on_element(element, timestamp, window, ctx)
        ...     def on_event_time(self, time, window, ctx):
        ...         return pst.triggers.TriggerResult.FIRE
        >>> minutes = pst.TumblingEventTimeWindows.of("1 minute")
        >>> harness = pst.testing.WindowTestHarness(minutes, trigger=Tenth(10), reduce=max)
        >>> harness.process_element(3, "5 seconds", key="ann")
        >>> harness.end_of_input()
        >>> [result.value for result in harness.extract_output()]
        [3]
    """

    def get_current_watermark(self) -> int:
        """Return the watermark in microseconds; ``MIN_TIMESTAMP`` before the first."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in microseconds, on Spark that of the micro-batch."""

    def register_event_time_timer(self, time: int) -> None:
        """Call ``on_event_time`` once the watermark reaches ``time``, or at the next one; once even if registered twice."""

    def register_processing_time_timer(self, time: int) -> None:
        """Call ``on_processing_time`` once the clock is **past** ``time``."""

    def delete_event_time_timer(self, time: int) -> None:
        """Delete a timer, if there is one."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a timer, if there is one."""

    @overload
    def get_partitioned_state(self, descriptor: ValueStateDescriptor) -> ValueState: ...
    @overload
    def get_partitioned_state(self, descriptor: ReducingStateDescriptor) -> ReducingState: ...
    def get_partitioned_state(self, descriptor: Any) -> Any:
        """Return state of this key and window. It survives purges and restarts, and is deleted with the window."""


class OnMergeContext(TriggerContext, Protocol):
    """The context of a trigger while windows merge. Flink: ``Trigger.OnMergeContext``.

    >>> import panestream as pst
    >>> class CountOfMerged(pst.CountTrigger):
    ...     def on_merge(self, window, ctx):
    ...         ctx.merge_partitioned_state(pst.state.ReducingStateDescriptor("count", int.__add__))
    >>> CountOfMerged.of(3)
    CountTrigger.of(3)
    """

    def merge_partitioned_state(self, descriptor: ReducingStateDescriptor) -> None:
        """Reduce the states of the merged windows into the state of their result."""


class Trigger(ABC):
    """Decides when a window's function runs, and when its contents are dropped. Flink: ``Trigger``.

    Subclasses are frozen dataclasses without mutable attributes, since one object serves all keys and windows. State is in
    :meth:`TriggerContext.get_partitioned_state`. Callbacks run in the order of time.

    Examples:
        >>> import panestream as pst
        >>> class AtOnce(pst.triggers.Trigger):
        ...     def on_element(self, element, timestamp, window, ctx):
        ...         return pst.triggers.TriggerResult.FIRE
        ...     def on_event_time(self, time, window, ctx):
        ...         return pst.triggers.TriggerResult.CONTINUE
        ...     def on_processing_time(self, time, window, ctx):
        ...         return pst.triggers.TriggerResult.CONTINUE
        ...     def clear(self, window, ctx):
        ...         pass
        >>> minutes = pst.TumblingEventTimeWindows.of("1 minute")
        >>> harness = pst.testing.WindowTestHarness(minutes, trigger=AtOnce(), reduce=max)
        >>> for price in (3, 8):
        ...     harness.process_element(price, "5 seconds", key="ann")
        >>> [result.value for result in harness.extract_output()]
        [3, 8]
    """

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Handle an element (``timestamp`` in microseconds), after its (possibly merged) ``window`` has it; once per window."""

    @abstractmethod
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Handle a due event-time timer: a registered timer, or the window's cleanup timer."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Handle a due processing-time timer: a registered timer, or the window's cleanup timer."""

    @property
    def uses_processing_time(self) -> bool:
        """True if processing-time timers are registered, so that Spark wakes the query up; otherwise such a timer fails it."""
        return False

    def can_merge(self) -> bool:
        """Return whether the trigger supports session windows, with :meth:`on_merge`."""
        return False

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Handle windows that merged into ``window``; called before the element's own ``on_element``.

        Merge state (:meth:`OnMergeContext.merge_partitioned_state`) and register timers of the result. Then :meth:`clear` is
        called for each merged window, and its timers are deleted.
        """
        raise InvalidPlanError(
            f"{type(self).__name__} returns True from can_merge() but lacks on_merge(). Write it, or return False"
        )

    @abstractmethod
    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Delete state and timers; called when the window is deleted, and by outer triggers. In Flink, the rest would leak."""


def check_inner(inner: object, outer: str) -> None:
    """Check that an inner trigger is a trigger object with methods that accept their arguments."""
    if not isinstance(inner, Trigger):
        hint = f"an object, not the class itself: {inner.__name__}" if isinstance(inner, type) else f"got {inner!r}"
        raise InvalidWindowError(f"{outer} needs a trigger such as CountTrigger.of(100) ({hint})")
    check_methods(inner, Trigger)


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
