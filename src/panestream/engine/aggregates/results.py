"""Results: the merged partials of a window → the column the user asked for, with SQL's types, nulls and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates.exact_sums import WIDE
from panestream.engine.aggregates.partials import counts_of
from panestream.engine.kernels.columns import Floats, Ints, Mask, array_of, list_parts, numbers, words
from panestream.errors import AggregateOverflowError


@dataclass(frozen=True, slots=True)
class Result(ABC):
    """One result column.

    Attributes:
        name: of the column.
        call: what the user wrote, for errors.
        type: of the column.
        partials: the numbers of the partials it is computed from.
    """

    name: str
    call: str
    type: pa.DataType
    partials: tuple[int, ...]

    @abstractmethod
    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        """The column.

        Args:
            partials: the columns of each of its partials, one row per key and window.
            rows: the number of input rows of each.

        Raises:
            AggregateOverflowError: a result does not fit its type.
        """

    def _overflow(self, hint: str) -> AggregateOverflowError:
        return AggregateOverflowError(f"{self.call} (column {self.name!r}) left the range of {self.type}: {hint}")


class RowCount(Result):
    """count()"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(rows, pa.int64())


class ValueCount(Result):
    """count(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(counts_of(partials[0][0], rows), pa.int64())


class Column(Result):
    """A partial's first column as it is: min, max, first, last, min_by, max_by, lists, and where a partial does it all."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return partials[0][0]


class Struct(Result):
    """arg_min, arg_max: the values of a row, null where there is none, which is where the partial's last column is null."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        fields = list(self.type)
        values, own = partials[0][: len(fields)], partials[0][-1]
        arrays = [
            value if value.type == field.type else value.cast(field.type) for value, field in zip(values, fields, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=own.is_null())


class WeightedMean(Result):
    """weighted_mean(expr, weight)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        weighted, weight = (numbers(column) for column in partials[0])
        some = weight != 0
        return array_of(weighted / np.where(some, weight, 1), pa.float64(), some)


class DistinctCount(Result):
    """count_distinct(expr): over windows the partial has counted already; a merge leaves the values."""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        column = partials[0][0]
        return array_of(list_parts(column)[1], pa.int64()) if pa.types.is_list(column.type) else column


class FloatSum(Result):
    """sum(float or double)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(numbers(partials[0][0]), pa.float64(), _any(partials[1][0], rows))


class IntSum(Result):
    """sum(integers)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        if numbers(partials[0][1]).any():
            raise self._overflow(
                "cast the expression to a wider type, e.g. to decimal(38, 0), or to double where rounding does no harm"
            )
        return array_of(numbers(partials[0][0]), pa.int64(), _any(partials[1][0], rows))


class DecimalSum(Result):
    """sum(decimal)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        low, high, fits = _two_words(partials[0])
        if not (fits & _within(low, high, self.type.precision)).all():
            raise self._overflow("cast the expression to a decimal with fewer digits after the point, or to double")
        return array_of(np.stack([low, high], axis=1), self.type, _any(partials[1][0], rows))


class FloatMean(Result):
    """mean(integers, float or double)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        count = counts_of(partials[1][0], rows)
        total = numbers(partials[0][0]).astype(np.float64)
        if len(partials[0]) == 2:  # of integers: their exact sum may need more than int64
            total = total + numbers(partials[0][1]) * 2.0**64
        return array_of(total / np.maximum(count, 1), pa.float64(), _any(partials[1][0], rows))


@dataclass(frozen=True, slots=True)
class DecimalMean(Result):
    """mean(decimal), rounded half up.

    Attributes:
        scale: of the values.
    """

    scale: int

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        valid = _any(partials[1][0], rows)
        count = pa.array(np.maximum(counts_of(partials[1][0], rows), 1))
        if len(partials[0]) == 2:
            low, high, _ = _two_words(partials[0])
            whole = np.stack([low, high, high >> 63, high >> 63], axis=1)
        else:
            whole = words(partials[0][0])
        total = array_of(whole, pa.decimal256(50, self.scale))
        # Arrow's quotient is cut off more than half a digit below the place it is rounded to: one rounding in all.
        mean = pc.round(pc.divide(total, count.cast(pa.decimal256(19, 0))), self.type.scale, round_mode="half_towards_infinity")
        try:
            mean = mean.cast(self.type)
        except pa.ArrowInvalid:
            raise self._overflow("cast the expression to a decimal with fewer digits after the point, or to double") from None
        return mean if valid is None else pc.if_else(pa.array(valid), mean, pa.scalar(None, self.type))


class Variance(Result):
    """var(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(self._variance(partials, rows), pa.float64(), counts_of(partials[0][0], rows) > 1)

    @staticmethod
    def _variance(partials: Sequence[Sequence[pa.Array]], rows: Ints) -> Floats:
        variance: Floats = numbers(partials[0][2]) / np.maximum(counts_of(partials[0][0], rows) - 1, 1)
        return variance


class Deviation(Variance):
    """stddev(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(np.sqrt(self._variance(partials, rows)), pa.float64(), counts_of(partials[0][0], rows) > 1)


def _any(counts: pa.Array, rows: Ints) -> Mask | None:
    """Where there is any value; None: everywhere."""
    if counts.null_count == len(counts):
        return None
    return counts_of(counts, rows) > 0


def _two_words(partial: Sequence[pa.Array]) -> tuple[Ints, Ints, Mask]:
    """A sum as a 128-bit number, low and high word, and where 128 bits are enough."""
    if partial[0].type == WIDE:
        parts = words(partial[0])
        return parts[:, 0], parts[:, 1], (parts[:, 2] == parts[:, 1] >> 63) & (parts[:, 3] == parts[:, 2])
    low = numbers(partial[0])
    high = numbers(partial[1]).astype(np.int64) - (low < 0)
    return low, high, np.ones(len(low), np.bool_)


def _within(low: Ints, high: Ints, precision: int) -> Mask:
    """Where a 128-bit number has at most ``precision`` digits."""
    limit = 10**precision
    top, rest = np.int64(limit >> 64), np.uint64(limit & (2**64 - 1))
    unsigned = low.view(np.uint64) if low.flags.c_contiguous else np.ascontiguousarray(low).view(np.uint64)
    below: Mask = (high < top) | ((high == top) & (unsigned < rest))
    limit = -limit
    top, rest = np.int64(limit >> 64), np.uint64(limit & (2**64 - 1))
    above: Mask = (high > top) | ((high == top) & (unsigned > rest))
    return np.logical_and(below, above)
