"""Exact aggregates that need how often each value occurs: mode, entropy, quantiles, and the set of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, OfOneCompared, plain_number, text_of
from panestream.windowing.aggregates.quantiles import check_probabilities

_RULE = "counts of equal values of parts are added"


@dataclass(frozen=True, slots=True, repr=False)
class Mode(OfOneCompared):
    """See :func:`mode`."""

    function: ClassVar[str] = "mode"
    merge_rule: ClassVar[str] = _RULE


@dataclass(frozen=True, slots=True, repr=False)
class Entropy(OfOneCompared):
    """See :func:`entropy`."""

    function: ClassVar[str] = "entropy"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = _RULE


@dataclass(frozen=True, slots=True, repr=False)
class CollectSet(OfOneCompared):
    """See :func:`collect_set`."""

    function: ClassVar[str] = "collect_set"
    merge_rule: ClassVar[str] = _RULE


@dataclass(frozen=True, slots=True, repr=False)
class Percentile(OfOne):
    """See :func:`percentile`."""

    probability: float

    function: ClassVar[str] = "percentile"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = _RULE

    def __post_init__(self) -> None:
        check_probabilities(self.function, self.expr, (self.probability,))

    def _default_name(self) -> str:
        return f"{self.function}({self.expr}, {self.probability!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Percentiles(OfOne):
    """See :func:`percentiles`."""

    probabilities: tuple[float, ...]

    function: ClassVar[str] = "percentiles"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = _RULE

    def __post_init__(self) -> None:
        check_probabilities(self.function, self.expr, self.probabilities, "[0.5, 0.99]")

    def _default_name(self) -> str:
        return f"{self.function}({self.expr}, {list(self.probabilities)!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Median(OfOne):
    """See :func:`median`."""

    function: ClassVar[str] = "median"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = _RULE


def mode(expr: Expression) -> Mode:
    """Return the most frequent value; of several, the smallest. Null without values. State has each distinct value once per pane.

    NaN is larger than any other number. Spark's ``mode`` returns any of several, or with ``deterministic`` the smallest.

    >>> mode("page")
    agg.mode('page')
    """
    return Mode(text_of(expr))


def entropy(expr: Expression) -> Entropy:
    """Compute the Shannon entropy of the values in bits: 0 if all are equal, 3 for eight that are equally frequent.

    The result is null without values. State has each distinct value once per pane.

    >>> entropy("port").name
    'entropy(port)'
    """
    return Entropy(text_of(expr))


def collect_set(expr: Expression) -> CollectSet:
    """Collect the distinct values that are not null, in ascending order; an empty array without values.

    Values are of an orderable type, because the order makes a repeated batch give the same result. State has each distinct value
    once per pane.

    >>> collect_set("page")
    agg.collect_set('page')
    """
    return CollectSet(text_of(expr))


def percentile(expr: Expression, probability: float) -> Percentile:
    """Compute the value below which this share of the values are, exactly: double, null without values.

    Between two values the result is interpolated linearly, as with Spark's ``percentile``. Nulls are ignored, and NaN is larger
    than any other number. State has each distinct value once per pane with its count, so measurements in whole milliseconds
    take less than doubles of many digits. :func:`approx_quantile` has bounded state. ``probability`` is from 0 to 1; otherwise
    InvalidPlanError is raised.

    >>> percentile("latency_ms", 0.99).name
    'percentile(latency_ms, 0.99)'
    """
    return Percentile(text_of(expr), plain_number(probability))


def percentiles(expr: Expression, probabilities: Iterable[float]) -> Percentiles:
    """Compute several percentiles of the same values, which share state: an array of double; otherwise as :func:`percentile`.

    >>> percentiles("latency_ms", [0.5, 0.99])
    agg.percentiles('latency_ms', (0.5, 0.99))
    """
    return Percentiles(text_of(expr), tuple(plain_number(p) for p in probabilities))


def median(expr: Expression) -> Median:
    """Compute the exact median, as :func:`percentile` of 0.5.

    >>> median("price")
    agg.median('price')
    """
    return Median(text_of(expr))


__all__ = [
    "CollectSet",
    "Entropy",
    "Median",
    "Mode",
    "Percentile",
    "Percentiles",
    "collect_set",
    "entropy",
    "median",
    "mode",
    "percentile",
    "percentiles",
]
