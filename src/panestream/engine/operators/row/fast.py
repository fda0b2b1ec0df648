"""The row operator's inner loops for the commonest plans: the same protocol with the calls taken out.

A loop is used where assigner and trigger are exactly panestream's own, whose callbacks it may do by itself. The tests run every
such plan once more with the trigger wrapped in one of a user's, which takes the general way, and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from panestream.engine.operators.row.element_chunks import stamped
from panestream.engine.operators.row.window_states import EMPTY, Bounds, KeyState, WindowState
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger

if TYPE_CHECKING:
    from panestream.engine.operators.row.window_operator import RowOperator

Rows = Iterable[tuple[Any, int, Any]]
ASSIGNER = "the assigner"
SEVERAL = object()


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


def fast_timers(operator: RowOperator) -> Callable[[int], None] | None:
    """What runs the event-time timers of a plan with the default trigger; None where only the general protocol will do.

    Args:
        operator: whose timers they are.
    """
    trigger = operator.plan.firing_trigger
    purges = type(trigger) is PurgingTrigger
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if type(inner) is not EventTimeTrigger:
        return None
    return lambda watermark: _default_timers(operator, purges, watermark)


def _default_timers(operator: RowOperator, purges: bool, watermark: int) -> None:
    """Fires at the end of a window, and clears nothing but timers, which the operator does anyway."""
    for time, timers, called in operator.store.event_queue.due(watermark):
        slot = timers.owner
        slot.owner.page.dirty = True
        if called and time == slot.max_timestamp:
            operator.fire(slot)
            if purges:
                slot.contents = EMPTY
        if operator.is_event_time and time == operator.cleanup_time(slot.max_timestamp):
            operator.close(slot)


def _tumbling(operator: RowOperator, assigner: TumblingEventTimeWindows, purges: bool, rows: Rows) -> None:
    """Tumbling windows of event time with the default trigger."""
    touched, touch, watermark = operator.store.touched, operator.store.touch, operator.watermark
    first, fold, keeps = operator.logic.first, operator.logic.fold, operator.plan.keeps_elements
    stamps = operator.plan.evictor is not None
    size, offset = assigner.size, assigner.offset
    key: Any = None
    slot: WindowState | None = None
    try:
        for key, timestamp, element in rows:
            slot = None
            stored = stamped((element, timestamp)) if stamps else element
            owner = touched.get(key) or touch(key)
            start = timestamp - (timestamp - offset) % size
            bounds = (start, start + size)
            slot = owner.slots.get(bounds)
            if slot is None:
                slot = _open(operator, owner, *bounds)
                if slot is None:
                    operator.not_taken(key, timestamp, element)
                    continue
                slot.contents = first(stored)
            elif slot.contents is EMPTY:
                slot.contents = first(stored)
            elif keeps:
                slot.contents.tail.append(stored)
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
    first, fold, keeps = operator.logic.first, operator.logic.fold, operator.plan.keeps_elements
    stamps = operator.plan.evictor is not None
    size, slide, offset = assigner.size, assigner.slide, assigner.offset
    key: Any = None
    slot: WindowState | None = None
    try:
        for key, timestamp, element in rows:
            slot = None
            stored = stamped((element, timestamp)) if stamps else element
            owner = touched.get(key) or touch(key)
            slots, taken = owner.slots, False
            for start in range(timestamp - (timestamp - offset) % slide, timestamp - size, -slide):
                bounds = (start, start + size)
                slot = slots.get(bounds)
                if slot is None:
                    slot = _open(operator, owner, *bounds)
                    if slot is None:
                        continue
                    slot.contents = first(stored)
                elif slot.contents is EMPTY:
                    slot.contents = first(stored)
                elif keeps:
                    slot.contents.tail.append(stored)
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


def _sessions(  # noqa: C901, PLR0912 - an inner loop: each call that would tidy it costs a tenth of it
    operator: RowOperator, assigner: EventTimeSessionWindows, purges: bool, rows: Rows
) -> None:
    """Sessions of event time with the default trigger: an element that falls into one session, or extends one, merges nothing.

    A session that grows is filed under its new bounds, and its timers moved, when all rows are in: nothing asks before.
    """
    touched, touch, due = operator.store.touched, operator.store.touch, operator.watermark + 1
    first, fold, keeps = operator.logic.first, operator.logic.fold, operator.plan.keeps_elements
    stamps, gap = operator.plan.evictor is not None, assigner.gap
    fixed = gap if isinstance(gap, int) else None
    grown: dict[WindowState, Bounds] = {}
    key: Any = None
    hit: Any = None
    try:
        for key, timestamp, element in rows:
            hit = None
            end: int = timestamp + fixed if fixed is not None else assigner.assign_windows(element, timestamp, 0)[0].end
            owner = touched.get(key) or touch(key)
            latest: Any = owner.latest
            if latest is not None and latest.alive and timestamp >= latest.start:
                # Nothing lies behind the latest session, and what lies before it ends before its start.
                hit = latest if timestamp <= latest.end else None
            else:
                hit = _touched(owner, timestamp, end)
                if hit is SEVERAL:
                    hit = None
                    _file(operator, {slot: grown.pop(slot) for slot in owner.slots.values() if slot in grown})
                    operator.element(key, timestamp, element)
                    continue
            hit = hit or _new_session(operator, owner, timestamp, end)
            if hit is None:
                operator.not_taken(key, timestamp, element)
                continue
            if end > hit.end or timestamp < hit.start:
                if hit not in grown:
                    grown[hit] = hit.bounds
                if end > hit.end:  # noqa: PLR1730 - a call more
                    hit.end = end
                if timestamp < hit.start:  # noqa: PLR1730
                    hit.start = timestamp
            stored = stamped((element, timestamp)) if stamps else element
            if hit.contents is EMPTY:
                hit.contents = first(stored)
            elif keeps:
                hit.contents.tail.append(stored)
            else:
                hit.contents = fold(hit.contents, stored)
            if hit.end <= due:
                hit.move(hit.start, hit.end)
                operator.fire(hit)
                if purges:
                    hit.contents = EMPTY
        _file(operator, grown)
    except Exception as error:  # noqa: BLE001
        if hit is not None:
            hit.move(hit.start, hit.end)
        operator.failed(ASSIGNER if hit is None else operator.logic.adding, key, hit, error)


def _new_session(operator: RowOperator, owner: KeyState, start: int, end: int) -> WindowState | None:
    """A session of one element that touches no other; None where it is closed already."""
    made = _open(operator, owner, start, end)
    if made is not None and (owner.latest is None or start > owner.latest.start):  # type: ignore[operator]  # sessions have bounds
        owner.latest = made
    return made


def _file(operator: RowOperator, grown: dict[WindowState, Bounds]) -> None:
    """Files sessions that grew under their new bounds, and moves their timers. Contents and queue entries stay.

    The bounds they are filed under are part of what they are now, so that nobody else can have been filed there meanwhile.
    """
    for slot, filed in grown.items():
        if not slot.alive:
            continue
        slots, start, end = slot.owner.slots, slot.start, slot.end
        assert start is not None and end is not None  # noqa: PT018, S101 - sessions have bounds
        del slots[filed]
        slots[start, end] = slot
        slot.move(start, end)
        if filed is not None and filed[1] != end:
            slot.event_timers.times.clear()
            _arm(operator, slot, operator.cleanup_time(slot.max_timestamp))


def _touched(owner: KeyState, start: int, end: int) -> WindowState | object | None:
    """The session that a span touches, if any; SEVERAL where it touches more than one. Finds out which is the latest, too."""
    latest = owner.latest
    if latest is None or not latest.alive:
        owner.latest = max(owner.slots.values(), key=_start, default=None)
    hit: WindowState | None = None
    for slot in owner.slots.values():
        if slot.start <= end and slot.end >= start:  # type: ignore[operator]  # sessions have bounds
            if hit is not None:
                return SEVERAL
            hit = slot
    return hit


def _start(slot: WindowState) -> Any:
    return slot.start


def _counting(operator: RowOperator, count: int, purges: bool, rows: Rows) -> None:
    """Everything in one window that fires at every ``count``-th element."""
    touched, touch = operator.store.touched, operator.store.touch
    first, fold, keeps = operator.logic.first, operator.logic.fold, operator.plan.keeps_elements
    stamps = operator.plan.evictor is not None
    key: Any = None
    slot: WindowState | None = None
    try:
        for key, timestamp, element in rows:
            slot = None
            stored = stamped((element, timestamp)) if stamps else element
            owner = touched.get(key) or touch(key)
            slot = owner.slots.get(None)
            if slot is None:
                slot = operator.open_slot(owner, None)
                assert slot is not None  # noqa: S101 - the global window is never closed
            contents = slot.contents
            if contents is EMPTY:
                slot.contents = first(stored)
            elif keeps:
                contents.tail.append(stored)
            else:
                slot.contents = fold(contents, stored)
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


def _open(operator: RowOperator, owner: KeyState, start: int, end: int) -> WindowState | None:
    """A window of event time with the timers that its first element registers; None where it is closed already."""
    if end - 1 <= operator.closed:
        return None
    slot = owner.slots[start, end] = operator.store.new_slot(owner, start, end)
    _arm(operator, slot, operator.cleanup_time(end - 1))
    return slot


def _arm(operator: RowOperator, slot: WindowState, cleanup: int) -> None:
    """What the default trigger and the operator register at a window's first element, and need not at the next ones."""
    timers, last = slot.event_timers, slot.max_timestamp
    timers.cleanup = cleanup
    if cleanup < MAX_TIMESTAMP:
        timers.times.add(cleanup)
    if last > operator.watermark:
        timers.times.add(last)
        operator.store.event_queue.expect(timers, last)
    else:
        operator.store.event_queue.expect(timers, cleanup)
