"""Sketches: hashes equal the hashes of the library, errors stay within bounds, and order and batches do not change a distinct
count.
"""

from __future__ import annotations

import builtins
import math
from itertools import pairwise

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.approx_distinct import PartialHll
from panestream.engine.kernels import hashing
from panestream.engine.storage import payload
from panestream.errors import EnvironmentNotReadyError
from panestream.windowing import aggregates as agg
from tests.costs import random_cases

KEYS = pa.schema([("key", pa.int64())])


def aggregation_of(*recipes, **types):
    return Aggregation.build(recipes, types or {"x": pa.int64()}, KEYS)


def partials(aggregation, keys, panes, values):
    return aggregation.partials([pa.array(keys)], np.asarray(panes, np.int64), [pa.array(values)] * len(aggregation.inputs), None)


def windows(aggregation, table, first, end, layout="auto"):
    which, output = aggregation.windows(table, np.array(first, np.int64), np.array(end, np.int64), layout)
    name = output.column_names[-1]
    return {(w, k): v for w, k, v in zip(which.tolist(), output["key"].to_pylist(), output[name].to_pylist(), strict=True)}


def coupons_of_the_library(values):
    """Return the coupons in a DataSketches sketch that was updated with one value at a time."""
    sketch = datasketches.hll_sketch(21, datasketches.HLL_8)
    for value in values:
        sketch.update(value)
    data = sketch.serialize_compact()
    return set(np.frombuffer(data[4 * data[0] :], "<u4").tolist())


@pytest.mark.parametrize(
    "values",
    [
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
        st.lists(st.floats(), min_size=1),
        st.lists(st.text(min_size=1), min_size=1),  # the library ignores empty strings
        st.lists(st.integers(1, 70).map(lambda n: "xé" * n), min_size=1),
    ],
)
@settings(max_examples=random_cases(100), deadline=None)
@given(data=st.data())
def test_hashes_equal_those_of_datasketches(values, data):
    drawn = data.draw(values)
    assert set(hashing.coupons(pa.array(drawn)).tolist()) == coupons_of_the_library(drawn)


def test_hashes_do_not_depend_on_the_layout_of_the_column():
    texts = ["b", "a", "", "a" * 16, "a" * 17, "b" * 33]
    expected = hashing.coupons(pa.array(texts)).tolist()
    for array in (
        pa.array(["z", *texts, "z"])[1:-1],
        pa.array(texts, pa.large_string()),
        pa.array([t.encode() for t in texts]),
        pa.array(["z", *texts]).dictionary_encode()[1:].dictionary_decode(),
    ):
        assert hashing.coupons(array).tolist() == expected
    assert hashing.coupons(pa.array([0.0, math.nan])).tolist() == hashing.coupons(pa.array([-0.0, -math.nan])).tolist()
    assert len(set(expected)) == len(texts)
    assert hashing.coupons(pa.array([], pa.string())).tolist() == []


@pytest.mark.parametrize("relative_sd", [0.005, 0.02, 0.1])
def test_error_of_approx_count_distinct_stays_within_relative_sd(relative_sd):
    aggregation, generator, groups = aggregation_of(agg.approx_count_distinct("x", relative_sd)), np.random.default_rng(1), 40
    distinct = np.linspace(2_000, 30_000, groups).astype(np.int64)
    values = np.concatenate([generator.choice(10**9, n, replace=False) for n in distinct])
    keys = np.repeat(np.arange(groups), distinct)
    table = aggregation.merge([partials(aggregation, keys[i::3], np.arange(len(keys))[i::3] % 5, values[i::3]) for i in range(3)])
    estimates = windows(aggregation, table, [0], [5])
    errors = np.array([estimates[0, key] / distinct[key] - 1 for key in range(groups)])
    assert np.sqrt((errors**2).mean()) < 1.2 * relative_sd
    assert abs(errors).max() < 4 * relative_sd
    assert abs(errors.mean()) < 4 * relative_sd / math.sqrt(groups)


