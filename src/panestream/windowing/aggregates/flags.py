"""Aggregates of conditions: the number of rows for which one is true, and whether it is true for all or for any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, text_of


@dataclass(frozen=True, slots=True, repr=False)
class CountIf(OfOne):
    """See :func:`count_if`."""

    function: ClassVar[str] = "count_if"
    keeps_values: ClassVar[bool] = False
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "counts of parts are added"


@dataclass(frozen=True, slots=True, repr=False)
class BoolAnd(OfOne):
    """See :func:`bool_and`."""

    function: ClassVar[str] = "bool_and"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "true where it is true of all parts that have values"


@dataclass(frozen=True, slots=True, repr=False)
class BoolOr(OfOne):
    """See :func:`bool_or`."""

    function: ClassVar[str] = "bool_or"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "true where it is true of any part"


def count_if(expr: Expression) -> CountIf:
    """Count the rows for which a condition is true; bigint, never null. A null condition does not count.

    >>> count_if("status >= 500").alias("failures")
    agg.count_if('status >= 500').alias('failures')
    """
    return CountIf(text_of(expr))


def bool_and(expr: Expression) -> BoolAnd:
    """Return whether a condition is true for all rows in which it is not null; null without such rows.

    >>> bool_and("passed").name
    'bool_and(passed)'
    """
    return BoolAnd(text_of(expr))


def bool_or(expr: Expression) -> BoolOr:
    """Return whether a condition is true for any row; null if it is null for all rows.

    >>> bool_or("status = 500").name
    'bool_or(status = 500)'
    """
    return BoolOr(text_of(expr))


__all__ = ["BoolAnd", "BoolOr", "CountIf", "bool_and", "bool_or", "count_if"]
