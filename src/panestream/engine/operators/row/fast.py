"""Inner loops of the row operator for the most common plans: the same protocol with the calls inlined.

A loop is used only if assigner and trigger are exactly panestream's classes, because it replaces their callbacks. The tests run
every such plan again with the trigger wrapped in a user's class, which takes the general path, and compare the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panestream.engine.operators.row.element_chunks import stamped
from panestream.engine.operators.row.loops import Callees, LoopOperator, Rows, open_window
from panestream.engine.operators.row.session_loop import take_in_sessions
from panestream.engine.operators.row.window_states import EMPTY, WindowState
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger


def fast_rows(operator: LoopOperator, assigner: WindowAssigner) -> Callable[[Rows], None] | None:
    """Return the loop for a plan and an assigner with the key group's shift, or None if it needs the general protocol."""
    trigger, purges = unwrapped(operator.plan.window.firing_trigger)
    if type(trigger) is EventTimeTrigger:
        if type(assigner) is TumblingEventTimeWindows:
            return lambda rows: _tumbling(operator, assigner, purges, rows)
        if type(assigner) is SlidingEventTimeWindows:
            return lambda rows: _sliding(operator, assigner, purges, rows)
        if type(assigner) is EventTimeSessionWindows:
            return lambda rows: take_in_sessions(operator, assigner, purges, rows)
    if type(trigger) is CountTrigger and type(assigner) is GlobalWindows:
        return lambda rows: _counting(operator, trigger.count, purges, rows)
    return None


def fast_timers(operator: LoopOperator) -> Callable[[int], None] | None:
    """Return the event-time timer loop for a plan with the default trigger, or None if it needs the general protocol."""
    trigger, purges = unwrapped(operator.plan.window.firing_trigger)
    if type(trigger) is not EventTimeTrigger:
        return None
    return lambda watermark: _default_timers(operator, purges, watermark)


def unwrapped(trigger: Trigger) -> tuple[Trigger, bool]:
    """Return the trigger without panestream's purging wrapper, and whether firing purges the window."""
    return (trigger.inner, True) if type(trigger) is PurgingTrigger else (trigger, False)


def _default_timers(operator: LoopOperator, purges: bool, watermark: int) -> None:
    """Run the default trigger's timers: fire at a window's end. It clears only timers, which the operator does anyway."""
    for time, timers, called in operator.store.event_queue.due(watermark):
        window_state = timers.owner
        window_state.owner.page.dirty = True
        if called and time == window_state.max_timestamp:
            operator.timer = time
            operator.fire(window_state)
            if purges:
                window_state.contents = EMPTY
        if operator.is_event_time and time == operator.cleanup_time(window_state.max_timestamp):
            operator.close(window_state)
    operator.timer = None


# The loops repeat a few lines on purpose: sharing them would cost a call per element, a tenth of the time.


def _tumbling(operator: LoopOperator, assigner: TumblingEventTimeWindows, purges: bool, rows: Rows) -> None:
    used_keys, get_or_create, first, fold, keeps, stamps = Callees.of(operator)
    watermark, size, offset = operator.watermark, assigner.size, assigner.offset
    key: Any = None
    window_state: WindowState | None = None
    try:
        for key, timestamp, element in rows:
            window_state = None
            owner = used_keys.get(key) or get_or_create(key)
            start = timestamp - (timestamp - offset) % size
            bounds = (start, start + size)
            window_state = owner.window_states.get(bounds) or open_window(operator, owner, *bounds)
            if window_state is None:
                operator.not_taken(key, timestamp, element)
                continue
            stored = stamped((element, timestamp)) if stamps else element
            if window_state.contents is EMPTY:
                window_state.contents = first(stored)
            elif keeps:
                window_state.contents.tail.append(stored)
            else:
                window_state.contents = fold(window_state.contents, stored)
            if window_state.max_timestamp <= watermark:
                operator.fire(window_state)
                if purges:
                    window_state.contents = EMPTY
    except Exception as error:  # noqa: BLE001 - whatever users' code raises
        operator.failed(operator.logic.adding, key, window_state, error)


def _sliding(operator: LoopOperator, assigner: SlidingEventTimeWindows, purges: bool, rows: Rows) -> None:
    used_keys, get_or_create, first, fold, keeps, stamps = Callees.of(operator)
    watermark, size, slide, offset = operator.watermark, assigner.size, assigner.slide, assigner.offset
    key: Any = None
    window_state: WindowState | None = None
    try:
        for key, timestamp, element in rows:
            window_state = None
            stored = stamped((element, timestamp)) if stamps else element
            owner = used_keys.get(key) or get_or_create(key)
            window_states, taken = owner.window_states, False
            for start in range(timestamp - (timestamp - offset) % slide, timestamp - size, -slide):
                bounds = (start, start + size)
                window_state = window_states.get(bounds) or open_window(operator, owner, *bounds)
                if window_state is None:
                    continue
                taken = True
                if window_state.contents is EMPTY:
                    window_state.contents = first(stored)
                elif keeps:
                    window_state.contents.tail.append(stored)
                else:
                    window_state.contents = fold(window_state.contents, stored)
                if window_state.max_timestamp <= watermark:
                    operator.fire(window_state)
                    if purges:
                        window_state.contents = EMPTY
            if not taken:
                operator.not_taken(key, timestamp, element)
    except Exception as error:  # noqa: BLE001
        operator.failed(operator.logic.adding, key, window_state, error)


def _counting(operator: LoopOperator, count: int, purges: bool, rows: Rows) -> None:
    """Add rows to one window that fires at every ``count``-th element."""
    used_keys, get_or_create, first, fold, keeps, stamps = Callees.of(operator)
    key: Any = None
    window_state: WindowState | None = None
    try:
        for key, timestamp, element in rows:
            window_state = None
            stored = stamped((element, timestamp)) if stamps else element
            owner = used_keys.get(key) or get_or_create(key)
            window_state = owner.window_states.get(None) or operator.open_window_state(owner, None)
            assert window_state is not None  # noqa: S101 - the global window is never closed
            if window_state.contents is EMPTY:
                window_state.contents = first(stored)
            elif keeps:
                window_state.contents.tail.append(stored)
            else:
                window_state.contents = fold(window_state.contents, stored)
            values = window_state.trigger_values
            seen = values.get("count", 0) + 1
            if seen < count:
                values["count"] = seen
                continue
            values.pop("count", None)
            operator.fire(window_state)
            if purges:
                window_state.contents = EMPTY
    except Exception as error:  # noqa: BLE001
        operator.failed(operator.logic.adding, key, window_state, error)
