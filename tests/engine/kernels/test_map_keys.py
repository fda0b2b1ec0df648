"""Maps that hold a key twice: a dict cannot, so the row operator and the columnar ones would differ."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from panestream.engine.kernels.exact_values import cast_exactly
from panestream.engine.kernels.grouping import key_held_twice
from panestream.engine.kernels.python_values import arrow_column
from panestream.errors import InvalidPlanError

COUNTS = pa.map_(pa.string(), pa.int64())
BY_LIST = pa.map_(pa.list_(pa.int64()), pa.int64())
BY_STRUCT = pa.map_(pa.struct([("x", pa.int64())]), pa.int64())


@pytest.mark.parametrize(
    ("type_", "value", "key"),
    [
        (COUNTS, [("a", 1), ("b", 2), ("a", 3)], "'a'"),
        (COUNTS, [("a", 1), (b"a", 2)], "'a'"),
        (pa.map_(pa.int64(), pa.int64()), [(1, 1), (1.0, 2)], "1"),
        (pa.map_(pa.float64(), pa.int64()), [(0.0, 1), (-0.0, 2)], "-?0.0"),
        (pa.map_(pa.float64(), pa.int64()), [(math.nan, 1), (float("nan"), 2)], "nan"),
        (BY_LIST, [([1], 1), ([1], 2)], r"\[1\]"),
        (BY_STRUCT, [((1,), 1), ({"x": 1}, 2)], r"\{'x': 1\}"),
        (pa.list_(COUNTS), [[("a", 1)], [("b", 1), ("b", 1)]], "'b'"),
        (pa.struct([("m", COUNTS)]), {"m": [("a", 1), ("a", 1)]}, "'a'"),
        (pa.map_(pa.string(), COUNTS), {"k": [("a", 1), ("a", 1)]}, "'a'"),
    ],
)
def test_map_with_a_key_twice_is_refused_by_column_and_place(type_, value, key):
    message = (
        rf"^the value \[.* does not fit the column 'v' of type .*, which would hold the key {key} twice \(place 2\): return a "
    )
    with pytest.raises(InvalidPlanError, match=message):
        arrow_column([None, None, value], pa.field("v", type_), lambda at: f" (place {at})")


def test_one_key_in_several_maps_fits():
    maps = [{"a": 1, "b": 2}, {"a": 1}, None, {}, {"b": 1, "a": 2}]
    made = arrow_column(maps, pa.field("v", COUNTS))
    assert key_held_twice(made) is None
    assert made.to_pylist() == [None if pairs is None else list(pairs.items()) for pairs in maps]


def test_only_the_maps_of_a_slice_count():
    twice = [("a", 1), ("a", 2)]
    maps = pa.array([twice, [("b", 1), ("c", 1)], [("c", 1), ("d", 1)], twice], COUNTS)
    assert key_held_twice(maps.slice(1, 2)) is None
    assert key_held_twice(maps.slice(2)).key == "a"


@pytest.mark.parametrize("given", [COUNTS, pa.map_(pa.string(), pa.int32())])
def test_map_with_a_key_twice_in_a_table_is_refused(given):
    with pytest.raises(pa.ArrowInvalid, match="a map would hold the key 'a' twice: return a dict"):
        cast_exactly(pa.array([[("a", 1), ("a", 2)]], given), COUNTS)
