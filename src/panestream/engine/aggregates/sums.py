"""Sums, means, variances and weighted means.

Sums are exact for integers and decimals: intermediate sums may exceed the type and never wrap.

An exact sum is held in two's complement wider than its type, so a temporary overflow is harmless and a final one is detected. The
fast path adds plain int64, if a bound on the largest value and the largest group shows that this is safe. Otherwise values are
split into 32-bit limbs, whose sums cannot overflow, and carries are resolved at the end.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panestream.engine.aggregates.counts import PartialCountOfSum
from panestream.engine.aggregates.partial_aggregate import Batch, PartialAggregate, all_rows, any_value, counts_of, plus
from panestream.engine.aggregates.planning import AggregationPlanner, Result
from panestream.engine.aggregates.registry import Accumulator, Implementation, Row, RowLayout, implements
from panestream.engine.kernels.columns import Floats, Ints, Mask, array_of, both_valid, floats_of, numbers, valid_of, words
from panestream.engine.kernels.grouping import Groups
from panestream.engine.kernels.ranges import Ranges, State
from panestream.errors import AggregateOverflowError
from panestream.windowing.aggregates import Mean, Stddev, Sum, Var, WeightedMean

_MAX_DIGITS = 38
_LOW = np.int64(0xFFFFFFFF)
WIDE = pa.decimal256(76, 0)
"""Four 64-bit words: enough for every sum of decimals."""
Adder = Callable[[Ints], Ints]
"""Adds int64 values per group or range, modulo 2**64."""
_EXACT = decimal.Context(prec=200)
_LARGEST = 2**63 - 1


@implements(Sum, Mean)
class SumImplementation(Implementation["Sum | Mean"]):
    """``agg.sum``, ``agg.mean``: the sum and the number of values."""

    def plan(self, recipe: Sum | Mean, planner: AggregationPlanner) -> None:
        type_, total, count = _total_and_count(planner, recipe)
        if pa.types.is_decimal(type_):
            self._plan_decimal(recipe, planner, type_, total, count)
        elif isinstance(recipe, Mean):
            planner.result(MeanResult, recipe, pa.float64(), total, count)
        elif pa.types.is_floating(type_):
            planner.result(FloatSumResult, recipe, pa.float64(), total, count)
        else:
            planner.result(IntegerSumResult, recipe, pa.int64(), total, count)

    @staticmethod
    def _plan_decimal(recipe: Sum | Mean, planner: AggregationPlanner, type_: pa.DataType, total: int, count: int) -> None:
        if isinstance(recipe, Sum):
            sum_type = pa.decimal128(min(_MAX_DIGITS, type_.precision + 10), type_.scale)
            planner.result(DecimalSumResult, recipe, sum_type, total, count)
            return
        mean_type = pa.decimal128(min(_MAX_DIGITS, type_.precision + 4), min(_MAX_DIGITS, type_.scale + 4))
        planner.result(DecimalMeanResult, recipe, mean_type, total, count, scale=type_.scale)

    def accumulator(self, recipe: Sum | Mean, layout: RowLayout) -> Accumulator:
        call = f"{recipe!r} (column {recipe.name!r})"
        result_type, mean = layout.result_type(recipe), isinstance(recipe, Mean)
        return SumAccumulator(layout.at(recipe.expr), layout.type_of(recipe.expr), result_type, call, mean)


def _total_and_count(planner: AggregationPlanner, recipe: Sum | Mean) -> tuple[pa.DataType, int, int]:
    """Return the type of the values, and the partial aggregates of their sum and number."""
    type_, source = planner.number(recipe, recipe.expr), planner.source(recipe.expr)
    total: PartialAggregate
    if pa.types.is_floating(type_):
        total = PartialFloatSum(source)
    elif pa.types.is_decimal(type_) and type_.precision > 18:
        total = PartialWideSum(source)
    else:
        total = PartialSum(source, type_.scale if pa.types.is_decimal(type_) else 0)
    return type_, planner.partial(total), planner.partial(PartialCountOfSum(source))


@dataclass(frozen=True, slots=True)
class PartialSum(PartialAggregate):
    """The sum of integers, or of unscaled decimals of up to 18 digits, as ``high * 2**64 + low`` with a signed ``low``.

    ``high`` is 0 exactly when the sum fits int64. ``scale`` is that of decimals, or 0 for integers.
    """

    scale: int

    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("sum", pa.int64()), ("high", pa.int32()))

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        array, rows = column.present, column.rows
        values = np.ascontiguousarray(words(array)[:, 0]) if pa.types.is_decimal(array.type) else numbers(array)
        values = values.astype(np.int64, copy=False)
        return _sums(values, None, lambda part: groups.add(part, rows), int(groups.counts.max(initial=0)))

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _sums(numbers(columns[0]), numbers(columns[1]), groups.add, int(groups.counts.max(initial=0)))

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _sums(numbers(columns[0]), numbers(columns[1]), ranges.sums, ranges.longest)

    def sql(self, names: Sequence[str]) -> tuple[str, ...]:
        name = names[self.source]
        # A decimal of 18 digits times a power of ten of up to 19 fits the 38 digits that Spark stores exactly.
        whole = f"cast({name} * {10**self.scale}BD AS bigint)" if self.scale else f"cast({name} AS bigint)"
        # Sums of the upper and the lower half of each number cannot overflow.
        return f"sum(shiftright({whole}, 32))", f"sum({whole} & {0xFFFFFFFF}L)"

    def from_sql(self, results: Sequence[pa.Array]) -> list[pa.Array]:
        upper, lower = (half.fill_null(0).to_numpy().astype(np.int64) for half in results)
        middle = upper + (lower >> 32)
        low = (middle << 32) | (lower & _LOW)
        return [pa.array(low), pa.array(((middle >> 32) + (low < 0)).astype(np.int32))]


@dataclass(frozen=True, slots=True)
class PartialWideSum(PartialAggregate):
    """The sum of unscaled decimals of more than 18 digits, in 256 bits."""

    merges_exactly: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("sum", WIDE),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        parts = words(column.present)
        high = parts[:, 1]
        return _wide_sums([parts[:, 0], high, high >> 63], lambda part: groups.add(part, column.rows))

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _wide_sums([words(columns[0])[:, i] for i in range(3)], groups.add)

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return _wide_sums([words(columns[0])[:, i] for i in range(3)], ranges.sums)


@dataclass(frozen=True, slots=True)
class PartialFloatSum(PartialAggregate):
    """The sum of floats; values are never subtracted, because subtraction leaves rounding errors of removed rows."""

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("sum", pa.float64()),)

    def reduce(self, groups: Groups, batch: Batch) -> list[pa.Array]:
        column = batch.values[self.source]
        return [array_of(groups.add(column.floats, column.rows), pa.float64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        return [array_of(groups.add(numbers(columns[0])), pa.float64())]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        (sums,) = ranges.fold((numbers(columns[0]),), (0.0,), plus)
        return [array_of(sums, pa.float64())]


class IntegerSumResult(Result):
    """sum(integers)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        if numbers(partials[0][1]).any():
            raise self.overflow(
                "cast the expression to a wider type, e.g. to decimal(38, 0), or to double where rounding does no harm"
            )
        return array_of(numbers(partials[0][0]), pa.int64(), any_value(partials[1][0], rows))


