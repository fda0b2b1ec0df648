"""What a window of the row operator keeps: the recipe, the contents as objects with their logic, and the timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from heapq import heapify, heappop, heappush
from typing import Any

import pyarrow as pa

from panestream.engine.plan import WindowQuery
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from panestream.windowing.process_functions import KeyedBroadcastProcessFunction, KeyedProcessFunction
from panestream.windowing.signatures import REDUCE, check_function, check_methods
from panestream.windowing.state import StateValues
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.triggers import Trigger
from panestream.windowing.watermarks import KeyWatermarks
from panestream.windowing.windows import GlobalWindow, TimeWindow, Window

AnyWindowFunction = WindowFunction | ProcessWindowFunction


@dataclass(frozen=True, slots=True)
class ReduceRows:
    """One element per window, combined from two at a time; ``then`` gets it when the window fires."""

    function: ReduceFunction
    then: AnyWindowFunction | None = None


@dataclass(frozen=True, slots=True)
class AggregateRows:
    """One accumulator per window; ``then`` gets its result when the window fires."""

    function: AggregateFunction
    then: AnyWindowFunction | None = None


@dataclass(frozen=True, slots=True)
class KeepRows:
    """All elements, which ``function`` gets when the window fires.

    ``stateless``: the process function stores nothing between its calls, and access to state is refused.
    """

    function: AnyWindowFunction
    stateless: bool = False


@dataclass(frozen=True, slots=True)
class ProcessRows:
    """No windows: ``function`` gets each row of a key, and has state and timers of its own.

    ``rules`` are the columns of a second stream that every key group gets, or None without one.
    """

    function: KeyedProcessFunction | KeyedBroadcastProcessFunction
    rules: pa.Schema | None = None
    then: None = None


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The row operator's plan, which is checked when it is built.

    Attributes:
        window: the windows and their firing; None as trigger becomes the default trigger. Allowed lateness applies to event time
            only.
        function: the function to run when a window fires. An :class:`AggregateFunction`, :class:`WindowFunction` or
            :class:`ProcessWindowFunction` is wrapped automatically; write a reduce function as ``Reduce(function)``.
        late_output: the side output for late elements, or None to only count them.
        pages: the number of pages of a key group while the state is small, which grows with the state.
        element_type: the class of elements that are rows of a ``RowType`` or named tuples; not needed for other plain values.
        numbers_firings: whether each result records which firing of its window it comes from.
        keeps_emitted: whether windows keep their last result, for a changelog. The function has one result for a window.
        key_watermarks: how each key has its own watermark, or None if all keys have that of the stream.

    Raises:
        InvalidWindowError: the lateness or the number of pages is out of range.
        InvalidPlanError: parts do not fit together, or a function or method does not accept its arguments.

    >>> from panestream.windowing.assigners import TumblingEventTimeWindows
    >>> plan = RowPlan(WindowQuery(TumblingEventTimeWindows.of("1 minute")), ReduceRows(max))
    >>> plan.keeps_elements
    False
    """

    window: WindowQuery
    function: ReduceRows | AggregateRows | KeepRows | ProcessRows
    late_output: str | None = None
    pages: int = 2
    element_type: type[tuple[object, ...]] | None = None
    numbers_firings: bool = False
    keeps_emitted: bool = False
    key_watermarks: KeyWatermarks | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "function", _recipe_of(self.function))
        _check_kind("assigner", self.window.assigner, WindowAssigner, "e.g. TumblingEventTimeWindows.of('1 minute')")
        if self.window.assigner.columns_only:
            raise InvalidPlanError(
                f"{self.window.assigner!r} runs on columns only, with declared aggregates: the row operator (of "
                "WindowTestHarness, .trace() and functions over rows) assigns windows to each element alone, but here they "
                "depend on other elements. To test it without Spark use a ColumnTestHarness"
            )
        trigger = self.window.firing_trigger
        _check_kind("trigger", trigger, Trigger, "e.g. CountTrigger.of(100)")
        object.__setattr__(self, "window", replace(self.window, trigger=trigger))
        if self.window.evictor is not None:
            _check_kind("evictor", self.window.evictor, Evictor, "e.g. CountEvictor.of(100)")
        if self.window.allowed_lateness < 0:
            raise InvalidWindowError(f"the allowed lateness must not be negative, got {self.window.allowed_lateness}")
        if self.pages <= 0:
            raise InvalidWindowError(f"keys are divided into at least one page, got {self.pages}")
        if self.late_output == "":
            raise InvalidPlanError("the late output needs a name; None if late elements are only to be counted")
        if self.key_watermarks is not None and not self.window.assigner.is_event_time:
            raise InvalidPlanError(f"{self.window.assigner!r} does not end by event time. Leave out per_key")
        self._check_signatures()
        if self.window.merges:
            self._check_that_all_can_merge()

    @property
    def keeps_elements(self) -> bool:
        """True if state holds all elements, as evictors require, rather than one accumulator per window."""
        return self.window.evictor is not None or isinstance(self.function, KeepRows)

    def _check_signatures(self) -> None:
        check_methods(self.window.assigner, MergingWindowAssigner if self.window.merges else WindowAssigner)
        check_methods(self.window.firing_trigger, Trigger)
        if self.window.evictor is not None:
            check_methods(self.window.evictor, Evictor)
        function = self.function
        if isinstance(function, ReduceRows):
            check_function(function.function, REDUCE)
        elif isinstance(function, AggregateRows):
            check_methods(function.function, AggregateFunction)
        elif isinstance(function, ProcessRows):
            check_methods(function.function, KeyedProcessFunction)
        then = function.function if isinstance(function, KeepRows) else function.then
        if then is not None:
            check_methods(then, WindowFunction if isinstance(then, WindowFunction) else ProcessWindowFunction)

    def _check_that_all_can_merge(self) -> None:
        window, function = self.window, self.function
        if not window.firing_trigger.can_merge():
            raise InvalidPlanError(
                f"{window.firing_trigger!r} cannot be used with {window.assigner!r}, whose windows merge: take another trigger, "
                "or give yours can_merge() and on_merge()"
            )
        if not isinstance(function, AggregateRows) or self.keeps_elements:
            return
        if type(function.function).merge is AggregateFunction.merge:
            raise InvalidPlanError(
                f"{type(function.function).__name__} needs merge(a, b): the windows of {window.assigner!r} merge"
            )


