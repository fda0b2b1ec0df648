"""The smallest and the largest value, and values of one row: the first, last, smallest or largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Aggregate, Expression, OfOne, OfOneCompared, check_expression, text_of


@dataclass(frozen=True, slots=True, repr=False)
class Min(OfOneCompared):
    """See :func:`min`."""

    function: ClassVar[str] = "min"
    merge_rule: ClassVar[str] = "the smallest of the parts' smallest values"


@dataclass(frozen=True, slots=True, repr=False)
class Max(OfOneCompared):
    """See :func:`max`."""

    function: ClassVar[str] = "max"
    merge_rule: ClassVar[str] = "the largest of the parts' largest values"


def min(expr: Expression) -> Min:  # noqa: A001
    """Return the smallest value that is not null, of any orderable type; NaN is larger than any other number.

    Examples:
        >>> min("price")
        agg.min('price')
    """
    return Min(text_of(expr))


def max(expr: Expression) -> Max:  # noqa: A001
    """Return the largest value that is not null, of any orderable type; NaN is larger than any other number.

    Examples:
        >>> max("price")
        agg.max('price')
    """
    return Max(text_of(expr))


@dataclass(frozen=True, slots=True, repr=False)
class First(OfOne):
    """See :func:`first`."""

    ignore_nulls: bool = False

    function: ClassVar[str] = "first"
    merge_rule: ClassVar[str] = "the value of the part whose first row has the earliest event time"


@dataclass(frozen=True, slots=True, repr=False)
class Last(OfOne):
    """See :func:`last`."""

    ignore_nulls: bool = False

    function: ClassVar[str] = "last"
    merge_rule: ClassVar[str] = "the value of the part whose last row has the latest event time"


@dataclass(frozen=True, slots=True, repr=False)
class _OfTwo(OfOne):
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
    merge_rule: ClassVar[str] = "the value of the part with the smallest `by`"


@dataclass(frozen=True, slots=True, repr=False)
class MaxBy(_OfTwo):
    """See :func:`max_by`."""

    function: ClassVar[str] = "max_by"
    merge_rule: ClassVar[str] = "the value of the part with the largest `by`"


@dataclass(frozen=True, slots=True, repr=False)
class _OfRow(Aggregate):
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
    def struct_fields(self) -> tuple[str, ...]:
        return self.exprs

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
    merge_rule: ClassVar[str] = "the values from the part with the smallest `by`"


@dataclass(frozen=True, slots=True, repr=False)
class ArgMax(_OfRow):
    """See :func:`arg_max`."""

    function: ClassVar[str] = "arg_max"
    merge_rule: ClassVar[str] = "the values from the part with the largest `by`"


def first(expr: Expression, ignore_nulls: bool = False) -> First:
    """Return ``expr`` of the row with the earliest event time, then the first to arrive. ``ignore_nulls`` skips null ``expr``.

    >>> first("page", ignore_nulls=True)
    agg.first('page', True)
    """
    return First(text_of(expr), ignore_nulls)


def last(expr: Expression, ignore_nulls: bool = False) -> Last:
    """Return ``expr`` of the row with the latest event time, then the last to arrive. ``ignore_nulls`` skips null ``expr``.

    Examples:
        >>> last("price")
        agg.last('price')
    """
    return Last(text_of(expr), ignore_nulls)


def min_by(expr: Expression, by: Expression) -> MinBy:
    """Return ``expr`` (null or not) of the row with the smallest ``by``; ties and nulls are as for :func:`max_by`.

    Examples:
        >>> min_by("page", "price")
        agg.min_by('page', 'price')
    """
    return MinBy(text_of(expr), text_of(by))


def max_by(expr: Expression, by: Expression) -> MaxBy:
    """Return ``expr`` (null or not) of the row with the largest ``by``. Rows with a null ``by`` are ignored.

    Ties go to the row with the earliest event time, then to the first to arrive.

    Examples:
        >>> max_by("page", "price")
        agg.max_by('page', 'price')
    """
    return MaxBy(text_of(expr), text_of(by))


def arg_max(by: Expression, *exprs: Expression) -> ArgMax:
    """Return several expressions of the row with the largest ``by``, as one struct; null if every ``by`` is null.

    ``by`` has any orderable type, and NaN is larger than any other number. Ties go to the row with the earliest event time, then
    to the first to arrive, as with :func:`max_by`. Rows with a null ``by`` are ignored; other nulls are values like any other.
    ``exprs`` give the struct's fields their names and types. Raises InvalidPlanError without them, or if one occurs twice.
    Flink: ``maxBy`` on a ``DataStream``, which keeps the whole row.

    >>> arg_max("ts", "page", "price").name
    'arg_max(ts, page, price)'
    """
    return ArgMax(text_of(by), tuple([text_of(expr) for expr in exprs]))


def arg_min(by: Expression, *exprs: Expression) -> ArgMin:
    """Return several expressions of the row with the smallest ``by``, as one struct; otherwise like :func:`arg_max`.

    Flink: ``minBy`` on a ``DataStream``, which keeps the whole row.

    >>> arg_min("ts", "page")
    agg.arg_min('ts', 'page')
    """
    return ArgMin(text_of(by), tuple([text_of(expr) for expr in exprs]))


__all__ = [
    "ArgMax",
    "ArgMin",
    "First",
    "Last",
    "Max",
    "MaxBy",
    "Min",
    "MinBy",
    "arg_max",
    "arg_min",
    "first",
    "last",
    "max",
    "max_by",
    "min",
    "min_by",
]
