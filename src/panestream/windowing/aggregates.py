"""Declared aggregates: what to compute over the rows of a window, said as data so that the engine can compute it on columns.

This module is the public namespace ``panestream.agg``. Every function returns an immutable recipe; nothing is computed here.
An expression is the name of a column or SQL text (``"price * quantity"``), as in Spark's ``selectExpr``. Nulls and types follow
Spark SQL in ANSI mode: nulls are left out, an overflow is an error and never a silent wrap.

>>> agg_list = [count().alias("clicks"), sum("price * quantity").alias("revenue"), max("price")]
>>> [a.name for a in agg_list]
['clicks', 'revenue', 'max(price)']
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, TypeVar

from panestream.errors import InvalidPlanError

_Self = TypeVar("_Self", bound="Aggregate")


@dataclass(frozen=True, slots=True, repr=False)
class Aggregate(ABC):  # noqa: B024 - what subclasses give are class attributes
    """One declared aggregate: equal when its parameters are, with a ``repr`` that rebuilds it.

    Flink: ``AggregateFunction``; the closest in Spark is an aggregate expression such as ``F.sum("price")``.

    Attributes:
        output_name: the name of the result column, or None for the default.
    """

    function: ClassVar[str] = ""
    """How users call it: ``agg.<function>``."""
    invertible: ClassVar[bool] = False
    """Whether a partial can be taken out of a whole again (exact types only: floating point never is)."""
    merge_rule: ClassVar[str] = ""
    """One sentence on how partial results of panes become the result of a window."""

    output_name: str | None = field(default=None, kw_only=True)

    def alias(self: _Self, name: str) -> _Self:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        """A copy whose result column is called ``name``.

        >>> sum("price").alias("revenue")
        agg.sum('price').alias('revenue')

        Raises:
            InvalidPlanError: ``name`` is not a string, or empty.
        """
        _check_alias(name)
        return replace(self, output_name=name)

    @property
    def name(self) -> str:
        """The name of the result column: the alias, or the call itself, e.g. ``sum(price)``."""
        return self.output_name if self.output_name is not None else self._default_name()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The SQL expressions whose values it needs, in order."""
        return ()

    def _default_name(self) -> str:
        return f"{self.function}({', '.join(self.inputs)})" if self.inputs else self.function

    def __repr__(self) -> str:
        given = [repr(value) for value in self._arguments()]
        alias = "" if self.output_name is None else f".alias({self.output_name!r})"
        return f"agg.{self.function}({', '.join(given)}){alias}"

    def _arguments(self) -> list[object]:
        """The positional arguments that rebuild it; trailing defaults are left out."""
        own = [f for f in fields(self) if f.name != "output_name"]
        values = [getattr(self, f.name) for f in own]
        while own and values[-1] == own[-1].default:
            own, values = own[:-1], values[:-1]
        return values


@dataclass(frozen=True, slots=True, repr=False)
class _OfOne(Aggregate):
    """An aggregate of one expression."""

    expr: str

    def __post_init__(self) -> None:
        _check_expression(self.expr, self.function, "expr")

    @property
    def inputs(self) -> tuple[str, ...]:
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
            _check_expression(self.expr, self.function, "expr")

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
class Min(_OfOne):
    """See :func:`min`."""

    function: ClassVar[str] = "min"
    merge_rule: ClassVar[str] = "the smallest of the panes' smallest values"


@dataclass(frozen=True, slots=True, repr=False)
class Max(_OfOne):
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
        _check_expression(self.expr, self.function, "expr")
        _check_expression(self.by, self.function, "by")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr, self.by)


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
class CountDistinct(_OfOne):
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
        _check_expression(self.expr, self.function, "expr")
        if self.by is not None:
            _check_expression(self.by, self.function, "by")
        _check_k(self.k, self.expr)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr,) if self.by is None else (self.expr, self.by)

    def _default_name(self) -> str:
        by = "" if self.by is None else f", {self.by}"
        return f"top_k({self.expr}, {self.k}{by})"


def count(expr: str | None = None) -> Count:
    """The number of rows, or of rows where ``expr`` is not null; bigint, never null.

    >>> count(), count("price").name
    (agg.count(), 'count(price)')
    """
    return Count(None if expr == "*" else expr)


