"""The recipe of a user-defined aggregate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Aggregate, Expression, check_expression, text_of
from panestream.windowing.aggregates.columnwise import ColumnAggregate
from panestream.windowing.signatures import check_methods

__all__ = ["User", "user"]


@dataclass(frozen=True, slots=True, repr=False)
class User(Aggregate):
    """See :func:`user`."""

    written: ColumnAggregate
    exprs: tuple[str, ...]

    function: ClassVar[str] = "user"
    plain_arguments: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "partials of parts are merged by the user's own function, earlier parts first"

    def __post_init__(self) -> None:
        written: Any = self.written
        if not isinstance(written, ColumnAggregate):
            instance = " (an instance of it, not the class)" if isinstance(written, type) else ""
            raise InvalidPlanError(
                f"agg.user: the first argument must be a ColumnAggregate{instance}, got {written!r}; "
                "write agg.user(GeometricMean(), 'price')"
            )
        for name in ("partial_type", "result_type"):
            if not isinstance(getattr(written, name, None), pa.DataType):
                raise InvalidPlanError(f"agg.user: {type(written).__name__}.{name} must be an Arrow type, e.g. pa.float64()")
        check_methods(written, ColumnAggregate)
        if not self.exprs:
            raise InvalidPlanError(f"agg.user: {written!r} gets no column; write agg.user({written!r}, 'price')")
        for expr in self.exprs:
            check_expression(expr, "user", "expr")

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.exprs

    def _default_name(self) -> str:
        return f"{type(self.written).__name__}({', '.join(self.exprs)})"

    def _arguments(self) -> list[object]:
        return [self.written, *self.exprs]


def user(written: ColumnAggregate, *exprs: Expression) -> User:
    """Use a user-defined aggregate, an instance of a :class:`ColumnAggregate`, over the columns ``exprs`` in this order.

    Raises InvalidPlanError if it is not an instance, lacks a type, has methods with other arguments, or gets no column.
    Flink: ``stream.window(...).aggregate(AggregateFunction)``.

    >>> import numpy as np, pyarrow as pa, pyarrow.compute as pc
    >>> class Longest(ColumnAggregate):
    ...     partial_type = result_type = pa.int64()
    ...
    ...     def partial(self, values, group, groups):
    ...         return self.merge(pc.fill_null(pc.binary_length(values[0]), 0), group, groups)
    ...
    ...     def merge(self, partial, group, groups):
    ...         longest = np.zeros(groups, np.int64)
    ...         np.maximum.at(longest, group, partial.to_numpy())
    ...         return longest
    ...
    ...     def final(self, partial):
    ...         return partial
    >>> user(Longest(), "url").alias("longest")
    agg.user(Longest(), 'url').alias('longest')
    """
    return User(written, tuple([text_of(expr) for expr in exprs]))
