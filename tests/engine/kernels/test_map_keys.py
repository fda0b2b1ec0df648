"""Maps with a duplicate key are refused. A dict cannot hold them, so the row operator and the columnar ones would differ."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from panestream.engine.kernels.exact_values import cast_exactly
from panestream.engine.kernels.map_keys import key_held_twice
from panestream.engine.kernels.python_values import RowType, arrow_column
from panestream.errors import InvalidPlanError, MalformedRecordError

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
def test_error_about_a_duplicate_map_key_names_column_and_place(type_, value, key):
    message = (
        rf"^the value \[.* does not fit the column 'v' of type .*, which would hold the key {key} twice \(place 2\): return a "
    )
    with pytest.raises(InvalidPlanError, match=message):
        arrow_column([None, None, value], pa.field("v", type_), lambda at: f" (place {at})")


def test_same_key_in_several_maps_is_accepted():
    maps = [{"a": 1, "b": 2}, {"a": 1}, None, {}, {"b": 1, "a": 2}]
    column = arrow_column(maps, pa.field("v", COUNTS))
    assert key_held_twice(column) is None
    assert column.to_pylist() == [None if pairs is None else list(pairs.items()) for pairs in maps]


def test_duplicate_keys_outside_of_a_slice_are_ignored():
    twice = [("a", 1), ("a", 2)]
    maps = pa.array([twice, [("b", 1), ("c", 1)], [("c", 1), ("d", 1)], twice], COUNTS)
    assert key_held_twice(maps.slice(1, 2)) is None
    assert key_held_twice(maps.slice(2)).key == "a"


@pytest.mark.parametrize("type_", [COUNTS, pa.map_(pa.string(), pa.int32())])
def test_duplicate_map_key_in_a_table_is_refused(type_):
    with pytest.raises(pa.ArrowInvalid, match="a map would hold the key 'a' twice: return a dict"):
        cast_exactly(pa.array([[("a", 1), ("a", 2)]], type_), COUNTS)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (COUNTS, [("a", 1), ("a", 3)]),
        (pa.list_(COUNTS), [[("a", 1), ("a", 3)]]),
        (pa.struct([("m", COUNTS)]), {"m": [("a", 1), ("a", 3)]}),
    ],
)
def test_input_row_with_a_key_twice_in_a_map_is_refused_by_column(type_, value):
    table = pa.table({"id": [1, 2], "counts": pa.array([None, value], type_)})
    with pytest.raises(MalformedRecordError, match=r"^a map of the column 'counts' holds the key 'a' twice, .*LAST_WIN$"):
        RowType(table.schema).rows(table)
