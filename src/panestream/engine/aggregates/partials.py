"""Partial aggregates: what is kept of a key and pane, column by column, and how it is made, merged and combined over windows.

An aggregate is computed from one or more partials; aggregates over the same expression share them (sum, mean and count of
``price`` are two partials). A partial never sees a window, a key or a row: only groups and ranges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from panestream.engine.kernels.columns import Ints, Vector, array_of, both_valid, floats_of, numbers, valid_of
from panestream.engine.kernels.grouping import LARGEST, Groups
from panestream.engine.kernels.ordering import Codes, order_codes
from panestream.engine.kernels.ranges import Ranges, State


class Input:
    """One value column of a batch, with what several partials ask of it, worked out once."""

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
        times: the event time of every row, where a partial needs it.
    """

    values: Sequence[Input]
    times: Ints | None


@dataclass(frozen=True, slots=True)
class PartialAggregate(ABC):
    """One kind of partial over one expression: equal partials are stored once.

    Attributes:
        source: the number of the expression among the plan's inputs.
    """

    source: int

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
        """Partial rows, one per key and pane → what the results need per (key, window): its first columns, or all."""

    def finalize(self, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        """Partial rows, one per (key, window) already → the same as :meth:`combine` gives."""
        return list(columns)


@dataclass(frozen=True, slots=True)
class PartialCount(PartialAggregate):
    """How many rows of the pane have a value. Null stands for *all rows*: a column without nulls costs nothing to count."""

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("n", pa.int64()),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        rows = batch.values[self.source].rows
        return [_all_rows(groups.size) if rows is None else array_of(groups.count(rows), pa.int64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        if columns[0].null_count == len(rows):
            return [_all_rows(groups.size)]
        return [array_of(groups.add(counts_of(columns[0], rows)), pa.int64())]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        if columns[0].null_count == len(rows):
            return [_all_rows(len(ranges.windows))]
        return [array_of(ranges.sums(counts_of(columns[0], rows)), pa.int64())]


@dataclass(frozen=True, slots=True)
class PartialFloatSum(PartialAggregate):
    """The sum of floating point values; added, never subtracted: subtraction would leave rounding errors of rows long gone."""

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("sum", pa.float64()),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        return [array_of(groups.add(column.floats, column.rows), pa.float64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(groups.add(numbers(columns[0])), pa.float64())]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        (sums,) = ranges.fold((numbers(columns[0]),), (0.0,), _plus)
        return [array_of(sums, pa.float64())]


@dataclass(frozen=True, slots=True)
class PartialWeightedSums(PartialAggregate):
    """The sums of weight and of value times weight over the rows that have both; like all floats added, never subtracted.

    Attributes:
        weight: the number of the expression of the weights.
    """

    weight: int

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("weighted", pa.float64()), ("weight", pa.float64()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        value, weight = batch.values[self.source].array, batch.values[self.weight].array
        values, weights = floats_of(value), floats_of(weight)
        valid, rows = both_valid(valid_of(value), valid_of(weight)), None
        if valid is not None:
            rows = np.flatnonzero(valid)
            values, weights = values[rows], weights[rows]
        return [array_of(groups.add(part, rows), pa.float64()) for part in (values * weights, weights)]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(groups.add(numbers(column)), pa.float64()) for column in columns]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        sums = ranges.fold(tuple(numbers(column) for column in columns), (0.0, 0.0), _plus)
        return [array_of(part, pa.float64()) for part in sums]


@dataclass(frozen=True, slots=True)
class PartialExtreme(PartialAggregate):
    """The smallest or the largest value, null where there is none.

    Attributes:
        type: of the values.
        largest: which of the two.
    """

    type: pa.DataType
    largest: bool

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("max" if self.largest else "min", self.type),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        return self._reduce(groups, batch.values[self.source])

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return self._reduce(groups, Input(columns[0]))

    def _reduce(self, groups: Groups, column: Input) -> list[pa.Array]:
        codes, rows = self._oriented(column), column.rows
        valid = None if rows is None else groups.count(rows) > 0
        least = groups.smallest(codes if rows is None else codes[rows], rows)
        return [column.codes.decode(~least if self.largest else least, valid)]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        column, valid = Input(columns[0]), None
        codes = self._oriented(column)
        mask = column.codes.valid
        if mask is not None:
            codes = np.where(mask, codes, LARGEST)
            valid = ranges.sums(mask.astype(np.int64)) > 0
        (least,) = ranges.fold((codes,), (int(LARGEST),), smaller, idempotent=True)
        return [column.codes.decode(~least if self.largest else least, valid)]

    def _oriented(self, column: Input) -> Ints:
        # ~ reverses the order of all int64 without overflow, so that one kernel, the minimum, does both.
        return ~column.codes.codes if self.largest else column.codes.codes


@dataclass(frozen=True, slots=True)
class PartialMoments(PartialAggregate):
    """Count, mean and sum of squared deviations from it: what variance is made of, without cancellation (Chan et al. 1979).

    Finite values have a variance, however large they are: 0 where all are equal, infinity where it is beyond all floats. With
    an infinite value it is NaN, as its distance from any mean.
    """

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("n", pa.int64()), ("mean", pa.float64()), ("m2", pa.float64()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        rows, values = column.rows, column.floats
        count = groups.count(rows)
        mean = groups.means(values, count, rows)
        off = values - groups.spread(mean, rows)
        m2 = groups.add(off * off, rows)
        n = _all_rows(groups.size) if rows is None else array_of(count, pa.int64())
        return [n, array_of(mean, pa.float64()), array_of(m2, pa.float64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts = counts_of(columns[0], rows)
        n, mean, m2 = counts.astype(np.float64), numbers(columns[1]), numbers(columns[2])
        total = groups.add(counts)
        some = None if n.all() else np.flatnonzero(n)  # the mean of nothing is no number to be far from
        own, share = (mean, n) if some is None else (mean[some], n[some])
        whole = groups.means(own, total, some, share)
        off = own - groups.spread(whole, some)
        spread = groups.add(m2) + groups.add(off * share * off, some)
        all_rows = columns[0].null_count == len(rows)
        return [
            _all_rows(groups.size) if all_rows else array_of(total, pa.int64()),
            array_of(whole, pa.float64()),
            array_of(spread, pa.float64()),
        ]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts = counts_of(columns[0], rows)
        states = (counts.astype(np.float64), numbers(columns[1]), numbers(columns[2]))
        _, mean, m2 = ranges.fold(states, (0.0, 0.0, 0.0), _chan)
        all_rows = columns[0].null_count == len(rows)
        n = _all_rows(len(ranges.windows)) if all_rows else array_of(ranges.sums(counts), pa.int64())
        return [n, array_of(mean, pa.float64()), array_of(m2, pa.float64())]


def counts_of(column: pa.Array, rows: Ints) -> Ints:
    """A count column as numbers: null stands for all ``rows``."""
    if column.null_count == len(column):
        return rows
    counts: Ints = numbers(column)
    valid = valid_of(column)
    return counts if valid is None else np.where(valid, counts, rows)


def smaller(a: State, b: State) -> State:
    """The combination that keeps the smaller code."""
    return (np.minimum(a[0], b[0]),)


def _plus(a: State, b: State) -> State:
    return tuple(left + right for left, right in zip(a, b, strict=True))


def _chan(a: State, b: State) -> State:
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
    n = n_a + n_b
    share = n_b / np.maximum(n, 1.0)
    # Nothing is far from the mean of nothing: the square of such a distance may be infinite, and 0 times that is NaN.
    off = np.where((n_a > 0) & (n_b > 0), mean_b - mean_a, 0.0)
    mean = np.where(n_a > 0, mean_a, mean_b) + off * share
    far = np.isinf(off)
    if far.any():
        mean[far] = (mean_a * (1 - share) + mean_b * share)[far]
    return n, mean, m2_a + m2_b + off * (n_a * share) * off


def _all_rows(count: int) -> pa.Array:
    return pa.nulls(count, pa.int64())


__all__ = [
    "Batch",
    "Input",
    "PartialAggregate",
    "PartialCount",
    "PartialExtreme",
    "PartialFloatSum",
    "PartialMoments",
    "PartialWeightedSums",
    "counts_of",
]
