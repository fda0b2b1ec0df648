"""About how many distinct values there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Expression, OfOneCompared, check_expression, text_of

__all__ = ["ApproxCountDistinct", "approx_count_distinct"]


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
    """About how many distinct values there are that are not null; bigint. Needs ``panestream[sketches]``.

    A pane keeps the distinct hashes of its values, up to some (1,024 with the default), and from there on a HyperLogLog sketch of
    Apache DataSketches (4 kB with the default). So few values are counted exactly, many with a standard error of at most
    ``relative_sd``, and state does not grow with their number. The result depends on the values alone, not on their order or on
    how they were cut into batches. Hashes are those of DataSketches for bigint, double and string that is not empty.

    :func:`count_distinct` is exact, and keeps every value.

    Args:
        expr: of any type that is not nested.
        relative_sd: the relative standard deviation of the result, from 0.0025 to 0.5; halving it takes four times the memory.

    Raises:
        InvalidPlanError: ``relative_sd`` is out of range.

    Flink: ``APPROX_COUNT_DISTINCT`` in SQL. Spark: ``approx_count_distinct``, ``hll_sketch_agg``.

    >>> approx_count_distinct("user_id", relative_sd=0.01)
    agg.approx_count_distinct('user_id', 0.01)
    """
    return ApproxCountDistinct(text_of(expr), relative_sd)
