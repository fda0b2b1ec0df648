"""Aggregates agree with DuckDB, NumPy and Apache DataSketches over the same rows, cut into panes in any way."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.errors import InvalidDurationError, InvalidPlanError
from panestream.windowing import aggregates as agg

TYPES = {"x": pa.float64(), "y": pa.float64(), "n": pa.int64(), "t": pa.string(), "f": pa.bool_()}
ROWS = 2_000
BESIDE_DUCKDB = {
    "corr(x, y)": agg.corr("x", "y"),
    "covar_samp(x, y)": agg.covar_samp("x", "y"),
    "covar_pop(x, y)": agg.covar_pop("x", "y"),
    "regr_slope(x, y)": agg.regr_slope("x", "y"),
    "regr_intercept(x, y)": agg.regr_intercept("x", "y"),
    "regr_r2(x, y)": agg.regr_r2("x", "y"),
    "entropy(n)": agg.entropy("n"),
    "median(x)": agg.median("x"),
    "quantile_cont(n, 0.9)": agg.percentile("n", 0.9),
    "quantile_cont(x, [0.01, 0.5, 0.999])": agg.percentiles("x", [0.01, 0.5, 0.999]),
    "list_sort(list_distinct(list(t)))": agg.collect_set("t"),
    "mode(n)": agg.mode("n"),
    "count_if(f)": agg.count_if("f"),
    "bool_and(f)": agg.bool_and("f"),
    "bool_or(f)": agg.bool_or("f"),
    "{'open': first(x ORDER BY time), 'high': max(x), 'low': min(x), 'close': last(x ORDER BY time)}": agg.ohlc("x"),
    "sum(x * pow(2, (time - 1999) / 50.0))": agg.decayed_sum("x", "50 microseconds"),
    "sum(x * pow(2, (time - 1999) / 50.0)) / sum(pow(2, (time - 1999) / 50.0))": agg.decayed_mean("x", "50 microseconds"),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    x = rng.normal(50, 9, ROWS)
    n = rng.poisson(9, ROWS)
    columns = {
        "x": pa.array(x), "y": pa.array(3 * x + rng.normal(0, 5, ROWS)), "n": pa.array(n, mask=rng.random(ROWS) < 0.1),
        "t": pa.array(rng.choice(["a", "b", "é"], ROWS)), "f": pa.array(n > 3),
    }  # fmt: skip
    return pa.table({**columns, "time": np.arange(ROWS)})


def over_all(recipes, rows, panes=7, order=None):
    """Return the results over all rows, which arrive in three batches in any order, and the same from overlapping windows."""
    aggregation = Aggregation.build(recipes, TYPES, pa.schema([]))
    rows = rows if order is None else rows.take(pa.array(order))
    parts = []
    for start, end in pairwise([0, len(rows) // 4, len(rows) // 2, len(rows)]):
        part = rows.slice(start, end - start)
        time = part["time"].to_numpy()
        values = [part[name].combine_chunks() for name in aggregation.inputs]
        parts.append(aggregation.partials([], time * panes // ROWS, values, time))
    merged = aggregation.merge(parts)
    _, one = aggregation.windows(merged, np.array([0]), np.array([panes]))
    _, two = aggregation.windows(merged, np.array([-2, -1]), np.array([panes, panes + 1]))
    return one.to_pylist()[0], two.to_pylist()


@pytest.mark.parametrize("panes", [1, 7, 500])
def test_statistics_equal_those_of_duckdb(rows, panes):
    duckdb = pytest.importorskip("duckdb")
    expected = duckdb.sql(f"SELECT {', '.join(BESIDE_DUCKDB)} FROM rows").fetchall()[0]
    order = np.random.default_rng(panes).permutation(ROWS)
    named = [recipe.alias(f"r{place}") for place, recipe in enumerate(BESIDE_DUCKDB.values())]
    one, two = over_all(named, rows, panes, order)
    for found in (one, *two):
        for value, wanted, sql in zip(found.values(), expected, BESIDE_DUCKDB, strict=True):
            assert value == (
                pytest.approx(wanted, rel=1e-9) if isinstance(wanted, float | list) and "t)" not in sql else wanted
            ), sql


def test_line_and_correlation_equal_those_of_numpy(rows):
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    slope, intercept = np.polyfit(y, x, 1)
    one, _ = over_all(
        [agg.regr_slope("x", "y"), agg.regr_intercept("x", "y"), agg.corr("x", "y"), agg.covar_samp("x", "y")], rows
    )
    assert list(one.values()) == pytest.approx([slope, intercept, np.corrcoef(x, y)[0, 1], np.cov(x, y)[0, 1]], rel=1e-9)


def test_counter_and_weighted_means_equal_those_of_numpy(rows):
    """A counter that is reset every 300 rows, read at uneven times and in any order."""
    rng = np.random.default_rng(4)
    time = np.sort(rng.choice(ROWS, 800, replace=False))
    value = rng.integers(0, 5, 800).cumsum().astype(float)
    counter = value - np.repeat(value[::300], 300)[:800]
    table = pa.table({"x": counter, "time": time})
    grown = sum(b if b < a else b - a for a, b in pairwise(counter.tolist()))
    span = int(time[-1] - time[0])
    order = rng.permutation(800)
    for panes in (1, 40):
        one, two = over_all(
            [agg.increase("x"), agg.rate("x"), agg.time_weighted_mean("x"), agg.time_weighted_mean("x", "linear").alias("linear")],
            table, panes, order,
        )  # fmt: skip
        expected = [
            grown, grown / span * 1e6, (counter[:-1] * np.diff(time)).sum() / span,
            ((counter[:-1] + counter[1:]) / 2 * np.diff(time)).sum() / span,
        ]  # fmt: skip
        for found in (one, *two):
            assert list(found.values()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 4_000, 4_097, 30_000])
def test_sketches_have_the_bytes_of_datasketches(count):
    datasketches = pytest.importorskip("datasketches")
    theta, hll = datasketches.update_theta_sketch(12), datasketches.hll_sketch(12, datasketches.HLL_8)
    values = list(range(count))
    for value in values:
        theta.update(value)
        hll.update(value)
    theta.trim()
    table = pa.table({"n": pa.array([*values, None], pa.int64()), "time": np.arange(count + 1) % ROWS})
    order = np.random.default_rng(count).permutation(count + 1)
    one, two = over_all([agg.theta_sketch("n"), agg.hll_sketch("n"), agg.approx_count_distinct("n", 0.0163)], table, 9, order)
    for found in (one, *two):
        assert found["theta_sketch(n)"] == theta.compact().serialize()
        sketch = datasketches.hll_sketch.deserialize(found["hll_sketch(n)"])
        assert round(sketch.get_estimate()) == pytest.approx(found["approx_count_distinct(n)"], abs=1)
        assert sketch.get_estimate() == pytest.approx(hll.get_estimate(), rel=0.05)


def test_results_of_few_rows_are_null_or_the_only_value():
    one = pa.table({"x": [3.0], "y": [4.0], "n": [5], "t": ["a"], "f": [True], "time": [7]})
    none = pa.table({name: pa.array([None], type_) for name, type_ in TYPES.items()} | {"time": pa.array([7])})
    recipes = {
        agg.corr("x", "y"): (None, None), agg.covar_samp("x", "y"): (None, None), agg.covar_pop("x", "y"): (0.0, None),
        agg.regr_slope("x", "y"): (None, None), agg.increase("x"): (None, None), agg.rate("x"): (None, None),
        agg.time_weighted_mean("x"): (3.0, None), agg.decayed_sum("x", "1 day"): (3.0, None),
        agg.decayed_mean("x", "1 day"): (3.0, None), agg.mode("t"): ("a", None), agg.entropy("t"): (0.0, None),
        agg.collect_set("t"): (["a"], []), agg.median("x"): (3.0, None), agg.percentiles("x", [0, 1]): ([3.0, 3.0], None),
        agg.count_if("f"): (1, 0), agg.bool_and("f"): (True, None), agg.bool_or("f"): (True, None),
        agg.ohlc("n"): ({"open": 5, "high": 5, "low": 5, "close": 5}, None),
    }  # fmt: skip
    for place, table in enumerate((one, none)):
        found, _ = over_all(list(recipes), table)
        assert list(found.values()) == [expected[place] for expected in recipes.values()]


def test_pairs_with_infinity_have_no_finite_statistic():
    table = pa.table({"x": [1.0, math.inf, 2.0], "y": [2.0, 2.5, 3.0], "time": [0, 1, 2]})
    one, two = over_all([agg.corr("x", "y"), agg.covar_pop("x", "y")], table, 1_000)
    assert all(math.isnan(value) for found in (one, *two) for value in found.values())


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda: agg.decayed_sum("x", "soon"), InvalidDurationError, "half_life 'soon' cannot be read"),
        (lambda: agg.decayed_mean("x", "0 seconds"), InvalidPlanError, "half_life must be longer than 0, got '0 seconds'"),
        (lambda: agg.decayed_mean("x", "-1 hour"), InvalidPlanError, "half_life must be longer than 0"),
        (lambda: agg.time_weighted_mean("x", "cubic"), InvalidPlanError, "between must be 'last' or 'linear', got 'cubic'"),
        (lambda: agg.percentile("x", 1.5), InvalidPlanError, r"from 0 to 1, got \(1.5,\); write agg.percentile\('x', 0.99\)"),
        (lambda: agg.percentiles("x", []), InvalidPlanError, r"write agg.percentiles\('x', \[0.5, 0.99\]\)"),
        (lambda: agg.hll_sketch("x", 3), InvalidPlanError, "lg_k must be an integer from 4 to 21, got 3"),
        (lambda: agg.theta_sketch("x", 27), InvalidPlanError, "lg_k must be an integer from 4 to 26, got 27"),
        (lambda: agg.corr("x", ""), InvalidPlanError, "agg.corr: other is empty"),
    ],
)
def test_wrong_arguments_are_refused_with_the_call_to_write(build, error, said):
    with pytest.raises(error, match=said):
        build()


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (agg.count_if("n"), "it needs a condition"),
        (agg.bool_or("t"), "it needs a condition"),
        (agg.corr("x", "t"), "it needs a number"),
        (agg.increase("f"), "it needs a number"),
        (agg.decayed_sum("t", "1 hour"), "it needs a number"),
        (agg.median("t"), "it needs a number"),
    ],
    ids=repr,
)
def test_wrong_types_are_refused_with_what_is_needed(recipe, said):
    with pytest.raises(InvalidPlanError, match=said):
        Aggregation.build([recipe], TYPES, pa.schema([]))
