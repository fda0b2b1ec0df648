"""In-memory state of windows, of keys, and of the keys of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from panestream.engine.operators.row.row_plan import AggregateRows, ProcessRows, ReduceRows, RowPlan
from panestream.engine.operators.row.timers import NEVER, WindowTimers
from panestream.windowing.functions import AggregateFunction
from panestream.windowing.state import StateValues
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import GlobalWindow, TimeWindow, Window

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
