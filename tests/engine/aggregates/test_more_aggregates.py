"""Histograms, arg_min and arg_max, weighted means, and user aggregates: edge cases and errors."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.frequencies import QuantilesResult
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from tests.costs import random_cases

LEAST, MOST = -(2**63), 2**63 - 1


def result_of(recipe, types, *columns, panes=None, times=None):
    """Return the result over all rows as one window. Check that overlapping windows give the same. Times default to the order
    of arrival.
    """
    aggregation = Aggregation.build([recipe], types, pa.schema([]))
    values = dict(zip(types, columns, strict=True))
    rows = len(columns[0])
    panes = np.zeros(rows, np.int64) if panes is None else np.array(panes, np.int64)
    at = np.arange(rows) if times is None else np.array(times, np.int64)
    table = aggregation.partials([], panes, [pa.array(values[e], types[e]) for e in aggregation.inputs], at)
    first, end = np.array([-100, -99]), np.array([100, 101])
    single, two = (aggregation.windows(table, f, e)[1].column(0).to_pylist() for f, e in ((first[:1], end[:1]), (first, end)))
    assert repr(two) == repr(single * 2)
    return single[0]


@settings(max_examples=random_cases(100), deadline=None)
@given(
    st.lists(st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST]), min_size=1),
    st.lists(
        st.sampled_from([LEAST - 1, LEAST, 0, 0.5, Decimal("0.5"), MOST, MOST + 1, 2**70, 1e300]),
        min_size=1,
        max_size=6,
        unique=True,
    ),
)
def test_histogram_bins_integers_exactly(values, edges):
    edges.sort()
    expected = np.bincount([sum(Fraction(str(e)) <= v for e in edges) for v in values], minlength=len(edges) + 1)
    assert result_of(agg.histogram("x", edges), {"x": pa.int64()}, values) == expected.tolist()


def test_histogram_edge_of_a_tenth_is_exact_for_floats_and_decimals():
    values = [Decimal("0.09"), Decimal("0.10"), Decimal("0.30"), None]
    assert result_of(agg.histogram("x", [0.1, 0.3]), {"x": pa.decimal128(10, 2)}, values) == [1, 1, 1]
    assert result_of(agg.histogram("x", [0.1, 0.3]), {"x": pa.float64()}, [0.09, 0.1, 0.3, None]) == [1, 1, 1]


def test_histogram_counts_every_value_once():
    values = [-math.inf, -1.0, -0.0, 0.0, 9.9, 10.0, math.inf, math.nan, None]
    assert result_of(agg.histogram("x", [0, 10]), {"x": pa.float64()}, values, panes=range(9)) == [2, 3, 3]
    assert result_of(agg.histogram("x", [0, 10]), {"x": pa.float64()}, [None, None]) == [0, 0, 0]


@pytest.mark.parametrize("edges", [[], [1, 1], [2, 1], [math.nan], [0, math.inf], [True], ["1"], [Decimal("NaN")]])
def test_histogram_refuses_edges_that_do_not_ascend(edges):
    with pytest.raises(InvalidPlanError, match=r"edges must be finite numbers.*agg.histogram\('x', \[0, 10, 100\]\)"):
        agg.histogram("x", edges)


def test_numpy_arguments_become_python_numbers():
    assert repr(agg.histogram("x", np.array([0, 5]))) == "agg.histogram('x', (0, 5))"
    assert repr(agg.histogram("x", np.array([0, 0.5]))) == "agg.histogram('x', (0.0, 0.5))"
    assert repr(agg.approx_quantiles("x", np.array([0.5]))) == "agg.approx_quantiles('x', (0.5,))"


def test_arg_max_returns_the_row_with_the_largest_value():
    types = {"by": pa.float64(), "a": pa.string(), "b": pa.list_(pa.int64())}
    by, a, b = [1.0, 3.0, None, 3.0], ["p", "q", "r", None], [[1], None, [2], [3]]
    assert result_of(agg.arg_max("by", "a", "b"), types, by, a, b) == {"a": "q", "b": None}
    assert result_of(agg.arg_max("by", "a", "b"), types, by, a, b, panes=[3, 2, 1, 0], times=[9, 8, 7, 6]) == {
        "a": None,
        "b": [3],
    }
    assert result_of(agg.arg_max("by", "a", "b"), types, by, a, b, times=[9, 8, 7, 6]) == {"a": None, "b": [3]}
    assert result_of(agg.arg_max("by", "a", "b"), types, by, a, b, times=[5, 5, 5, 5]) == {"a": "q", "b": None}
    assert result_of(agg.arg_min("by", "by", "b"), {"by": pa.float64(), "b": types["b"]}, by, b) == {"by": 1.0, "b": [1]}
    assert result_of(agg.arg_max("by", "a"), {"by": pa.float64(), "a": pa.string()}, [None, None], ["p", "q"]) is None
    assert result_of(agg.arg_max("by", "a"), {"by": pa.float64(), "a": pa.string()}, [1.0], [None]) == {"a": None}


def test_arg_max_refuses_no_columns_and_a_column_twice():
    with pytest.raises(InvalidPlanError, match="nothing to keep"):
        agg.arg_max("ts")
    with pytest.raises(InvalidPlanError, match="twice"):
        agg.arg_min("ts", "page", "page")


def test_arg_max_shares_its_partial_with_max_by():
    types = {"x": pa.int64(), "y": pa.int64()}
    plan = Aggregation.build([agg.max_by("x", "y"), agg.arg_max("y", "x")], types, pa.schema([]))
    assert len(plan.partial_aggregates) == 1


def test_weighted_mean_skips_nulls_and_is_null_if_the_weights_add_up_to_zero():
    types = {"x": pa.decimal128(10, 2), "w": pa.int32()}
    mean = agg.weighted_mean("x", "w")
    assert result_of(mean, types, [Decimal(1), Decimal(4), None, Decimal(9)], [2, 1, 5, None]) == 2.0
    assert result_of(mean, types, [Decimal(1), Decimal(4)], [0, 0]) is None
    assert result_of(mean, types, [Decimal(1), Decimal(4)], [3, -3]) is None
    assert result_of(mean, types, [None], [1]) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: agg.approx_count_distinct("x", 0.0001),
            "relative_sd must be from 0.0025 to 0.5, got 0.0001.*agg.count_distinct",
        ),
        (lambda: agg.approx_count_distinct("x", True), "relative_sd"),
        (lambda: agg.approx_quantile("x", 50), "from 0 to 1"),
        (lambda: agg.approx_quantiles("x", []), r"from 0 to 1.*\[0.5, 0.99\]"),
        (lambda: agg.approx_quantiles("x", [0.5, math.nan]), "from 0 to 1"),
        (lambda: agg.approx_quantile("x", 0.5, k=9), "k must be an integer from 10 to 65535"),
        (lambda: agg.weighted_mean("x", 3), "weight must be a column name, SQL text or a Column, not int"),
        (lambda: agg.user(Range, "x"), "an instance of it, not the class"),
        (lambda: agg.user(Range()), "gets no column"),
        (lambda: agg.user(Range(), 5), "must be a column name, SQL text or a Column, not int"),
        (lambda: agg.user(Untyped(), "x"), "Untyped.result_type must be an Arrow type"),
    ],
)
def test_wrong_arguments_are_refused_when_the_aggregate_is_written(wrong, message):
    with pytest.raises(InvalidPlanError, match=message):
        wrong()


@pytest.mark.parametrize(
    ("recipe", "type_"),
    [
        (agg.histogram("x", [1]), pa.decimal128(19, 0)),
        (agg.histogram("x", [1]), pa.string()),
        (agg.weighted_mean("x", "x"), pa.timestamp("us")),
        (agg.arg_max("x", "x"), pa.list_(pa.int64())),
        (agg.approx_count_distinct("x"), pa.struct([("a", pa.int64())])),
        (agg.approx_quantile("x", 0.5), pa.date32()),
    ],
)
def test_error_names_the_type_that_an_aggregate_cannot_take(recipe, type_):
    with pytest.raises(InvalidPlanError) as raised:
        Aggregation.build([recipe], {"x": type_}, pa.schema([]))
    assert all(part in str(raised.value) for part in (repr(recipe), "'x'", str(type_)))


class Range(agg.ColumnAggregate):
    """The difference between the largest and the smallest integer, plus a constant, computed with numpy only."""

    partial_type = pa.struct([("least", pa.int64()), ("most", pa.int64())])
    result_type = pa.int64()

    def __init__(self, plus=0):
        self.plus = plus

    def partial(self, values, group, groups):
        both = pa.StructArray.from_arrays([values[0], values[0]], fields=list(self.partial_type))
        return self.merge(both, group, groups)

    def merge(self, partial, group, groups):
        least, most = np.full(groups, MOST), np.full(groups, LEAST)
        np.minimum.at(least, group, partial.field("least").to_numpy())
        np.maximum.at(most, group, partial.field("most").to_numpy())
        return pa.StructArray.from_arrays([pa.array(least), pa.array(most)], fields=list(self.partial_type))

    def final(self, partial):
        return partial.field("most").to_numpy() - partial.field("least").to_numpy() + self.plus


class Untyped(Range):
    result_type = None


@settings(max_examples=random_cases(50), deadline=None)
@given(st.data())
def test_user_aggregate_over_windows_of_many_panes(data):
    rows, panes = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 60))
    generator = np.random.default_rng(data.draw(st.integers(0, 1000)))
    key, pane, value = (generator.integers(0, most, rows) for most in (3, panes, 1000))
    aggregation = Aggregation.build([agg.user(Range(7), "x")], {"x": pa.int64()}, pa.schema([("k", pa.int64())]))
    table = aggregation.partials([pa.array(key)], pane, [pa.array(value)], None)
    first = np.arange(-5, panes)
    size = data.draw(st.integers(1, 50))
    which, output = aggregation.windows(table, first, first + size)
    for window, k, result in zip(which, output["k"].to_pylist(), output[1].to_pylist(), strict=True):
        inside = value[(key == k) & (pane >= first[window]) & (pane < first[window] + size)]
        assert result == inside.max() - inside.min() + 7


def test_user_aggregates_are_equal_if_their_attributes_are():
    assert agg.user(Range(1), "x") == agg.user(Range(1), "x") != agg.user(Range(2), "x")
    assert repr(agg.user(Range(1), "x", "y").alias("r")) == "agg.user(Range(plus=1), 'x', 'y').alias('r')"
    assert agg.user(Range(1), "x", "y").name == "Range(x, y)"
    assert pickle.loads(pickle.dumps(agg.user(Range(1), "x"))) == agg.user(Range(1), "x")
    assert len({Range(1), Range(1), Range(2)}) == 2


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        (
            "partial",
            pa.array([1]),
            r"Bad\(\).partial returned an array of int64, but partial_type is struct.*cast it to self.partial_type",
        ),
        ("partial", pa.nulls(2, Range.partial_type), "returned 2 rows, not 1"),
        ("partial", [1], "returned list: it must return an Arrow array of struct"),
        ("merge", np.array([1.5]), "returned an array of double, but partial_type"),
        ("merge", pa.nulls(0, Range.partial_type), "returned 0 rows, not 1"),
        ("final", pa.array(["a"]), "final returned an array of string, but result_type is int64"),
        ("final", pa.array([1, 2]), "final returned 2 rows, not 1"),
    ],
)
def test_wrong_return_value_of_a_user_aggregate_is_refused(method, returned, message):
    bad = type("Bad", (Range,), {"__init__": lambda self: None, "plus": 0, method: lambda *_: returned})
    aggregation = Aggregation.build([agg.user(bad(), "x")], {"x": pa.int64()}, pa.schema([]))

    def run():
        table = aggregation.partials([], np.zeros(1, np.int64), [pa.array([1])], None)
        aggregation.windows(aggregation.merge([table, table]), np.array([0]), np.array([1]))

    with pytest.raises(InvalidPlanError, match=message):
        run()


def test_result_types_exist_in_spark():
    from panestream.spark.types import spark_schema

    types = {"x": pa.int64(), "s": pa.string(), "rows": pa.list_(pa.struct([("a", pa.int64())]))}
    recipes = [
        agg.approx_count_distinct("s"),
        agg.approx_quantile("x", 0.5),
        agg.approx_quantiles("x", [0.5]),
        agg.histogram("x", [1]),
        agg.arg_max("x", "s", "rows"),
        agg.weighted_mean("x", "x"),
        agg.user(Range(), "x"),
        agg.first("rows"),
    ]
    schema = spark_schema(Aggregation.build(recipes, types, pa.schema([])).output_schema)
    assert [field.dataType.simpleString() for field in schema.fields] == [
        "bigint", "double", "array<double>", "array<bigint>", "struct<s:string,rows:array<struct<a:bigint>>>",
        "double", "bigint", "array<struct<a:bigint>>",
    ]  # fmt: skip


def test_percentiles_belong_to_their_windows_also_beside_windows_without_values():
    """Three windows: the values 1 and 3, none, and 10 twice."""
    result = QuantilesResult("p", "p", pa.list_(pa.float64()), (), (0.0, 0.5, 1.0), True)
    found = result.of(pa.array([1.0, 3.0, 10.0]), np.array([1, 1, 2]), np.array([0, 0, 2]), 3)
    assert found.to_pylist() == [[1.0, 2.0, 3.0], None, [10.0, 10.0, 10.0]]