def _check_kind(what: str, part: object, kind: type, example: str) -> None:
    if not isinstance(part, kind):
        hint = "an object, not the class itself" if isinstance(part, type) else example
        raise InvalidPlanError(f"the {what} must be of the kind {kind.__name__} ({hint}), got {part!r}")


def _recipe_of(function: object) -> ReduceRows | AggregateRows | KeepRows | ProcessRows:
    if isinstance(function, (ReduceRows, AggregateRows, KeepRows, ProcessRows)):
        return function
    if isinstance(function, AggregateFunction):
        return AggregateRows(function)
    if isinstance(function, (WindowFunction, ProcessWindowFunction)):
        return KeepRows(function)
    raise InvalidPlanError(
        f"{function!r} is not a window function. Give an AggregateFunction, WindowFunction or ProcessWindowFunction object, "
        "or Reduce(function)"
    )


NEVER = 2**63
"""Later than every time, the final watermark included."""


class WindowTimers:
    """The timers of one kind (event or processing time) of one key and window.

    Attributes:
        times: when to call the trigger.
        cleanup: when to remove the window, even if a trigger deleted the timer. NEVER if other time ends the window.
        armed: the time of the only queue entry of these timers, never later than the next timer. NEVER without an entry.
    """

    __slots__ = ("armed", "cleanup", "order", "owner", "times")

    def __init__(self, owner: Any, order: int, cleanup: int = NEVER, times: Iterable[int] = ()) -> None:
        self.owner = owner
        self.order = order
        self.cleanup = cleanup
        self.times = set(times)
        self.armed = NEVER

    def following(self) -> int:
        """Return the next due time, or NEVER."""
        if not self.times:
            return self.cleanup
        first = min(self.times)
        return first if first < self.cleanup else self.cleanup  # noqa: FURB136 - called per firing; min() is a call more


