"""The largest rows of each window in the order of SQL."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.plan import Top
from panestream.engine.runtime.group_operator import largest_per_window


def largest(which, keys, values, n, type_=None):
    """Return pairs of window and key in the order of the result."""
    results = pa.table({"key": pa.array(keys, pa.string()), "n": pa.array(values, type_)})
    windows, rows = largest_per_window(np.array(which), results, Top(n, "n"), ["key"])
    assert rows.schema == results.schema
    return list(zip(windows.tolist(), rows["key"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, [(1, "b"), (2, "d")]),
        (2, [(1, "b"), (1, "a"), (2, "d"), (2, None)]),
        (3, [(1, "b"), (1, "a"), (1, "c"), (2, "d"), (2, None), (2, "a")]),
        (9, [(1, "b"), (1, "a"), (1, "c"), (1, "e"), (2, "d"), (2, None), (2, "a")]),
    ],
)
def test_top_prefers_larger_values_then_smaller_keys(n, expected):
    """A null is less than any number and any key."""
    which = [2, 1, 1, 2, 1, 2, 1]
    keys, values = ["a", "a", "b", "d", "c", None, "e"], [5, 6, 7, 8, 6, 5, None]
    assert largest(which, keys, values, n) == expected


def test_top_treats_nan_as_the_largest_float():
    values = [1.0, math.nan, math.inf, None, math.nan, -1.0]
    expected = ["b", "e", "c", "a", "f", "d"]
    assert largest([0] * 6, list("abcdef"), values, 6) == [(0, key) for key in expected]
    assert largest([0] * 6, list("abcdef"), values, 6, pa.float32()) == [(0, key) for key in expected]


def test_top_compares_key_columns_in_their_order():
    results = pa.table({"a": [2, 1, 1, None], "b": ["x", "z", "y", "q"], "n": [1, 1, 1, 1]})
    windows, rows = largest_per_window(np.zeros(4, np.int64), results, Top(3, "n"), ["a", "b"])
    assert (windows.tolist(), rows["b"].to_pylist()) == ([0, 0, 0], ["q", "y", "z"])


def test_top_of_no_windows_is_empty():
    assert largest([], [], [], 3, pa.int64()) == []
