"""Shared parts of the row operator's loops: the operator interface they need, opening a window, and merging windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, Protocol

from panestream.engine.operators.row.contents import EMPTY, Bounds, ContentsLogic, KeyState, RowPlan, WindowState
from panestream.engine.operators.row.pages import stamped
from panestream.engine.operators.row.state import RowStore
from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger
from panestream.windowing.windows import TimeWindow

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


SEVERAL = object()


def take_in_sessions(  # noqa: C901, PLR0912 - an inner loop: each call that would tidy it costs a tenth of it
    operator: LoopOperator, assigner: EventTimeSessionWindows, purges: bool, rows: Rows
) -> None:
    """Add rows, in order; ``purges`` means that a session is emptied when it fires."""
    used_keys, get_or_create, first, fold, keeps, stamps = Callees.of(operator)
    due, gap = operator.watermark + 1, assigner.gap
    fixed = gap if isinstance(gap, int) else None
    grown: dict[WindowState, Bounds] = {}
    key: Any = None
    session: Any = None
    try:
        for key, timestamp, element in rows:
            session = None
            end: int = timestamp + fixed if fixed is not None else assigner.assign_windows(element, timestamp, 0)[0].end
            owner = used_keys.get(key) or get_or_create(key)
            latest: Any = owner.latest
            if latest is not None and latest.alive and timestamp >= latest.start:
                session = latest if timestamp <= latest.end else None  # (a) or (b)
            else:
                session = _session_at(owner, timestamp, end)  # (c), (d) or (e)
                if session is SEVERAL:
                    session = None
                    _file(operator, _taken_out(grown, owner))
                    operator.element(key, timestamp, element)
                    continue
            session = session or _new_session(operator, owner, timestamp, end)
            if session is None:
                operator.not_taken(key, timestamp, element)
                continue
            if end > session.end or timestamp < session.start:
                if session not in grown:
                    grown[session] = session.bounds
                if end > session.end:  # noqa: PLR1730 - a call more
                    session.end = end
                if timestamp < session.start:  # noqa: PLR1730
                    session.start = timestamp
            stored = stamped((element, timestamp)) if stamps else element
            if session.contents is EMPTY:
                session.contents = first(stored)
            elif keeps:
                session.contents.tail.append(stored)
            else:
                session.contents = fold(session.contents, stored)
            if session.end <= due:
                session.move(session.start, session.end)
                operator.fire(session)
                if purges:
                    session.contents = EMPTY
        _file(operator, grown)
    except Exception as error:  # noqa: BLE001 - whatever users' code raises
        if session is not None:
            session.move(session.start, session.end)
        operator.failed(ASSIGNER if session is None else operator.logic.adding, key, session, error)


def _new_session(operator: LoopOperator, owner: KeyState, start: int, end: int) -> WindowState | None:
    """Open a session of one element that touches no other, or return None if it is already closed."""
    made = open_window(operator, owner, start, end)
    if made is not None and (owner.latest is None or start > owner.latest.start):  # type: ignore[operator]  # sessions have bounds
        owner.latest = made
    return made


def _taken_out(grown: dict[WindowState, Bounds], owner: KeyState) -> dict[WindowState, Bounds]:
    """Remove the sessions of one key from ``grown`` and return them."""
    return {session: grown.pop(session) for session in owner.window_states.values() if session in grown}


def _file(operator: LoopOperator, grown: dict[WindowState, Bounds]) -> None:
    """File grown sessions under their new bounds and move their timers. Contents and queue entries stay."""
    for session, filed in grown.items():
        if not session.alive:
            continue
        filed_by_bounds, start, end = session.owner.window_states, session.start, session.end
        assert start is not None and end is not None  # noqa: PT018, S101 - sessions have bounds
        del filed_by_bounds[filed]
        filed_by_bounds[start, end] = session
        session.move(start, end)
        if filed is not None and filed[1] != end:
            session.event_timers.times.clear()
            arm(operator, session, operator.cleanup_time(session.max_timestamp))


def _session_at(owner: KeyState, start: int, end: int) -> WindowState | object | None:
    """Return the session that a span touches, None, or SEVERAL if it touches more than one. Also restore ``latest``."""
    latest = owner.latest
    if latest is None or not latest.alive:
        owner.latest = max(owner.window_states.values(), key=_start, default=None)
    touched: WindowState | None = None
    for session in owner.window_states.values():
        if session.start <= end and session.end >= start:  # type: ignore[operator]  # sessions have bounds
            if touched is not None:
                return SEVERAL
            touched = session
    return touched


def _start(session: WindowState) -> Any:
    return session.start


Merge = Callable[[TimeWindow, list[WindowState]], WindowState]
"""Called with the result and the windows merged into it, ordered by start; returns the window that replaces them."""


class MergingWindowSet:
    """The live windows of one key, which are disjoint. Flink: ``MergingWindowSet``.

    Flink gives every window a *state window*, which keeps the contents of the first merged window while the bounds change. Here
    the contents are an object that is passed from window to window, so that nothing is copied or read.

    An element whose own window equals a live window belongs to it. (In Flink, a session with a dynamic gap loses its contents in
    this case if it came out of a merge.)
    """

    __slots__ = ("_assigner", "_window_states")

    def __init__(self, assigner: MergingWindowAssigner, window_states: dict[Bounds, WindowState]) -> None:
        self._assigner = assigner
        self._window_states = window_states

    def add_window(self, window: TimeWindow, merge: Merge) -> WindowState | TimeWindow:
        """Let the assigner merge the live windows and an element's own, and return the live window that now covers ``window``.

        An unmerged window is returned as it is and not added. ``merge`` is called for every result that is not just one unchanged
        live window.
        """
        bounds = (window.start, window.end)
        if not self._window_states:
            return window
        live = {TimeWindow(*bounds): window_state for bounds, window_state in self._window_states.items() if bounds is not None}
        target: WindowState | TimeWindow = window
        for result, members in self._merges(sorted({*live, window})):
            old = [live[member] for member in sorted(members) if member in live]
            if not old:
                if result != window:
                    raise InvalidWindowError(f"{self._assigner!r} made {result} of {window} alone: assign it in the first place")
                continue
            unchanged = len(old) == 1 and old[0].bounds == (result.start, result.end)
            merged = old[0] if unchanged else self._replace(result, old, merge)
            if window in members:
                target = merged
        if isinstance(target, TimeWindow) and bounds in self._window_states:
            target = self._window_states[bounds]  # it existed before, or others were merged into it
        return target

    def _replace(self, result: TimeWindow, old: list[WindowState], merge: Merge) -> WindowState:
        for window_state in old:
            del self._window_states[window_state.bounds]
        if (result.start, result.end) in self._window_states:
            raise InvalidWindowError(f"{self._assigner!r} merged windows into {result}, which is another live window")
        merged = merge(result, old)
        self._window_states[merged.bounds] = merged
        return merged

    def _merges(self, windows: list[TimeWindow]) -> Iterable[tuple[TimeWindow, set[TimeWindow]]]:
        seen: set[TimeWindow] = set()
        known = set(windows)
        for result, listed in self._assigner.merge_windows(windows):
            members = set(listed)
            if not members <= known:
                raise InvalidWindowError(f"{self._assigner!r} merged {sorted(members - known)}, which it was not given")
            if seen & members:
                raise InvalidWindowError(f"{self._assigner!r} merged {sorted(seen & members)} twice")
            seen |= members
            yield result, members