@settings(max_examples=random_cases(30), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6_000), st.lists(st.integers(0, 6_000), max_size=3), st.integers(0, 3))
def test_distinct_count_depends_only_on_the_set_of_values(seed, count, cuts, spread):
    """Cutting, ordering and repeating rows differently gives the same bytes in state and the same results in every kind of
    window.
    """
    aggregation, generator = aggregation_of(agg.approx_count_distinct("x")), np.random.default_rng(seed)
    values = generator.integers(0, 5_000, count)
    panes = generator.integers(0, spread + 1, count)
    keys = np.zeros(count, np.int64)
    whole = aggregation.merge([partials(aggregation, keys, panes, values)])
    order = generator.permutation(count)
    bounds = [0, *sorted(min(cut, count) for cut in cuts), count]
    parts = [partials(aggregation, keys[a:b], panes[order][a:b], values[order][a:b]) for a, b in pairwise(bounds)]
    merged = aggregation.merge([*parts, parts[-1]])
    assert merged.drop_columns(["rows"]).equals(whole.drop_columns(["rows"]))
    for first, end in [(0, 1), (0, 2), (1, 3), (0, 4)]:
        inside = len(set(values[(panes >= first) & (panes < end)].tolist()))
        counts = windows(aggregation, whole, [first], [end])
        assert all(abs(value - inside) <= (0.1 * inside if inside > 1024 else 0) for value in counts.values())
    sliding = {
        (window, key): value
        for window, (first, end) in enumerate([(0, 2), (1, 3), (2, 4)])
        for (_, key), value in windows(aggregation, whole, [first], [end]).items()
    }
    assert windows(aggregation, pa.concat_tables(parts), [0, 1, 2], [2, 3, 4]) == sliding


def test_datasketches_can_read_a_sketch_from_state():
    aggregation = aggregation_of(agg.approx_count_distinct("x"))
    table = partials(aggregation, np.zeros(50_000, np.int64), np.zeros(50_000, np.int64), np.arange(50_000))
    sketch = datasketches.hll_sketch.deserialize(table["#0.hll"][0].as_py())
    assert sketch.lg_config_k == 12
    assert sketch.get_estimate() == pytest.approx(50_000, rel=0.05)
    one_by_one = datasketches.hll_sketch(12, datasketches.HLL_8)
    for value in range(50_000):
        one_by_one.update(value)
    assert sketch.serialize_compact()[40:] == one_by_one.serialize_compact()[40:]  # the registers
    assert table["#0.coupons"].to_pylist() == [[]]


@pytest.mark.parametrize(("relative_sd", "lg_k"), [(0.5, 7), (0.02, 12), (0.0163, 12), (0.01, 14), (0.0025, 18)])
def test_number_of_registers_follows_from_relative_sd(relative_sd, lg_k):
    (partial,) = aggregation_of(agg.approx_count_distinct("x", relative_sd)).partial_aggregates
    assert isinstance(partial, PartialHll)
    assert partial.lg_k == lg_k
    assert 1.04 / math.sqrt(2**lg_k) <= max(relative_sd, 0.092)


DISTRIBUTIONS = {
    "normal": lambda g, n: g.normal(size=n),
    "skewed": lambda g, n: g.lognormal(0, 2, n),
    "uniform": lambda g, n: g.uniform(size=n),
    "ordered": lambda g, n: np.arange(n, dtype=np.float64),
    "integers": lambda g, n: np.floor(g.exponential(200, n)),
}
SHARES = [0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999]


def rank_errors(values, quantiles):
    """Return the rank error of each quantile as a share of the values. Ties count as a range of ranks."""
    ordered = np.sort(values)
    low, high = (np.searchsorted(ordered, quantiles, side) / len(ordered) for side in ("left", "right"))
    shares = np.array(SHARES)
    return np.maximum(np.maximum(low - shares, shares - high), 0)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_rank_error_of_quantiles_is_small(distribution):
    aggregation, generator, groups = (
        aggregation_of(agg.approx_quantiles("x", SHARES), x=pa.float64()),
        np.random.default_rng(2),
        20,
    )
    counts = np.linspace(300, 20_000, groups).astype(np.int64)
    values = np.concatenate([DISTRIBUTIONS[distribution](generator, n) for n in counts])
    keys, panes = np.repeat(np.arange(groups), counts), generator.integers(0, 6, counts.sum())
    tables = [partials(aggregation, keys[i::4], panes[i::4], values[i::4]) for i in range(4)]
    merged = aggregation.merge([aggregation.merge(tables[:2]), *tables[2:]])
    sliding = windows(aggregation, merged, [0, 1, 2], [4, 5, 6])
    for (window, key), quantiles in sliding.items():
        inside = values[(keys == key) & (panes >= window) & (panes < window + 4)]
        errors = rank_errors(inside, quantiles)
        assert errors.max() < 0.008, (window, key)
        assert errors[[0, 1, -2, -1]].max() < 0.003 + 1 / len(inside)
        assert quantiles == sorted(quantiles)
    assert windows(aggregation, merged, [0, 1, 2], [4, 5, 6]) == sliding
    at_once = windows(aggregation, aggregation.partials([pa.array(keys)], panes, [pa.array(values)], None), [1], [5])
    for (_, key), quantiles in at_once.items():
        inside = values[(keys == key) & (panes >= 1) & (panes < 5)]
        assert rank_errors(inside, quantiles).max() < 0.008


