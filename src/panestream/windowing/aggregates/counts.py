"""Counts of rows, of values that are not null, and of distinct values, exact or approximate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Aggregate, Expression, OfOneCompared, check_expression, text_of


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


@dataclass(frozen=True, slots=True, repr=False)
class CountDistinct(OfOneCompared):
    """See :func:`count_distinct`."""

    function: ClassVar[str] = "count_distinct"
    merge_rule: ClassVar[str] = "parts keep each distinct value once; a window counts the union of its parts"


def count_distinct(expr: Expression) -> CountDistinct:
    """Count the distinct values that are not null, exactly; so the state has each value once per pane.

    Examples:
        >>> count_distinct("user").alias("users")
        agg.count_distinct('user').alias('users')
    """
    return CountDistinct(text_of(expr))


@dataclass(frozen=True, slots=True, repr=False)
class ApproxCountDistinct(OfOneCompared):
    """See :func:`approx_count_distinct`."""

    relative_sd: float = 0.02

    function: ClassVar[str] = "approx_count_distinct"
    merge_rule: ClassVar[str] = (
        "parts keep distinct hashes, many of them as a HyperLogLog sketch; a window takes the union, whatever its order"
    )

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        given = self.relative_sd
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0.0025 <= given <= 0.5:
            raise InvalidPlanError(
                f"agg.approx_count_distinct: relative_sd must be from 0.0025 to 0.5, got {given!r}; "
                f"write agg.approx_count_distinct({self.expr!r}, relative_sd=0.02), or agg.count_distinct for an exact count"
            )


def approx_count_distinct(expr: Expression, relative_sd: float = 0.02) -> ApproxCountDistinct:
    """Approximate the number of distinct values that are not null; bigint. Needs ``panestream[sketches]``.

    A pane stores the distinct hashes of its values up to a limit (1,024 by default), and then a HyperLogLog sketch of Apache
    DataSketches (4 kB by default). So a small number is exact, and a large one has a standard error of at most ``relative_sd``,
    from 0.0025 to 0.5 (otherwise it raises InvalidPlanError). Half of it takes four times the memory. State does not grow with
    the number of values. The result depends only on the values, not on their order or batches. Bigint, double and non-empty
    strings are hashed as in DataSketches. Nested types are not supported. :func:`count_distinct` is exact, and stores every
    value. Flink: ``APPROX_COUNT_DISTINCT`` in SQL. Spark: ``approx_count_distinct``, ``hll_sketch_agg``.

    >>> approx_count_distinct("user_id", relative_sd=0.01)
    agg.approx_count_distinct('user_id', 0.01)
    """
    return ApproxCountDistinct(text_of(expr), relative_sd)


__all__ = ["ApproxCountDistinct", "Count", "CountDistinct", "approx_count_distinct", "count", "count_distinct"]
