"""The kernels agree with the naive definition on random rows, chunks, merges and windows."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panestream.engine.aggregates import Aggregation, counts, lists, quantiles, sketches
from panestream.engine.kernels import grouping, ranges
from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates.pairs import OfPair
from tests.costs import random_cases
from tests.engine.aggregates import naive
from tests.engine.aggregates.naive import Row

TYPES = {
    "tiny": pa.int8(),
    "int": pa.int32(),
    "long": pa.int64(),
    "big": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "odd": pa.float64(),
    "huge": pa.float64(),
    "short_dec": pa.decimal128(7, 2),
    "dec": pa.decimal128(18, 3),
    "wide_dec": pa.decimal128(28, 5),
    "text": pa.string(),
    "bytes": pa.binary(),
    "flag": pa.bool_(),
    "weight": pa.float64(),
    "day": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
}
VALUES = {
    "tiny": st.integers(-128, 127),
    "int": st.integers(-5, 5),
    "long": st.integers(-(10**6), 10**6),
    "big": st.integers(-(2**57), 2**57),
    "float": st.floats(-100, 100, width=32),
    "double": st.floats(-1e6, 1e6),
    "odd": st.sampled_from([0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf]),
    "huge": st.sampled_from([0.0, 2.5, 1e-300, 1e155, 1e200, 1e306, -1e306]),  # their squares exceed the largest float
    "short_dec": st.decimals(-99999, 99999, places=2),
    "dec": st.decimals(-(10**14), 10**14, places=3),
    "wide_dec": st.decimals(-(10**22), 10**22, places=5),
    "text": st.sampled_from(["", "a", "b", "bb", "é", "z"]),
    "bytes": st.binary(max_size=2),
    "flag": st.booleans(),
    "day": st.dates(date(1960, 1, 1), date(1980, 1, 1)),
    "weight": st.sampled_from([0.0, 0.25, 1.0, 2.5]),
    "time": st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1), timezones=st.just(timezone.utc)),
}
NUMERIC = [n for n, t in TYPES.items() if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)]
PAIRED = ["tiny", "int", "weight", "short_dec"]
"""Numbers of moderate size, of which no statistic of pairs is ill-conditioned."""
HALF_LIVES = ["1 microsecond", "7 microseconds", "2 seconds"]
KEYS = {
    "none": ([], []),
    "int": ([pa.int64()], [st.integers(0, 3)]),
    "many": ([pa.int64()], [st.integers(-(2**63), 2**63 - 1)]),
    "text": ([pa.string()], [st.sampled_from(["a", "b", "", None])]),
    "float": ([pa.float64()], [st.sampled_from([0.0, -0.0, 1.0, math.nan, None])]),
    "two": ([pa.int32(), pa.string()], [st.sampled_from([1, 2, None]), st.sampled_from(["a", "b", None])]),
    "three": (
        [pa.decimal128(5, 1), pa.bool_(), pa.date32()],
        [st.sampled_from([Decimal("1.5"), None]), st.booleans(), st.sampled_from([date(2020, 1, 1), date(2020, 1, 2)])],
    ),
}


class Story(agg.ColumnAggregate):
    """Texts in order, with nulls, and the sum of an integer. Its result shows which values a user aggregate gets, and in which
    order.
    """

    partial_type = pa.struct([("texts", pa.list_(pa.string())), ("sum", pa.int64())])
    result_type = pa.string()

    def partial(self, values, group, groups):
        texts, numbers = values[0].to_pylist(), values[1].to_pylist()
        return self.merge(pa.array([{"texts": [t], "sum": n or 0} for t, n in zip(texts, numbers, strict=True)]), group, groups)

    def merge(self, partial, group, groups):
        merged = [{"texts": [], "sum": 0} for _ in range(groups)]
        for part, owner in zip(partial.to_pylist(), group.tolist(), strict=True):
            merged[owner]["texts"] += part["texts"]
            merged[owner]["sum"] += part["sum"]
        assert all(part["texts"] for part in merged)  # every group has a row
        return pa.array(merged, self.partial_type)

    def final(self, partial):
        return pa.array([repr((part["texts"], part["sum"])) for part in partial.to_pylist()], pa.string())

    def naive(self, rows, exprs):
        text, number = exprs
        return repr(([r.values[text] for r in rows], sum(r.values[number] or 0 for r in rows)))


def recipes():
    numeric, anything = st.sampled_from(NUMERIC), st.sampled_from(list(TYPES))
    edges = st.lists(st.integers(-6, 6) | st.floats(-3, 3, width=16), min_size=1, max_size=5, unique=True).map(sorted)
    in_bins = st.sampled_from([n for n in NUMERIC if n != "wide_dec"])
    shares = st.sampled_from([0, 0.25, 0.5, 0.9, 1])
    return st.one_of(
        st.just(agg.count()),
        st.builds(agg.count, anything),
        st.builds(agg.sum, numeric),
        st.builds(agg.mean, numeric),
        st.builds(agg.var, numeric),
        st.builds(agg.stddev, numeric),
        st.builds(agg.min, anything),
        st.builds(agg.max, anything),
        st.builds(agg.first, anything, st.booleans()),
        st.builds(agg.last, anything, st.booleans()),
        st.builds(agg.min_by, anything, anything),
        st.builds(agg.max_by, anything, anything),
        st.builds(agg.count_distinct, anything),
        st.builds(agg.collect_list, anything),
        st.builds(agg.top_k, anything, st.integers(1, 4)),
        st.builds(agg.top_k, anything, st.integers(1, 4), anything),
        st.builds(lambda by, exprs: agg.arg_max(by, *exprs), anything, st.lists(anything, min_size=1, max_size=3, unique=True)),
        st.builds(lambda by, exprs: agg.arg_min(by, *exprs), anything, st.lists(anything, min_size=1, max_size=3, unique=True)),
        st.builds(agg.weighted_mean, numeric, st.just("weight")),
        st.builds(agg.histogram, in_bins, edges),
        st.builds(agg.approx_count_distinct, anything),
        st.builds(agg.approx_quantile, numeric, shares),
        st.builds(agg.approx_quantiles, numeric, st.lists(shares, min_size=1, max_size=3)),
        st.just(agg.user(Story(), "text", "int")),
        *more_recipes(numeric, anything, shares),
    )


def more_recipes(numeric, anything, shares):
    """Return the aggregates of flags, frequencies, pairs, points, decay and ohlc."""
    moderate, flags = st.sampled_from([n for n in NUMERIC if n != "huge"]), st.just("flag")
    pairs = [agg.covar_samp, agg.covar_pop, agg.corr, agg.regr_slope, agg.regr_intercept, agg.regr_r2]
    return [
        *(st.builds(function, flags) for function in (agg.count_if, agg.bool_and, agg.bool_or)),
        *(st.builds(function, anything) for function in (agg.ohlc, agg.mode, agg.entropy, agg.collect_set)),
        st.builds(agg.median, numeric),
        st.builds(agg.percentile, numeric, shares),
        st.builds(agg.percentiles, numeric, st.lists(shares, min_size=1, max_size=3)),
        *(st.builds(function, st.sampled_from(PAIRED), st.sampled_from(PAIRED)) for function in pairs),
        *(st.builds(function, moderate) for function in (agg.increase, agg.rate)),
        st.builds(agg.time_weighted_mean, moderate, st.sampled_from(["last", "linear"])),
        *(st.builds(function, numeric, st.sampled_from(HALF_LIVES)) for function in (agg.decayed_sum, agg.decayed_mean)),
    ]


@st.composite
def cases(draw):
    recipes_ = draw(st.lists(recipes(), min_size=1, max_size=5, unique_by=lambda r: r.name))
    if draw(st.booleans()):
        recipes_.insert(draw(st.integers(0, len(recipes_))), agg.complete(draw(st.sampled_from(recipes_)).name))
    columns = sorted({expr for recipe in recipes_ for expr in recipe.inputs})
    key_types, key_values = KEYS[draw(st.sampled_from(list(KEYS)))]
    nullable = {c: draw(st.booleans()) for c in columns}
    far = draw(st.sampled_from([1, 1, 1, 10**12]))  # panes that are too far apart for a matrix
    event_time = draw(st.integers(0, 3)) > 0
    count = draw(st.integers(0, 40))
    rows = []
    for arrival in range(count):
        pane = draw(st.integers(-4, 8)) * far
        time = pane * 3 + draw(st.integers(0, 2)) if event_time else draw(st.integers(-3, 3))
        values = {c: draw(st.none() | VALUES[c] if nullable[c] else VALUES[c]) for c in columns}
        rows.append(Row(tuple(draw(k) for k in key_values), pane, time, arrival, values))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    merges = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=3))
    first, end = draw(window_bounds())
    return recipes_, key_types, rows, cuts, merges, [p * far for p in first], [p * far for p in end]


@st.composite
def window_bounds(draw):
    kind = draw(st.sampled_from(["sliding", "cumulating", "any"]))
    if kind == "sliding":  # tumbling, overlapping, or with gaps
        size, slide, begin = draw(st.integers(1, 14)), draw(st.integers(1, 6)), draw(st.integers(-20, 3))
        first = list(range(begin, draw(st.integers(begin, 10)), slide))
        return first, [p + size for p in first]
    if kind == "cumulating":
        size, step = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        bounds = [(s, s + step * i) for s in range(-6, 9, size * step) for i in range(1, size + 1)]
        return [b[0] for b in bounds], [b[1] for b in bounds]
    first = sorted(draw(st.lists(st.integers(-6, 10), max_size=12)))
    end = sorted(draw(st.lists(st.integers(-6, 10), min_size=len(first), max_size=len(first))))
    return first, end


def run(recipes_, key_types, rows, cuts, merges, first, end, layout):
    """Return the kernels' answer in the shape of the naive one, and the order of the output."""
    schema = pa.schema([pa.field(f"k{i}", t) for i, t in enumerate(key_types)])
    aggregation = Aggregation.build(recipes_, TYPES, schema)
    tables = []
    for begin, until in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        chunk = rows[begin:until]
        keys = [pa.array([r.key[i] for r in chunk], t) for i, t in enumerate(key_types)]
        values = [pa.array([r.values[e] for r in chunk], TYPES[e]) for e in aggregation.inputs]
        panes, times = np.array([r.pane for r in chunk], np.int64), np.array([r.time for r in chunk], np.int64)
        table = aggregation.partials(keys, panes, values, times)
        check(aggregation, table, len(chunk))
        tables.append(table)
    for place, many in merges:  # only neighbours, because tables are merged in the order of arrival
        at = place % len(tables)
        merged = aggregation.merge(tables[at : at + many])
        check(aggregation, merged, sum(sum(t["rows"].to_pylist()) for t in tables[at : at + many]))
        tables[at : at + many] = [merged]
    windows, output = aggregation.windows(pa.concat_tables(tables), np.array(first, np.int64), np.array(end, np.int64), layout)
    output.validate(full=True)
    assert output.schema == pa.schema([*schema, *aggregation.output_schema])
    assert windows.dtype == np.int64
    assert (np.diff(windows) >= 0).all()
    again = aggregation.windows(pa.concat_tables(tables), np.array(first, np.int64), np.array(end, np.int64), layout)[1]
    assert repr(again.to_pylist()) == repr(output.to_pylist())
    columns = [column.to_pylist() for column in output.columns]
    results = {}
    for i, window in enumerate(windows.tolist()):
        cells = [column[i] for column in columns]
        pair = window, naive.plain_key(tuple(cells[: len(key_types)]))
        assert pair not in results
        results[pair] = cells[len(key_types) :]
    return results


