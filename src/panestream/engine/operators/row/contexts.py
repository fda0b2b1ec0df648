"""Contexts of triggers, evictors and window functions: their view of one key and window."""

from __future__ import annotations

from operator import index
from typing import Any, Protocol

from panestream.engine.operators.row.state import RowStore
from panestream.engine.operators.row.window_states import KeyState, WindowState
from panestream.errors import InvalidPlanError
from panestream.windowing.functions import no_state
from panestream.windowing.process_functions import TimeDomain
from panestream.windowing.state import KeyedStateStore, ReducingStateDescriptor
from panestream.windowing.windows import GlobalWindow, Window

ALL_TIME = GlobalWindow()
"""The window of results that belong to no window."""


class Clocks(Protocol):
    """The current watermark and processing time."""

    watermark: int
    processing_time: int


class TriggerScope:
    """The context of triggers and evictors. One object serves all windows.

    ``current`` is the window. While windows merge, ``merged`` are the windows that are merged into it.
    """

    __slots__ = ("_store", "_times", "current", "merged")

    current: WindowState

    def __init__(self, times: Clocks, store: RowStore) -> None:
        self._times = times
        self._store = store
        self.merged: list[WindowState] = []

    def get_current_watermark(self) -> int:
        return self._times.watermark

    def get_current_processing_time(self) -> int:
        return self._times.processing_time

    def register_event_time_timer(self, time: int) -> None:
        self._store.event_queue.register(self.current.event_timers, index(time))

    def register_processing_time_timer(self, time: int) -> None:
        self._store.processing_queue.register(self.current.get_or_create_processing_timers(), index(time))

    def delete_event_time_timer(self, time: int) -> None:
        self.current.event_timers.times.discard(time)

    def delete_processing_time_timer(self, time: int) -> None:
        if self.current.processing_timers is not None:
            self.current.processing_timers.times.discard(time)

    def get_partitioned_state(self, descriptor: Any) -> Any:
        return descriptor.bind(self.current.trigger_values)

    def merge_partitioned_state(self, descriptor: ReducingStateDescriptor) -> None:
        state = descriptor.bind(self.current.trigger_values)
        for window_state in self.merged:
            value = window_state.trigger_values.get(descriptor.name)
            if value is not None:
                state.add(value)


class WindowScope:
    """The context of process functions. One object serves all windows; ``current`` is the window that it is about."""

    __slots__ = ("_merges", "_outputs", "_stateless", "_times", "current")

    current: WindowState

    def __init__(self, times: Clocks, merges: bool, *, stateless: bool = False) -> None:
        self._times = times
        self._stateless = stateless
        self._merges = merges
        self._outputs: dict[str, list[tuple[Any, Window, Any, int]]] = {}

    def window(self) -> Window:
        return self.current.window

    def current_watermark(self) -> int:
        return self._times.watermark

    def current_processing_time(self) -> int:
        return self._times.processing_time

    def window_state(self) -> KeyedStateStore:
        if self._stateless:
            raise no_state("window_state()")
        if self._merges:
            raise InvalidPlanError(
                "windows that merge have no per-window state: keep it per key (global_state()), or in the accumulator"
            )
        if self.current.window_values is None:
            self.current.window_values = {}
        return KeyedStateStore(self.current.window_values)

    def global_state(self) -> KeyedStateStore:
        if self._stateless:
            raise no_state("global_state()")
        return KeyedStateStore(self.current.owner.global_values)

    def output(self, tag: str, value: Any) -> None:
        window_state = self.current
        self._outputs.setdefault(tag, []).append((window_state.owner.key, window_state.window, value, window_state.max_timestamp))

    def take_outputs(self) -> dict[str, list[tuple[Any, Window, Any, int]]]:
        """Return the values sent to side outputs since the last call."""
        taken, self._outputs = self._outputs, {}
        return taken


class ProcessScope:
    """The context and timer service of keyed process functions. One object serves all keys; ``begin`` moves it to a call.

    ``expiring`` has the names of the states with a time to live that were used.
    """

    __slots__ = ("_domain", "_outputs", "_owner", "_store", "_times", "_timestamp", "expiring")

    def __init__(self, times: Clocks, store: RowStore) -> None:
        self._times = times
        self._store = store
        self._outputs: dict[str, list[tuple[Any, Window, Any, int]]] = {}
        self.expiring: set[str] = set()

    def begin(self, owner: KeyState, timestamp: int, domain: TimeDomain | None = None) -> None:
        self._owner = owner
        self._timestamp = timestamp
        self._domain = domain

    def get_current_key(self) -> Any:
        return self._owner.key

    def timestamp(self) -> int:
        return self._timestamp

    def time_domain(self) -> TimeDomain | None:
        return self._domain

    def timer_service(self) -> ProcessScope:
        return self

    def current_watermark(self) -> int:
        return self._times.watermark

    def current_processing_time(self) -> int:
        return self._times.processing_time

    def register_event_time_timer(self, time: int) -> None:
        self._store.event_queue.register(self._timers().event_timers, index(time))

    def register_processing_time_timer(self, time: int) -> None:
        self._store.processing_queue.register(self._timers().get_or_create_processing_timers(), index(time))

    def delete_event_time_timer(self, time: int) -> None:
        self._timers().event_timers.times.discard(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers().get_or_create_processing_timers().times.discard(time)

    def _timers(self) -> WindowState:
        """Return the global window of the key, which holds its timers. A window without any is not stored."""
        windows = self._owner.window_states
        if None not in windows:
            windows[None] = self._store.new_window_state(self._owner, None, None)
        return windows[None]

    def get_state(self, descriptor: Any) -> Any:
        if descriptor.ttl is not None:
            self.expiring.add(descriptor.name)
        return descriptor.bind(self._owner.global_values, self._times.processing_time)

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state

    def output(self, tag: str, value: Any) -> None:
        self._outputs.setdefault(tag, []).append((self._owner.key, ALL_TIME, value, self._timestamp))

    def take_outputs(self) -> dict[str, list[tuple[Any, Window, Any, int]]]:
        """Return the values sent to side outputs since the last call."""
        taken, self._outputs = self._outputs, {}
        return taken
