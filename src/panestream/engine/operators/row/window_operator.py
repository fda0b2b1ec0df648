"""The row operator: the complete window protocol, one element at a time. It is the specification of all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, NoReturn

from panestream.engine.operators.row.changes import Changes
from panestream.engine.operators.row.contents import (
    EMPTY,
    NEVER,
    PROGRESS,
    ElementList,
    KeepRows,
    KeyState,
    RowPlan,
    WindowState,
    contents_logic,
)
from panestream.engine.operators.row.loops import ASSIGNER, MergingWindowSet, fast_rows, fast_timers, unwrapped
from panestream.engine.operators.row.pages import stamped
from panestream.engine.operators.row.state import RowStore, TriggerScope, WindowScope
from panestream.engine.plan import EARLY, LATE, ON_TIME
from panestream.engine.runtime.group_operator import collector_paused
from panestream.engine.runtime.watermarks import ClosedWindows
from panestream.engine.storage.state import State
from panestream.errors import InvalidPlanError, InvalidWindowError, PanestreamError
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner, WindowStagger
from panestream.windowing.evictors import Elements as EvictorElements
from panestream.windowing.functions import ProcessWindowFunction, WindowFunctionError, results_of
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.triggers import EventTimeTrigger, TriggerResult
from panestream.windowing.windows import GlobalWindow, TimeWindow, Window

FiredResult = tuple[Any, Window, Any, int]
"""Key, window, value, timestamp."""
Firing = tuple[str, int, bool]
"""The kind of firing (early, on time or late), its number for this key and window, from 0, and whether it is the last."""
Row = tuple[Any, int, Any]
"""Key, event time, element."""


@dataclass(slots=True)
class Output:
    """Output of one call to the operator.

    Attributes:
        fired: ``(key, window, value, timestamp)`` in the order of firing. The timestamp is the window's last instant.
        firings: the firing of each entry in ``fired``, or empty if the plan does not number firings.
        late: ``(key, timestamp, element)`` of elements that no window took, if the plan has a late output.
        side_outputs: results that the window function sent to side outputs, by tag, in the form of ``fired``.
        late_dropped: the number of late elements that were only counted.
    """

    fired: list[FiredResult] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    side_outputs: dict[str, list[FiredResult]] = field(default_factory=dict)
    late_dropped: int = 0


class RowOperator:
    """Runs a plan on one key group. Flink: ``WindowOperator`` and ``EvictingWindowOperator``.

    The watermark before the batch decides which elements are late. Then the watermark advances and windows fire. State is read on
    demand and written only by :meth:`commit`.

    Attributes:
        watermark, processing_time: the current times, at first ``MIN_TIMESTAMP`` and 0.
        closed: event-time windows whose last instant is at or before this are closed, whatever the lateness was at that time.
        is_event_time: whether event time ends windows and makes elements late.
        late_dropped: the number of late elements that were only counted, over the whole life of the state.
        outside: the number of elements that were in no window and not late, since the operator was made.
        firing_counts: the numbers of early, on-time and late firings since the operator was made.
        timer: the time of the running timer if it is of the kind that ends windows. None while an element is processed.

    >>> from panestream.engine.storage.state import MemoryState
    >>> from panestream.engine.plan import WindowQuery
    >>> from panestream.windowing.assigners import TumblingEventTimeWindows
    >>> from panestream.engine.operators.row.contents import ReduceRows
    >>> operator = RowOperator(RowPlan(WindowQuery(TumblingEventTimeWindows(10)), ReduceRows(lambda a, b: a + b)), MemoryState())
    >>> operator.process([("k", 1, 5), ("k", 9, 6), ("k", 10, 7)], new_watermark=9).fired
    [('k', TimeWindow(start=0, end=10), 11, 9)]
    """

    def __init__(self, plan: RowPlan, state: State, key_group: int = 0) -> None:
        """Read only the meta record. ``key_group`` is the group's number, used only by ``WindowStagger.RANDOM``."""
        self.plan = plan
        self._key_group = key_group
        self.store = RowStore(plan, state, self._resume)
        meta = self.store.meta
        self.watermark: int = meta.setdefault("watermark", MIN_TIMESTAMP)
        self.processing_time: int = meta.setdefault("clock", 0)
        self.late_dropped: int = meta.setdefault("late_dropped", 0)
        self._dropped_before = self.late_dropped
        self._closing = ClosedWindows(plan.window.allowed_lateness, meta.setdefault("closed", MIN_TIMESTAMP))
        self.closed: int = self._closing.at(self.watermark)
        self._closed_before = self.closed
        self._fired: list[FiredResult] = []
        self._firings: list[Firing] = []
        self._changes = Changes() if plan.keeps_emitted else None
        self._late: list[Row] = []
        self.outside = 0
        self.firing_counts: dict[str, int] = {}
        self.timer: int | None = None

        self.is_event_time = plan.window.assigner.is_event_time
        self._trigger = plan.window.firing_trigger
        self.logic = contents_logic(plan)
        self._scope = TriggerScope(self, self.store)
        function = plan.function
        self._function = function.function if isinstance(function, KeepRows) else function.then
        self._function_clears = (
            isinstance(self._function, ProcessWindowFunction) and type(self._function).clear is not ProcessWindowFunction.clear
        )
        self._window_scope = WindowScope(
            self, plan.window.merges, stateless=isinstance(function, KeepRows) and function.stateless
        )
        self._emit = (
            self._emit_evicted if plan.window.evictor else self._emit_elements if plan.keeps_elements else self._emit_result
        )
        self._assigner: WindowAssigner | None = None
        self._fast: Callable[[Iterable[Row]], None] | None = None
        self._fast_timers = None if plan.numbers_firings else fast_timers(self)
        self._find_window_state: Callable[[KeyState, Window], WindowState | None] = self._find_plain
        if isinstance(plan.window.assigner, MergingWindowAssigner):
            self._find_window_state = self._find_merging
        if getattr(plan.window.assigner, "stagger", WindowStagger.ALIGNED) is WindowStagger.ALIGNED:
            self._use(plan.window.assigner)
        elif "stagger" in meta:
            self._use(plan.window.assigner.staggered(meta["stagger"]))  # type: ignore[attr-defined]

    # ---------------------------------------------------------------- input

    def process(self, rows: Iterable[Row], new_watermark: int | None = None, processing_time: int | None = None) -> Output:
        """Process one micro-batch: move the clock, add rows, move the watermark. Each step fires what is due.

        Keys must be hashable, and equal if they mean the same. None, smaller watermarks and past times leave the times unchanged.
        Raises WindowFunctionError if a user function raises; the operator is unusable afterwards.
        """
        with collector_paused():
            if processing_time is not None:
                self.advance_processing_time(processing_time)
            self.elements(rows)
            if new_watermark is not None:
                self.advance_watermark(new_watermark)
        return self.drain()

    def elements(self, rows: Iterable[Row]) -> None:
        if self._assigner is None:
            rows = iter(rows)
            for key, timestamp, element in rows:
                self.element(key, timestamp, element)
                break
        if self._fast is not None:
            self._fast(rows)
            return
        take = self.element
        for key, timestamp, element in rows:
            take(key, timestamp, element)

    def element(self, key: Any, timestamp: int, element: Any) -> None:
        """Add one row. This defines the behaviour that the faster loops of :meth:`elements` must match."""
        assigner = self._assigner or self._stagger()
        owner = self.store.used_keys.get(key) or self.store.get_or_create(key)
        stored = element if self.plan.window.evictor is None else stamped((element, timestamp))
        scope, taken = self._scope, False
        try:
            windows = iter(assigner.assign_windows(element, timestamp, self.processing_time))
        except Exception as error:  # noqa: BLE001 - whatever users' code raises
            self.failed(ASSIGNER, owner.key, None, error)
        for window in windows:
            window_state = self._find_window_state(owner, window)
            if window_state is None:
                continue
            taken = True
            try:
                window_state.contents = (
                    self.logic.first(stored) if window_state.contents is EMPTY else self.logic.fold(window_state.contents, stored)
                )
            except Exception as error:  # noqa: BLE001
                self.failed(self.logic.adding, owner.key, window_state, error)
            scope.current = window_state
            try:
                result = self._trigger.on_element(element, timestamp, window_state.window, scope)
            except Exception as error:  # noqa: BLE001
                self.failed("on_element of the trigger", owner.key, window_state, error)
            if result is not TriggerResult.CONTINUE:
                self._obey(window_state, result)
            self._register_cleanup(window_state)
        if not taken:
            self.not_taken(key, timestamp, element)
        if self.store.processing_queue.first() < self.processing_time:
            self._run_processing_timers()

    def advance_watermark(self, watermark: int) -> None:
        """Advance event time to ``watermark``; fire and clean up due windows, in the order of time."""
        if watermark <= self.watermark:
            return
        self.watermark, self.closed = watermark, self._closing.at(watermark)
        self.store.load_due(event=watermark)
        if self._fast_timers is not None:
            self._fast_timers(watermark)
        else:
            for time, timers, called in self.store.event_queue.due(watermark):
                self._on_timer(timers.owner, time, called, event_time=True)
        self._closed_before = self.closed
        if self.store.processing_queue.first() < self.processing_time:
            self._run_processing_timers()

    def advance_processing_time(self, time: int) -> None:
        """Advance the clock to ``time``; fire and clean up due windows, in the order of time.

        A timer is due when the clock is *past* it. So a window ``[0, 10)`` fires when the clock reaches 10.
        """
        if time > self.processing_time:
            self.processing_time = time
            self._run_processing_timers()

    def late_so_far(self) -> list[Row]:
        """Return the late elements since the last :meth:`drain`."""
        return self._late

    def drain(self) -> Output:
        """Return the output since the last call."""
        sent, dropped = self._window_scope.take_outputs(), self.late_dropped - self._dropped_before
        output = Output(self._fired, self._firings, self._late, sent, dropped)
        self._fired, self._firings, self._late, self._dropped_before = [], [], [], self.late_dropped
        return output

    def take_changes(self) -> Changes | None:
        """Return the changes since the last call, or None if the plan keeps no emitted results."""
        changes = self._changes
        if changes is not None:
            self._changes = Changes()
        return changes

    def begin_at(self, watermark: int, processing_time: int, closed: int) -> None:
        """Set the times of a new key group before it gets existing windows.

        Event-time windows whose last instant is at or before ``closed`` are closed.
        """
        self.watermark, self.processing_time, self._closing.until = watermark, processing_time, closed
        self.closed = self._closed_before = self._closing.at(watermark)

    def commit(self) -> None:
        closed = self._closing.reach(self.watermark)
        self.store.meta.update(
            watermark=self.watermark, clock=self.processing_time, late_dropped=self.late_dropped, closed=closed
        )
        with collector_paused():
            self.store.commit(keep_bare=self.plan.window.merges)

    def next_processing_time_timer(self) -> int | None:
        """Return a lower bound of the next processing-time timer, or None. A timer is due when the clock is past it.

        Raises InvalidPlanError if the trigger did not declare that it registers such timers.
        """
        first = self.store.first_processing_timer()
        if first == NEVER:
            return None
        if not self.plan.window.uses_processing_time:
            raise InvalidPlanError(
                f"{self._trigger!r} registered a processing-time timer: give it the property uses_processing_time that "
                "returns True, so that Spark wakes the query up without new data"
            )
        return first

    # ---------------------------------------------------------------- windows

    def _find_plain(self, owner: KeyState, window: Window) -> WindowState | None:
        """Return the window of a key, opening it if necessary, or None if it is closed."""
        bounds = (window.start, window.end) if isinstance(window, TimeWindow) else None
        if bounds is None and not isinstance(window, GlobalWindow):
            raise InvalidWindowError(
                f"{self._assigner!r} assigned {window!r}: assign_windows() returns windows, e.g. [TimeWindow(start, end)]"
            )
        return owner.window_states.get(bounds) or self.open_window_state(owner, bounds)

    def _find_merging(self, owner: KeyState, window: Window) -> WindowState | None:
        """Like :meth:`_find_plain`, for windows that merge."""
        if not isinstance(window, TimeWindow) or not isinstance(self._assigner, MergingWindowAssigner):
            raise InvalidWindowError(f"{self._assigner!r} must assign time windows: others cannot merge")
        owner.latest = None  # the session loop's shortcut may be wrong after a merge
        try:
            known = MergingWindowSet(self._assigner, owner.window_states).add_window(window, self._merge)
        except Exception as error:  # noqa: BLE001
            self.failed(f"merge_windows of {ASSIGNER}", owner.key, None, error)
        return known if isinstance(known, WindowState) else self.open_window_state(owner, (known.start, known.end))

    def open_window_state(self, owner: KeyState, bounds: tuple[int, int] | None) -> WindowState | None:
        """Open an empty window without timers, or return None if it is already closed."""
        start, end = bounds or (None, None)
        if bounds is not None and not (hasattr(start, "__index__") and hasattr(end, "__index__")):
            # State would truncate the fraction: after a restart it would be another window.
            raise InvalidWindowError(
                f"{self._assigner!r} assigned [{start}, {end}): windows begin and end at integers; divide with //"
            )
        if self.is_event_time and (MAX_TIMESTAMP if end is None else end - 1) <= self.closed:
            return None
        window_state = self.store.new_window_state(owner, start, end)
        self.set_cleanup(window_state)
        owner.window_states[bounds] = window_state
        return window_state

    def _merge(self, result: TimeWindow, old: list[WindowState]) -> WindowState:
        """Return the window that replaces merged ones, with their contents and the trigger's merged state."""
        if self.is_event_time and result.max_timestamp() <= self.closed:
            raise InvalidWindowError(f"{self._assigner!r} merged into {result}, which is closed at watermark {self.watermark}")
        if not self.is_event_time and result.max_timestamp() < self.processing_time:
            raise InvalidWindowError(f"{self._assigner!r} merged into {result}, which is over at {self.processing_time}")
        owner, scope = old[0].owner, self._scope
        merged = self.store.new_window_state(owner, result.start, result.end)
        self.set_cleanup(merged)
        filled = [window_state.contents for window_state in old if window_state.contents is not EMPTY]
        Changes.take_over(merged, old)
        try:
            scope.current, scope.merged = merged, old
            self._trigger.on_merge(result, scope)
            scope.merged = []
            for window_state in old:
                scope.current = window_state
                self._trigger.clear(window_state.window, scope)
                self._retire(window_state)
            for contents in filled:
                merged.contents = contents if merged.contents is EMPTY else self.logic.merge(merged.contents, contents)
        except Exception as error:  # noqa: BLE001
            self.failed("merging windows", owner.key, merged, error)
        return merged

    def cleanup_time(self, max_timestamp: int) -> int:
        return min(max_timestamp + self.plan.window.allowed_lateness, MAX_TIMESTAMP) if self.is_event_time else max_timestamp

    def set_cleanup(self, window_state: WindowState) -> None:
        time = self.cleanup_time(window_state.max_timestamp)
        if window_state.end is None:
            return
        if self.is_event_time:
            window_state.event_timers.cleanup = time
        else:
            window_state.get_or_create_processing_timers().cleanup = time

    def _resume(self, window_state: WindowState) -> bool:
        """Set the cleanup time of a window that was read; remove it if a lower lateness has closed it."""
        self.set_cleanup(window_state)
        if self.is_event_time and window_state.end is not None and window_state.max_timestamp <= self._closed_before:
            self._clear(window_state)
            return False
        return True

    def _register_cleanup(self, window_state: WindowState) -> None:
        """Register the cleanup timer. It also calls the trigger, which may delete it; the next element registers it again."""
        if self.is_event_time:
            timers, queue = window_state.event_timers, self.store.event_queue
        else:
            timers, queue = window_state.get_or_create_processing_timers(), self.store.processing_queue
        if timers.cleanup in timers.times:
            return
        if timers.cleanup < MAX_TIMESTAMP:
            queue.register(timers, timers.cleanup)
        else:
            queue.arm(timers)  # Flink has no timer at the end of time: removal does not call the trigger

    def _retire(self, window_state: WindowState) -> None:
        """Remove a window's contents and timers."""
        window_state.alive = False
        window_state.contents = EMPTY
        for timers in (window_state.event_timers, window_state.processing_timers):
            if timers is not None:
                timers.times.clear()
                timers.cleanup = NEVER
        window_state.free_timers()

    def not_taken(self, key: Any, timestamp: int, element: Any) -> None:
        """Count or emit an element that no window took: it is late, or between windows."""
        if not self.is_event_time or timestamp > self.closed:
            self.outside += 1
            return
        if self.plan.late_output is None:
            self.late_dropped += 1
        else:
            self._late.append((key, timestamp, element))

    # ---------------------------------------------------------------- timers

    def _run_processing_timers(self) -> None:
        self.store.load_due(processing=self.processing_time - 1)
        for time, timers, called in self.store.processing_queue.due(self.processing_time - 1):
            self._on_timer(timers.owner, time, called, event_time=False)

    def _on_timer(self, window_state: WindowState, time: int, called: bool, event_time: bool) -> None:
        window_state.owner.page.dirty = True
        self.timer = time if event_time == self.is_event_time else None
        if called:
            self._scope.current = window_state
            call = self._trigger.on_event_time if event_time else self._trigger.on_processing_time
            try:
                result = call(time, window_state.window, self._scope)
            except Exception as error:  # noqa: BLE001
                self.failed(f"{call.__name__} of the trigger", window_state.owner.key, window_state, error)
            if result is not TriggerResult.CONTINUE:
                self._obey(window_state, result)
        if event_time == self.is_event_time and time == self.cleanup_time(window_state.max_timestamp):
            self._clear(window_state)
        self.timer = None

    def _clear(self, window_state: WindowState) -> None:
        """Clear a window: first the trigger, then the function, then everything else."""
        self._scope.current = window_state
        try:
            self._trigger.clear(window_state.window, self._scope)
        except Exception as error:  # noqa: BLE001
            self.failed("clear of the trigger", window_state.owner.key, window_state, error)
        self.close(window_state)

    def close(self, window_state: WindowState) -> None:
        """Like :meth:`_clear`, without the trigger."""
        if self._function_clears:
            assert isinstance(self._function, ProcessWindowFunction)  # noqa: S101 - no others clear
            self._window_scope.current = window_state
            try:
                self._function.clear(self._window_scope)
            except Exception as error:  # noqa: BLE001
                self.failed("clear of the window function", window_state.owner.key, window_state, error)
        self._retire(window_state)
        del window_state.owner.window_states[window_state.bounds]

    # ---------------------------------------------------------------- firing

    def _obey(self, window_state: WindowState, result: TriggerResult) -> None:
        if not isinstance(result, TriggerResult):
            raise InvalidPlanError(f"{self._trigger!r} returned {result!r}: its callbacks return a TriggerResult")
        if result & 1:
            self.fire(window_state)
        if result & 2:
            window_state.contents = EMPTY

    def fire(self, window_state: WindowState) -> None:
        """Call the window function unless the window is empty."""
        if window_state.contents is EMPTY:
            return
        fired = len(self._fired)
        try:
            self._emit(window_state)
        except Exception as error:  # noqa: BLE001
            self.failed("the window function", window_state.owner.key, window_state, error)
        which = self._which_firing(window_state)
        self.firing_counts[which] = self.firing_counts.get(which, 0) + 1
        if self._changes is not None:
            self._changes.replace(window_state, which, self._fired[-1][2], is_last=self._is_last_firing(window_state))
        if self.plan.numbers_firings and len(self._fired) > fired:
            firing = which, window_state.firings, self._is_last_firing(window_state)
            self._firings += [firing] * (len(self._fired) - fired)
            window_state.firings += 1

    def _which_firing(self, window_state: WindowState) -> str:
        end = window_state.max_timestamp
        if window_state.end is None:
            return EARLY
        if self.timer is None:
            return LATE if (self.watermark if self.is_event_time else self.processing_time - 1) >= end else EARLY
        return EARLY if self.timer < end else ON_TIME if self.timer == end else LATE

    def _is_last_firing(self, window_state: WindowState) -> bool:
        """Return whether this is known to be the last firing. Predictions are made only for the default trigger."""
        if self.timer is None or window_state.end is None:
            return False
        cleanup = self.cleanup_time(window_state.max_timestamp)
        trigger, _ = unwrapped(self._trigger)
        return self.timer >= cleanup or (type(trigger) is EventTimeTrigger and cleanup <= self.watermark)

    def _emit_result(self, window_state: WindowState) -> None:
        assert self.logic.result is not None  # noqa: S101 - only element lists have none
        self._hand_over(window_state, [self.logic.result(window_state.contents)])

    def _emit_elements(self, window_state: WindowState) -> None:
        self._hand_over(window_state, self.store.elements_of(window_state))

    def _emit_evicted(self, window_state: WindowState) -> None:
        """Evict, call the function, and evict again. The remaining elements become the contents."""
        scope = self._scope
        scope.current = window_state
        before: EvictorElements = self.store.elements_of(window_state)
        kept = self._stay("evict_before", before, window_state)
        values = [value for value, _ in kept]
        of_elements = self.logic.of_elements
        self._hand_over(window_state, values if of_elements is None else [of_elements(values)])
        scope.current = window_state
        kept = self._stay("evict_after", kept, window_state)
        self._replace_elements(window_state, before, kept)

    def _stay(self, method: str, elements: EvictorElements, window_state: WindowState) -> EvictorElements:
        """Return the elements that a method of the evictor keeps."""
        evictor = self.plan.window.evictor
        try:
            kept = getattr(evictor, method)(elements, len(elements), window_state.window, self._scope)
        except Exception as error:  # noqa: BLE001
            self.failed(f"{method} of the evictor", window_state.owner.key, window_state, error)
        if isinstance(kept, Sequence) and (not kept or isinstance(kept[0], tuple)):
            return kept
        raise InvalidPlanError(
            f"{method} of {evictor!r} returned {kept!r}: it returns a list of the elements that stay (each a TimestampedValue)"
        )

    @staticmethod
    def _replace_elements(window_state: WindowState, before: EvictorElements, kept: EvictorElements) -> None:
        dropped = len(before) - len(kept)
        if not kept:
            window_state.contents = EMPTY
        elif dropped >= 0 and all(map(is_, before[dropped:], kept)):
            window_state.contents.drop_first(dropped)  # only the oldest were evicted: nothing is rewritten
        else:
            window_state.contents = ElementList(list(kept))

    def _hand_over(self, window_state: WindowState, inputs: Sequence[Any]) -> None:
        key, window, function = window_state.owner.key, window_state.window, self._function
        if function is None:
            self._fired.append((key, window, inputs[0], window_state.max_timestamp))
            return
        if isinstance(function, ProcessWindowFunction):
            self._window_scope.current = window_state
            results = function.process(key, self._window_scope, inputs)
        else:
            results = function.apply(key, window, inputs)
        timestamp = window_state.max_timestamp
        self._fired.extend((key, window, value, timestamp) for value in results_of(function, results))

    def failed(self, what: str, key: Any, window_state: WindowState | None, error: Exception) -> NoReturn:
        """Raise a user function's error with its place; raise errors of the state unchanged."""
        if isinstance(error, PanestreamError) or error is self.store.failure:
            raise error
        window, contents = (None, EMPTY) if window_state is None else (window_state.window, window_state.contents)
        if self.plan.keeps_elements:
            count = 0 if contents is EMPTY else len(contents)
            held = f"holds {count} element{'' if count == 1 else 's'}"
        else:
            count, held = None, "is empty" if contents is EMPTY else "holds one accumulator"
        raise WindowFunctionError.of(what, key, window, held, count, error) from error

    # ---------------------------------------------------------------- start

    def _stagger(self) -> WindowAssigner:
        """Shift the windows of this group: decided at its first element and stored in its state."""
        assigner: Any = self.plan.window.assigner
        shift = assigner.stagger.get_stagger_offset(self.processing_time, assigner.size, self._key_group)
        self.store.meta["stagger"] = shift
        return self._use(assigner.staggered(shift))

    def _use(self, assigner: WindowAssigner) -> WindowAssigner:
        self._assigner = assigner
        self._fast = None if self.plan.numbers_firings or self.plan.keeps_emitted else fast_rows(self, assigner)
        return assigner


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
    return sum(len(owner.global_values.keys() - {PROGRESS}) for owner in operator.store.all_keys())
