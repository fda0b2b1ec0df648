"""Functions over windows: the base classes of code that runs when a window fires."""

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
    """Processes all elements of a firing window at once. Flink: ``WindowFunction``.

    >>> import panestream as pst
    >>> class Spread(WindowFunction):
    ...     def apply(self, key, window, inputs):
    ...         yield max(inputs) - min(inputs)
    >>> harness = pst.testing.WindowTestHarness(pst.tumbling("1 minute"), apply=Spread())
    >>> for price in (3, 8):
    ...     harness.process_element(price, "5 seconds", key="ann")
    >>> harness.end_of_input()
    >>> [result.value for result in harness.extract_output()]
    [5]
    """

    @abstractmethod
    def apply(self, key: Any, window: Window, inputs: Sequence[Any]) -> Iterable[Any] | None:
        """Return zero or more results of a firing; ``inputs`` are in order of arrival, or the result of a reduce or aggregate."""


class WindowContext(Protocol):
    """The context of a process function. Flink: ``ProcessWindowFunction.Context``.

    Examples:
        >>> import panestream as pst
        >>> class Crowded(pst.ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         if len(elements) > 1:
        ...             context.output("many", key)
        ...         yield context.window().end
        >>> harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), process=Crowded())
        >>> for price in (3, 8):
        ...     harness.process_element(price, "5 seconds", key="ann")
        >>> harness.end_of_input()
        >>> [result.value for result in harness.extract_output()]
        [60000000]
        >>> [result.value for result in harness.extract_side_output("many")]
        ['ann']
    """

    def window(self) -> Window:
        """Return the window that fires."""

    def current_watermark(self) -> int:
        """Return the watermark in microseconds; ``MIN_TIMESTAMP`` before the first."""

    def current_processing_time(self) -> int:
        """Return the processing time in microseconds, on Spark that of the micro-batch."""

    def window_state(self) -> KeyedStateStore:
        """Return the state of this key and window, which survives firings and purges until the window is cleaned up.

        Raises InvalidPlanError for session windows, whose identity changes when they merge. Flink refuses too.
        """

    def global_state(self) -> KeyedStateStore:
        """Return the state of this key across its windows. It is never cleaned up."""

    def output(self, tag: str, value: Any) -> None:
        """Send a value to a side output, with the timestamp of the window's end, like the main output."""


class ProcessWindowFunction(ABC):
    """Processes all elements of a firing window, with a context. Flink: ``ProcessWindowFunction``.

    Examples:
        >>> import panestream as pst
        >>> class Spread(pst.ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         yield max(elements) - min(elements)
        >>> harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), process=Spread())
        >>> for price in (3, 8):
        ...     harness.process_element(price, "5 seconds", key="ann")
        >>> harness.end_of_input()
        >>> [result.value for result in harness.extract_output()]
        [5]
    """

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Sequence[Any]) -> Iterable[Any] | None:
        """Return zero or more results of a firing, as :meth:`WindowFunction.apply`; ``context`` is valid only in the call."""

    def clear(self, context: WindowContext) -> None:  # noqa: B027 - most functions have nothing to do here
        """Clean up; called once when the window is deleted, not at firings or purges. Its state is deleted afterwards."""


@dataclass(frozen=True, slots=True, repr=False)
class _Plain:
    """A plain function instead of an object."""

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
    """Return a window function; plain functions of key, window and rows are wrapped."""
    if isinstance(function, WindowFunction):
        check_methods(function, WindowFunction)
        return function
    check_function(function, APPLY, WindowFunction)
    return _Applied(function)


def processed(function: Any, shape: Shape = PROCESS) -> ProcessWindowFunction:
    """Return a process function; plain functions with the arguments in ``shape`` are wrapped."""
    if isinstance(function, ProcessWindowFunction):
        check_methods(function, ProcessWindowFunction)
        return function
    check_function(function, shape, ProcessWindowFunction)
    return _Processed(function)


def no_state(what: str) -> InvalidPlanError:
    """Return the error for a function with ``stateless=True`` that called ``context.<what>``."""
    return InvalidPlanError(
        f"the process function called context.{what}, but stateless=True declares that it does not keep state. Leave "
        f"stateless=True out: then the row operator keeps its state"
    )


def results_of(function: object, returned: Any) -> Iterable[Any]:
    """Return the results of a window function as an iterable; refuse strings, dicts and others that would yield their parts."""
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
    """Return the function given as ``then``, or None; plain functions of key, context and results are wrapped."""
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
