"""The user-defined aggregate function, for windows and for states of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class AggregateFunction(ABC):
    """Aggregates elements one by one into an accumulator. Flink: ``AggregateFunction``, with PyFlink's signatures.

    Return a new accumulator if a result may contain the old one, since results must not change later.

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
        """Return an empty accumulator, one per key and window (with an evictor: one per firing)."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with one more element; it may be the changed argument."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result; the accumulator stays in use. None is a normal result (Flink then emits nothing)."""

    def merge(self, a: Any, b: Any) -> Any:
        """Merge two accumulators; called for session windows only."""
        raise NotImplementedError(f"{type(self).__name__} is used on session windows: it needs merge(a, b)")


__all__ = ["AggregateFunction"]
