"""Sums and means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, text_of

__all__ = ["Mean", "Sum", "avg", "mean", "sum"]


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
    merge_rule: ClassVar[str] = "sum and count of parts are combined as those of sum and count, and divided at the end"


def sum(expr: Expression) -> Sum:  # noqa: A001 - the SQL name, as in pyspark.sql.functions
    """Sum the values that are not null; null without such values.

    Integers sum to bigint, float and double to double, decimal(p, s) to decimal(min(38, p + 10), s). A sum out of the range of
    its type is an :class:`~panestream.errors.AggregateOverflowError`; intermediate sums may leave it.
    """
    return Sum(text_of(expr))


def mean(expr: Expression) -> Mean:
    """Average the values that are not null: double, or decimal(p + 4, s + 4), rounded half up, for decimal(p, s).

    Decimals have at most 38 digits: the mean of decimal(38, 10) is decimal(38, 14), with 24 digits before the point. A mean that
    does not fit is an :class:`~panestream.errors.AggregateOverflowError`, as in Spark's ANSI mode, though the sum may fit.
    """
    return Mean(text_of(expr))


avg = mean
"""The same as :func:`mean`."""
