"""Declared aggregates: what to compute over the rows of a window, said as data so that the engine can compute it on columns.

This module is the public namespace ``panestream.agg``. Every function returns an immutable recipe; nothing is computed here.
An expression is the name of a column or SQL text (``"price * quantity"``), as in Spark's ``selectExpr``; or a Column of PySpark's
(``F.col("price") * F.col("quantity")``), which is called what Spark calls it once the data are known. Nulls and types follow
Spark SQL in ANSI mode: nulls are left out, an overflow is an error and never a silent wrap.

>>> agg_list = [count().alias("clicks"), sum("price * quantity").alias("revenue"), max("price")]
>>> [a.name for a in agg_list]
['clicks', 'revenue', 'max(price)']
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from panestream.windowing.aggregates.base import Aggregate, Expression, text_of
from panestream.windowing.aggregates.columnwise import ColumnAggregate, User
from panestream.windowing.aggregates.recipes import (
    ApproxCountDistinct,
    ApproxQuantile,
    ApproxQuantiles,
    ArgMax,
    ArgMin,
    CollectList,
    Count,
    CountDistinct,
    First,
    Histogram,
    Last,
    Max,
    MaxBy,
    Mean,
    Min,
    MinBy,
    Stddev,
    Sum,
    TopK,
    Var,
    WeightedMean,
)

__all__ = [
    "Aggregate",
    "ApproxCountDistinct",
    "ApproxQuantile",
    "ApproxQuantiles",
    "ArgMax",
    "ArgMin",
    "CollectList",
    "ColumnAggregate",
    "Count",
    "CountDistinct",
    "First",
    "Histogram",
    "Last",
    "Max",
    "MaxBy",
    "Mean",
    "Min",
    "MinBy",
    "Stddev",
    "Sum",
    "TopK",
    "User",
    "Var",
    "WeightedMean",
    "approx_count_distinct",
    "approx_quantile",
    "approx_quantiles",
    "arg_max",
    "arg_min",
    "avg",
    "collect_list",
    "count",
    "count_distinct",
    "first",
    "histogram",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "stddev",
    "sum",
    "top_k",
    "user",
    "var",
    "weighted_mean",
]


def count(expr: Expression | None = None) -> Count:
    """The number of rows, or of rows where ``expr`` is not null; bigint, never null.

    >>> count(), count("price").name
    (agg.count(), 'count(price)')
    """
    return Count(None if isinstance(expr, str) and expr == "*" else text_of(expr))


def sum(expr: Expression) -> Sum:  # noqa: A001 - the SQL name, as in pyspark.sql.functions
    """The sum of the values that are not null; null where there is none.

    Integers sum to bigint, float and double to double, decimal(p, s) to decimal(min(38, p + 10), s). A sum that leaves the range
    of its type is an :class:`~panestream.errors.AggregateOverflowError`; sums on the way there may leave it.
    """
    return Sum(text_of(expr))


def min(expr: Expression) -> Min:  # noqa: A001
    """The smallest value that is not null, of any orderable type; NaN is larger than any other number."""
    return Min(text_of(expr))


def max(expr: Expression) -> Max:  # noqa: A001
    """The largest value that is not null, of any orderable type; NaN is larger than any other number."""
    return Max(text_of(expr))


def mean(expr: Expression) -> Mean:
    """The mean of the values that are not null: double, or decimal(p + 4, s + 4), rounded half up, for decimal(p, s)."""
    return Mean(text_of(expr))


avg = mean
"""The same as :func:`mean`."""


def var(expr: Expression) -> Var:
    """The sample variance (SQL ``var_samp``); null for fewer than two values."""
    return Var(text_of(expr))


def stddev(expr: Expression) -> Stddev:
    """The sample standard deviation (SQL ``stddev_samp``); null for fewer than two values."""
    return Stddev(text_of(expr))


def first(expr: Expression, ignore_nulls: bool = False) -> First:
    """The value of the row with the earliest event time; of several, of the one that arrived first.

    Args:
        expr: what to take from the row.
        ignore_nulls: look only at rows where ``expr`` is not null.

    >>> first("page", ignore_nulls=True)
    agg.first('page', True)
    """
    return First(text_of(expr), ignore_nulls)


def last(expr: Expression, ignore_nulls: bool = False) -> Last:
    """The value of the row with the latest event time; of several, of the one that arrived last.

    Args:
        expr: what to take from the row.
        ignore_nulls: look only at rows where ``expr`` is not null.
    """
    return Last(text_of(expr), ignore_nulls)


def min_by(expr: Expression, by: Expression) -> MinBy:
    """The value of ``expr`` (null or not) in the row with the smallest ``by``.

    Of several such rows the one with the earliest event time counts, and of these the one that arrived first.
    Rows with a null ``by`` are left out.
    """
    return MinBy(text_of(expr), text_of(by))


def max_by(expr: Expression, by: Expression) -> MaxBy:
    """The value of ``expr`` (null or not) in the row with the largest ``by``.

    Of several such rows the one with the earliest event time counts, and of these the one that arrived first.
    Rows with a null ``by`` are left out.
    """
    return MaxBy(text_of(expr), text_of(by))


def count_distinct(expr: Expression) -> CountDistinct:
    """The number of distinct values that are not null; exact, so the state holds each value once per pane."""
    return CountDistinct(text_of(expr))


def collect_list(expr: Expression) -> CollectList:
    """The values that are not null, by event time, those of the same time in the order of arrival."""
    return CollectList(text_of(expr))


def top_k(expr: Expression, k: int, by: Expression | None = None) -> TopK:
    """The ``k`` largest values of ``expr``, largest first; or, with ``by``, the values of the rows with the ``k`` largest ``by``.

    Of equals the one with the earliest event time counts, then the one that arrived first. Rows where ``expr`` or ``by`` is
    null are left out.

    >>> top_k("url", 3, by="hits")
    agg.top_k('url', 3, 'hits')
    """
    return TopK(text_of(expr), k, text_of(by))


def arg_max(by: Expression, *exprs: Expression) -> ArgMax:
    """Several expressions of the row with the largest ``by``, as one struct; null where ``by`` is null in all rows.

    Of several such rows the one with the earliest event time counts, and of these the one that arrived first, as with
    :func:`max_by`. Rows with a null ``by`` are left out; other nulls are values like any other.

    Args:
        by: what is compared: of any orderable type; NaN is larger than any other number.
        exprs: what to keep of the row, at least one; the fields of the struct are named by them, and have their types.

    Raises:
        InvalidPlanError: no expression to keep, or one twice.

    Flink: ``maxBy`` on a ``DataStream``, which keeps the whole row.

    >>> arg_max("ts", "page", "price").name
    'arg_max(ts, page, price)'
    """
    return ArgMax(text_of(by), tuple([text_of(expr) for expr in exprs]))


def arg_min(by: Expression, *exprs: Expression) -> ArgMin:
    """Several expressions of the row with the smallest ``by``, as one struct: :func:`arg_max` the other way round.

    Args:
        by: what is compared: of any orderable type; NaN is larger than any other number.
        exprs: what to keep of the row, at least one; the fields of the struct are named by them, and have their types.

    Raises:
        InvalidPlanError: no expression to keep, or one twice.

    Flink: ``minBy`` on a ``DataStream``, which keeps the whole row.

    >>> arg_min("ts", "page")
    agg.arg_min('ts', 'page')
    """
    return ArgMin(text_of(by), tuple([text_of(expr) for expr in exprs]))


def weighted_mean(expr: Expression, weight: Expression) -> WeightedMean:
    """The sum of value times weight, divided by the sum of the weights; double.

    Rows where either is null are left out; the result is null where no row is left or the weights add up to zero. It is computed
    in floating point, decimals too.

    Args:
        expr: the values, numbers.
        weight: their weights, numbers; negative ones count as such.

    Flink: none; in SQL ``SUM(expr * weight) / SUM(weight)``, which divides by the weights of null values too.

    >>> weighted_mean("price", "quantity").name
    'weighted_mean(price, quantity)'
    """
    return WeightedMean(text_of(expr), text_of(weight))


def histogram(expr: Expression, edges: Iterable[float | Decimal]) -> Histogram:
    """How many values lie in each bin: an array of bigint, one longer than ``edges``, never null.

    The first number counts the values below ``edges[0]``, the next those from ``edges[0]`` up to but not including ``edges[1]``,
    and the last those from ``edges[-1]`` on. So every value that is not null is counted exactly once: NaN in the last bin, as
    it is larger than any other number. Counts are exact; integers and decimals are compared exactly too (an edge of 0.1 means
    0.1, not the nearest binary number).

    Args:
        expr: numbers (integer, float, double, decimal of up to 18 digits).
        edges: in the unit of ``expr``, at least one, each larger than the one before.

    Raises:
        InvalidPlanError: edges that are not finite, or not in order.

    Flink: none. Spark: ``width_bucket`` and a count per bucket.

    >>> histogram("latency_ms", [10, 100, 1000])
    agg.histogram('latency_ms', (10, 100, 1000))
    """
    return Histogram(text_of(expr), tuple(_plain_number(edge) for edge in edges))


def approx_count_distinct(expr: Expression, relative_sd: float = 0.02) -> ApproxCountDistinct:
    """About how many distinct values there are that are not null; bigint. Needs ``panestream[sketches]``.

    A pane keeps the distinct hashes of its values, up to some (1,024 with the default), and from there on a HyperLogLog sketch of
    Apache DataSketches (4 kB with the default). So few values are counted exactly, many with a standard error of at most
    ``relative_sd``, and state does not grow with their number. The result depends on the values alone, not on their order or on
    how they were cut into batches. Hashes are those of DataSketches for bigint, double and string that is not empty.

    :func:`count_distinct` is exact, and keeps every value.

    Args:
        expr: of any type that is not nested.
        relative_sd: the relative standard deviation of the result, from 0.0025 to 0.5; halving it takes four times the memory.

    Raises:
        InvalidPlanError: ``relative_sd`` is out of range.

    Flink: ``APPROX_COUNT_DISTINCT`` in SQL. Spark: ``approx_count_distinct``, ``hll_sketch_agg``.

    >>> approx_count_distinct("user_id", relative_sd=0.01)
    agg.approx_count_distinct('user_id', 0.01)
    """
    return ApproxCountDistinct(text_of(expr), relative_sd)


def approx_quantile(expr: Expression, probability: float, k: int = 200) -> ApproxQuantile:
    """About the value below which a share ``probability`` of the values lies; double. Needs ``panestream[sketches]``.

    See :func:`approx_quantiles`, which is the cheaper way to several quantiles of the same values.

    Args:
        expr: numbers.
        probability: from 0 to 1: 0.5 for the median, 0.99 for the 99th percentile.
        k: see there.

    Raises:
        InvalidPlanError: an argument is out of range.

    Flink: ``PERCENTILE`` in SQL, which is exact. Spark: ``percentile_approx``.

    >>> approx_quantile("latency_ms", 0.99).name
    'approx_quantile(latency_ms, 0.99)'
    """
    return ApproxQuantile(text_of(expr), probability, k)


def approx_quantiles(expr: Expression, probabilities: Iterable[float], k: int = 200) -> ApproxQuantiles:
    """About the values below which these shares of the values lie: an array of double, null where there is no value.

    Needs ``panestream[sketches]``. A window of up to ``2 * k`` values has exact quantiles, with linear interpolation between two
    values, as Spark's ``percentile``. A pane of more values keeps a t-digest of Apache DataSketches, about ``20 * k`` bytes. Its
    error has no proven bound. In our measurements, with the default k, the share of values below a result was at most 0.007 off,
    and at most 0.0025 at 0.01 and 0.99; both shrink as k grows (docs/decisions/0011). The same batches give the same results to
    the last bit; other batches of the same rows, one large one, say, give results that differ within that error.

    Nulls are left out. NaN is larger than any other number, infinite values are values; decimals are computed as double.

    Args:
        expr: numbers.
        probabilities: at least one, each from 0 to 1; the results are in their order.
        k: accuracy and size of the digest, from 10 to 65,535.

    Raises:
        InvalidPlanError: an argument is out of range.

    Flink: ``PERCENTILE`` in SQL, which is exact. Spark: ``percentile_approx``.

    >>> approx_quantiles("latency_ms", [0.5, 0.99]).name
    'approx_quantiles(latency_ms, [0.5, 0.99])'
    """
    return ApproxQuantiles(text_of(expr), tuple(_plain_number(p) for p in probabilities), k)


def user(written: ColumnAggregate, *exprs: Expression) -> User:
    """An aggregate of your own over the columns ``exprs``: see :class:`ColumnAggregate`.

    Args:
        written: an instance of your class.
        exprs: the expressions whose columns it gets, in this order; at least one.

    Raises:
        InvalidPlanError: it is no such instance, lacks a type, has methods that take others than are given, or gets no column.

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


def _plain_number(value: Any) -> Any:
    """Numpy's numbers as Python's, whose repr is the same everywhere; whatever else it is stays, to be refused."""
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, Integral) else float(value) if isinstance(value, Real) else value
