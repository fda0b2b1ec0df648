"""Aggregates of values over time: the increase and rate of a counter, and means weighted by how long a value was current."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Expression, OfOne, check_expression, text_of

_RULE = "the parts' values are joined in the order of event time, where one part follows another"


@dataclass(frozen=True, slots=True, repr=False)
class Increase(OfOne):
    """See :func:`increase`."""

    function: ClassVar[str] = "increase"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = _RULE


@dataclass(frozen=True, slots=True, repr=False)
class Rate(OfOne):
    """See :func:`rate`."""

    function: ClassVar[str] = "rate"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = _RULE


@dataclass(frozen=True, slots=True, repr=False)
class TimeWeightedMean(OfOne):
    """See :func:`time_weighted_mean`."""

    between: str = "last"

    function: ClassVar[str] = "time_weighted_mean"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = _RULE

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        if self.between not in ("last", "linear"):
            raise InvalidPlanError(
                f"agg.time_weighted_mean: between must be 'last' or 'linear', got {self.between!r}; "
                f"write agg.time_weighted_mean({self.expr!r}, 'linear') for a straight line between two values"
            )


def increase(expr: Expression) -> Increase:
    """Compute by how much a counter grew from its first to its last value; double, null for fewer than two values.

    A value below the one before it is a reset: the counter restarted at 0 and grew to that value. Values are taken in the order
    of event time and, if equal, of arrival, whatever the order in which they come. The step from the last value before the
    window to its first is in no window; let windows overlap if it matters. State has each value with its time. Nulls are ignored.
    Prometheus: ``increase``, which extrapolates to the ends of the window.

    >>> increase("bytes_total").alias("bytes")
    agg.increase('bytes_total').alias('bytes')
    """
    return Increase(text_of(expr))


def rate(expr: Expression) -> Rate:
    """Compute the :func:`increase` of a counter per second between its first and its last value.

    The result is null if all values are of one instant. Prometheus: ``rate``, which extrapolates to the ends of the window.

    >>> rate("requests_total").name
    'rate(requests_total)'
    """
    return Rate(text_of(expr))


def time_weighted_mean(expr: Expression, between: str = "last") -> TimeWeightedMean:
    """Average a value that is reported now and then, weighted by time from its first to its last report; double.

    With ``between="last"`` each value is current until the next one, as for a set temperature or the number of open orders.
    With ``"linear"`` the value moves in a straight line to the next one, as a measured temperature does. If all reports are of
    one instant, the result is the last of them; it is null without values. The time from the last report to the end of the
    window does not count. Otherwise as :func:`increase`.

    >>> time_weighted_mean("temperature", "linear")
    agg.time_weighted_mean('temperature', 'linear')
    """
    return TimeWeightedMean(text_of(expr), between)


__all__ = ["Increase", "Rate", "TimeWeightedMean", "increase", "rate", "time_weighted_mean"]
