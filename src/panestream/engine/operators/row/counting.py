"""How much there is in a row operator's state, for harnesses and tests: all of it is read."""

from __future__ import annotations

from panestream.engine.operators.row.timers import NEVER
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.operators.row.window_states import EMPTY


def count_timers(operator: RowOperator) -> int:
    """How many timers there are, cleanup timers included."""
    total = 0
    for window_state in operator.store.all_window_states():
        total += len(window_state.event_timers.times | ({window_state.event_timers.cleanup} - {NEVER}))
        processing = window_state.processing_timers
        total += 0 if processing is None else len(processing.times | ({processing.cleanup} - {NEVER}))
    return total


def count_state_entries(operator: RowOperator) -> int:
    """How many things are kept of windows: contents, states of triggers and functions, places of sessions."""
    return sum(
        (window_state.contents is not EMPTY)
        + len(window_state.trigger_values)
        + len(window_state.window_values or ())
        + operator.plan.window.merges
        for window_state in operator.store.all_window_states()
    )


def count_key_state_entries(operator: RowOperator) -> int:
    """How many things process functions keep per key, which is for ever."""
    return sum(len(owner.global_values) for owner in operator.store.all_keys())


__all__ = ["count_key_state_entries", "count_state_entries", "count_timers"]
