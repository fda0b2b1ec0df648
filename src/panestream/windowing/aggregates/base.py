"""Common base classes and checks of declared aggregates."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias, TypeVar

from panestream.errors import InvalidPlanError

__all__ = ["Aggregate"]

_Self = TypeVar("_Self", bound="Aggregate")
Expression: TypeAlias = Any
"""The input of an aggregate: a column name, SQL text, or a ``pyspark.sql.Column``."""


class ColumnText(str):
    """A PySpark Column in place of text, until Spark can name it. Equal only for the same object: Columns cannot be compared."""

    __slots__ = ("column",)

    column: Any

    def __new__(cls, column: Any) -> ColumnText:  # noqa: PYI034 - typing.Self came with 3.11
        """Create it with a provisional text, since Spark's two clients print Columns differently."""
        made = super().__new__(cls, repr(column).removeprefix("Column<'").removesuffix("'>"))
        made.column = column
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnText) and other.column is self.column

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(self.column)

    def __repr__(self) -> str:
        return f"Column<{str(self)!r}>"


@dataclass(frozen=True, slots=True, repr=False)
class Aggregate(ABC):  # noqa: B024 - what subclasses give are class attributes
    """A declared aggregate, equal to one with the same parameters; its ``repr`` rebuilds it.

    ``output_name`` is the name of the result column, or None for the default. Flink: ``AggregateFunction``; the closest in Spark
    is an aggregate expression such as ``F.sum("price")``.

    >>> import panestream as pst
    >>> isinstance(pst.agg.sum("price"), Aggregate), pst.agg.sum("price").alias("revenue").output_name
    (True, 'revenue')
    """

    function: ClassVar[str] = ""
    """The name for users: ``agg.<function>``."""
    invertible: ClassVar[bool] = False
    """True if partials can be subtracted from a whole, never for floating point, which is not exact."""
    merge_rule: ClassVar[str] = ""
    """How partial results of parts (panes, or merging sessions) become the result of a window, in one sentence."""
    keeps_values: ClassVar[bool] = True
    """True if results contain input values, so that their properties in Spark (a collation) must be kept."""
    plain_arguments: ClassVar[bool] = True
    """True if all arguments are texts, numbers and the like, which a job file can contain."""

    output_name: str | None = field(default=None, kw_only=True)

    def alias(self: _Self, name: str) -> _Self:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        """Return a copy with the result column ``name``, or raise InvalidPlanError for an empty or non-string name.

        >>> from panestream import agg
        >>> agg.sum("price").alias("revenue")
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
        """The SQL expressions of the inputs, in order."""
        return ()

    def resolved(self: _Self, text_of: Callable[[ColumnText], str]) -> _Self:  # noqa: PYI019
        """Return a copy with the texts that ``text_of`` returns for Columns."""
        changes: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, ColumnText):
                changes[one.name] = text_of(value)
            elif isinstance(value, tuple) and any(isinstance(part, ColumnText) for part in value):
                changes[one.name] = tuple([text_of(part) if isinstance(part, ColumnText) else part for part in value])
        return replace(self, **changes) if changes else self

    @property
    def compared(self) -> tuple[str, ...]:
        """The inputs whose values are compared with one another, so that string comparison matters."""
        return ()

    @property
    def struct_fields(self) -> tuple[str, ...]:
        """The names of the fields if the result is a struct."""
        return ()

    def _default_name(self) -> str:
        return f"{self.function}({', '.join(self.inputs)})" if self.inputs else self.function

    def __repr__(self) -> str:
        given = [repr(value) for value in self._arguments()]
        alias = "" if self.output_name is None else f".alias({self.output_name!r})"
        return f"agg.{self.function}({', '.join(given)}){alias}"

    def _arguments(self) -> list[object]:
        """Return the positional arguments that rebuild it, without trailing defaults."""
        own = [f for f in fields(self) if f.name != "output_name"]
        values = [getattr(self, f.name) for f in own]
        while own and values[-1] == own[-1].default:
            own, values = own[:-1], values[:-1]
        return values


@dataclass(frozen=True, slots=True, repr=False)
class OfOne(Aggregate):
    """An aggregate of one expression."""

    expr: str

    def __post_init__(self) -> None:
        check_expression(self.expr, self.function, "expr")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expr,)


@dataclass(frozen=True, slots=True, repr=False)
class OfOneCompared(OfOne):
    """An aggregate of one expression that compares its values."""

    @property
    def compared(self) -> tuple[str, ...]:
        return (self.expr,)


def text_of(expr: Expression) -> Any:
    """Return an expression as text: a PySpark Column as a :class:`ColumnText`, anything else unchanged for a later check."""
    return ColumnText(expr) if is_column(expr) else expr


def is_column(value: object) -> bool:
    """Return whether it is a PySpark Column of either client. It compares names, since Spark is not imported here."""
    return any(one.__module__ == "pyspark.sql.column" and one.__name__ == "Column" for one in type(value).__mro__)


def check_expression(expr: object, function: str, argument: str) -> None:
    """Raise InvalidPlanError unless ``expr`` is a column name or SQL text."""
    if isinstance(expr, str) and expr.strip():
        return
    call = f"agg.{function}('price')" if argument == "expr" else f"agg.{function}(..., {argument}='price')"
    if isinstance(expr, str):
        raise InvalidPlanError(f"agg.{function}: {argument} is empty; write a column name or SQL text, e.g. {call}")
    raise InvalidPlanError(
        f"agg.{function}: {argument} must be a column name, SQL text or a Column, not {type(expr).__name__}; "
        f"write {call} or agg.{function}('price * quantity')"
    )


def check_count(value: object, function: str, argument: str, least: int, most: int | None = None) -> None:
    """Raise InvalidPlanError unless ``value`` is a whole number from ``least`` to ``most``."""
    if not isinstance(value, bool) and isinstance(value, int) and value >= least and (most is None or value <= most):
        return
    wanted = "a positive integer" if (least, most) == (1, None) else f"an integer from {least} to {most}"
    raise InvalidPlanError(f"agg.{function}: {argument} must be {wanted}, got {value!r}; write e.g. {argument}={max(least, 3)}")


def plain_number(value: Any) -> Any:
    """Return a numpy number as a Python number, whose repr is the same everywhere; other values stay unchanged."""
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, Integral) else float(value) if isinstance(value, Real) else value


def _check_alias(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidPlanError(f"an alias must be a non-empty string, got {name!r}; write .alias('revenue')")