class TimerQueue:
    """All timers of one kind in memory, ordered by time and then by creation of their windows.

    The queue holds one entry per window, at or before its next timer. Moving a timer to a later time (a session that grows)
    touches no entry; the entry moves when it comes up.

    >>> queue, timers = TimerQueue(), WindowTimers("window", order=1)
    >>> queue.register(timers, 20)
    >>> queue.register(timers, 10)
    >>> queue.register(timers, 10)
    >>> timers.times.discard(20)
    >>> [(time, found.owner, called) for time, found, called in queue.due(25)]
    [(10, 'window', True)]
    """

    __slots__ = ("_entries", "_sorted")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, WindowTimers]] = []
        self._sorted = True

    def register(self, timers: WindowTimers, time: int) -> None:
        """Add a timer unless it exists."""
        timers.times.add(time)
        if time < timers.armed:
            self._push(timers, time)

    def arm(self, timers: WindowTimers) -> None:
        """Update the queue after the timers were changed directly."""
        self.expect(timers, timers.following())

    def expect(self, timers: WindowTimers, time: int) -> None:
        """Like :meth:`arm`, with ``timers.following()`` already known."""
        if time < timers.armed:
            self._push(timers, time)

    def load(self, timers: WindowTimers) -> None:
        """Like :meth:`arm`, for bulk loading: the order is restored at the next access."""
        following = timers.following()
        if following < NEVER:
            timers.armed = following
            self._entries.append((following, timers.order, timers))
            self._sorted = False

    def first(self) -> int:
        """Return a lower bound of the next timer, or NEVER."""
        entries = self._ordered()
        while entries and entries[0][2].armed != entries[0][0]:
            heappop(entries)
        return entries[0][0] if entries else NEVER

    def due(self, until: int) -> Iterator[tuple[int, WindowTimers, bool]]:
        """Remove and yield the timers up to and including ``until``, in order, also those registered meanwhile.

        Items are the time, its timers, and whether to call the trigger: not at a cleanup time whose timer it deleted.
        """
        entries = self._ordered()
        while entries and entries[0][0] <= until:
            time, _, timers = heappop(entries)
            if timers.armed != time:
                continue  # an earlier entry replaced it
            timers.armed = NEVER
            called, goes = time in timers.times, time == timers.cleanup
            if called or goes:
                timers.times.discard(time)
                if goes:
                    timers.cleanup = NEVER
                yield time, timers, called
            self.expect(timers, timers.following())
            entries = self._ordered()

    def _push(self, timers: WindowTimers, time: int) -> None:
        timers.armed = time
        heappush(self._entries, (time, timers.order, timers))

    def _ordered(self) -> list[tuple[int, int, WindowTimers]]:
        if not self._sorted:
            heapify(self._entries)
            self._sorted = True
        return self._entries


EMPTY: Any = type("Empty", (), {"__repr__": lambda _: "EMPTY"})()
"""The contents of an empty window; None can be a value."""

_GLOBAL = GlobalWindow()

Bounds = tuple[int, int] | None
"""The identity of a window within its key: start and end, or None for the global window."""

ChunkSlice = tuple[int, int, int]
"""Elements of a stored chunk: the number of the chunk, the first element's place, and their count."""


