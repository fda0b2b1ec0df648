"""Base classes of functions over the rows of a key, without windows, with state and timers, and with broadcast rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol

from panestream.windowing.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyMapState,
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


class _ProcessFunction:
    @property
    def uses_processing_time(self) -> bool:
        """True if it registers processing-time timers. Spark then wakes the query up without rows."""
        return False


class KeyedProcessFunction(_ProcessFunction, ABC):
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

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessContext) -> Iterable[Any] | None:
        """Process one row."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessContext) -> Iterable[Any] | None:
        """Process a timer that is due; ``timestamp`` is the time for which it was registered."""
        return None


class ReadOnlyBroadcastContext(KeyedProcessContext, Protocol):
    """The context of rows and timers if there are rules, valid only in the call.

    Flink: ``KeyedBroadcastProcessFunction.ReadOnlyContext``, ``KeyedBroadcastProcessFunction.OnTimerContext``.

    >>> class Limited(KeyedBroadcastProcessFunction):
    ...     def process_element(self, value, ctx: ReadOnlyBroadcastContext):
    ...         if value.price > ctx.get_broadcast_state(MapStateDescriptor("limits")).get("price", 0):
    ...             yield value.price
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(MapStateDescriptor("limits")).put("price", value.limit)
    """

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> ReadOnlyMapState:
        """Return a map that the rules wrote, to read it. Do not change its values."""


class BroadcastContext(Protocol):
    """The context of a rule, valid only in the call. Flink: ``KeyedBroadcastProcessFunction.Context``.

    A rule has no key, so there are no timers, and keyed state only in :meth:`apply_to_keyed_state`.

    >>> class Recount(KeyedBroadcastProcessFunction):
    ...     COUNT = ValueStateDescriptor("count")
    ...     def process_element(self, value, ctx):
    ...         ctx.get_state(self.COUNT).update((ctx.get_state(self.COUNT).value() or 0) + 1)
    ...     def process_broadcast_element(self, value, ctx: BroadcastContext):
    ...         ctx.apply_to_keyed_state(self.COUNT, lambda key, count: [count.value()])
    """

    def timestamp(self) -> int:
        """Return the event time of the rule, in microseconds."""

    def current_watermark(self) -> int:
        """Return the watermark, as :meth:`TimerService.current_watermark` does."""

    def current_processing_time(self) -> int:
        """Return the processing time, on Spark that of the micro-batch."""

    def output(self, tag: str, value: Any) -> None:
        """Send a value to a side output once, with null keys; in :meth:`apply_to_keyed_state` with the key of that call."""

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> MapState:
        """Return a map that all keys can read. Only rules write it."""

    def apply_to_keyed_state(self, descriptor: Any, function: Callable[[Any, Any], Iterable[Any] | None]) -> None:
        """Call ``function(key, state)`` for each key that has this state. Flink: ``applyToKeyedState``.

        It may change the state, and returns zero or more results of the key. It reads the whole state of a key group.
        """


class KeyedBroadcastProcessFunction(_ProcessFunction, ABC):
    """Processes the rows of each key with rules that every key can read. Flink: ``KeyedBroadcastProcessFunction``.

    The methods return zero or more results, or yield them. Keep nothing in the object itself, which is copied to processes.

    Every key group gets every rule, and all must write the same. So what a rule writes to broadcast state may depend on the rule,
    on broadcast state and on the context's times, but not on keyed state or chance.

    >>> class Above(KeyedBroadcastProcessFunction):
    ...     LIMITS = MapStateDescriptor("limits")
    ...     def process_element(self, value, ctx):
    ...         limits = ctx.get_broadcast_state(self.LIMITS)
    ...         return [name for name, limit in limits.items() if value.price > limit]
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(self.LIMITS).put(value.name, value.limit)
    >>> Above().uses_processing_time
    False
    """

    @abstractmethod
    def process_element(self, value: Any, ctx: ReadOnlyBroadcastContext) -> Iterable[Any] | None:
        """Process one row."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Process one rule, in every key group. Its results are emitted once, with null keys."""

    def on_timer(self, timestamp: int, ctx: ReadOnlyBroadcastContext) -> Iterable[Any] | None:
        """Process a timer that is due; ``timestamp`` is the time for which it was registered."""
        return None


__all__ = [
    "BroadcastContext",
    "KeyedBroadcastProcessFunction",
    "KeyedProcessContext",
    "KeyedProcessFunction",
    "ReadOnlyBroadcastContext",
    "TimeDomain",
    "TimerService",
]