def test_same_batches_give_the_same_bytes_of_quantile_sketches():
    aggregation, generator = aggregation_of(agg.approx_quantile("x", 0.5), x=pa.float64()), np.random.default_rng(3)
    values, panes = generator.normal(size=30_000), generator.integers(0, 3, 30_000)

    def state():
        tables = [partials(aggregation, panes[i::4] % 2, panes[i::4], values[i::4]) for i in range(4)]
        return payload.encode(aggregation.merge(tables))

    assert state() == state()


def test_larger_k_gives_smaller_rank_errors():
    generator = np.random.default_rng(4)
    values, mean_error = generator.normal(size=100_000), {}
    for k in (50, 200, 1000):
        aggregation = aggregation_of(agg.approx_quantiles("x", SHARES, k=k), x=pa.float64())
        quantiles = windows(
            aggregation, partials(aggregation, np.zeros(100_000, np.int64), np.zeros(100_000, np.int64), values), [0], [1]
        )
        mean_error[k] = rank_errors(values, next(iter(quantiles.values()))).mean()
    assert mean_error[1000] < mean_error[200] < mean_error[50] < 0.005


@pytest.mark.parametrize("many", [100, 1000])
def test_quantiles_order_infinities_and_nan(many):
    aggregation = aggregation_of(agg.approx_quantiles("x", [0, 0.1, 0.5, 0.85, 1]), x=pa.float64())
    values = [-math.inf] * many * 2 + list(range(many * 4)) + [math.inf] * many * 2 + [math.nan] * many * 2
    quantiles = windows(aggregation, partials(aggregation, [0] * len(values), [0] * len(values), values), [0], [1])[0, 0]
    assert quantiles[:2] == [-math.inf, -math.inf]
    assert quantiles[2] == pytest.approx(many * 3, rel=0.02)
    assert math.isnan(quantiles[3])
    assert math.isnan(quantiles[4])
    without = windows(aggregation, partials(aggregation, [0] * many * 8, [0] * many * 8, values[: many * 8]), [0], [1])[0, 0]
    assert without[3:] == [math.inf, math.inf]


def test_sketches_survive_a_payload():
    aggregation = aggregation_of(agg.approx_count_distinct("x"), agg.approx_quantiles("x", [0.5]))
    generator = np.random.default_rng(5)
    keys = np.concatenate([np.zeros(9_000, np.int64), np.arange(1, 50)])  # one key has a sketch, the others have lists
    table = partials(aggregation, keys, keys * 0, generator.integers(0, 10**6, len(keys)))
    assert 0 < table["#0.hll"].null_count < len(table)
    back, _ = payload.decode(payload.encode(table), aggregation.partial_schema)
    assert back.equals(table)
    for part in (table.slice(1, 20), table.slice(0, 0)):  # without any sketch
        back, _ = payload.decode(payload.encode(part), aggregation.partial_schema)
        assert back.combine_chunks().equals(part.combine_chunks())


@pytest.mark.parametrize("recipe", [agg.approx_count_distinct("x"), agg.approx_quantile("x", 0.5)], ids=repr)
def test_missing_datasketches_error_names_the_extra_to_install(recipe, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "datasketches":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentNotReadyError, match=r"panestream\[sketches\]"):
        aggregation_of(recipe)


@pytest.mark.parametrize("relative_sd", [0.05, 0.02])
def test_distinct_count_is_exact_up_to_the_limit_and_estimated_above(relative_sd):
    aggregation = aggregation_of(agg.approx_count_distinct("x", relative_sd))
    (partial,) = aggregation.partial_aggregates
    limit = partial.limit
    for number in (limit - 1, limit):
        table = partials(aggregation, [1] * number, np.zeros(number), np.arange(number))
        assert windows(aggregation, table, [0], [1]) == {(0, 1): number}
    table = partials(aggregation, [1] * (limit + 1), np.zeros(limit + 1), np.arange(limit + 1))
    (estimate,) = windows(aggregation, table, [0], [1]).values()
    assert 0 < abs(estimate - limit - 1) < 4 * relative_sd * limit