class ElementList:
    """The elements of one window: ``parts`` that are stored, and the newest elements in ``tail``.

    A part is a :data:`ChunkSlice` or, after a merge, a list of elements.
    """

    __slots__ = ("parts", "tail")

    def __init__(self, tail: list[Any]) -> None:
        self.parts: list[ChunkSlice | list[Any]] = []
        self.tail = tail

    def __len__(self) -> int:
        return len(self.tail) + sum(len(part) if isinstance(part, list) else part[2] for part in self.parts)

    def join(self, other: ElementList) -> None:
        """Append the elements of another list, which must not be used afterwards. Nothing is read or copied."""
        if self.tail:
            self.parts.append(self.tail)
        self.parts.extend(other.parts)
        self.tail = other.tail

    def drop_first(self, count: int) -> None:
        """Drop the ``count`` oldest elements without reading them."""
        while count and self.parts:
            part = self.parts[0]
            if isinstance(part, list):
                self.parts[0], gone = part[count:], min(count, len(part))
                left = len(part) - gone
            else:
                chunk, start, size = part
                gone = min(count, size)
                left = size - gone
                self.parts[0] = (chunk, start + gone, left)
            count -= gone
            if not left:
                del self.parts[0]
        if count:
            self.tail = self.tail[count:]


class WindowState:
    """State of one window of one key.

    Attributes:
        start, end: the window's bounds, which change while a session grows. None for the global window.
        max_timestamp: its last instant.
        contents: an accumulator, an :class:`ElementList`, or EMPTY.
        trigger_values, window_values: the states of the trigger and of the window function, by name.
        firings: the number of firings with results, if the plan numbers firings.
        event_timers, processing_timers: its timers, of which the second is None until such a timer is registered.
        alive: False once the window is removed. Queue entries for it are then ignored.
    """

    __slots__ = (
        "_window",
        "alive",
        "contents",
        "end",
        "event_timers",
        "firings",
        "max_timestamp",
        "order",
        "owner",
        "processing_timers",
        "start",
        "trigger_values",
        "window_values",
    )

    def __init__(self, owner: KeyState, start: int | None, end: int | None, order: int) -> None:
        self.owner = owner
        self.start = start
        self.end = end
        self.max_timestamp = MAX_TIMESTAMP if end is None else end - 1
        self.order = order
        self.contents = EMPTY
        self.trigger_values: StateValues = {}
        self.window_values: StateValues | None = None
        self.firings = 0
        self.event_timers = WindowTimers(self, order)
        self.processing_timers: WindowTimers | None = None
        self.alive = True
        self._window: Window | None = None

    @property
    def bounds(self) -> Bounds:
        return None if self.start is None or self.end is None else (self.start, self.end)

    @property
    def window(self) -> Window:
        """The window in its public form."""
        if self._window is None:
            self._window = _GLOBAL if self.start is None or self.end is None else TimeWindow(self.start, self.end)
        return self._window

    def move(self, start: int, end: int) -> None:
        """Change the bounds. The caller updates the timers."""
        self.start, self.end, self.max_timestamp, self._window = start, end, end - 1, None

    def get_or_create_processing_timers(self) -> WindowTimers:
        if self.processing_timers is None:
            self.processing_timers = WindowTimers(self, self.order)
        return self.processing_timers

    def free_timers(self) -> None:
        """Cut the timers' reference to the window, so that it is freed at once, without the cycle collector."""
        self.event_timers.owner = None
        if self.processing_timers is not None:
            self.processing_timers.owner = None

    def is_bare(self) -> bool:
        """Return whether removing the window would lose nothing."""
        timers = self.processing_timers
        return (
            self.contents is EMPTY
            and not self.trigger_values
            and not self.window_values
            and not self.firings
            and self.event_timers.following() == NEVER
            and (timers is None or timers.following() == NEVER)
        )


PROGRESS = "panestream watermark"
"""The name of a key's progress in event time, among the states that the function keeps per key, if keys have watermarks."""


class KeyState:
    """State of one key: its windows by bounds, in order of creation, and the function's per-key state.

    ``latest`` is the session with the largest start if the session loop determined it: most elements belong to it.
    """

    __slots__ = ("global_values", "key", "latest", "page", "window_states")

    def __init__(self, key: Any, page: KeyPage) -> None:
        self.key = key
        self.page = page
        self.window_states: dict[Bounds, WindowState] = {}
        self.latest: WindowState | None = None
        self.global_values: StateValues = {}


