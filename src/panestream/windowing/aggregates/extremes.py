"""The smallest and the largest value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOneCompared, text_of

__all__ = ["Max", "Min", "max", "min"]


@dataclass(frozen=True, slots=True, repr=False)
class Min(OfOneCompared):
    """See :func:`min`."""

    function: ClassVar[str] = "min"
    merge_rule: ClassVar[str] = "the smallest of the parts' smallest values"


@dataclass(frozen=True, slots=True, repr=False)
class Max(OfOneCompared):
    """See :func:`max`."""

    function: ClassVar[str] = "max"
    merge_rule: ClassVar[str] = "the largest of the parts' largest values"


def min(expr: Expression) -> Min:  # noqa: A001
    """Return the smallest value that is not null, of any orderable type; NaN is larger than any other number."""
    return Min(text_of(expr))


def max(expr: Expression) -> Max:  # noqa: A001
    """Return the largest value that is not null, of any orderable type; NaN is larger than any other number."""
    return Max(text_of(expr))
