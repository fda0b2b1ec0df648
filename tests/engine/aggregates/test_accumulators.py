"""What is kept of rows for an aggregate that is computed row by row: as little as it needs, not the rows."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from panestream.engine.aggregates.kept_rows import KeptRows
from panestream.engine.operators.row.operator import DeclaredFunction
from panestream.windowing import aggregates as agg

TYPES = {"v": pa.int64(), "x": pa.float64(), "t": pa.string()}
BOUNDED = (
    agg.count(), agg.count("v"), agg.sum("v"), agg.sum("x"), agg.mean("v"), agg.min("v"), agg.max("t"), agg.var("x"),
    agg.stddev("v"), agg.first("t"), agg.last("v"), agg.min_by("t", "v"), agg.max_by("v", "x"), agg.arg_min("v", "t", "x"),
    agg.arg_max("x", "v"), agg.top_k("v", 3), agg.weighted_mean("v", "x"), agg.histogram("x", [0, 2, 5]),
)  # fmt: skip
"""Of these the accumulator does not grow with the rows."""
OF_VALUES = (agg.count_distinct("t"), agg.collect_list("v"))
"""Of these it keeps values."""
OF_ROWS = (agg.approx_count_distinct("t"), agg.approx_quantile("x", 0.5), agg.approx_quantiles("v", [0.1, 0.9]))


def after(recipe, rows):
    function = DeclaredFunction([recipe], TYPES)
    accumulator = function.create_accumulator()
    inputs = list(dict.fromkeys(recipe.inputs))
    for number in range(rows):
        values = {"v": number % 7, "x": number % 5 / 2, "t": "abc"[number % 3]}
        accumulator = function.add((*(values[name] for name in inputs), number), accumulator)
    return len(pickle.dumps(accumulator))


@pytest.mark.parametrize("recipe", BOUNDED, ids=repr)
def test_what_is_kept_does_not_grow_with_the_rows(recipe):
    assert after(recipe, 1_000) <= after(recipe, 50) + 20


@pytest.mark.parametrize("recipe", [*BOUNDED, *OF_VALUES, *OF_ROWS], ids=repr)
def test_rows_are_kept_only_of_what_has_no_form_row_by_row(recipe):
    (one,) = DeclaredFunction([recipe], TYPES)._parts
    assert isinstance(one, KeptRows) is (recipe in OF_ROWS)
