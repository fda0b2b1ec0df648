"""Contents of a window: one accumulator that grows, or all its elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from panestream.engine.operators.row.row_plan import Aggregate, Reduce, RowPlan
from panestream.engine.operators.row.window_states import ElementList
from panestream.windowing.functions import AggregateFunction


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
    if isinstance(function, Reduce):
        result, of_elements = _same, _reducing(function.function)
    elif isinstance(function, Aggregate):
        result, of_elements = function.function.get_result, _aggregating(function.function)
    if plan.keeps_elements:
        return ContentsLogic(_list_of_one, _appended, _joined, result, of_elements)
    if isinstance(function, Reduce):
        return ContentsLogic(_same, function.function, function.function, result, of_elements, "the reduce function")
    assert isinstance(function, Aggregate)  # noqa: S101 - what keeps no elements aggregates
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
