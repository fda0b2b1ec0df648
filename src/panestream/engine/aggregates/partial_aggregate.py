"""Partial aggregates of a key and pane: their columns, and how these are made, merged and combined over windows.

An aggregate is computed from one or more partial aggregates, which aggregates over the same expression share (sum, mean and count
of ``price`` need two). A partial aggregate handles groups and ranges, never windows, keys or rows.

    reduce    input rows                         -> one partial row per (key, pane)
    merge     partial rows of the same key, pane -> one partial row per (key, pane)
    combine   partial rows of overlapping windows -> one row per (key, window), finalized: no row is copied into its windows
    finalize  partial rows, one per (key, window) already (windows that do not overlap, sessions) -> the same
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cached_property
from types import FunctionType
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Mask, Vector, floats_of, numbers, valid_of
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ordering import Codes, order_codes
from panestream.engine.kernels.ranges import Ranges, SparseRanges, State

KEEPS = ", keeps "
"""Separates the name of a user's function from its accumulator types in :meth:`PartialAggregate.described`."""


class Input:
    """One value column of a batch, with cached forms that several partial aggregates need."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    @cached_property
    def rows(self) -> Ints | None:
        """The rows that are not null, ascending, or None for all rows."""
        valid = valid_of(self.array)
        return None if valid is None else np.flatnonzero(valid)

    @cached_property
    def codes(self) -> Codes:
        """The order codes of all rows."""
        return order_codes(self.array)

    @cached_property
    def present(self) -> pa.Array:
        """The values that are not null."""
        return self.array if self.rows is None else self.array.drop_null()

    @cached_property
    def floats(self) -> Vector:
        """The values that are not null, as float64."""
        return floats_of(self.present)


@dataclass(frozen=True, slots=True)
class Batch:
    """The input rows of one call: value columns in the order of the plan's inputs, and event times if needed."""

    values: Sequence[Input]
    times: Ints | None

    @property
    def known_times(self) -> Ints:
        """The event times, which must be present."""
        if self.times is None:
            raise ValueError("an aggregate orders by event time: timestamps are needed")
        return self.times


@dataclass(frozen=True, slots=True)
class PartialAggregate(ABC):
    """One kind of partial over one expression; equal partials are stored once.

    ``source`` is the number of the expression among the plan's inputs.
    """

    source: int

    orders_by_time: ClassVar[bool] = False
    """True if it needs the event times of rows."""
    grows: ClassVar[str] = ""
    """A description of stored data that grows with the rows; empty if the size is bounded."""
    expressions: ClassVar[tuple[str, ...]] = ("source",)
    """Attributes that are expression numbers: a number, None, or a tuple of numbers or of (number, type)."""
    needs_rows: ClassVar[bool] = False
    """True if windows combine it from consecutive partial rows (sparse ranges), not from a matrix."""

    merges_exactly: ClassVar[bool] = False
    """True if neighbours may be merged in any order-preserving grouping without changing a bit of the results."""

    counts: ClassVar[str | None] = None
    """The column that counts values, in which null means all rows, or None."""
    is_users: ClassVar[bool] = False
    """True if user code merges it and computes its results; this code is not available when state is only inspected."""

    @property
    def follows_arrival(self) -> bool:
        """True if the order of arrival matters for rows with equal event times."""
        return False

    @property
    def keeps_order(self) -> bool:
        """True if the order of two panes' partials matters."""
        return self.needs_rows

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Name and type of its columns in the partial table."""

    @abstractmethod
    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        """Reduce input rows to one partial per group."""

    @abstractmethod
    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        """Merge partial rows, given in order of arrival, to one partial per group.

        ``columns`` are the partial's own; ``rows`` is the number of input rows of each partial row.
        """

    @abstractmethod
    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        """Combine partial rows, one per key and pane, to one finalized row per (key, window), as ``ranges`` defines.

        ``columns`` are the partial's own; ``rows`` is the number of input rows of each partial row.
        """

    def nothing(self, count: int) -> list[pa.Array]:
        """Return the columns of ``count`` partials of no rows, which leave every partial unchanged that they are merged with.

        Raises InvalidPlanError if a user function makes the partial and needs rows for it.
        """
        none = np.zeros(0, np.int64)
        groups = Groups(none, count, None, np.zeros(count, np.int64), np.zeros(count, np.int64), np.arange(count), False)
        return self.merge(groups, [pa.array([], type_) for _, type_ in self.columns], none)

    def without(self, rows: Ints, *, known: bool) -> list[pa.Array]:
        """Return the columns of partials that are added to open windows: partials of no rows, although there were rows.

        ``rows`` is the number of input rows of each partial row. For a partial that reports on another partial
        (:mod:`panestream.engine.aggregates.complete`), ``known`` means that the latter includes all rows.
        """
        return self.nothing(len(rows))

    def described(self, inputs: Sequence[str]) -> str:
        """Describe the partial independently of other aggregates; state is found by this description.

        >>> from panestream.engine.aggregates.counts import PartialCount
        >>> PartialCount(1).described(["price", "user"])
        "PartialCount(source='user')"
        """

        def named(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(named, value))
            return inputs[value] if isinstance(value, int) else value if value is None else str(value)

        own = {field.name: getattr(self, field.name) for field in fields(self)}
        told = {name: repr(named(value)) if name in self.expressions else words_of(value) for name, value in own.items()}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in told.items())})"

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        """Finalize partial rows, one per (key, window), to the form that :meth:`combine` returns."""
        return list(columns)

    def sql(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Return SQL aggregate expressions with which Spark can reduce the rows of a batch.

        They must give the same bits for every order of rows, or be None if that is impossible. ``names`` are the columns of the
        plan's inputs in SQL.
        """
        return None

    def from_sql(self, results: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the partial's columns from the results of :meth:`sql`; the caller casts them to the types of :attr:`columns`."""
        return list(results)


def words_of(value: Any) -> str:
    """Describe a parameter of a partial; user code is described by its name, because the code may change."""
    if isinstance(value, pa.Schema):
        return f"({', '.join(f'{field.name} {field.type}' for field in value)})"
    if value is None or isinstance(value, (bool, int, float, str, tuple, Decimal)):
        return repr(value)
    if isinstance(value, pa.DataType):
        return str(value)
    return "function" if isinstance(value, FunctionType) else type(value).__qualname__


def counts_of(column: pa.Array, rows: Ints) -> Ints:
    """Return a count column as numbers, with null replaced by ``rows``."""
    if column.null_count == len(column):
        return rows
    counts: Ints = numbers(column)
    valid = valid_of(column)
    return counts if valid is None else np.where(valid, counts, rows)


def any_value(counts: pa.Array, rows: Ints) -> Mask | None:
    """Return which partial rows have a value, or None if all do."""
    if counts.null_count == len(counts):
        return None
    return counts_of(counts, rows) > 0


def all_rows(count: int) -> pa.Array:
    """Return a count column that means "all input rows" in every row."""
    return pa.nulls(count, pa.int64())


def smaller(a: State, b: State) -> State:
    """Combine by the smaller code."""
    return (np.minimum(a[0], b[0]),)


def plus(a: State, b: State) -> State:
    """Combine by addition."""
    return tuple(left + right for left, right in zip(a, b, strict=True))


def sparse(ranges: Ranges) -> SparseRanges:
    """Return sparse ranges, which partial aggregates with ``needs_rows`` require."""
    if not isinstance(ranges, SparseRanges):
        raise TypeError("partials of lists are combined over sparse ranges")
    return ranges
