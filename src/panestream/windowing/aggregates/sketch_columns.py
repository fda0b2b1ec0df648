"""Sketches as columns, which Spark, other systems and later windows can merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOneCompared, check_count, check_expression, text_of


@dataclass(frozen=True, slots=True, repr=False)
class HllSketch(OfOneCompared):
    """See :func:`hll_sketch`."""

    lg_k: int = 12

    function: ClassVar[str] = "hll_sketch"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "parts keep distinct hashes, many of them as a HyperLogLog sketch; a window takes the union"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        check_count(self.lg_k, self.function, "lg_k", 4, 21)


@dataclass(frozen=True, slots=True, repr=False)
class ThetaSketch(OfOneCompared):
    """See :func:`theta_sketch`."""

    lg_k: int = 12

    function: ClassVar[str] = "theta_sketch"
    keeps_values: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "parts keep their smallest distinct hashes; a window keeps the smallest of these"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        check_count(self.lg_k, self.function, "lg_k", 4, 26)


def hll_sketch(expr: Expression, lg_k: int = 12) -> HllSketch:
    """Return a HyperLogLog sketch of the distinct values: binary, never null. Needs ``panestream[sketches]``.

    Spark reads it with ``hll_sketch_estimate`` and merges it with ``hll_union`` and ``hll_union_agg``, also with sketches of its
    own ``hll_sketch_agg``, because bigint, int, non-empty strings and binary have the same hashes there. So results per hour can
    be added up to a distinct count per day. ``lg_k``, from 4 to 21, is the binary logarithm of the number of registers: the
    standard error is ``1.04 / sqrt(2**lg_k)``, and a sketch has up to ``2**lg_k`` bytes. The bytes depend only on the values,
    not on their order or batches. State is that of :func:`approx_count_distinct`.

    >>> hll_sketch("user_id")
    agg.hll_sketch('user_id')
    """
    return HllSketch(text_of(expr), lg_k)


def theta_sketch(expr: Expression, lg_k: int = 12) -> ThetaSketch:
    """Return a theta sketch of the distinct values: binary, never null.

    Theta sketches also support intersections and differences, such as the number of users of today who were also there
    yesterday. Spark 4.1 and later reads them with ``theta_sketch_estimate``, and combines them with ``theta_union``,
    ``theta_intersection`` and ``theta_difference``, also with those of its own ``theta_sketch_agg``, because bigint, int, double,
    non-empty strings and binary have the same hashes there. ``lg_k``, from 4 to 26, is the binary logarithm of the number of
    hashes: the standard error of an estimate is ``1 / sqrt(2**lg_k)``, and a sketch has up to ``8 * 2**lg_k`` bytes, as has the
    state of a pane. Fewer values are exact. The bytes depend only on the values, not on their order or batches.

    >>> theta_sketch("user_id", 14).name
    'theta_sketch(user_id)'
    """
    return ThetaSketch(text_of(expr), lg_k)


__all__ = ["HllSketch", "ThetaSketch", "hll_sketch", "theta_sketch"]
