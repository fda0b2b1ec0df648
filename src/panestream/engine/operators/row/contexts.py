"""What triggers, evictors and window functions are handed: their view of one key and window."""

from __future__ import annotations

from typing import Any, Protocol

from panestream.engine.operators.row.state import RowStore
from panestream.engine.operators.row.window_states import WindowState
from panestream.errors import InvalidPlanError
from panestream.windowing.state import KeyedStateStore, ReducingStateDescriptor
from panestream.windowing.windows import Window


class Times(Protocol):
    """Whoever knows how far time has come."""

    watermark: int
    clock: int


class TriggerScope:
    """The context of triggers and evictors. One object serves all windows; ``slot`` says which one it is about.

    Attributes:
        slot: the window.
        merged: while windows merge: those that went into it.
    """

    __slots__ = ("_store", "_times", "merged", "slot")

    slot: WindowState

    def __init__(self, times: Times, store: RowStore) -> None:
        self._times = times
        self._store = store
        self.merged: list[WindowState] = []

    def get_current_watermark(self) -> int:
        return self._times.watermark

    def get_current_processing_time(self) -> int:
        return self._times.clock

    def register_event_time_timer(self, time: int) -> None:
        self._store.event_queue.register(self.slot.event_timers, time)

    def register_processing_time_timer(self, time: int) -> None:
        self._store.processing_queue.register(self.slot.clock_timers(), time)

    def delete_event_time_timer(self, time: int) -> None:
        self.slot.event_timers.times.discard(time)

    def delete_processing_time_timer(self, time: int) -> None:
        if self.slot.processing_timers is not None:
            self.slot.processing_timers.times.discard(time)

    def get_partitioned_state(self, descriptor: Any) -> Any:
        return descriptor.bind(self.slot.trigger_cells)

    def merge_partitioned_state(self, descriptor: ReducingStateDescriptor) -> None:
        state = descriptor.bind(self.slot.trigger_cells)
        for slot in self.merged:
            value = slot.trigger_cells.get(descriptor.name)
            if value is not None:
                state.add(value)


class WindowScope:
    """The context of process functions. One object serves all windows; ``slot`` says which one it is about."""

    __slots__ = ("_merges", "_outputs", "_times", "slot")

    slot: WindowState

    def __init__(self, times: Times, merges: bool) -> None:
        self._times = times
        self._merges = merges
        self._outputs: dict[str, list[tuple[Any, Window, Any, int]]] = {}

    def window(self) -> Window:
        return self.slot.window

    def current_watermark(self) -> int:
        return self._times.watermark

    def current_processing_time(self) -> int:
        return self._times.clock

    def window_state(self) -> KeyedStateStore:
        if self._merges:
            raise InvalidPlanError(
                "windows that merge have no per-window state: keep it per key (global_state()), or in the accumulator"
            )
        if self.slot.window_cells is None:
            self.slot.window_cells = {}
        return KeyedStateStore(self.slot.window_cells)

    def global_state(self) -> KeyedStateStore:
        return KeyedStateStore(self.slot.owner.cells)

    def output(self, tag: str, value: Any) -> None:
        slot = self.slot
        self._outputs.setdefault(tag, []).append((slot.owner.key, slot.window, value, slot.max_timestamp))

    def take_outputs(self) -> dict[str, list[tuple[Any, Window, Any, int]]]:
        """What was sent to side outputs since the last call."""
        taken, self._outputs = self._outputs, {}
        return taken
