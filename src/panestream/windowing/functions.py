"""Functions over windows: what users write to be run when a window fires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.failures import WindowFunctionError
from panestream.windowing.signatures import APPLY, PROCESS, THEN, Shape, check_function, check_methods
from panestream.windowing.state import KeyedStateStore
from panestream.windowing.windows import Window

ReduceFunction = Callable[[Any, Any], Any]
"""Combines two elements into one of the same kind, without changing either. Must be associative. Flink: ``ReduceFunction``."""


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


def no_state(what: str) -> InvalidPlanError:
    """The error where a function asks for state of which was said that it keeps none; ``what``: how it asked."""
    return InvalidPlanError(
        f"the process function called context.{what}, and was given with stateless=True, which says that it keeps nothing "
        "between its calls: leave stateless=True out, then the row operator keeps its state"
    )


def results_of(function: object, returned: Any) -> Iterable[Any]:
    """What a window function returned, as something to go through.

    Raises:
        InvalidPlanError: it is no list of results: going through a text or dict gives letters, numbers or names, which nobody
            means; a number has no parts.
    """
    if returned is None:
        return ()
    if hasattr(returned, "asDict"):
        raise InvalidPlanError(f"{function!r} returned the row {returned!r}: return a list of rows, [row], or yield it")
    if hasattr(returned, "columns") or hasattr(returned, "column_names"):
        raise InvalidPlanError(
            f"{function!r} returned a {type(returned).__name__}: return a list of rows, or give the function to .apply_in_pandas "
            "or .apply_arrow, which take tables"
        )
    if isinstance(returned, (str, bytes, dict)) or not hasattr(returned, "__iter__"):
        raise InvalidPlanError(f"{function!r} returned {returned!r}: return a list of results, or yield them")
    results: Iterable[Any] = returned
    return results


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
