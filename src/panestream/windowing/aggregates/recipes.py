"""The recipes: one immutable class per declared aggregate. Users call the functions of :mod:`panestream.agg` instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Aggregate, check_count, check_expression


@dataclass(frozen=True, slots=True, repr=False)
class _OfOne(Aggregate):
    """An aggregate of one expression."""

    expr: str

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr,)


@dataclass(frozen=True, slots=True, repr=False)
class _OfOneCompared(_OfOne):
    """An aggregate of one expression that compares its values."""

    @property
    def compared(self) -> tuple[str, ...]:
        return (self.expr,)


@dataclass(frozen=True, slots=True, repr=False)
class Count(Aggregate):
    """See :func:`count`."""

    expr: str | None = None

    function: ClassVar[str] = "count"
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "counts of panes are added, and subtracted again as the window slides on"

    def __post_init__(self) -> None:
        if self.expr is not None:
            check_expression(self.expr, self.function, "expr")

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.expr is None else (self.expr,)


@dataclass(frozen=True, slots=True, repr=False)
class Sum(_OfOne):
    """See :func:`sum`."""

    function: ClassVar[str] = "sum"
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = (
        "sums of panes are added exactly (integers, decimals) and subtracted again; floating point is only ever added"
    )


@dataclass(frozen=True, slots=True, repr=False)
class Mean(_OfOne):
    """See :func:`mean`."""

    function: ClassVar[str] = "mean"
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "sum and count of panes are combined as those of sum and count, and divided at the end"


@dataclass(frozen=True, slots=True, repr=False)
class Min(_OfOneCompared):
    """See :func:`min`."""

    function: ClassVar[str] = "min"
    merge_rule: ClassVar[str] = "the smallest of the panes' smallest values"


@dataclass(frozen=True, slots=True, repr=False)
class Max(_OfOneCompared):
    """See :func:`max`."""

    function: ClassVar[str] = "max"
    merge_rule: ClassVar[str] = "the largest of the panes' largest values"


@dataclass(frozen=True, slots=True, repr=False)
class Var(_OfOne):
    """See :func:`var`."""

    function: ClassVar[str] = "var"
    merge_rule: ClassVar[str] = (
        "count, mean and sum of squared deviations of panes are combined by Chan's formula, never subtracted"
    )


@dataclass(frozen=True, slots=True, repr=False)
class Stddev(_OfOne):
    """See :func:`stddev`."""

    function: ClassVar[str] = "stddev"
    merge_rule: ClassVar[str] = Var.merge_rule


@dataclass(frozen=True, slots=True, repr=False)
class First(_OfOne):
    """See :func:`first`."""

    ignore_nulls: bool = False

    function: ClassVar[str] = "first"
    merge_rule: ClassVar[str] = "the value of the pane whose first row has the earliest event time"


@dataclass(frozen=True, slots=True, repr=False)
class Last(_OfOne):
    """See :func:`last`."""

    ignore_nulls: bool = False

    function: ClassVar[str] = "last"
    merge_rule: ClassVar[str] = "the value of the pane whose last row has the latest event time"


@dataclass(frozen=True, slots=True, repr=False)
class _OfTwo(_OfOne):
    """An aggregate that picks values of one expression by another."""

    by: str

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        check_expression(self.by, self.function, "by")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr, self.by)

    @property
    def compared(self) -> tuple[str, ...]:
        return (self.by,)


@dataclass(frozen=True, slots=True, repr=False)
class MinBy(_OfTwo):
    """See :func:`min_by`."""

    function: ClassVar[str] = "min_by"
    merge_rule: ClassVar[str] = "the value of the pane with the smallest `by`"


@dataclass(frozen=True, slots=True, repr=False)
class MaxBy(_OfTwo):
    """See :func:`max_by`."""

    function: ClassVar[str] = "max_by"
    merge_rule: ClassVar[str] = "the value of the pane with the largest `by`"


@dataclass(frozen=True, slots=True, repr=False)
class CountDistinct(_OfOneCompared):
    """See :func:`count_distinct`."""

    function: ClassVar[str] = "count_distinct"
    merge_rule: ClassVar[str] = "panes keep each distinct value once; a window counts the union of its panes"


@dataclass(frozen=True, slots=True, repr=False)
class CollectList(_OfOne):
    """See :func:`collect_list`."""

    function: ClassVar[str] = "collect_list"
    merge_rule: ClassVar[str] = "the lists of panes are joined in the order of event time"


@dataclass(frozen=True, slots=True, repr=False)
class TopK(_OfOne):
    """See :func:`top_k`."""

    k: int
    by: str | None = None

    function: ClassVar[str] = "top_k"
    merge_rule: ClassVar[str] = "each pane keeps its k largest; a window keeps the k largest of these"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        if self.by is not None:
            check_expression(self.by, self.function, "by")
        check_count(self.k, self.function, "k", 1)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr,) if self.by is None else (self.expr, self.by)

    @property
    def compared(self) -> tuple[str, ...]:
        return (self.expr if self.by is None else self.by,)

    def _default_name(self) -> str:
        by = "" if self.by is None else f", {self.by}"
        return f"top_k({self.expr}, {self.k}{by})"


@dataclass(frozen=True, slots=True, repr=False)
class _OfRow(Aggregate):
    """An aggregate that picks a row, and keeps several expressions of it."""

    by: str
    exprs: tuple[str, ...]

    def __post_init__(self) -> None:
        check_expression(self.by, self.function, "by")
        if not self.exprs:
            raise InvalidPlanError(
                f"agg.{self.function}: nothing to keep of the row; write agg.{self.function}({self.by!r}, 'price')"
            )
        for expr in self.exprs:
            check_expression(expr, self.function, "expr")
        if len(set(self.exprs)) < len(self.exprs):
            raise InvalidPlanError(
                f"{self!r} keeps an expression twice: the fields of its struct are named by them; write each once"
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.exprs, self.by)

    @property
    def compared(self) -> tuple[str, ...]:
        return (self.by,)

    def _default_name(self) -> str:
        return f"{self.function}({', '.join((self.by, *self.exprs))})"

    def _arguments(self) -> list[object]:
        return [self.by, *self.exprs]


@dataclass(frozen=True, slots=True, repr=False)
class ArgMin(_OfRow):
    """See :func:`arg_min`."""

    function: ClassVar[str] = "arg_min"
    merge_rule: ClassVar[str] = "the values from the pane with the smallest `by`"


@dataclass(frozen=True, slots=True, repr=False)
class ArgMax(_OfRow):
    """See :func:`arg_max`."""

    function: ClassVar[str] = "arg_max"
    merge_rule: ClassVar[str] = "the values from the pane with the largest `by`"


@dataclass(frozen=True, slots=True, repr=False)
class WeightedMean(_OfOne):
    """See :func:`weighted_mean`."""

    weight: str

    function: ClassVar[str] = "weighted_mean"
    merge_rule: ClassVar[str] = "sums of weight and of value times weight are added, never subtracted, and divided at the end"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        check_expression(self.weight, self.function, "weight")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr, self.weight)


@dataclass(frozen=True, slots=True, repr=False)
class Histogram(_OfOne):
    """See :func:`histogram`."""

    edges: tuple[int | float | Decimal, ...]

    function: ClassVar[str] = "histogram"
    invertible: ClassVar[bool] = True
    merge_rule: ClassVar[str] = "counts of panes are added bin by bin, and subtracted again as the window slides on"

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        numbers = all(type(edge) in (int, float, Decimal) and math.isfinite(edge) for edge in self.edges)
        if not self.edges or not numbers or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise InvalidPlanError(
                f"agg.histogram: edges must be finite numbers, at least one, each larger than the one before, "
                f"got {self.edges!r}; write agg.histogram({self.expr!r}, [0, 10, 100])"
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr,)


@dataclass(frozen=True, slots=True, repr=False)
class ApproxCountDistinct(_OfOneCompared):
    """See :func:`approx_count_distinct`."""

    relative_sd: float = 0.02

    function: ClassVar[str] = "approx_count_distinct"
    merge_rule: ClassVar[str] = (
        "panes keep distinct hashes, many of them as a HyperLogLog sketch; a window takes the union, whatever its order"
    )

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")
        given = self.relative_sd
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0.0025 <= given <= 0.5:
            raise InvalidPlanError(
                f"agg.approx_count_distinct: relative_sd must be from 0.0025 to 0.5, got {given!r}; "
                f"write agg.approx_count_distinct({self.expr!r}, relative_sd=0.02), or agg.count_distinct for an exact count"
            )


@dataclass(frozen=True, slots=True, repr=False)
class ApproxQuantile(_OfOne):
    """See :func:`approx_quantile`."""

    probability: float
    k: int = 200

    function: ClassVar[str] = "approx_quantile"
    merge_rule: ClassVar[str] = (
        "panes keep their values, many of them as a t-digest; those of a window are merged, earlier panes first"
    )

    def __post_init__(self) -> None:
        _check_quantiles(self.function, self.expr, (self.probability,), self.k)

    def _default_name(self) -> str:
        return f"{self.function}({self.expr}, {self.probability!r})"


@dataclass(frozen=True, slots=True, repr=False)
class ApproxQuantiles(_OfOne):
    """See :func:`approx_quantiles`."""

    probabilities: tuple[float, ...]
    k: int = 200

    function: ClassVar[str] = "approx_quantiles"
    merge_rule: ClassVar[str] = ApproxQuantile.merge_rule

    def __post_init__(self) -> None:
        _check_quantiles(self.function, self.expr, self.probabilities, self.k)

    def _default_name(self) -> str:
        return f"{self.function}({self.expr}, {list(self.probabilities)!r})"


def _check_quantiles(function: str, expr: str, probabilities: Sequence[float], k: int) -> None:
    check_expression(expr, function, "expr")
    given = all(not isinstance(p, bool) and isinstance(p, int | float) and 0 <= p <= 1 for p in probabilities)
    if not probabilities or not given:
        hint = "0.99" if function == "approx_quantile" else "[0.5, 0.99]"
        raise InvalidPlanError(
            f"agg.{function}: a quantile is asked for by a number from 0 to 1, got {probabilities!r}; "
            f"write agg.{function}({expr!r}, {hint})"
        )
    check_count(k, function, "k", 10, 65535)
