"""Declared aggregates row by row, in plain Python: their states and results.

Accumulators are slower than the columnar kernels and independent of them, so that tests can compare the two. States contain only
plain values, which state can store directly.
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
    """One aggregate without its state. :meth:`add` and :meth:`merge` may change and return their arguments."""

    def start(self) -> Any:
        """Return the state of no rows."""
        return None

    @abstractmethod
    def add(self, state: Any, row: Row) -> Any:
        """Return the state with one more row."""

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any:
        """Merge two states; the rows of ``a`` count as earlier."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """Return the user's result. The state remains in use, so its lists must not be returned."""


class ValueOrder:
    """The order of values of a type: NaN is larger than any other number."""

    def __init__(self, type_: pa.DataType) -> None:
        self._floats = pa.types.is_floating(type_)

    def less(self, a: Any, b: Any) -> bool:
        if self._floats and (math.isnan(a) or math.isnan(b)):
            return not math.isnan(a)  # NaN is the larger number, and two NaN are equal
        return bool(a < b)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Places and types of expressions' values in a row, and the types of the results by name."""

    places: Mapping[str, int]
    types: Mapping[str, pa.DataType]
    results: Mapping[str, pa.DataType]

    time: ClassVar[int] = -1
    """The place of the event time: the last, because columns used only by the assigner may follow the inputs."""

    def at(self, expr: str) -> int:
        return self.places[expr]

    def type_of(self, expr: str) -> pa.DataType:
        """Return the type of an expression; for a dictionary, the type of its values."""
        type_ = self.types[expr]
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    def result_type(self, aggregate: Aggregate) -> pa.DataType:
        return self.results[aggregate.name]