def check(aggregation, table, rows):
    table.validate(full=True)
    assert table.schema == aggregation.partial_schema
    assert (np.diff(table["pane"].to_numpy()) >= 0).all()
    assert sum(table["rows"].to_pylist()) == rows


def scale_of(recipe, rows):
    """Return the size of numbers whose rounding errors a result may have."""
    sizes = []
    for expr in recipe.inputs:
        numbers = [abs(float(r.values[expr] or 0)) for r in rows] if expr in NUMERIC else []
        sizes.append(max([1.0, *(n for n in numbers if math.isfinite(n))]))
    if isinstance(recipe, (agg.Var, OfPair)):
        return math.prod(sizes * 2 if isinstance(recipe, agg.Var) else sizes)
    # Seconds in microseconds: a rate is a million times the increase per microsecond.
    return (sizes or [1.0])[0] * (1e6 if isinstance(recipe, agg.Rate) else 1)


@pytest.mark.parametrize("layout", ["auto", "dense", "sparse"])
@pytest.mark.parametrize(("ranked", "sketched"), [(False, False), (True, True), (False, True)])
@settings(max_examples=random_cases(60), deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_results_of_windows_equal_the_naive_definition(layout, ranked, sketched, case):
    recipes_, _, rows, _, _, first, end = case
    if layout == "dense" and any(abs(r.pane) > 100 for r in rows):
        layout = "auto"  # a matrix with 10**12 rows does not exist
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "SLAB_CELLS", 7)
        patch.setattr(ranges, "MOST_PAIRS", 9)
        patch.setattr(lists, "_NETWORK", 2 if ranked else 32)
        patch.setattr(quantiles, "_MOST_VALUES", 5)
        patch.setattr(sketches, "_CHUNK", 3)
        if sketched:
            # Sketches of few values are still exact, so the naive definition also checks the code that calls the sketch library.
            patch.setattr(counts.PartialHll, "limit", 2)
            patch.setattr(quantiles.PartialQuantiles, "limit", 2)
        if ranked:
            patch.setattr(grouping, "DENSE_CELLS", 0)
            patch.setattr(grouping, "DENSE_FACTOR", 0)
        found = run(*case, layout)
    expected = naive.windows(recipes_, rows, TYPES, first, end)
    assert found.keys() == expected.keys()
    for pair, results in expected.items():
        for recipe, value, actual in zip(recipes_, results, found[pair], strict=True):
            assert naive.same(actual, value, scale_of(recipe, rows)), (
                recipe,
                pair,
                actual,
                value,
            )
