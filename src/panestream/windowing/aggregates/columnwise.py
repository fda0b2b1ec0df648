"""The base class of user-defined aggregates over whole columns, which ``agg.user`` turns into recipes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ColumnAggregate"]


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
