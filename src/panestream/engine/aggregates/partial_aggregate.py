"""What is kept of a key and pane, column by column, and how it is made, merged and combined over windows.

An aggregate is computed from one or more partial aggregates; aggregates over the same expression share them (sum, mean and count
of ``price`` need two). A partial aggregate never sees a window, a key or a row: only groups and ranges.

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
"""Between the name of a user's function and the types that it keeps, in :meth:`PartialAggregate.described`."""


class Input:
    """One value column of a batch, with what several partial aggregates ask of it, worked out once."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    @cached_property
    def rows(self) -> Ints | None:
        """The rows that are not null, ascending; None: all."""
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
    """The input rows of one call.

    Attributes:
        values: the value columns, in the order of the plan's inputs.
        times: the event time of every row, where a partial aggregate needs it.
    """

    values: Sequence[Input]
    times: Ints | None

    @property
    def known_times(self) -> Ints:
        """The event times, which must be there."""
        if self.times is None:
            raise ValueError("an aggregate orders by event time: timestamps are needed")
        return self.times


@dataclass(frozen=True, slots=True)
class PartialAggregate(ABC):
    """One kind of partial over one expression: equal partials are stored once.

    Attributes:
        source: the number of the expression among the plan's inputs.
    """

    source: int

    orders_by_time: ClassVar[bool] = False
    """Whether it needs the event times of rows."""
    grows: ClassVar[str] = ""
    """What it keeps of the rows, in words, where that grows with them; empty: its size is bounded."""
    expressions: ClassVar[tuple[str, ...]] = ("source",)
    """Its attributes that are numbers of expressions: a number each, None, or a tuple of numbers or of (number, type)."""
    needs_rows: ClassVar[bool] = False
    """Whether it is combined over windows from partial rows one after the other (sparse ranges), not from a matrix."""

    merges_exactly: ClassVar[bool] = False
    """Whether partials of neighbours may be merged in any grouping, the order kept, and the results have the same bits."""

    counts: ClassVar[str | None] = None
    """Its column that counts values, in which null stands for all rows; None: it has none."""
    is_users: ClassVar[bool] = False
    """Whether code of the user's own merges it and makes results of it, which is not there where state is only looked at."""

    @property
    def follows_arrival(self) -> bool:
        """Whether of rows with equal event times it matters which arrived first."""
        return False

    @property
    def keeps_order(self) -> bool:
        """Whether it matters which of two panes' partials comes first."""
        return self.needs_rows

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Name and type of its columns in the partial table."""

    @abstractmethod
    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        """Input rows → one partial per group."""

    @abstractmethod
    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        """Partial rows, in the order of arrival → one partial per group.

        Args:
            groups: of the partial rows.
            columns: its own columns.
            rows: the number of input rows behind each partial row.
        """

    @abstractmethod
    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        """Partial rows, one per key and pane → one row per (key, window), finalized.

        Args:
            ranges: which rows make up each (key, window).
            columns: its own columns.
            rows: the number of input rows behind each partial row.
        """

    def nothing(self, count: int) -> list[pa.Array]:
        """The columns of partials of no rows at all: merged with any other partial they leave it as it is.

        Args:
            count: how many.

        Raises:
            InvalidPlanError: there is no such partial: a function of the user's own makes it of rows only.
        """
        none = np.zeros(0, np.int64)
        groups = Groups(none, count, None, np.zeros(count, np.int64), np.zeros(count, np.int64), np.arange(count), False)
        return self.merge(groups, [pa.array([], type_) for _, type_ in self.columns], none)

    def without(self, rows: Ints, *, known: bool) -> list[pa.Array]:
        """The columns of partials that are added to windows which are open: of no rows, though there were some.

        Args:
            rows: the number of input rows behind each partial row.
            known: of one that tells of another (:mod:`panestream.engine.aggregates.complete`): whether that one knows them all.
        """
        return self.nothing(len(rows))

    def described(self, inputs: Sequence[str]) -> str:
        """What it is of, in words that stay the same whatever other aggregates there are: by it state is found again.

        Args:
            inputs: the plan's expressions.

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
        """Partial rows, one per (key, window) already → the same as :meth:`combine` gives: what its results are computed from."""
        return list(columns)

    def sql(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """SQL aggregate expressions by which Spark itself can reduce the rows of a batch.

        Args:
            names: what the columns of the plan's inputs are called there.

        Returns:
            One or more expressions, or None: there are none that give the same bits whatever the order of the rows.
        """
        return None

    def from_sql(self, results: Sequence[pa.Array]) -> list[pa.Array]:
        """Its own columns, from the results of :meth:`sql`; they are cast to the types of :attr:`columns` afterwards."""
        return list(results)


def words_of(value: Any) -> str:
    """A parameter of a partial in words: of code of the user's own its name, as it may change."""
    if isinstance(value, pa.Schema):
        return f"({', '.join(f'{field.name} {field.type}' for field in value)})"
    if value is None or isinstance(value, (bool, int, float, str, tuple, Decimal)):
        return repr(value)
    if isinstance(value, pa.DataType):
        return str(value)
    return "function" if isinstance(value, FunctionType) else type(value).__qualname__


def counts_of(column: pa.Array, rows: Ints) -> Ints:
    """A count column as numbers: null stands for all ``rows``."""
    if column.null_count == len(column):
        return rows
    counts: Ints = numbers(column)
    valid = valid_of(column)
    return counts if valid is None else np.where(valid, counts, rows)


def any_value(counts: pa.Array, rows: Ints) -> Mask | None:
    """Where there is any value; None: everywhere."""
    if counts.null_count == len(counts):
        return None
    return counts_of(counts, rows) > 0


def all_rows(count: int) -> pa.Array:
    """A count column that says of every partial row: all its input rows."""
    return pa.nulls(count, pa.int64())


def smaller(a: State, b: State) -> State:
    """The combination that keeps the smaller code."""
    return (np.minimum(a[0], b[0]),)


def plus(a: State, b: State) -> State:
    """The combination that adds."""
    return tuple(left + right for left, right in zip(a, b, strict=True))


def sparse(ranges: Ranges) -> SparseRanges:
    """Ranges as partial aggregates want them that need rows."""
    if not isinstance(ranges, SparseRanges):
        raise TypeError("partials of lists are combined over sparse ranges")
    return ranges
