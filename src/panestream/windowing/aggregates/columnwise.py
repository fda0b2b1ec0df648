"""What users subclass to write aggregates of their own: functions on whole columns. `agg.user` makes a recipe of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ColumnAggregate"]


class ColumnAggregate(ABC):
    """An aggregate of your own, computed on whole columns: subclass it, and use it with :func:`user`.

    Rows are reduced to one partial per key and pane, partials are merged, and a window's partial becomes its result. Each of the
    three is called once for many groups: ``group`` has the number of each row's group, from 0 to ``groups - 1``, and every group
    has at least one row. The rows of a group come in the order of arrival; when panes are merged, earlier panes come first.
    Merging must be associative, and must not change anything else: panes are merged in whatever steps suit the windows.

    Flink: ``AggregateFunction`` (``add``, ``merge``, ``getResult``), which sees one row at a time. Spark: a pandas UDF of grouped
    aggregation, which has no merging.

    The instance is pickled with the plan. Its ``repr`` is part of what ties a checkpoint to the query: by default it is made of
    the class name and the instance's attributes, which also decide whether two instances are equal.

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
    """The Arrow type of a partial: a struct where it has several parts. It is written to state, so it must not change lightly."""
    result_type: ClassVar[pa.DataType]
    """The Arrow type of the result column, one that Spark has too."""

    @abstractmethod
    def partial(self, values: Sequence[pa.Array], group: npt.NDArray[np.int64], groups: int) -> pa.Array:
        """One partial per group of input rows.

        Args:
            values: the columns of the expressions, with their nulls.
            group: the group of each row.
            groups: how many there are.

        Returns:
            An array of :attr:`partial_type`, ``groups`` long; or a numpy array that becomes one.
        """

    @abstractmethod
    def merge(self, partial: pa.Array, group: npt.NDArray[np.int64], groups: int) -> pa.Array:
        """One partial per group of partials.

        Args:
            partial: the partials.
            group: the group of each.
            groups: how many there are.

        Returns:
            As :meth:`partial`.
        """

    @abstractmethod
    def final(self, partial: pa.Array) -> pa.Array:
        """The results of partials: an array of :attr:`result_type`, as long as ``partial``."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in sorted(vars(self).items()))})"
