"""Declared aggregates row by row, in plain Python: what each keeps of the rows it has seen, and what that stands for.

Slower than the columnar kernels and independent of them, so each can be held against the other. What is kept is plain values
only, which rest in state as they are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from panestream.windowing.aggregates import Aggregate

Row = tuple[Any, ...]
"""The values of the aggregates' inputs and, last, the event time."""


class Accumulator(ABC):
    """One aggregate. States are handed in and out; :meth:`add` and :meth:`merge` may change and return what they were given."""

    def start(self) -> Any:
        """The state of no rows."""
        return None

    @abstractmethod
    def add(self, state: Any, row: Row) -> Any:
        """The state with one more row."""

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any:
        """Two states in one; the rows of ``a`` count as earlier."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """What the user sees. The state goes on being used, so no list of it may be handed out."""


class ValueOrder:
    """How values compare: NaN is larger than any other number.

    Args:
        type_: of the values.
    """

    def __init__(self, type_: pa.DataType) -> None:
        self._floats = pa.types.is_floating(type_)

    def less(self, a: Any, b: Any) -> bool:
        """Whether ``a`` is smaller than ``b``."""
        if self._floats and (math.isnan(a) or math.isnan(b)):
            return not math.isnan(a)  # the one who is NaN is the larger, and two are equal
        return bool(a < b)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Where in a row the value of an expression is, and of what type; and the types of the results.

    Attributes:
        places: the place of the value of each expression.
        types: the type of each expression.
        results: the type of each result, by name.
    """

    places: Mapping[str, int]
    types: Mapping[str, pa.DataType]
    results: Mapping[str, pa.DataType]

    time: ClassVar[int] = -1
    """The place of the event time: the last, as between the inputs and it may stand what only the assigner looks at."""

    def at(self, expr: str) -> int:
        """The place of an expression's value."""
        return self.places[expr]

    def type_of(self, expr: str) -> pa.DataType:
        """The type of an expression, dictionaries seen through."""
        type_ = self.types[expr]
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    def result_type(self, aggregate: Aggregate) -> pa.DataType:
        """The type of the result of an aggregate."""
        return self.results[aggregate.name]
