"""The mean of weighted values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.windowing.aggregates.base import Expression, OfOne, check_expression, text_of

__all__ = ["WeightedMean", "weighted_mean"]


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
