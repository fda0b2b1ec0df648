"""Base classes of functions over the rows of a key, without windows, with state and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any, Protocol

from panestream.windowing.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)


class TimeDomain(Enum):
    """The kind of time of a timer. Flink: ``TimeDomain``.

    >>> TimeDomain("event time")
    <TimeDomain.EVENT_TIME: 'event time'>
    """

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class TimerService(Protocol):
    """Time, and the timers of the current key. Flink: ``TimerService``.

    Key, kind and time identify a timer, so registering it twice has no effect. All times are microseconds since the epoch.

    >>> class AfterAMinute(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         timers: TimerService = ctx.timer_service()
    ...         timers.register_event_time_timer(ctx.timestamp() + 60_000_000)
    """

    def current_watermark(self) -> int:
        """Return the watermark; ``MIN_TIMESTAMP`` before the first, ``MAX_TIMESTAMP`` at the end of a batch."""

    def current_processing_time(self) -> int:
        """Return the processing time, on Spark that of the micro-batch."""

    def register_event_time_timer(self, time: int) -> None:
        """Call ``on_timer`` once the watermark has reached ``time``, or when it next moves if it has passed it already."""

    def register_processing_time_timer(self, time: int) -> None:
        """Call ``on_timer`` once the clock is past ``time``. The function needs ``uses_processing_time``."""

    def delete_event_time_timer(self, time: int) -> None:
        """Delete a timer, if it exists."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a timer, if it exists."""


class KeyedProcessContext(Protocol):
    """The context of a keyed process function, valid only in the call. Flink: ``KeyedProcessFunction.Context``.

    State belongs to the current key. A handle is bound to the key of the call: get it again in the next.

    >>> class FirstRows(KeyedProcessFunction):
    ...     def process_element(self, value, ctx: KeyedProcessContext):
    ...         seen = ctx.get_state(ValueStateDescriptor("seen"))
    ...         if seen.value() is None:
    ...             seen.update(True)
    ...             yield ctx.get_current_key()
    """

    def get_current_key(self) -> Any:
        """Return the key of the row or timer, a tuple if it has several columns."""

    def timestamp(self) -> int:
        """Return the event time of the row, or the time of the timer, in microseconds."""

    def timer_service(self) -> TimerService:
        """Return time and timers."""

    def time_domain(self) -> TimeDomain | None:
        """Return the kind of the running timer, or None while a row is processed."""

    def output(self, tag: str, value: Any) -> None:
        """Send a value to a side output."""

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState:
        """Return the state with one value."""

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Return the state with a list."""

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState:
        """Return the state with a map."""

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState:
        """Return the state with one value that grows by a reduce function."""

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """Return the state with an accumulator."""


class KeyedProcessFunction(ABC):
    """Processes the rows of each key one by one, with state and timers. Flink: ``KeyedProcessFunction``.

    Both methods return zero or more results, or yield them. Keep nothing in the object itself, which is copied to processes.

    >>> class SilentUsers(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000_000)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), timestamp
    >>> SilentUsers().uses_processing_time
    False
    """

    @property
    def uses_processing_time(self) -> bool:
        """True if it registers processing-time timers. Spark then wakes the query up without rows."""
        return False

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessContext) -> Iterable[Any] | None:
        """Process one row."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessContext) -> Iterable[Any] | None:
        """Process a timer that is due; ``timestamp`` is the time for which it was registered."""
        return None


__all__ = ["KeyedProcessContext", "KeyedProcessFunction", "TimeDomain", "TimerService"]
