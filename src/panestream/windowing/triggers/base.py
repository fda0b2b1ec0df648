"""What every trigger is: the callbacks that decide when a window fires, and what they may ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any, Protocol, overload

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.signatures import check_methods
from panestream.windowing.state import ReducingState, ReducingStateDescriptor, ValueState, ValueStateDescriptor
from panestream.windowing.windows import Window


class TriggerResult(IntEnum):
    """What becomes of a window after a callback. Flink: ``TriggerResult``.

    ======================  =====================  =====================
    result                  the function is run    contents are dropped
    ======================  =====================  =====================
    ``CONTINUE``            no                     no
    ``FIRE``                yes                    no
    ``PURGE``               no                     yes
    ``FIRE_AND_PURGE``      yes                    yes, afterwards
    ======================  =====================  =====================
    """

    CONTINUE = 0
    FIRE = 1
    PURGE = 2
    FIRE_AND_PURGE = 3

    def is_fire(self) -> bool:
        """Whether the window's function is run."""
        return self in (TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE)

    def is_purge(self) -> bool:
        """Whether the window's contents are dropped."""
        return self in (TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE)


class TriggerContext(Protocol):
    """What a trigger may ask for; always about one key and one window. Flink: ``Trigger.TriggerContext``."""

    def get_current_watermark(self) -> int:
        """The watermark, in engine units; ``MIN_TIMESTAMP`` before the first."""

    def get_current_processing_time(self) -> int:
        """The clock, in engine units. On Spark: the time of the micro-batch."""

    def register_event_time_timer(self, time: int) -> None:
        """``on_event_time`` is called once the watermark reaches ``time``; at the next watermark if it has already.

        A second timer for the same time is no second call. The timers of a window go when the window goes.
        """

    def register_processing_time_timer(self, time: int) -> None:
        """``on_processing_time`` is called once the clock is **past** ``time``."""

    def delete_event_time_timer(self, time: int) -> None:
        """Takes a timer back; nothing happens where there is none."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Takes a timer back; nothing happens where there is none."""

    @overload
    def get_partitioned_state(self, descriptor: ValueStateDescriptor) -> ValueState: ...
    @overload
    def get_partitioned_state(self, descriptor: ReducingStateDescriptor) -> ReducingState: ...
    def get_partitioned_state(self, descriptor: Any) -> Any:
        """State of this key and window; it survives purges and restarts, and goes when the window goes."""


class OnMergeContext(TriggerContext, Protocol):
    """What a trigger may ask for while windows merge. Flink: ``Trigger.OnMergeContext``."""

    def merge_partitioned_state(self, descriptor: ReducingStateDescriptor) -> None:
        """Reduces the states of the merged windows into the state of their result."""


class Trigger(ABC):
    """Decides when a window's function is run, and when its contents are dropped. Flink: ``Trigger``.

    Subclasses are frozen dataclasses without mutable attributes: one object serves all keys and windows, and what it must
    remember it keeps in :meth:`TriggerContext.get_partitioned_state`. Everything is called in the order of time.
    """

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Called for every element of every window it was added to, after it was added.

        Args:
            element: the row.
            timestamp: its event time, in engine units.
            window: the window that took it; for merging windows the merged one.
            ctx: timers, state, time.
        """

    @abstractmethod
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Called when an event-time timer is due: one that was registered, or the window's cleanup timer."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Called when a processing-time timer is due: one that was registered, or the window's cleanup timer."""

    @property
    def uses_processing_time(self) -> bool:
        """Whether the trigger registers processing-time timers: then Spark wakes it up without new data.

        A trigger that does and says no here fails the query at its first timer.
        """
        return False

    def can_merge(self) -> bool:
        """Whether the trigger can serve session windows; then it must have :meth:`on_merge`."""
        return False

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Called when windows became ``window``, before the element's own ``on_element``.

        The trigger must carry over its state (:meth:`OnMergeContext.merge_partitioned_state`) and register the timers that the
        result needs; :meth:`clear` is then called for each window that went into it, and their timers go.
        """
        raise InvalidPlanError(f"{type(self).__name__} says can_merge() but has no on_merge(): write it, or return False")

    @abstractmethod
    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Called when the window goes: delete its state and timers. Also called by triggers around this one.

        What is forgotten here is dropped with the window anyway; in Flink it would leak.
        """


def check_inner(inner: object, outer: str) -> None:
    """Refuses what is no trigger inside another one, and one whose methods cannot be called as a trigger's.

    Raises:
        InvalidWindowError: it is no trigger, or a class.
        InvalidPlanError: a method takes other arguments than it will be given.
    """
    if not isinstance(inner, Trigger):
        hint = f"an object, not the class itself: {inner.__name__}" if isinstance(inner, type) else f"got {inner!r}"
        raise InvalidWindowError(f"{outer} wants a trigger such as CountTrigger.of(100) ({hint})")
    check_methods(inner, Trigger)
