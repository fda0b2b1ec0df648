"""Functions of two streams: what they are given of the rows of the one stream that the two are."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from panestream.engine.co_groups import OfLists, OfTables
from panestream.engine.runtime.sides import Sides

USERS, VISITS = pa.schema([("id", pa.string()), ("name", pa.string())]), pa.schema([("user", pa.string()), ("n", pa.int64())])
SIDES = Sides(USERS, VISITS, (("id",), ("user",)))
ROWS = pa.table(
    {
        "left": pa.array([{"id": "a", "name": "Ann"}, None, None], pa.struct(list(USERS))),
        "right": pa.array([None, {"user": "a", "n": 1}, {"user": "a", "n": None}], pa.struct(list(VISITS))),
    }
)


def seen(*given):
    return given


def test_lists_have_the_rows_of_each_side_in_their_order():
    key, window, left, right = OfLists(seen, SIDES).apply("a", "now", ROWS.to_pylist())
    assert (key, window) == ("a", "now")
    assert ([tuple(row) for row in left], [tuple(row) for row in right]) == ([("a", "Ann")], [("a", 1), ("a", None)])
    assert (left[0].name, right[0].n) == ("Ann", 1)
    assert OfLists(seen, SIDES).apply("a", "now", ROWS.to_pylist()[:1])[3] == []


@pytest.mark.parametrize("pandas", [False, True])
def test_tables_have_the_columns_of_each_side(pandas):
    key, window, *sides = OfTables(seen, SIDES, pandas)("a", "now", ROWS)
    assert (key, window) == ("a", "now")
    assert [type(side) for side in sides] == [pd.DataFrame if pandas else pa.Table] * 2
    left, right = (pa.Table.from_pandas(side, preserve_index=False) if pandas else side for side in sides)
    assert (left.to_pylist(), right["user"].to_pylist()) == ([{"id": "a", "name": "Ann"}], ["a", "a"])
    assert (left.column_names, right.column_names) == (USERS.names, VISITS.names)


def test_they_are_called_as_the_function_of_the_users():
    assert repr(OfLists(seen, SIDES)) == repr(OfTables(seen, SIDES)) == repr(seen)
