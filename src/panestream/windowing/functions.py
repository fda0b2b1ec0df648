"""Functions over windows: what users write to be run when a window fires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from panestream.windowing.failures import WindowFunctionError
from panestream.windowing.signatures import APPLY, PROCESS, THEN, Shape, check_function, check_methods
from panestream.windowing.state import KeyedStateStore
from panestream.windowing.windows import Window

ReduceFunction = Callable[[Any, Any], Any]
"""Combines two elements into one of the same kind, without changing either. Must be associative. Flink: ``ReduceFunction``."""


class AggregateFunction(ABC):
    """Aggregates elements one by one into an accumulator. Flink: ``AggregateFunction``, with PyFlink's signatures.

    A new accumulator should be returned where the old one may have been handed out: a result must not be changed later.

    >>> class Average(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    ...
    ...     def merge(self, a, b):
    ...         return a[0] + b[0], a[1] + b[1]
    >>> average = Average()
    >>> average.get_result(average.add(4, average.add(2, average.create_accumulator())))
    3.0
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """An empty accumulator: one per key and window (with an evictor: one per firing)."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with one more element; may change and return the one it was given."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result; the accumulator goes on being used. None is a result like any other (Flink emits nothing then)."""

    def merge(self, a: Any, b: Any) -> Any:
        """Two accumulators in one; called for session windows only."""
        raise NotImplementedError(f"{type(self).__name__} is used on session windows: it needs merge(a, b)")


class WindowFunction(ABC):
    """Sees all elements of a firing window at once. Flink: ``WindowFunction``."""

    @abstractmethod
    def apply(self, key: Any, window: Window, inputs: Sequence[Any]) -> Iterable[Any] | None:
        """Called at each firing; yields results, none to many.

        Args:
            key: the key.
            window: the window that fires.
            inputs: its elements in the order of arrival; after a reduce or an aggregate: the one result.
        """


class WindowContext(Protocol):
    """What a process function may ask for. Flink: ``ProcessWindowFunction.Context``."""

    def window(self) -> Window:
        """The window that fires."""

    def current_watermark(self) -> int:
        """The watermark, in engine units; ``MIN_TIMESTAMP`` before the first."""

    def current_processing_time(self) -> int:
        """The clock, in engine units. On Spark: the time of the micro-batch."""

    def window_state(self) -> KeyedStateStore:
        """State of this key and window: lives until the window is cleaned up, through all its firings and purges.

        Raises:
            InvalidPlanError: for session windows, which have no lasting identity. Flink refuses too.
        """

    def global_state(self) -> KeyedStateStore:
        """State of this key, across its windows. It is never cleaned up."""

    def output(self, tag: str, value: Any) -> None:
        """Sends a value to a side output; it carries the timestamp of the window's end, like the main output."""


class ProcessWindowFunction(ABC):
    """Sees all elements of a firing window, and its context. Flink: ``ProcessWindowFunction``."""

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Sequence[Any]) -> Iterable[Any] | None:
        """Called at each firing; yields results, none to many.

        Args:
            key: the key.
            context: window, time, state, side outputs. Not to be kept after the call.
            elements: the elements in the order of arrival; after a reduce or an aggregate: the one result.
        """

    def clear(self, context: WindowContext) -> None:  # noqa: B027 - most functions have nothing to do here
        """Called once when the window goes, neither at a firing nor at a purge. Per-window state is dropped afterwards."""


@dataclass(frozen=True, slots=True, repr=False)
class _Plain:
    """A plain function that stands where an object could."""

    function: Callable[..., Iterable[Any] | None]

    def __repr__(self) -> str:
        return repr(self.function)


@dataclass(frozen=True, slots=True, repr=False)
class _Applied(_Plain, WindowFunction):
    def apply(self, key: Any, window: Window, inputs: Sequence[Any]) -> Iterable[Any] | None:
        return self.function(key, window, inputs)


@dataclass(frozen=True, slots=True, repr=False)
class _Processed(_Plain, ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Sequence[Any]) -> Iterable[Any] | None:
        return self.function(key, context, elements)


def applied(function: Any) -> WindowFunction:
    """A window function, or a plain function of key, window and rows as one.

    Raises:
        InvalidPlanError: it is none, or does not take what it will be given.
    """
    if isinstance(function, WindowFunction):
        check_methods(function, WindowFunction)
        return function
    check_function(function, APPLY, WindowFunction)
    return _Applied(function)


def processed(function: Any, shape: Shape = PROCESS) -> ProcessWindowFunction:
    """A process function, or a plain function of key, context and rows as one.

    Args:
        function: what the user gave.
        shape: how it is called, for errors.

    Raises:
        InvalidPlanError: it is none, or does not take what it will be given.
    """
    if isinstance(function, ProcessWindowFunction):
        check_methods(function, ProcessWindowFunction)
        return function
    check_function(function, shape, ProcessWindowFunction)
    return _Processed(function)


def following(function: Any) -> WindowFunction | ProcessWindowFunction | None:
    """What is given as ``then``: a window or process function, a plain function of key, context and results as one, or None.

    Raises:
        InvalidPlanError: it is none of these, or does not take what it will be given.
    """
    if function is None or isinstance(function, WindowFunction):
        return None if function is None else applied(function)
    return processed(function, THEN)


__all__ = [
    "AggregateFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "WindowContext",
    "WindowFunction",
    "WindowFunctionError",
]
