"""The aggregate function of users' own: of windows, and of the states that functions keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


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


__all__ = ["AggregateFunction"]
