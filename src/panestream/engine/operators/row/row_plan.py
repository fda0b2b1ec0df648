"""The plan of a query that the row operator runs: any assigner, trigger, evictor and function."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.engine.query import WindowSpec
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from panestream.windowing.process_functions import KeyedProcessFunction
from panestream.windowing.signatures import REDUCE, check_function, check_methods
from panestream.windowing.triggers import Trigger

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
    """No windows: ``function`` gets each row of a key, and has state and timers of its own."""

    function: KeyedProcessFunction
    then: None = None


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The row operator's plan, which is checked when it is built.

    Attributes:
        window: the windows and their firing. Allowed lateness applies to event time only.
        function: the function to run when a window fires. An :class:`AggregateFunction`, :class:`WindowFunction` or
            :class:`ProcessWindowFunction` is wrapped automatically; write a reduce function as ``Reduce(function)``.
        late_output: the side output for late elements, or None to only count them.
        pages: the number of pages of a key group while the state is small, which grows with the state.
        element_type: the class of elements that are rows of a ``RowType`` or named tuples; not needed for other plain values.
        numbers_firings: whether each result records which firing of its window it comes from.

    Raises:
        InvalidWindowError: the lateness or the number of pages is out of range.
        InvalidPlanError: parts do not fit together, or a function or method does not accept its arguments.

    >>> from panestream.windowing.assigners import TumblingEventTimeWindows
    >>> plan = RowPlan(WindowSpec(TumblingEventTimeWindows.of("1 minute")), ReduceRows(max))
    >>> plan.keeps_elements
    False
    """

    window: WindowSpec
    function: ReduceRows | AggregateRows | KeepRows | ProcessRows
    late_output: str | None = None
    pages: int = 2
    element_type: type[tuple[object, ...]] | None = None
    numbers_firings: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "function", _recipe_of(self.function))
        _check_kind("assigner", self.window.assigner, WindowAssigner, "e.g. TumblingEventTimeWindows.of('1 minute')")
        if self.window.assigner.columns_only:
            raise InvalidPlanError(
                f"{self.window.assigner!r} runs on columns only, with declared aggregates: the row operator (of "
                "WindowTestHarness, .trace() and functions over rows) asks each element for its windows, and here only the "
                "others know them. To test it without Spark take a ColumnTestHarness"
            )
        _check_kind("trigger", self.window.firing_trigger, Trigger, "e.g. CountTrigger.of(100)")
        if self.window.evictor is not None:
            _check_kind("evictor", self.window.evictor, Evictor, "e.g. CountEvictor.of(100)")
        if self.window.allowed_lateness < 0:
            raise InvalidWindowError(f"the allowed lateness must not be negative, got {self.window.allowed_lateness}")
        if self.pages <= 0:
            raise InvalidWindowError(f"keys are divided into at least one page, got {self.pages}")
        if self.late_output == "":
            raise InvalidPlanError("the late output needs a name; None if late elements are only to be counted")
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
        f"{function!r} is no window function: give an AggregateFunction, WindowFunction or ProcessWindowFunction object, "
        "or Reduce(function)"
    )
