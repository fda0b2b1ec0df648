"""Suggestions for Spark aggregates that panestream does not take. Without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import types as T

from panestream.engine.runtime.sides import SIDE_COLUMN
from panestream.spark.aggregates import _arguments, instead_of
from panestream.spark.columns import _column_hint, as_written
from panestream.windowing.foreign_names import AGGREGATES, OF_TWO

GENERAL = "give .aggregate aggregates such as agg.sum('price') or F.sum('price'), and compute on its results"
ALL = (
    "known there: approx_count_distinct, approx_quantile, avg, bool_and, bool_or, collect_list, collect_set, corr, count, "
    "count_distinct, count_if, covar_pop, covar_samp, decayed_mean, decayed_sum, entropy, first, histogram, hll_sketch, increase, "
    "last, max, max_by, mean, median, min, min_by, mode, ohlc, percentile, rate, regr_intercept, regr_r2, regr_slope, stddev, sum, "
    "theta_sketch, time_weighted_mean, top_k, user, var, weighted_mean"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sum(price)", "write .aggregate(agg.sum('price'))"),
        (" SUM( price ) ", "write .aggregate(agg.sum('price'))"),
        ("sum(price) AS revenue", "write .aggregate(agg.sum('price').alias('revenue'))"),
        ("sum(price) as `all of it`", "write .aggregate(agg.sum('price').alias('all of it'))"),
        ("sum(coalesce(a, 0) * b)", "write .aggregate(agg.sum('coalesce(a, 0) * b'))"),
        ("sum(price,\n1)", "write .aggregate(agg.sum('price'))"),
        ("count(1)", "write .aggregate(agg.count())"),
        ("count(*)", "write .aggregate(agg.count())"),
        ("count()", "write .aggregate(agg.count())"),
        ("count(user)", "write .aggregate(agg.count('user'))"),
        ("sum(1)", "write .aggregate(agg.sum('1'))"),
        ("count(DISTINCT user) AS n", "write .aggregate(agg.count_distinct('user').alias('n'))"),
        ("count(distinct user)", "write .aggregate(agg.count_distinct('user'))"),
        ("max(DISTINCT price)", "write .aggregate(agg.max('price'))"),
        ("min(DISTINCT price)", "write .aggregate(agg.min('price'))"),
        ("max_by(item, price)", "write .aggregate(agg.max_by('item', 'price'))"),
        ("min_by(item, price, 3)", "write .aggregate(agg.min_by('item', 'price'))"),
        ("median(price)", "write .aggregate(agg.median('price'))"),
        ("percentile(price, array(0.5, 0.9), 1)", "write .aggregate(agg.percentiles('price', [0.5, 0.9]))"),
        ("corr(price, quantity)", "write .aggregate(agg.corr('price', 'quantity'))"),
        ("percentile(price, 0.9) AS p", "write .aggregate(agg.percentile('price', 0.9).alias('p'))"),
        ("percentile_approx(price)", "write .aggregate(agg.approx_quantile('price', 0.5))"),
        ("percentile_approx(price, array(0.5, 0.9))", "write .aggregate(agg.approx_quantiles('price', [0.5, 0.9]))"),
        ("sums(price)", "there is no agg.sums; did you mean agg.sum?"),
        ("sum(DISTINCT price)", "there is no agg.sum_distinct; did you mean agg.count_distinct?"),
        ("xyzzy(price)", f"there is no agg.xyzzy; {ALL}"),
        ("coalesce(sum(price), 0)", GENERAL),
        ("sum(price) + 1", GENERAL),
        ("sum(price", GENERAL),
        ("sum(a)) AS (b)", GENERAL),
        ("price", GENERAL),
        ("", GENERAL),
    ],
)
def test_suggestion_for_a_spark_aggregate(text, told):
    assert instead_of(text) == told


@pytest.mark.parametrize("name", sorted(set(AGGREGATES) - {"count distinct", *OF_TWO}))
def test_suggestion_for_a_shared_aggregate_has_its_name(name):
    assert instead_of(f"{name}(x)") == f"write .aggregate(agg.{AGGREGATES[name]}('x'))"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" , ,", []),
        ("a", ["a"]),
        (" a , b ", ["a", "b"]),
        ("f(a, b), c", ["f(a, b)", "c"]),
        ("[a, b], f(g(a, b), c), d", ["[a, b]", "f(g(a, b), c)", "d"]),
        ("f(a", None),
        ("a), (b", None),
        ("a]", None),
        ("f([a)]", ["f([a)]"]),
    ],
)
def test_arguments_are_split_at_commas_outside_parentheses(text, parts):
    assert _arguments(text) == parts


def test_given_values_are_shown_as_written():
    class Given:
        def __repr__(self):
            return "Column<'(price > 3)'>"

    assert as_written("price > 3") == "price > 3"
    assert as_written(Given()) == "(price > 3)"


def rows_of(*fields):
    schema = T.StructType([T.StructField(name, kind) for name, kind in fields])
    return SimpleNamespace(schema=schema, columns=schema.names)


STRUCT = T.StructType([T.StructField("price", T.LongType()), T.StructField("paid", T.LongType())])
ROWS = rows_of(("user", T.StringType()), ("order", STRUCT), ("other", STRUCT), (SIDE_COLUMN, T.StringType()))


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("price", "did you mean 'order.price' or 'other.price'?"),
        ("order.prise", "did you mean 'order.price'?"),
        ("order.prid", "did you mean 'order.paid' or 'order.price'?"),
        ("order.xyz", "known there: order.price, order.paid"),
        ("usr", "did you mean 'user'?"),
        ("user.name", "did you mean 'user'?"),
    ],
)
def test_hint_lists_existing_columns_and_fields(given, hint):
    assert _column_hint(given, ROWS) == hint


def test_internal_column_of_joined_streams_is_not_suggested():
    told = _column_hint("xyz", ROWS)
    assert told == "known here: order, other, user"
