"""Edge cases of the kernels: overflow, half-up means, missing values, odd keys, empty tables, many windows."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.sums import PartialSum
from panestream.engine.kernels import columns, grouping, ranges
from panestream.engine.kernels.ordering import stable_order
from panestream.engine.operators.row.operator import DeclaredFunction
from panestream.errors import AggregateOverflowError
from panestream.windowing import aggregates as agg
from tests.costs import random_cases

BIG = 2**63 - 1
LAYOUTS = ["dense", "sparse"]


def ints(*values):
    return np.array(values, np.int64)


def one_key(recipes, type_, panes, values):
    """Build an aggregation over one expression without keys. Return it and the partials of the rows, one chunk per row."""
    aggregation = Aggregation.build(recipes, {"x": type_}, pa.schema([]))
    tables = [
        aggregation.partials([], ints(pane), [pa.array([value], type_)] * len(aggregation.inputs), ints(pane))
        for pane, value in zip(panes, values, strict=True)
    ]
    return aggregation, tables


def results(aggregation, table, first, end, layout="auto"):
    return aggregation.windows(table, ints(*first), ints(*end), layout)[1].to_pylist()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sign", [1, -1])
def test_sum_that_overflows_only_in_between_is_exact(layout, sign):
    values = [sign * v for v in (BIG, BIG, 5, -BIG, -4)]
    aggregation, tables = one_key([agg.sum("x"), agg.mean("x")], pa.int64(), [0, 0, 1, 2, 2], values)
    merged = aggregation.merge([aggregation.merge(tables[:3]), *tables[3:]])
    expected = {"sum(x)": sign * (BIG + 1 - (sign > 0)), "mean(x)": pytest.approx(sign * (BIG + 1) / 5)}
    if sign > 0:
        with pytest.raises(AggregateOverflowError, match=r"agg.sum\('x'\).*wider type"):
            results(aggregation, merged, [0], [3])
        values[-1] -= 1
        aggregation, tables = one_key([agg.sum("x"), agg.mean("x")], pa.int64(), [0, 0, 1, 2, 2], values)
        merged = aggregation.merge(tables)
    assert results(aggregation, merged, [0], [3]) == [expected]
    assert results(aggregation, merged, [-1, 0], [3, 4], layout) == [expected] * 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_window_may_overflow_though_none_of_its_panes_does(layout):
    aggregation, tables = one_key([agg.sum("x")], pa.int64(), [0, 1, 2], [BIG, 1, -1])
    table = pa.concat_tables(tables)
    assert results(aggregation, table, [0, 0], [1, 3], layout) == [{"sum(x)": BIG}] * 2
    with pytest.raises(AggregateOverflowError):
        results(aggregation, table, [0, 0], [2, 3], layout)
    with pytest.raises(AggregateOverflowError):
        results(aggregation, table, [0], [2])


def test_overflow_within_one_chunk_of_rows_is_noticed():
    aggregation = Aggregation.build([agg.sum("x")], {"x": pa.int64()}, pa.schema([]))

    def total(*values):
        table = aggregation.partials([], np.zeros(len(values), np.int64), [pa.array(values, pa.int64())], None)
        return results(aggregation, table, [0], [1])

    assert total(BIG, BIG, -BIG) == [{"sum(x)": BIG}]
    assert total(-BIG, -1) == [{"sum(x)": -BIG - 1}]
    assert total(*[BIG] * 9, *[-BIG] * 9, None) == [{"sum(x)": 0}]
    with pytest.raises(AggregateOverflowError):
        total(-BIG, -2)
    with pytest.raises(AggregateOverflowError):
        total(*[BIG] * 2, 2)  # wraps around to 0
    with pytest.raises(AggregateOverflowError):
        total(BIG, BIG, BIG, BIG, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sign", [1, -1])
def test_decimal_sum_beyond_38_digits_is_an_error(layout, sign):
    most, least = Decimal(sign * (10**38 - 1)), Decimal(sign * (1 - 10**38))
    type_ = pa.decimal128(38, 0)
    aggregation, tables = one_key([agg.sum("x")], type_, [0, 0, 0, 1], [most, most, least, Decimal(sign)])
    merged = aggregation.merge(tables)
    assert results(aggregation, merged, [0, 0], [1, 1], layout) == [{"sum(x)": most}] * 2
    for layout_, first, end in (("auto", [0], [2]), (layout, [0, 0], [1, 2])):
        with pytest.raises(AggregateOverflowError, match="decimal"):
            results(aggregation, merged, first, end, layout_)


@pytest.mark.parametrize("digits", [18, 19, 38])
@pytest.mark.parametrize("total", ["0.00", "0.04", "-0.04"])
def test_decimals_that_cancel_out_leave_the_exact_rest(digits, total):
    """Decimals of up to 18 digits are summed in one word with a sign, longer ones in several words. Zero is unsigned."""
    values = [Decimal("1.50"), Decimal("-1.50"), Decimal(total), Decimal("0.00")]
    aggregation, tables = one_key([agg.sum("x"), agg.mean("x")], pa.decimal128(digits, 2), [0, 0, 1, 1], values)
    expected = {"sum(x)": Decimal(total), "mean(x)": Decimal(total) / 4}
    assert results(aggregation, aggregation.merge(tables), [0], [2]) == [expected]
    assert results(aggregation, pa.concat_tables(tables), [-1, 0], [2, 3]) == [expected] * 2


@pytest.mark.parametrize(
    "values",
    [[0], [1], [-1], [1, -1], [BIG], [BIG, 1], [-BIG - 1], [-BIG - 1, -1], [BIG] * 5, [-BIG] * 5, [2**32, -(2**32) - 1], []],
    ids=str,
)
def test_sum_is_restored_from_the_sums_of_halves_that_spark_computes(values):
    """Spark computes the sums as in ``sql``: the upper half of each number with its sign, and the lower half without."""
    halves = [[sum(value >> 32 for value in values)], [sum(value & 0xFFFFFFFF for value in values)]]
    if not values:
        halves = [[None], [None]]
    low, high = PartialSum(0, 0).from_sql([pa.array(half, pa.int64()) for half in halves])
    assert high[0].as_py() * 2**64 + low[0].as_py() == sum(values)
    assert (low.type, high.type) == (pa.int64(), pa.int32())


@settings(max_examples=random_cases(60), deadline=None, print_blob=True)
@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=30))
def test_sums_of_wide_decimals_are_exact(values):
    aggregation, tables = one_key([agg.sum("x")], pa.decimal128(38, 0), [0] * len(values), list(map(Decimal, values)))
    table = aggregation.merge(tables)
    if abs(sum(values)) < 10**38:
        assert int(results(aggregation, table, [0], [1])[0]["sum(x)"]) == sum(values)
    else:
        with pytest.raises(AggregateOverflowError):
            results(aggregation, table, [0], [1])


@settings(max_examples=random_cases(60), deadline=None, print_blob=True)
@given(st.lists(st.sampled_from([BIG, -BIG - 1, 1, -1, 2**32, 2**62, -(2**62), 0]), min_size=1, max_size=20))
def test_integer_sums_are_exact(values):
    aggregation, tables = one_key([agg.sum("x")], pa.int64(), list(range(len(values))), values)
    table = aggregation.merge([aggregation.merge(tables[::1]), aggregation.partial_schema.empty_table()])
    if -(2**63) <= sum(values) < 2**63:
        assert results(aggregation, table, [0], [len(values)]) == [{"sum(x)": sum(values)}]
    else:
        with pytest.raises(AggregateOverflowError):
            results(aggregation, table, [0], [len(values)])


@pytest.mark.parametrize(("whole_digits", "fits"), [(24, True), (25, False)])
def test_mean_of_wide_decimals_has_fewer_digits_before_the_point_than_their_sum(whole_digits, fits):
    """The mean of decimal(38, 10) is decimal(38, 14), since a decimal has at most 38 digits."""
    value = Decimal(10**whole_digits - 1)
    sums, tables = one_key([agg.sum("x")], pa.decimal128(38, 10), [0, 0], [value, value])
    assert results(sums, sums.merge(tables), [0], [1]) == [{"sum(x)": 2 * value}]
    means, tables = one_key([agg.mean("x")], pa.decimal128(38, 10), [0, 0], [value, value])
    if fits:
        assert results(means, means.merge(tables), [0], [1]) == [{"mean(x)": value}]
        return
    with pytest.raises(AggregateOverflowError, match="fewer digits after the point"):
        results(means, means.merge(tables), [0], [1])


def test_mean_of_decimals_rounds_half_up_away_from_zero():
    for sign in (1, -1):
        values = [sign * Decimal("0.01")] + [Decimal("0.00")] * 7  # 0.00125
        aggregation, tables = one_key([agg.mean("x")], pa.decimal128(4, 2), [0] * 8, values)
        assert results(aggregation, aggregation.merge(tables), [0], [1]) == [{"mean(x)": sign * Decimal("0.001250")}]
    values = [Decimal("0.0000000001"), *[Decimal(0)] * 1]
    aggregation, tables = one_key(
        [agg.mean("x")], pa.decimal128(38, 35), [0] * 3, [Decimal("1E-35"), Decimal(0), Decimal("1E-35")]
    )
    assert results(aggregation, aggregation.merge(tables), [0], [1])[0]["mean(x)"] == Decimal("6.667E-36").quantize(
        Decimal("1E-38")
    )


def test_mean_that_does_not_fit_its_decimal_type_is_an_error():
    aggregation, tables = one_key([agg.mean("x")], pa.decimal128(38, 0), [0], [Decimal(10**38 - 1)])
    with pytest.raises(AggregateOverflowError, match="mean"):
        results(aggregation, tables[0], [0], [1])


def test_variance_of_large_close_values_does_not_lose_precision():
    aggregation, tables = one_key([agg.var("x")], pa.float64(), [0, 1, 2], [1e9 + 4, 1e9 + 7, 1e9 + 13])
    for layout in LAYOUTS:
        assert results(aggregation, pa.concat_tables(tables), [0, 0], [3, 3], layout) == [{"var(x)": pytest.approx(21.0)}] * 2


def test_float_sum_of_a_window_is_not_affected_by_earlier_panes():
    aggregation, tables = one_key([agg.sum("x")], pa.float64(), [0, 1, 2], [1e300, 1.0, 2.0])
    for layout in LAYOUTS:
        assert results(aggregation, pa.concat_tables(tables), [0, 1], [2, 3], layout)[1] == {"sum(x)": 3.0}


def test_key_columns_may_be_named_like_internal_columns():
    schema = pa.schema([("pane", pa.int64()), ("rows", pa.string())])
    aggregation = Aggregation.build([agg.count()], {}, schema)
    table = aggregation.partials([pa.array([7, 7]), pa.array(["a", "a"])], ints(3, 3), [], None)
    assert table["pane"].to_pylist() == [3]
    assert table["rows"].to_pylist() == [2]
    assert results(aggregation, table, [3], [4]) == [{"pane": 7, "rows": "a", "count": 2}]


def test_structs_and_dictionaries_can_be_keys():
    struct = pa.struct([("a", pa.int64()), ("b", pa.string())])
    schema = pa.schema([("s", struct), ("d", pa.dictionary(pa.int32(), pa.string()))])
    aggregation = Aggregation.build([agg.count()], {}, schema)
    keys = pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 1, "b": "x"}, None], struct)
    words = pa.array(["u", "u", "v", "u", "u"]).dictionary_encode()
    table = aggregation.merge([aggregation.partials([keys, words], np.zeros(5, np.int64), [], None)] * 2)
    counts = {(str(r["s"]), r["d"]): r["count"] for r in results(aggregation, table, [0], [1])}
    assert counts == {("{'a': 1, 'b': 'x'}", "u"): 4, ("None", "u"): 4, ("{'a': None, 'b': None}", "v"): 2}


@pytest.mark.parametrize("keys", [pa.schema([]), pa.schema([("k", pa.string())])])
def test_empty_tables_give_no_results(keys):
    recipes = [agg.count(), agg.sum("x"), agg.min("x"), agg.first("x"), agg.var("x"), agg.count_distinct("x"), agg.top_k("x", 2)]
    for aggregates in (recipes, recipes[:5]):
        aggregation = Aggregation.build(aggregates, {"x": pa.int64()}, keys)
        empty = aggregation.partials([pa.array([], f.type) for f in keys], ints(), [pa.array([], pa.int64())], ints())
        assert aggregation.merge([]).schema == aggregation.partial_schema
        assert len(aggregation.merge([empty, empty])) == 0
        row = aggregation.partials([pa.array(["a"]) for f in keys], ints(5), [pa.array([None], pa.int64())], ints(5))
        for table, first, end in (
            (empty, [0, 1], [5, 6]),
            (empty, [], []),
            (row, [], []),
            (row, [0, 6], [5, 9]),
            (row, [0, 1], [4, 5]),
        ):
            for layout in LAYOUTS:
                windows, output = aggregation.windows(table, ints(*first), ints(*end), layout)
                assert len(windows) == len(output) == 0
                assert output.schema == pa.schema([*keys, *aggregation.output_schema])


def test_column_of_nulls_has_no_values():
    recipes = [agg.count("x"), agg.sum("x"), agg.max("x"), agg.mean("x"), agg.stddev("x"), agg.last("x"), agg.collect_list("x")]
    aggregation, tables = one_key(recipes, pa.int64(), [0, 1], [None, None])
    expected = {"count(x)": 0, "collect_list(x)": [], **dict.fromkeys(["sum(x)", "max(x)", "mean(x)", "stddev(x)", "last(x)"])}
    for first, end in (([0], [2]), ([0, 0], [1, 2])):
        assert results(aggregation, pa.concat_tables(tables), first, end) == [expected] * len(first)


def test_missing_timestamps_are_an_error_if_an_aggregate_needs_them():
    aggregation = Aggregation.build([agg.first("x")], {"x": pa.int64()}, pa.schema([]))
    with pytest.raises(ValueError, match="timestamps"):
        aggregation.partials([], ints(0), [pa.array([1])], None)


def test_sliced_and_chunked_columns_are_aggregated():
    aggregation = Aggregation.build(
        [agg.sum("x"), agg.max("d"), agg.max("s")],
        {"x": pa.int64(), "d": pa.decimal128(9, 2), "s": pa.string()},
        pa.schema([("k", pa.int64())]),
    )
    x = pa.array([99, None, 2, 3, 99]).slice(1, 3)
    d = pa.array([None, Decimal("1.00"), None, Decimal("3.00"), Decimal("9.99")], pa.decimal128(9, 2)).slice(1, 3)
    s = pa.chunked_array([pa.array(["a"]), pa.array([None, "b"])])
    table = aggregation.partials([pa.array([0, 1, 1, 1, 0]).slice(1, 3)], ints(0, 0, 0), [x, d, s], None)
    table = pa.concat_tables([table, table]).slice(1, 1)
    assert results(aggregation, table, [0], [1]) == [{"k": 1, "sum(x)": 5, "max(d)": Decimal("3.00"), "max(s)": "b"}]


def test_aggregation_can_be_pickled():
    aggregation = Aggregation.build(
        [agg.top_k("x", 2), agg.mean("x")], {"x": pa.decimal128(20, 3)}, pa.schema([("k", pa.int64())])
    )
    assert pickle.loads(pickle.dumps(aggregation)) == aggregation


def test_windows_and_panes_at_the_smallest_and_largest_time():
    least, most = -(2**63), 2**63 - 1
    aggregation, tables = one_key([agg.count()], pa.int64(), [least, 0, most], [1, 1, 1])
    table = aggregation.merge(tables)
    windows, output = aggregation.windows(table, ints(least, least, 0), ints(least + 1, 1, most))
    assert list(zip(windows.tolist(), output["count"].to_pylist(), strict=True)) == [(0, 1), (1, 2), (2, 1)]


def test_many_windows_are_computed_in_portions(monkeypatch):
    monkeypatch.setattr(ranges, "MOST_PAIRS", 50)
    random = np.random.default_rng(5)
    aggregation = Aggregation.build(
        [agg.count(), agg.count_distinct("x"), agg.collect_list("x")], {"x": pa.int64()}, pa.schema([("k", pa.int64())])
    )
    keys, panes, values = (random.integers(0, n, 40) for n in (9, 30, 4))
    table = aggregation.partials([pa.array(keys)], panes, [pa.array(values)], panes)
    first = np.arange(-10, 30)
    windows, output = aggregation.windows(table, first, first + 11)
    assert output["k"].num_chunks > 1
    actual = {
        (w, r["k"]): (r["count"], r["count_distinct(x)"]) for w, r in zip(windows.tolist(), output.to_pylist(), strict=True)
    }
    expected = {}
    for w, f in enumerate(first.tolist()):
        for k in range(9):
            inside = values[(keys == k) & (panes >= f) & (panes < f + 11)]
            if len(inside):
                expected[w, k] = len(inside), len(set(inside.tolist()))
    assert actual == expected


@settings(max_examples=random_cases(150), deadline=None, print_blob=True)
@given(st.data())
def test_stable_order_equals_lexsort(data):
    count = data.draw(st.integers(0, 30))
    spans = st.sampled_from([0, 1, 5, 2**20, 2**40, 2**62, 2**63 - 1])
    given_columns = []
    for _ in range(data.draw(st.integers(1, 4))):
        span = data.draw(spans)
        values = data.draw(st.lists(st.integers(-span, span), min_size=1, max_size=6))
        given_columns.append(ints(*(data.draw(st.sampled_from(values)) for _ in range(count))))
    assert stable_order(*given_columns).tolist() == np.lexsort((np.arange(count), *given_columns[::-1])).tolist()


@settings(max_examples=random_cases(80), deadline=None, print_blob=True)
@given(st.sampled_from([3, 10_000, 2**40, 2**63 - 1]), st.integers(1, 400), st.booleans(), st.integers(0, 2**32 - 1))
def test_integer_keys_of_any_spread_are_encoded(span, count, with_nulls, seed):
    random = np.random.default_rng(seed)
    values = random.integers(-span - 1, span, count, endpoint=True)
    for type_ in (pa.int64(), pa.timestamp("us", "UTC")):
        column = columns.array_of(values, type_)
        if with_nulls:
            column = pa.concat_arrays([column, pa.nulls(2, type_)])
        keys = grouping.encode_keys([column], len(column))
        assert keys.columns[0].take(pa.array(keys.codes)) == column
        assert keys.count == len(keys.columns[0]) == len(column.unique())


@pytest.mark.parametrize("k", [1, 2, 3, 7, 32, 33, 100])
def test_top_k_merges_many_panes(k):
    random = np.random.default_rng(k)
    aggregation = Aggregation.build([agg.top_k("x", k)], {"x": pa.int64()}, pa.schema([]))
    panes, values = random.integers(0, 12, 200), random.integers(0, 50, 200)
    table = aggregation.partials([], panes, [pa.array(values)], panes)
    first = np.arange(-3, 12)
    windows, output = aggregation.windows(table, first, first + 5)
    for window, row in zip(windows.tolist(), output.to_pylist(), strict=True):
        inside = values[(panes >= first[window]) & (panes < first[window] + 5)]
        assert row == {f"top_k(x, {k})": sorted(inside.tolist(), reverse=True)[:k]}


SPREADS = {
    "equal, and their squares are beyond all floats": ([2e154] * 7, 0.0),
    "equal, and their sum is": ([1.5e308] * 7, 0.0),
    "as far apart as can be": ([-1.5e308, 1.5e308, 1.5e308, -1.5e308, 1.5e308], np.inf),
    "squared distance too large, its share not": ([0.0, 1.6e154], 1.28e308),
    "nulls beside": ([None, 2e154, None, 2e154, None], 0.0),
    "hardly apart, far from zero": ([1e9 + 1, 1e9 + 2, 1e9 + 3, None], 1.0),
    "an infinite value": ([1.0, np.inf, 2.0], np.nan),
    "NaN": ([1.0, np.nan, 2.0], np.nan),
}


@pytest.mark.parametrize(("values", "variance"), SPREADS.values(), ids=SPREADS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_variance_of_finite_values_is_defined_however_large_they_are(layout, values, variance):
    """In all code paths: one pane, merged panes, overlapping windows, sessions, and the row operator."""
    recipes = [agg.var("x"), agg.stddev("x")]
    expected = [pytest.approx(variance, rel=1e-12, nan_ok=True), pytest.approx(np.sqrt(variance), rel=1e-12, nan_ok=True)]
    count = len(values)
    aggregation, tables = one_key(recipes, pa.float64(), range(count), values)
    ways = [results(aggregation, pa.concat_tables(tables), [-1, 0], [count, count + 2], layout)]
    for panes in ([0] * count, [place % 2 for place in range(count)]):
        chunk = aggregation.partials([], ints(*panes), [pa.array(values, pa.float64())], ints(*panes))
        ways += [results(aggregation, chunk, *bounds, layout) for bounds in ([[0], [2]], [[-1, 0], [2, 3]])]
        _, tables = one_key(recipes, pa.float64(), panes, values)
        ways.append(results(aggregation, aggregation.merge([aggregation.merge(tables[:2]), *tables[2:]]), [0], [2]))
    for rows in ways:
        assert [list(row.values()) for row in rows] == [expected] * len(rows)
    function = DeclaredFunction(recipes, {"x": pa.float64()})
    halves = []
    for part in (values[: count // 2], values[count // 2 :]):
        state = function.create_accumulator()
        for value in part:
            state = function.add((value, 0), state)
        halves.append(state)
    assert list(function.get_result(function.merge(*halves))) == expected


def halves(values):
    """Return the two sums that Spark computes, for the upper and lower halves of the numbers, or None if there are no numbers."""
    upper, lower = sum(value >> 32 for value in values), sum(value & 0xFFFFFFFF for value in values)
    return [upper if values else None, lower if values else None]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([], 0, 0),
        ([0], 0, 0),
        ([7], 7, 0),
        ([-1], -1, 0),
        ([-1, 1], 0, 0),
        ([-(2**32)], -(2**32), 0),
        ([2**32 - 1, 2**32 - 1, 2**33 + 5], 2**34 + 3, 0),
        ([BIG], BIG, 0),
        ([-BIG - 1], -BIG - 1, 0),
        # A sum that exceeds one word carries over: 2**63 is 1 * 2**64 - 2**63.
        ([BIG, 1], -BIG - 1, 1),
        ([BIG, BIG, 2], 0, 1),
        ([BIG] * 5, BIG - 4, 2),
        ([-BIG - 1, -1], BIG, -1),
        ([-BIG - 1] * 2, 0, -1),
        ([-BIG - 1] * 3, -BIG - 1, -1),
    ],
    ids=str,
)
def test_sums_computed_by_spark_are_stored_in_the_same_words(values, low, high):
    assert high * 2**64 + low == sum(values)
    upper, lower = halves(values)
    # The sum stands between two others, which shows that each row keeps its own result.
    columns = [pa.array([3, upper, None], pa.int64()), pa.array([5, lower, None], pa.int64())]
    aggregation, tables = one_key([agg.sum("x")], pa.int64(), [0] * len(values), values)
    (total, _) = aggregation.partial_aggregates
    words = total.from_sql(columns)
    assert [column.type for column in words] == [pa.int64(), pa.int32()]
    assert [column.to_pylist() for column in words] == [[3 * 2**32 + 5, low, 0], [0, high, 0]]
    if values:
        merged = aggregation.merge(tables)
        assert [merged.column(2).to_pylist(), merged.column(3).to_pylist()] == [[low], [high]]


def test_sql_that_spark_runs_for_a_sum():
    """A decimal is summed as the whole number of its digits. The sums of the two halves cannot overflow."""
    sql = {}
    for type_ in (pa.int64(), pa.decimal128(18, 0), pa.decimal128(18, 3)):
        (total, _) = Aggregation.build([agg.sum("x")], {"x": type_}, pa.schema([])).partial_aggregates
        sql[str(type_)] = total.sql(["`x 1`"])
    whole = "cast(`x 1` AS bigint)"
    assert sql == {
        "int64": (f"sum(shiftright({whole}, 32))", f"sum({whole} & 4294967295L)"),
        "decimal128(18, 0)": (f"sum(shiftright({whole}, 32))", f"sum({whole} & 4294967295L)"),
        "decimal128(18, 3)": (
            "sum(shiftright(cast(`x 1` * 1000BD AS bigint), 32))",
            "sum(cast(`x 1` * 1000BD AS bigint) & 4294967295L)",
        ),
    }


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_earliest_pane_wins_among_equal_times_in_any_order_of_partials(layout, order):
    recipes = [agg.first("x").alias("first"), agg.last("x").alias("last"), agg.max_by("x", "by").alias("most")]
    aggregation = Aggregation.build(
        [*recipes, agg.arg_min("by", "x").alias("least")], {"x": pa.int64(), "by": pa.int64()}, pa.schema([])
    )
    named = {"x": lambda pane: 10 + pane, "by": lambda pane: 5}

    def partial(pane):
        # All rows have the same time. This happens with processing time if several micro-batches share a clock reading.
        values = [pa.array([named[name](pane)], pa.int64()) for name in aggregation.inputs]
        return aggregation.partials([], ints(pane), values, ints(7))

    table = pa.concat_tables([partial(pane) for pane in order])
    expected = [{"first": 10 + low, "last": 9 + end, "most": 10 + low, "least": {"x": 10 + low}} for low, end in ((0, 3), (1, 3))]
    assert results(aggregation, table, [0, 1], [3, 3], layout) == expected
    # Partials of windows that do not overlap are merged by other code.
    assert [results(aggregation, table, [low], [3])[0] for low in (0, 1)] == expected


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [7, 8, 16, 1000])
@pytest.mark.parametrize("in_one", [True, False])
def test_sum_of_many_small_values_may_overflow(sign, count, in_one):
    """The values fit easily, alone and in their chunk. Only the sum of a chunk, or of merged partials, exceeds the range."""
    aggregation = Aggregation.build([agg.sum("x"), agg.mean("x")], {"x": pa.int64()}, pa.schema([]))
    only_mean = Aggregation.build([agg.mean("x")], {"x": pa.int64()}, pa.schema([]))
    value = sign << 60

    def table(of):
        sizes = [count] if in_one else [1] * count
        parts = [of.partials([], np.zeros(size, np.int64), [pa.array([value] * size)] * len(of.inputs), None) for size in sizes]
        return of.merge(parts)

    assert results(only_mean, table(only_mean), [0], [1]) == [{"mean(x)": float(value)}]
    total = value * count
    if -(2**63) <= total < 2**63:
        assert results(aggregation, table(aggregation), [0], [1]) == [{"sum(x)": total, "mean(x)": float(value)}]
    else:
        with pytest.raises(AggregateOverflowError):
            results(aggregation, table(aggregation), [0], [1])
