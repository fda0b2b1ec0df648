"""Sums, means, variances and weighted means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, check_expression, text_of


@dataclass(frozen=True, slots=True, repr=False)
class Sum(OfOne):
    """See :func:`sum`."""

    function: ClassVar[str] = "sum"
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "sums of parts are added: of integers and decimals exactly, of floating point up to rounding"


@dataclass(frozen=True, slots=True, repr=False)
class Mean(OfOne):
    """See :func:`mean`."""

    function: ClassVar[str] = "mean"
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "sums and counts of parts are added, and divided at the end"


def sum(expr: Expression) -> Sum:  # noqa: A001 - the SQL name, as in pyspark.sql.functions
    """Sum the values that are not null; null without such values.

    Integers sum to bigint, float and double to double, decimal(p, s) to decimal(min(38, p + 10), s). A sum out of the range of
    its type is an :class:`~panestream.errors.AggregateOverflowError`; intermediate sums may leave it.

    Examples:
        >>> sum("price * n").alias("revenue")
        agg.sum('price * n').alias('revenue')
    """
    return Sum(text_of(expr))


def mean(expr: Expression) -> Mean:
    """Average the values that are not null: double, or decimal(p + 4, s + 4), rounded half up, for decimal(p, s).

    Decimals have at most 38 digits: the mean of decimal(38, 10) is decimal(38, 14), with 24 digits before the point. A mean that
    does not fit is an :class:`~panestream.errors.AggregateOverflowError`, as in Spark's ANSI mode, though the sum may fit.

    Examples:
        >>> mean("price")
        agg.mean('price')
    """
    return Mean(text_of(expr))


avg = mean
"""The same as :func:`mean`."""


@dataclass(frozen=True, slots=True, repr=False)
class Var(OfOne):
    """See :func:`var`."""

    function: ClassVar[str] = "var"
    merge_rule: ClassVar[str] = "count, mean and sum of squared deviations of parts are combined by Chan's formula"


@dataclass(frozen=True, slots=True, repr=False)
class Stddev(OfOne):
    """See :func:`stddev`."""

    function: ClassVar[str] = "stddev"
    merge_rule: ClassVar[str] = Var.merge_rule


def var(expr: Expression) -> Var:
    """Compute the sample variance (SQL ``var_samp``); null for fewer than two values.

    Examples:
        >>> var("price")
        agg.var('price')
    """
    return Var(text_of(expr))


def stddev(expr: Expression) -> Stddev:
    """Compute the sample standard deviation (SQL ``stddev_samp``); null for fewer than two values.

    Examples:
        >>> stddev("price")
        agg.stddev('price')
    """
    return Stddev(text_of(expr))


@dataclass(frozen=True, slots=True, repr=False)
class WeightedMean(OfOne):
    """See :func:`weighted_mean`."""

    weight: str

    function: ClassVar[str] = "weighted_mean"
    merge_rule: ClassVar[str] = "sums of weight and of value times weight are added, and divided at the end"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        check_expression(self.weight, self.function, "weight")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr, self.weight)


def weighted_mean(expr: Expression, weight: Expression) -> WeightedMean:
    """Divide the sum of value times weight by the sum of the weights; double.

    Rows with a null value or weight are ignored; the result is null without rows or if the weights add up to zero. Values and
    weights are numbers, computed in floating point even for decimals; negative weights count as such. Flink: none; in SQL
    ``SUM(expr * weight) / SUM(weight)``, which divides by the weights of null values too.

    >>> weighted_mean("price", "quantity").name
    'weighted_mean(price, quantity)'
    """
    return WeightedMean(text_of(expr), text_of(weight))


__all__ = ["Mean", "Stddev", "Sum", "Var", "WeightedMean", "avg", "mean", "stddev", "sum", "var", "weighted_mean"]
