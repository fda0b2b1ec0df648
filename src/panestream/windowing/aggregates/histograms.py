"""Exact counts of values between edges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Expression, OfOne, check_expression, plain_number, text_of

__all__ = ["Histogram", "histogram"]


@dataclass(frozen=True, slots=True, repr=False)
class Histogram(OfOne):
    """See :func:`histogram`."""

    edges: tuple[int | float | Decimal, ...]

    function: ClassVar[str] = "histogram"
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "counts of parts are added bin by bin"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        numbers = all(type(edge) in (int, float, Decimal) and math.isfinite(edge) for edge in self.edges)
        if not self.edges or not numbers or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise InvalidPlanError(
                f"agg.histogram: edges must be finite numbers, at least one, each larger than the one before, "
                f"got {self.edges!r}; write agg.histogram({self.expr!r}, [0, 10, 100])"
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr,)


def histogram(expr: Expression, edges: Iterable[float | Decimal]) -> Histogram:
    """Count the values in each bin: an array of bigint, one longer than ``edges``, never null.

    The first bin has the values below ``edges[0]``, the next those from ``edges[0]`` up to but not including ``edges[1]``, and
    the last those from ``edges[-1]`` on, including NaN. So every value that is not null is counted exactly once. Integers and
    decimals are compared exactly (an edge of 0.1 means 0.1, not the nearest binary number). ``expr`` is an integer, float,
    double, or decimal of up to 18 digits. ``edges`` are in its unit, finite, at least one, and in ascending order; otherwise it
    raises InvalidPlanError.

    Flink: none. Spark: ``width_bucket`` and a count per bucket.

    >>> histogram("latency_ms", [10, 100, 1000])
    agg.histogram('latency_ms', (10, 100, 1000))
    """
    return Histogram(text_of(expr), tuple(plain_number(edge) for edge in edges))
