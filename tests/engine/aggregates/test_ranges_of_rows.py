"""Aggregating ranges of rows gives the same bits as aggregating windows of panes."""

import random

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from tests.comparison import harness, look_backs


@pytest.mark.parametrize("seed", range(60))
def test_ranges_of_rows_give_the_same_results_as_windows_of_panes(seed):
    rng = random.Random(seed)
    aggregates = rng.choice([look_backs.exact_aggregates, harness.random_aggregates])(rng)
    bare = Aggregation.build(aggregates, harness.TYPES, pa.schema([]))
    count = rng.choice([1, 2, 40])
    panes = np.repeat(np.arange(count), [rng.randint(1, 3) for _ in range(count)])
    columns = {
        "v": pa.array([rng.choice([None, 3, -(2**40), 7]) for _ in panes], pa.int64()),
        "x": pa.array([rng.choice([None, 0.1, 1e16, -0.7, float("nan")]) for _ in panes], pa.float64()),
        "u": pa.array(range(len(panes)), pa.int64()),
    }
    table = bare.partials([], panes, [columns[name] for name in bare.inputs], panes if bare.needs_timestamps else None)
    start = np.sort([rng.randrange(count) for _ in range(30)])
    end = np.maximum.accumulate([rng.randint(first + 1, count) for first in start.tolist()])
    of, expected = bare.windows(table, start, end)
    assert of.tolist() == list(range(30))
    actual = bare.over_places(table, start, end)
    assert actual.schema == expected.schema
    assert repr(actual.to_pylist()) == repr(expected.to_pylist())
