"""What the inner loops have in common: what they ask of the row operator, and how they open a window."""

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
"""How errors call it."""


class LoopOperator(Protocol):
    """The part of the row operator that the inner loops know; see :class:`RowOperator` for what each of these does."""

    plan: RowPlan
    store: RowStore
    logic: ContentsLogic
    watermark: int
    closed: int
    is_event_time: bool
    timer: int | None

    def element(self, key: Any, timestamp: int, element: Any) -> None:
        """One row by the general protocol."""

    def open_window_state(self, owner: KeyState, bounds: tuple[int, int] | None) -> WindowState | None:
        """A new window by the general protocol."""

    def not_taken(self, key: Any, timestamp: int, element: Any) -> None:
        """No window took the element."""

    def cleanup_time(self, max_timestamp: int) -> int:
        """When a window goes."""

    def fire(self, window_state: WindowState) -> None:
        """Runs the window's function."""

    def close(self, window_state: WindowState) -> None:
        """The end of a window."""

    def failed(self, what: str, key: Any, window_state: WindowState | None, error: Exception) -> NoReturn:
        """Raises what a function of the user's own raised."""


class Callees(NamedTuple):
    """What a loop calls for every row, looked up once: as local variables, in this order.

    Attributes:
        used_keys: the states of the keys that were used in this micro-batch.
        get_or_create: the state of any other key.
        first: contents made of one element.
        fold: contents with one more.
        keeps: whether contents are lists of elements, which grow without a call.
        stamps: whether elements are kept with their event times, for an evictor.
    """

    used_keys: dict[Any, KeyState]
    get_or_create: Callable[[Any], KeyState]
    first: Callable[[Any], Any]
    fold: Callable[[Any, Any], Any]
    keeps: bool
    stamps: bool

    @classmethod
    def of(cls, operator: LoopOperator) -> Callees:
        """Those of an operator."""
        store, logic, plan = operator.store, operator.logic, operator.plan
        return cls(
            store.used_keys, store.get_or_create, logic.first, logic.fold, plan.keeps_elements, plan.window.evictor is not None
        )


def open_window(operator: LoopOperator, owner: KeyState, start: int, end: int) -> WindowState | None:
    """A window of event time with the timers that its first element registers; None where it is closed already."""
    if end - 1 <= operator.closed:
        return None
    window_state = owner.window_states[start, end] = operator.store.new_window_state(owner, start, end)
    arm(operator, window_state, operator.cleanup_time(end - 1))
    return window_state


def arm(operator: LoopOperator, window_state: WindowState, cleanup: int) -> None:
    """What the default trigger and the operator register at a window's first element, and need not at the next ones."""
    timers, last = window_state.event_timers, window_state.max_timestamp
    timers.cleanup = cleanup
    if cleanup < MAX_TIMESTAMP:
        timers.times.add(cleanup)
    if last > operator.watermark:
        timers.times.add(last)
        operator.store.event_queue.expect(timers, last)
    else:
        operator.store.event_queue.expect(timers, cleanup)
