"""Accumulators of aggregates that are computed row by row: they keep what the aggregate needs, and rows only if they must."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from panestream.engine.aggregates.aggregation import KeptRows
from panestream.engine.operators.row.operator import DeclaredFunction
from panestream.windowing import aggregates as agg

TYPES = {"v": pa.int64(), "x": pa.float64(), "t": pa.string()}
BOUNDED = (
    agg.count(), agg.count("v"), agg.sum("v"), agg.sum("x"), agg.mean("v"), agg.min("v"), agg.max("t"), agg.var("x"),
    agg.stddev("v"), agg.first("t"), agg.last("v"), agg.min_by("t", "v"), agg.max_by("v", "x"), agg.arg_min("v", "t", "x"),
    agg.arg_max("x", "v"), agg.top_k("v", 3), agg.weighted_mean("v", "x"), agg.histogram("x", [0, 2, 5]),
)  # fmt: skip
"""Aggregates whose accumulator does not grow with the rows."""
KEEPING_VALUES = (agg.count_distinct("t"), agg.collect_list("v"))
"""Aggregates whose accumulator keeps values."""
KEEPING_ROWS = (agg.approx_count_distinct("t"), agg.approx_quantile("x", 0.5), agg.approx_quantiles("v", [0.1, 0.9]))


def size_after(recipe, rows):
    function = DeclaredFunction([recipe], TYPES)
    accumulator = function.create_accumulator()
    inputs = list(dict.fromkeys(recipe.inputs))
    for number in range(rows):
        values = {"v": number % 7, "x": number % 5 / 2, "t": "abc"[number % 3]}
        accumulator = function.add((*(values[name] for name in inputs), number), accumulator)
    return len(pickle.dumps(accumulator))


@pytest.mark.parametrize("recipe", BOUNDED, ids=repr)
def test_accumulator_does_not_grow_with_the_number_of_rows(recipe):
    assert size_after(recipe, 1_000) <= size_after(recipe, 50) + 20


@pytest.mark.parametrize("recipe", [*BOUNDED, *KEEPING_VALUES, *KEEPING_ROWS], ids=repr)
def test_accumulator_keeps_rows_only_if_the_aggregate_has_no_incremental_form(recipe):
    (part,) = DeclaredFunction([recipe], TYPES)._parts
    assert isinstance(part, KeptRows) is (recipe in KEEPING_ROWS)