class DecimalSumResult(Result):
    """sum(decimal)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        low, high, fits = _two_words(partials[0])
        if not (fits & _within(low, high, self.type.precision)).all():
            raise self.overflow("cast the expression to a decimal with fewer digits after the point, or to double")
        return array_of(np.stack([low, high], axis=1), self.type, any_value(partials[1][0], rows))


class FloatSumResult(Result):
    """sum(float or double)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(numbers(partials[0][0]), pa.float64(), any_value(partials[1][0], rows))


class MeanResult(Result):
    """mean(integers, float or double)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        count = counts_of(partials[1][0], rows)
        total = numbers(partials[0][0]).astype(np.float64)
        if len(partials[0]) == 2:  # for integers, whose exact sum may exceed int64
            total = total + numbers(partials[0][1]) * 2.0**64
        return array_of(total / np.maximum(count, 1), pa.float64(), any_value(partials[1][0], rows))


@dataclass(frozen=True, slots=True)
class DecimalMeanResult(Result):
    """mean(decimal), rounded half up; ``scale`` is that of the values."""

    scale: int

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        valid = any_value(partials[1][0], rows)
        count = pa.array(np.maximum(counts_of(partials[1][0], rows), 1))
        if len(partials[0]) == 2:
            low, high, _ = _two_words(partials[0])
            whole = np.stack([low, high, high >> 63, high >> 63], axis=1)
        else:
            whole = words(partials[0][0])
        total = array_of(whole, pa.decimal256(50, self.scale))
        # Arrow truncates the quotient more than half a digit below the rounding place, so it is rounded only once.
        mean = pc.round(pc.divide(total, count.cast(pa.decimal256(19, 0))), self.type.scale, round_mode="half_towards_infinity")
        try:
            mean = mean.cast(self.type)
        except pa.ArrowInvalid:
            raise self.overflow("cast the expression to a decimal with fewer digits after the point, or to double") from None
        return mean if valid is None else pc.if_else(pa.array(valid), mean, pa.scalar(None, self.type))


class SumAccumulator(Accumulator):
    """Sum and number of values, exact for integers and decimals; the result is the sum or the mean.

    ``call`` is the user's call, for errors. The sum or mean must fit ``result_type``.
    """

    def __init__(self, at: int, type_: pa.DataType, result_type: pa.DataType, call: str, mean: bool) -> None:
        self._at = at
        self._result_type = result_type
        self._call = call
        self._mean = mean
        self._decimals = pa.types.is_decimal(type_)
        self._zero: Any = 0.0 if pa.types.is_floating(type_) else decimal.Decimal(0) if self._decimals else 0

    def start(self) -> Any:
        return self._zero, 0

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is None:
            return state
        total, count = state
        return (_EXACT.add(total, value) if self._decimals else total + value), count + 1

    def merge(self, a: Any, b: Any) -> Any:
        return (_EXACT.add(a[0], b[0]) if self._decimals else a[0] + b[0]), a[1] + b[1]

    def result(self, state: Any) -> Any:
        total, count = state
        if not count:
            return None
        if self._decimals:
            return self._decimal(_EXACT.divide(total, decimal.Decimal(count)) if self._mean else total)
        if self._mean:
            return total / count
        if type(total) is int and not -_LARGEST - 1 <= total <= _LARGEST:
            raise self._overflow(
                "cast the expression to a wider type, e.g. to decimal(38, 0), or to double where rounding does no harm"
            )
        return total

    def _decimal(self, value: decimal.Decimal) -> decimal.Decimal:
        scale, precision = self._result_type.scale, self._result_type.precision
        rounded = value.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, _EXACT)
        if rounded.copy_abs() >= decimal.Decimal(1).scaleb(precision - scale, _EXACT):
            raise self._overflow("cast the expression to a decimal with fewer digits after the point, or to double")
        return rounded

    def _overflow(self, hint: str) -> AggregateOverflowError:
        return AggregateOverflowError(f"{self._call} left the range of {self._result_type}: {hint}")


def _sums(low: Ints, high: Ints | None, add: Adder, most: int) -> list[pa.Array]:
    """Return sums of ``high * 2**64 + low`` with at most ``most`` terms each."""
    bound = max(int(low.max(initial=0)), -int(low.min(initial=0))) * most
    if bound < 2**63 and (high is None or not high.any()):
        sums = add(low)
        return [array_of(sums, pa.int64()), array_of(np.zeros(len(sums), np.int32), pa.int32())]
    bottom, middle = add(low & _LOW), add(low >> 32)
    middle = middle + (bottom >> 32)
    sums = (middle << 32) | (bottom & _LOW)
    carry = (middle >> 32) + (sums < 0)
    if high is not None:
        carry = carry + add(high.astype(np.int64))
    return [array_of(sums, pa.int64()), array_of(carry, pa.int32())]


def _wide_sums(parts: list[Ints], add: Adder) -> list[pa.Array]:
    """Return sums of numbers given as 64-bit words, lowest first, the last signed."""
    limbs = [limb for part in parts[:2] for limb in (part & _LOW, (part >> 32) & _LOW)]
    sums = [add(limb) for limb in (*limbs, parts[2])]
    carry = np.zeros(len(sums[0]), np.int64)
    for place in range(4):
        total = sums[place] + carry
        sums[place], carry = total & _LOW, total >> 32
    top = sums[4] + carry
    result = np.stack([sums[1] << 32 | sums[0], sums[3] << 32 | sums[2], top, top >> 63], axis=1)
    return [array_of(result, WIDE)]


def _two_words(partial: Sequence[pa.Array]) -> tuple[Ints, Ints, Mask]:
    """Return a sum as low and high word of a 128-bit number, and where 128 bits suffice."""
    if partial[0].type == WIDE:
        parts = words(partial[0])
        return parts[:, 0], parts[:, 1], (parts[:, 2] == parts[:, 1] >> 63) & (parts[:, 3] == parts[:, 2])
    low = numbers(partial[0])
    high = numbers(partial[1]).astype(np.int64) - (low < 0)
    return low, high, np.ones(len(low), np.bool_)


def _within(low: Ints, high: Ints, precision: int) -> Mask:
    """Return where a 128-bit number has at most ``precision`` digits."""
    limit = 10**precision
    top, rest = np.int64(limit >> 64), np.uint64(limit & (2**64 - 1))
    unsigned = low.view(np.uint64) if low.flags.c_contiguous else np.ascontiguousarray(low).view(np.uint64)
    below: Mask = (high < top) | ((high == top) & (unsigned < rest))
    limit = -limit
    top, rest = np.int64(limit >> 64), np.uint64(limit & (2**64 - 1))
    above: Mask = (high > top) | ((high == top) & (unsigned > rest))
    return np.logical_and(below, above)


@implements(Var, Stddev)
class MomentsImplementation(Implementation["Var | Stddev"]):
    """``agg.var``, ``agg.stddev``: two results of the same partial."""

    def plan(self, recipe: Var | Stddev, planner: AggregationPlanner) -> None:
        planner.number(recipe, recipe.expr)
        kind = VarianceResult if isinstance(recipe, Var) else DeviationResult
        planner.result(kind, recipe, pa.float64(), planner.partial(PartialMoments(planner.source(recipe.expr))))

    def accumulator(self, recipe: Var | Stddev, layout: RowLayout) -> Accumulator:
        return MomentsAccumulator(layout.at(recipe.expr), isinstance(recipe, Stddev))


@dataclass(frozen=True, slots=True)
class PartialMoments(PartialAggregate):
    """Count, mean and sum of squared deviations, which give the variance without cancellation (Chan et al. 1979).

    Finite values of any size have a variance: 0 if all are equal, infinity if it exceeds the range of floats. With an infinite
    value it is NaN, like the value's distance from any mean.
    """

    counts: ClassVar[str | None] = "n"

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
        n = all_rows(groups.size) if rows is None else array_of(count, pa.int64())
        return [n, array_of(mean, pa.float64()), array_of(m2, pa.float64())]

    def merge(self, groups: Groups, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts = counts_of(columns[0], rows)
        n, mean, m2 = counts.astype(np.float64), numbers(columns[1]), numbers(columns[2])
        total = groups.add(counts)
        some = None if n.all() else np.flatnonzero(n)  # the mean of no values must not enter differences
        own, share = (mean, n) if some is None else (mean[some], n[some])
        whole = groups.means(own, total, some, share)
        off = own - groups.spread(whole, some)
        spread = groups.add(m2) + groups.add(off * share * off, some)
        complete = columns[0].null_count == len(rows)
        return [
            all_rows(groups.size) if complete else array_of(total, pa.int64()),
            array_of(whole, pa.float64()),
            array_of(spread, pa.float64()),
        ]

    def nothing(self, count: int) -> list[pa.Array]:
        return [
            array_of(np.zeros(count, type_), arrow)
            for type_, (_, arrow) in zip((np.int64, float, float), self.columns, strict=True)
        ]

    def combine(self, ranges: Ranges, columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
        counts = counts_of(columns[0], rows)
        states = (counts.astype(np.float64), numbers(columns[1]), numbers(columns[2]))
        _, mean, m2 = ranges.fold(states, (0.0, 0.0, 0.0), chan)
        complete = columns[0].null_count == len(rows)
        n = all_rows(len(ranges.windows)) if complete else array_of(ranges.sums(counts), pa.int64())
        return [n, array_of(mean, pa.float64()), array_of(m2, pa.float64())]


class VarianceResult(Result):
    """var(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(self._variance(partials, rows), pa.float64(), counts_of(partials[0][0], rows) > 1)

    @staticmethod
    def _variance(partials: Sequence[Sequence[pa.Array]], rows: Ints) -> Floats:
        variance: Floats = numbers(partials[0][2]) / np.maximum(counts_of(partials[0][0], rows) - 1, 1)
        return variance


class DeviationResult(VarianceResult):
    """stddev(expr)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        return array_of(np.sqrt(self._variance(partials, rows)), pa.float64(), counts_of(partials[0][0], rows) > 1)


class MomentsAccumulator(Accumulator):
    """Sample variance or standard deviation, from count, mean and squared deviations (Welford 1962, Chan et al. 1979)."""

    def __init__(self, at: int, root: bool) -> None:
        self._at = at
        self._root = root

    def start(self) -> Any:
        return 0, 0.0, 0.0

    def add(self, state: Any, row: Row) -> Any:
        value = row[self._at]
        if value is None:
            return state
        number = float(value)
        return self.merge(state, (1, number, number - number))  # for infinity NaN, like its distance from any mean

    def merge(self, a: Any, b: Any) -> Any:
        (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
        if not n_a or not n_b:
            return b if not n_a else a
        n, off = n_a + n_b, mean_b - mean_a
        mean = mean_a * (n_a / n) + mean_b * (n_b / n) if math.isinf(off) else mean_a + off * (n_b / n)
        return n, mean, m2_a + m2_b + off * (n_a * n_b / n) * off

    def result(self, state: Any) -> Any:
        n, _, m2 = state
        if n < 2:
            return None
        return math.sqrt(m2 / (n - 1)) if self._root else m2 / (n - 1)


def chan(a: State, b: State) -> State:
    """Combine numbers of values, their means, and their sums of squared deviations, by Chan's formula."""
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
    n = n_a + n_b
    share = n_b / np.maximum(n, 1.0)
    # The distance from the mean of no values must be 0: its square may be infinite, and 0 times infinity is NaN.
    off = np.where((n_a > 0) & (n_b > 0), mean_b - mean_a, 0.0)
    mean = np.where(n_a > 0, mean_a, mean_b) + off * share
    far = np.isinf(off)
    if far.any():
        mean[far] = (mean_a * (1 - share) + mean_b * share)[far]
    return n, mean, m2_a + m2_b + off * (n_a * share) * off


@implements(WeightedMean)
class WeightedImplementation(Implementation[WeightedMean]):
    """``agg.weighted_mean``."""

    def plan(self, recipe: WeightedMean, planner: AggregationPlanner) -> None:
        for expr in recipe.inputs:
            planner.number(recipe, expr)
        partial = PartialWeightedSums(planner.source(recipe.expr), planner.source(recipe.weight))
        planner.result(WeightedMeanResult, recipe, pa.float64(), planner.partial(partial))

    def accumulator(self, recipe: WeightedMean, layout: RowLayout) -> Accumulator:
        return WeightedAccumulator(layout.at(recipe.expr), layout.at(recipe.weight))


@dataclass(frozen=True, slots=True)
class PartialWeightedSums(PartialAggregate):
    """The sums of weight and of value times weight over rows with both; like all floats, never subtracted.

    ``weight`` is the number of the expression of the weights.
    """

    weight: int

    expressions: ClassVar[tuple[str, ...]] = ("source", "weight")

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
        sums = ranges.fold(tuple(numbers(column) for column in columns), (0.0, 0.0), plus)
        return [array_of(part, pa.float64()) for part in sums]


class WeightedMeanResult(Result):
    """weighted_mean(expr, weight)"""

    __slots__ = ()

    def finish(self, partials: Sequence[Sequence[pa.Array]], rows: Ints) -> pa.Array:
        weighted, weight = (numbers(column) for column in partials[0])
        some = weight != 0
        return array_of(weighted / np.where(some, weight, 1), pa.float64(), some)


class WeightedAccumulator(Accumulator):
    """The sums of value times weight, and of weight."""

    def __init__(self, at: int, weight: int) -> None:
        self._at = at
        self._weight = weight

    def start(self) -> Any:
        return 0.0, 0.0

    def add(self, state: Any, row: Row) -> Any:
        value, weight = row[self._at], row[self._weight]
        if value is None or weight is None:
            return state
        return state[0] + float(value) * float(weight), state[1] + float(weight)

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def result(self, state: Any) -> Any:
        return state[0] / state[1] if state[1] else None
