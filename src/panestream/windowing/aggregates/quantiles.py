"""Approximate quantiles, and exact counts of values between edges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Expression, OfOne, check_count, check_expression, plain_number, text_of


@dataclass(frozen=True, slots=True, repr=False)
class ApproxQuantile(OfOne):
    """See :func:`approx_quantile`."""

    probability: float
    k: int = 200

    function: ClassVar[str] = "approx_quantile"
    merge_rule: ClassVar[str] = (
        "parts keep their values, many values as a t-digest; the parts of a window are merged, earlier parts first"
    )

    def __post_init__(self) -> None:
        _check_quantiles(self.function, self.expr, (self.probability,), self.k)

    def _default_name(self) -> str:
        return f"{self.function}({self.expr}, {self.probability!r})"


@dataclass(frozen=True, slots=True, repr=False)
class ApproxQuantiles(OfOne):
    """See :func:`approx_quantiles`."""

    probabilities: tuple[float, ...]
    k: int = 200

    function: ClassVar[str] = "approx_quantiles"
    merge_rule: ClassVar[str] = ApproxQuantile.merge_rule

    def __post_init__(self) -> None:
        _check_quantiles(self.function, self.expr, self.probabilities, self.k)

    def _default_name(self) -> str:
        return f"{self.function}({self.expr}, {list(self.probabilities)!r})"


def approx_quantile(expr: Expression, probability: float, k: int = 200) -> ApproxQuantile:
    """Approximate the value below which a share ``probability`` of the values is; double. Needs ``panestream[sketches]``.

    E.g. 0.5 is the median. :func:`approx_quantiles` is cheaper for several; it describes accuracy, ``k``, types and errors.
    Flink: ``PERCENTILE`` in SQL, which is exact. Spark: ``percentile_approx``.

    >>> approx_quantile("latency_ms", 0.99).name
    'approx_quantile(latency_ms, 0.99)'
    """
    return ApproxQuantile(text_of(expr), probability, k)


def approx_quantiles(expr: Expression, probabilities: Iterable[float], k: int = 200) -> ApproxQuantiles:
    """Approximate the values below which these shares of the values are: an array of double, null without values.

    Needs ``panestream[sketches]``. A window of up to ``2 * k`` values has exact quantiles, with linear interpolation between two
    values, as in Spark's ``percentile``. A pane of more values keeps a t-digest of Apache DataSketches, about ``20 * k`` bytes. A
    bound of its error is not proven. In our measurements, with the default k, the share of values below a result was at most
    0.007 off, and at most 0.0025 at 0.01 and 0.99; both shrink as k grows (docs/decisions/0011). The same batches give identical
    results, to the last bit. Other batches of the same rows give results that differ within that error.

    ``expr`` are numbers, and decimals are computed as double. Nulls are ignored, and NaN is larger than any other number.
    ``probabilities`` are from 0 to 1, at least one. ``k``, from 10 to 65,535, is accuracy and size of the digest. An argument out
    of range raises InvalidPlanError. Flink: ``PERCENTILE`` in SQL, which is exact. Spark: ``percentile_approx``.

    >>> approx_quantiles("latency_ms", [0.5, 0.99]).name
    'approx_quantiles(latency_ms, [0.5, 0.99])'
    """
    return ApproxQuantiles(text_of(expr), tuple(plain_number(p) for p in probabilities), k)


def _check_quantiles(function: str, expr: str, probabilities: Sequence[float], k: int) -> None:
    hint = "0.99" if function == "approx_quantile" else "[0.5, 0.99]"
    check_probabilities(function, expr, probabilities, hint)
    check_count(k, function, "k", 10, 65535)


def check_probabilities(function: str, expr: str, probabilities: Sequence[float], hint: str = "0.99") -> None:
    """Raise InvalidPlanError unless there is a number from 0 to 1, and no other value."""
    check_expression(expr, function, "expr")
    given = all(not isinstance(p, bool) and isinstance(p, int | float) and 0 <= p <= 1 for p in probabilities)
    if not probabilities or not given:
        raise InvalidPlanError(
            f"agg.{function}: a quantile is a number from 0 to 1, got {probabilities!r}; write agg.{function}({expr!r}, {hint})"
        )


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


__all__ = ["ApproxQuantile", "ApproxQuantiles", "Histogram", "approx_quantile", "approx_quantiles", "histogram"]