def sum(expr: str) -> Sum:  # noqa: A001 - the SQL name, as in pyspark.sql.functions
    """The sum of the values that are not null; null where there is none.

    Integers sum to bigint, float and double to double, decimal(p, s) to decimal(min(38, p + 10), s). A sum that leaves the range
    of its type is an :class:`~panestream.errors.AggregateOverflowError`; sums on the way there may leave it.
    """
    return Sum(expr)


def min(expr: str) -> Min:  # noqa: A001
    """The smallest value that is not null, of any orderable type; NaN is larger than any other number."""
    return Min(expr)


def max(expr: str) -> Max:  # noqa: A001
    """The largest value that is not null, of any orderable type; NaN is larger than any other number."""
    return Max(expr)


def mean(expr: str) -> Mean:
    """The mean of the values that are not null: double, or decimal(p + 4, s + 4), rounded half up, for decimal(p, s)."""
    return Mean(expr)


avg = mean
"""The same as :func:`mean`."""


def var(expr: str) -> Var:
    """The sample variance (SQL ``var_samp``); null for fewer than two values."""
    return Var(expr)


def stddev(expr: str) -> Stddev:
    """The sample standard deviation (SQL ``stddev_samp``); null for fewer than two values."""
    return Stddev(expr)


def first(expr: str, ignore_nulls: bool = False) -> First:
    """The value of the row with the earliest event time; of several, of the one that arrived first.

    Args:
        expr: what to take from the row.
        ignore_nulls: look only at rows where ``expr`` is not null.

    >>> first("page", ignore_nulls=True)
    agg.first('page', True)
    """
    return First(expr, ignore_nulls)


def last(expr: str, ignore_nulls: bool = False) -> Last:
    """The value of the row with the latest event time; of several, of the one that arrived last.

    Args:
        expr: what to take from the row.
        ignore_nulls: look only at rows where ``expr`` is not null.
    """
    return Last(expr, ignore_nulls)


def min_by(expr: str, by: str) -> MinBy:
    """The value of ``expr`` (null or not) in the row with the smallest ``by``.

    Of several such rows the one in the earliest pane counts (see ``explain()``), and of these the one that arrived first.
    Rows with a null ``by`` are left out.
    """
    return MinBy(expr, by)


def max_by(expr: str, by: str) -> MaxBy:
    """The value of ``expr`` (null or not) in the row with the largest ``by``.

    Of several such rows the one in the earliest pane counts (see ``explain()``), and of these the one that arrived first.
    Rows with a null ``by`` are left out.
    """
    return MaxBy(expr, by)


def count_distinct(expr: str) -> CountDistinct:
    """The number of distinct values that are not null; exact, so the state holds each value once per pane."""
    return CountDistinct(expr)


def collect_list(expr: str) -> CollectList:
    """The values that are not null, by event time, those of the same time in the order of arrival."""
    return CollectList(expr)


def top_k(expr: str, k: int, by: str | None = None) -> TopK:
    """The ``k`` largest values of ``expr``, largest first; or, with ``by``, the values of the rows with the ``k`` largest ``by``.

    Of equals the one with the earliest event time counts, then the one that arrived first. Rows where ``expr`` or ``by`` is
    null are left out.

    >>> top_k("url", 3, by="hits")
    agg.top_k('url', 3, 'hits')
    """
    return TopK(expr, k, by)


def _check_alias(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidPlanError(f"an alias must be a non-empty string, got {name!r}; write .alias('revenue')")


def _check_k(k: object, expr: str) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidPlanError(f"agg.top_k: k must be a positive integer, got {k!r}; write agg.top_k({expr!r}, 3)")


def _check_expression(expr: object, function: str, argument: str) -> None:
    if isinstance(expr, str) and expr.strip():
        return
    call = f"agg.{function}('price')" if argument == "expr" else f"agg.{function}(..., by='price')"
    if isinstance(expr, str):
        raise InvalidPlanError(f"agg.{function}: {argument} is empty; write a column name or SQL text, e.g. {call}")
    raise InvalidPlanError(
        f"agg.{function}: {argument} must be a string, a column name or SQL text, not {type(expr).__name__}; "
        f"write {call} or agg.{function}('price * quantity') instead of a Column object"
    )
