"""Counts of rows and of values that are not null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Aggregate, Expression, check_expression, text_of

__all__ = ["Count", "count"]


@dataclass(frozen=True, slots=True, repr=False)
class Count(Aggregate):
    """See :func:`count`."""

    expr: str | None = None

    function: ClassVar[str] = "count"
    keeps_values: ClassVar[bool] = False
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "counts of parts are added"

    def __post_init__(self) -> None:
        if self.expr is not None:
            check_expression(self.expr, self.function, "expr")

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.expr is None else (self.expr,)


def count(expr: Expression | None = None) -> Count:
    """Count the rows, or the rows in which ``expr`` is not null; bigint, never null.

    >>> count(), count("price").name
    (agg.count(), 'count(price)')
    """
    return Count(None if isinstance(expr, str) and expr == "*" else text_of(expr))