class KeyPage:
    """The keys that are read and written together.

    Attributes:
        modulus: the number of pages when it was made. It holds the keys whose hash modulo this is ``number``.
        chunks: the number of elements in each chunk of the page, by the chunk's number.
        dirty: whether anything changed since the page was read or written.
        at_rest: the number of windows when it was last read or written.
    """

    __slots__ = ("at_rest", "chunks", "dirty", "keys", "loaded", "modulus", "number")

    def __init__(self, number: int, modulus: int) -> None:
        self.number = number
        self.modulus = modulus
        self.keys: dict[Any, KeyState] = {}
        self.chunks: dict[int, int] = {}
        self.loaded: dict[int, list[Any]] = {}
        self.dirty = False
        self.at_rest = 0

    def window_count(self) -> int:
        return sum(len(key.window_states) for key in self.keys.values())

    def window_states(self) -> Iterator[WindowState]:
        for key in self.keys.values():
            yield from key.window_states.values()


@dataclass(frozen=True, slots=True)
class ContentsLogic:
    """Functions that start, extend and merge contents and compute the window function's input.

    Attributes:
        first, fold: make contents of one element, and add one to contents.
        merge: merges two contents, of which the first belongs to the window that starts earlier.
        result: computes the value of contents when the window fires. None if the elements themselves are the input.
        of_elements: computes the same value from the elements that an evictor left, possibly none.
        adding: the name of the code that adds an element, for errors.
    """

    first: Callable[[Any], Any]
    fold: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any] | None
    of_elements: Callable[[list[Any]], Any] | None
    adding: str = "the function"


def contents_logic(plan: RowPlan) -> ContentsLogic:
    """Return the logic of a plan's function."""
    function = plan.function
    result: Callable[[Any], Any] | None = None
    of_elements: Callable[[list[Any]], Any] | None = None
    if isinstance(function, ProcessRows):
        return ContentsLogic(_same, _latest, _latest, None, None)
    if isinstance(function, ReduceRows):
        result, of_elements = _same, _reducing(function.function)
    elif isinstance(function, AggregateRows):
        result, of_elements = function.function.get_result, _aggregating(function.function)
    if plan.keeps_elements:
        return ContentsLogic(_list_of_one, _appended, _joined, result, of_elements)
    if isinstance(function, ReduceRows):
        return ContentsLogic(_same, function.function, function.function, result, of_elements, "the reduce function")
    assert isinstance(function, AggregateRows)  # noqa: S101 - what keeps no elements aggregates
    aggregate = function.function
    add, create = aggregate.add, aggregate.create_accumulator
    return ContentsLogic(
        first=lambda element: add(element, create()),
        fold=lambda accumulator, element: add(element, accumulator),
        merge=aggregate.merge,
        result=result,
        of_elements=of_elements,
        adding=f"{type(aggregate).__name__}.add",
    )


def _same(contents: Any) -> Any:
    return contents


def _latest(_: Any, other: Any) -> Any:
    return other


def _list_of_one(element: Any) -> ElementList:
    return ElementList([element])


def _appended(contents: ElementList, element: Any) -> ElementList:
    contents.tail.append(element)
    return contents


def _joined(contents: ElementList, other: ElementList) -> ElementList:
    contents.join(other)
    return contents


def _reducing(function: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    # If an evictor left no elements, the window function gets one null, as in Flink.
    return lambda elements: reduce(function, elements) if elements else None


def _aggregating(function: AggregateFunction) -> Callable[[list[Any]], Any]:
    def of_elements(elements: list[Any]) -> Any:
        accumulator = function.create_accumulator()
        for element in elements:
            accumulator = function.add(element, accumulator)
        return function.get_result(accumulator)

    return of_elements
