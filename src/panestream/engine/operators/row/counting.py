"""Counts of the items in a row operator's state, for harnesses and tests. Each call reads the whole state."""

from __future__ import annotations

from panestream.engine.operators.row.timers import NEVER
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.operators.row.window_states import EMPTY


def count_timers(operator: RowOperator) -> int:
    """Return the number of timers, cleanup timers included."""
    total = 0
    for window_state in operator.store.all_window_states():
        total += len(window_state.event_timers.times | ({window_state.event_timers.cleanup} - {NEVER}))
        processing = window_state.processing_timers
        total += 0 if processing is None else len(processing.times | ({processing.cleanup} - {NEVER}))
    return total


def count_state_entries(operator: RowOperator) -> int:
    """Return the number of items stored for windows: contents, states of triggers and functions, merging-window entries."""
    return sum(
        (window_state.contents is not EMPTY)
        + len(window_state.trigger_values)
        + len(window_state.window_values or ())
        + operator.plan.window.merges
        for window_state in operator.store.all_window_states()
    )


def count_key_state_entries(operator: RowOperator) -> int:
    """Return the number of values that process functions store per key. These are never deleted."""
    return sum(len(owner.global_values) for owner in operator.store.all_keys())


__all__ = ["count_key_state_entries", "count_state_entries", "count_timers"]
