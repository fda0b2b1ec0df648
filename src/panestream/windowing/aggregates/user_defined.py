"""User-defined aggregates over whole columns: the base class, and the recipe that ``agg.user`` makes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates.base import Aggregate, Expression, check_expression, text_of
from panestream.windowing.signatures import check_methods


class ColumnAggregate(ABC):
    """A user-defined aggregate that computes on whole columns: subclass it, and use it with :func:`user`.

    Rows are reduced to one partial per key and pane, partials are merged, and a window's partial becomes its result. Each method
    is called once for many groups: ``group`` has the number of each row's group, from 0 to ``groups - 1``, and every group has at
    least one row. The rows of a group come in the order of arrival; when panes are merged, earlier panes come first. Merging must
    be associative and without side effects, since panes are merged in whatever steps suit the windows.

    The instance is pickled with the plan. Its ``repr`` ties a checkpoint to the query. By default it consists of the class name
    and the attributes, which also decide whether two instances are equal. Flink: ``AggregateFunction`` (``add``, ``merge``,
    ``getResult``), which sees one row at a time. Spark: a pandas UDF of grouped aggregation, without merging.

    >>> class GeometricMean(ColumnAggregate):
    ...     partial_type = pa.struct([("logs", pa.float64()), ("n", pa.int64())])
    ...     result_type = pa.float64()
    ...
    ...     def partial(self, values, group, groups):
    ...         rows = np.flatnonzero(values[0].is_valid())  # as SQL's aggregates do: nulls do not count
    ...         logs = np.log(values[0].drop_null().to_numpy())
    ...         return self._struct(np.bincount(group[rows], logs, groups), np.bincount(group[rows], minlength=groups))
    ...
    ...     def merge(self, partial, group, groups):
    ...         logs, n = (field.to_numpy() for field in partial.flatten())
    ...         return self._struct(np.bincount(group, logs, groups), np.bincount(group, n, groups).astype(np.int64))
    ...
    ...     def final(self, partial):
    ...         logs, n = (field.to_numpy() for field in partial.flatten())
    ...         return pa.array(np.exp(logs / np.maximum(n, 1)), mask=n == 0)
    ...
    ...     def _struct(self, logs, n):
    ...         return pa.StructArray.from_arrays([pa.array(logs), pa.array(n)], fields=list(self.partial_type))
    >>> mean = GeometricMean()
    >>> partials = mean.partial([pa.array([1.0, 4.0, None, 1.0])], np.array([0, 0, 0, 1]), 2)
    >>> mean.final(mean.merge(partials, np.array([0, 1]), 2)).to_pylist()
    [2.0, 1.0]
    """

    partial_type: ClassVar[pa.DataType]
    """The Arrow type of a partial, a struct if it has several parts. State contains it, so do not change it lightly."""
    result_type: ClassVar[pa.DataType]
    """The Arrow type of the result column, which Spark must also have."""

    @abstractmethod
    def partial(self, values: Sequence[pa.Array], group: npt.NDArray[np.int64], groups: int) -> pa.Array:
        """Return one partial per group of rows: :attr:`partial_type`, length ``groups``, or a numpy array. Nulls are included."""

    @abstractmethod
    def merge(self, partial: pa.Array, group: npt.NDArray[np.int64], groups: int) -> pa.Array:
        """Return one partial per group of partials, like :meth:`partial`."""

    @abstractmethod
    def final(self, partial: pa.Array) -> pa.Array:
        """Return the results of partials: an array of :attr:`result_type`, as long as ``partial``."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in sorted(vars(self).items()))})"


@dataclass(frozen=True, slots=True, repr=False)
class User(Aggregate):
    """See :func:`user`."""

    written: ColumnAggregate
    exprs: tuple[str, ...]

    function: ClassVar[str] = "user"
    plain_arguments: ClassVar[bool] = False
    merge_rule: ClassVar[str] = "partials of parts are merged by the user function, earlier parts first"

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


__all__ = ["ColumnAggregate", "User", "user"]
