"""Shared parts of the inner loops: the operator interface they need, and opening a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, Protocol

from panestream.engine.operators.row.contents import ContentsLogic
from panestream.engine.operators.row.row_plan import RowPlan
from panestream.engine.operators.row.state import RowStore
from panestream.engine.operators.row.window_states import KeyState, WindowState
from panestream.windowing.time import MAX_TIMESTAMP

Rows = Iterable[tuple[Any, int, Any]]
"""Key, event time, element."""
ASSIGNER = "the assigner"
"""The name of the assigner in errors."""


class LoopOperator(Protocol):
    """The part of the row operator that the inner loops use; :class:`RowOperator` documents the members."""

    plan: RowPlan
    store: RowStore
    logic: ContentsLogic
    watermark: int
    closed: int
    is_event_time: bool
    timer: int | None

    def element(self, key: Any, timestamp: int, element: Any) -> None:
        """Process a row by the general protocol."""

    def open_window_state(self, owner: KeyState, bounds: tuple[int, int] | None) -> WindowState | None:
        """Open a window by the general protocol."""

    def not_taken(self, key: Any, timestamp: int, element: Any) -> None:
        """Handle an element that no window took."""

    def cleanup_time(self, max_timestamp: int) -> int:
        """Return a window's cleanup time."""

    def fire(self, window_state: WindowState) -> None:
        """Call the window function."""

    def close(self, window_state: WindowState) -> None:
        """Close a window."""

    def failed(self, what: str, key: Any, window_state: WindowState | None, error: Exception) -> NoReturn:
        """Raise the error of a user function."""


class Callees(NamedTuple):
    """The callables and flags that a loop needs for every row, fetched once. The loops unpack them in this order.

    ``used_keys`` has the keys of this micro-batch, and ``get_or_create`` returns the state of any other key. ``first`` and
    ``fold`` add elements to contents. ``keeps`` means that contents are lists, which grow without a call, and ``stamps`` that
    elements are stored with their event times, for an evictor.
    """

    used_keys: dict[Any, KeyState]
    get_or_create: Callable[[Any], KeyState]
    first: Callable[[Any], Any]
    fold: Callable[[Any, Any], Any]
    keeps: bool
    stamps: bool

    @classmethod
    def of(cls, operator: LoopOperator) -> Callees:
        store, logic, plan = operator.store, operator.logic, operator.plan
        return cls(
            store.used_keys, store.get_or_create, logic.first, logic.fold, plan.keeps_elements, plan.window.evictor is not None
        )


def open_window(operator: LoopOperator, owner: KeyState, start: int, end: int) -> WindowState | None:
    """Open an event-time window with the timers of its first element, or return None if it is already closed."""
    if end - 1 <= operator.closed:
        return None
    window_state = owner.window_states[start, end] = operator.store.new_window_state(owner, start, end)
    arm(operator, window_state, operator.cleanup_time(end - 1))
    return window_state


def arm(operator: LoopOperator, window_state: WindowState, cleanup: int) -> None:
    """Register the default trigger's and the operator's timers for a window's first element. Later elements add no timers."""
    timers, last = window_state.event_timers, window_state.max_timestamp
    timers.cleanup = cleanup
    if cleanup < MAX_TIMESTAMP:
        timers.times.add(cleanup)
    if last > operator.watermark:
        timers.times.add(last)
        operator.store.event_queue.expect(timers, last)
    else:
        operator.store.event_queue.expect(timers, cleanup)
