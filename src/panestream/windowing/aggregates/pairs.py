"""Statistics of two expressions together: covariance, correlation and the line of least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, check_expression, text_of


@dataclass(frozen=True, slots=True, repr=False)
class OfPair(OfOne):
    """A statistic of two numbers of each row. Rows in which one is null are ignored."""

    other: str

    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "counts, means and sums of products of deviations of parts are combined by Chan's formula"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        check_expression(self.other, self.function, "other")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr, self.other)


@dataclass(frozen=True, slots=True, repr=False)
class CovarSamp(OfPair):
    """See :func:`covar_samp`."""

    function: ClassVar[str] = "covar_samp"


@dataclass(frozen=True, slots=True, repr=False)
class CovarPop(OfPair):
    """See :func:`covar_pop`."""

    function: ClassVar[str] = "covar_pop"


@dataclass(frozen=True, slots=True, repr=False)
class Corr(OfPair):
    """See :func:`corr`."""

    function: ClassVar[str] = "corr"


@dataclass(frozen=True, slots=True, repr=False)
class RegrSlope(OfPair):
    """See :func:`regr_slope`."""

    function: ClassVar[str] = "regr_slope"


@dataclass(frozen=True, slots=True, repr=False)
class RegrIntercept(OfPair):
    """See :func:`regr_intercept`."""

    function: ClassVar[str] = "regr_intercept"


@dataclass(frozen=True, slots=True, repr=False)
class RegrR2(OfPair):
    """See :func:`regr_r2`."""

    function: ClassVar[str] = "regr_r2"


def covar_samp(expr: Expression, other: Expression) -> CovarSamp:
    """Compute the sample covariance of two numbers; double, null for fewer than two rows that have both.

    >>> covar_samp("price", "quantity").name
    'covar_samp(price, quantity)'
    """
    return CovarSamp(text_of(expr), text_of(other))


def covar_pop(expr: Expression, other: Expression) -> CovarPop:
    """Compute the population covariance of two numbers; double, null without rows that have both.

    >>> covar_pop("price", "quantity")
    agg.covar_pop('price', 'quantity')
    """
    return CovarPop(text_of(expr), text_of(other))


def corr(expr: Expression, other: Expression) -> Corr:
    """Compute Pearson's correlation of two numbers, from -1 to 1.

    The result is null for fewer than two rows that have both, and if one of the two is the same in all of them, as in Spark.

    >>> corr("temperature", "pressure")
    agg.corr('temperature', 'pressure')
    """
    return Corr(text_of(expr), text_of(other))


def regr_slope(expr: Expression, other: Expression) -> RegrSlope:
    """Compute the slope of the line of least squares: by how much ``expr`` grows when ``other`` grows by 1.

    The arguments have SQL's order, the dependent value first. ``unix_micros(ts) / 1e6`` as ``other`` gives the trend per second.
    The result is null if ``other`` has fewer than two different values.

    >>> regr_slope("disk_used", "unix_micros(ts) / 1e6").alias("bytes_per_second").name
    'bytes_per_second'
    """
    return RegrSlope(text_of(expr), text_of(other))


def regr_intercept(expr: Expression, other: Expression) -> RegrIntercept:
    """Compute where the line of :func:`regr_slope` has ``other`` = 0; null where the slope is.

    >>> regr_intercept("price", "quantity")
    agg.regr_intercept('price', 'quantity')
    """
    return RegrIntercept(text_of(expr), text_of(other))


def regr_r2(expr: Expression, other: Expression) -> RegrR2:
    """Compute which share of the variance of ``expr`` the line of :func:`regr_slope` explains; null where the slope is.

    The result is 1 if all values of ``expr`` are equal, as in SQL.

    >>> regr_r2("price", "quantity")
    agg.regr_r2('price', 'quantity')
    """
    return RegrR2(text_of(expr), text_of(other))


__all__ = [
    "Corr",
    "CovarPop",
    "CovarSamp",
    "RegrIntercept",
    "RegrR2",
    "RegrSlope",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
]
