"""The row operator's inner loops for the commonest plans: the same protocol with the calls taken out.

A loop is used where assigner and trigger are exactly panestream's own, whose callbacks it may do by itself. The tests run every
such plan once more with the trigger wrapped in one of a user's, which takes the general way, and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from panestream.engine.operators.row.state import EMPTY, KeyState, Slot
from panestream.engine.operators.row.timers import NEVER
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from panestream.windowing.evictors import TimestampedValue
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger

if TYPE_CHECKING:
    from panestream.engine.operators.row.operator import RowOperator

Rows = Iterable[tuple[Any, int, Any]]
ASSIGNER = "the assigner"


def fast_rows(operator: RowOperator, assigner: WindowAssigner) -> Callable[[Rows], None] | None:
    """The loop for a plan, or None where only the general protocol will do.

    Args:
        operator: whose windows the rows go to.
        assigner: the plan's, with the shift of the key group in it.
    """
    trigger = operator.plan.firing_trigger
    purges = type(trigger) is PurgingTrigger
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if type(inner) is EventTimeTrigger:
        if type(assigner) is TumblingEventTimeWindows:
            return lambda rows: _tumbling(operator, assigner, purges, rows)
        if type(assigner) is SlidingEventTimeWindows:
            return lambda rows: _sliding(operator, assigner, purges, rows)
        if type(assigner) is EventTimeSessionWindows:
            return lambda rows: _sessions(operator, assigner, purges, rows)
    if type(inner) is CountTrigger and type(assigner) is GlobalWindows:
        return lambda rows: _counting(operator, inner.count, purges, rows)
    return None


def _tumbling(operator: RowOperator, assigner: TumblingEventTimeWindows, purges: bool, rows: Rows) -> None:
    """Tumbling windows of event time with the default trigger."""
    touched, touch, watermark = operator.store.touched, operator.store.touch, operator.watermark
    first, fold, stamps = operator.logic.first, operator.logic.fold, operator.plan.evictor is not None
    size, offset = assigner.size, assigner.offset
    key: Any = None
    slot: Slot | None = None
    try:
        for key, timestamp, element in rows:
            slot = None
            stored = TimestampedValue(element, timestamp) if stamps else element
            owner = touched.get(key) or touch(key)
            start = timestamp - (timestamp - offset) % size
            bounds = (start, start + size)
            slot = owner.slots.get(bounds)
            if slot is None:
                slot = operator.open_slot(owner, bounds)
                if slot is None:
                    operator.not_taken(key, timestamp, element)
                    continue
                slot.contents = first(stored)
                _arm(operator, slot)
            elif slot.contents is EMPTY:
                slot.contents = first(stored)
            else:
                slot.contents = fold(slot.contents, stored)
            if slot.max_timestamp <= watermark:
                operator.fire(slot)
                if purges:
                    slot.contents = EMPTY
    except Exception as error:  # noqa: BLE001 - whatever users' code raises
        operator.failed(operator.logic.adding, key, slot, error)


def _sliding(operator: RowOperator, assigner: SlidingEventTimeWindows, purges: bool, rows: Rows) -> None:
    """Sliding windows of event time with the default trigger."""
    touched, touch, watermark = operator.store.touched, operator.store.touch, operator.watermark
    first, fold, stamps = operator.logic.first, operator.logic.fold, operator.plan.evictor is not None
    size, slide, offset = assigner.size, assigner.slide, assigner.offset
    key: Any = None
    slot: Slot | None = None
    try:
        for key, timestamp, element in rows:
            slot = None
            stored = TimestampedValue(element, timestamp) if stamps else element
            owner = touched.get(key) or touch(key)
            slots, taken = owner.slots, False
            for start in range(timestamp - (timestamp - offset) % slide, timestamp - size, -slide):
                bounds = (start, start + size)
                slot = slots.get(bounds)
                if slot is None:
                    slot = operator.open_slot(owner, bounds)
                    if slot is None:
                        continue
                    slot.contents = first(stored)
                    _arm(operator, slot)
                elif slot.contents is EMPTY:
                    slot.contents = first(stored)
                else:
                    slot.contents = fold(slot.contents, stored)
                taken = True
                if slot.max_timestamp <= watermark:
                    operator.fire(slot)
                    if purges:
                        slot.contents = EMPTY
            if not taken:
                operator.not_taken(key, timestamp, element)
    except Exception as error:  # noqa: BLE001
        operator.failed(operator.logic.adding, key, slot, error)


def _sessions(operator: RowOperator, assigner: EventTimeSessionWindows, purges: bool, rows: Rows) -> None:
    """Sessions of event time with the default trigger: an element that falls into one session, or extends one, merges nothing."""
    touched, touch, watermark = operator.store.touched, operator.store.touch, operator.watermark
    first, fold, stamps = operator.logic.first, operator.logic.fold, operator.plan.evictor is not None
    gap: Any = assigner.gap
    fixed, key = isinstance(gap, int), None
    hit: Any = None
    try:
        for key, timestamp, element in rows:
            hit = None
            end = timestamp + gap if fixed else assigner.assign_windows(element, timestamp, 0)[0].end
            owner = touched.get(key) or touch(key)
            latest: Any = owner.latest
            if latest is not None and latest.alive and timestamp >= latest.start:
                # Nothing lies behind the latest session, and what lies before it ends before its start.
                hit = latest if timestamp <= latest.end else None
            else:
                hit, several = _touched(owner, timestamp, end)
                if several:
                    operator.element(key, timestamp, element)
                    continue
                if latest is None or not latest.alive:
                    latest = owner.latest = max(owner.slots.values(), key=_start, default=None)
            stored = TimestampedValue(element, timestamp) if stamps else element
            if hit is None:
                hit = operator.open_slot(owner, (timestamp, end))
                if hit is None:
                    operator.not_taken(key, timestamp, element)
                    continue
                _arm(operator, hit)
                if latest is None or timestamp > latest.start:
                    owner.latest = hit
            elif timestamp < hit.start or end > hit.end:
                _extend(operator, hit, min(timestamp, hit.start), max(end, hit.end))
            hit.contents = first(stored) if hit.contents is EMPTY else fold(hit.contents, stored)
            if hit.max_timestamp <= watermark:
                operator.fire(hit)
                if purges:
                    hit.contents = EMPTY
    except Exception as error:  # noqa: BLE001
        operator.failed(ASSIGNER if hit is None else operator.logic.adding, key, hit, error)


def _touched(owner: KeyState, start: int, end: int) -> tuple[Slot | None, bool]:
    """The session that a span touches, and whether it touches several."""
    hit: Slot | None = None
    for slot in owner.slots.values():
        if slot.start <= end and slot.end >= start:  # type: ignore[operator]  # sessions have bounds
            if hit is not None:
                return hit, True
            hit = slot
    return hit, False


def _start(slot: Slot) -> Any:
    return slot.start


def _counting(operator: RowOperator, count: int, purges: bool, rows: Rows) -> None:
    """Everything in one window that fires at every ``count``-th element."""
    touched, touch = operator.store.touched, operator.store.touch
    first, fold, stamps = operator.logic.first, operator.logic.fold, operator.plan.evictor is not None
    key: Any = None
    slot: Slot | None = None
    try:
        for key, timestamp, element in rows:
            slot = None
            stored = TimestampedValue(element, timestamp) if stamps else element
            owner = touched.get(key) or touch(key)
            slot = owner.slots.get(None)
            if slot is None:
                slot = operator.open_slot(owner, None)
                assert slot is not None  # noqa: S101 - the global window is never closed
            contents = slot.contents
            slot.contents = first(stored) if contents is EMPTY else fold(contents, stored)
            cells = slot.trigger_cells
            seen = cells.get("count", 0) + 1
            if seen < count:
                cells["count"] = seen
                continue
            cells.pop("count", None)
            operator.fire(slot)
            if purges:
                slot.contents = EMPTY
    except Exception as error:  # noqa: BLE001
        operator.failed(operator.logic.adding, key, slot, error)


def _arm(operator: RowOperator, slot: Slot) -> None:
    """What the default trigger and the operator register at a window's first element, and need not at the next ones."""
    timers = slot.event_timers
    if timers.cleanup < MAX_TIMESTAMP:
        timers.times.add(timers.cleanup)
    if slot.max_timestamp > operator.watermark:
        timers.times.add(slot.max_timestamp)
    operator.store.event_queue.arm(timers)


def _extend(operator: RowOperator, slot: Slot, start: int, end: int) -> None:
    """Moves the bounds of a session that merges with nothing but an element: contents, queue entry and place stay."""
    slots = slot.owner.slots
    del slots[slot.bounds]
    same_end = slot.end == end
    slot.move(start, end)
    slots[start, end] = slot
    if same_end:
        return
    slot.event_timers.times.clear()
    slot.event_timers.cleanup = NEVER
    operator.set_cleanup(slot)
    _arm(operator, slot)
