"""Functions of two streams get the rows of each side, as lists or as tables."""

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


def arguments_of(*arguments):
    return arguments


def test_list_function_gets_the_rows_of_each_side_in_order():
    key, window, left, right = OfLists(arguments_of, SIDES).apply("a", "now", ROWS.to_pylist())
    assert (key, window) == ("a", "now")
    assert ([tuple(row) for row in left], [tuple(row) for row in right]) == ([("a", "Ann")], [("a", 1), ("a", None)])
    assert (left[0].name, right[0].n) == ("Ann", 1)
    assert OfLists(arguments_of, SIDES).apply("a", "now", ROWS.to_pylist()[:1])[3] == []


@pytest.mark.parametrize("pandas", [False, True])
def test_table_function_gets_the_columns_of_each_side(pandas):
    key, window, *sides = OfTables(arguments_of, SIDES, pandas)("a", "now", ROWS)
    assert (key, window) == ("a", "now")
    assert [type(side) for side in sides] == [pd.DataFrame if pandas else pa.Table] * 2
    left, right = (pa.Table.from_pandas(side, preserve_index=False) if pandas else side for side in sides)
    assert (left.to_pylist(), right["user"].to_pylist()) == ([{"id": "a", "name": "Ann"}], ["a", "a"])
    assert (left.column_names, right.column_names) == (USERS.names, VISITS.names)


def test_wrappers_have_the_repr_of_the_user_function():
    assert repr(OfLists(arguments_of, SIDES)) == repr(OfTables(arguments_of, SIDES)) == repr(arguments_of)
