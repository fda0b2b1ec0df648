"""What all declared aggregates have in common."""

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


def check_expression(expr: object, function: str, argument: str) -> None:
    """Raises InvalidPlanError where ``expr`` is no column name or SQL text."""
    if isinstance(expr, str) and expr.strip():
        return
    call = f"agg.{function}('price')" if argument == "expr" else f"agg.{function}(..., {argument}='price')"
    if isinstance(expr, str):
        raise InvalidPlanError(f"agg.{function}: {argument} is empty; write a column name or SQL text, e.g. {call}")
    raise InvalidPlanError(
        f"agg.{function}: {argument} must be a string, a column name or SQL text, not {type(expr).__name__}; "
        f"write {call} or agg.{function}('price * quantity') instead of a Column object"
    )


def check_count(value: object, function: str, argument: str, least: int, most: int | None = None) -> None:
    """Raises InvalidPlanError where ``value`` is no whole number from ``least`` to ``most``."""
    if not isinstance(value, bool) and isinstance(value, int) and value >= least and (most is None or value <= most):
        return
    wanted = "a positive integer" if (least, most) == (1, None) else f"an integer from {least} to {most}"
    raise InvalidPlanError(f"agg.{function}: {argument} must be {wanted}, got {value!r}; write e.g. {argument}={max(least, 3)}")


def _check_alias(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidPlanError(f"an alias must be a non-empty string, got {name!r}; write .alias('revenue')")
