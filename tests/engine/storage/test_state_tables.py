"""Columns of saved state by their names, and what is said where one is missing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.storage.state_tables import StateTables, integers, key_columns, key_fields, named_columns, with_types
from panestream.errors import StateFormatError

KEYS = pa.schema([("user", pa.string()), ("0", pa.int32())])
TABLE = pa.table({"key 0": pa.chunked_array([["a"], ["b"]]), "key 1": [1, 2], "end": pa.array([3, 4], pa.int16())})


def test_key_columns_are_called_by_their_place():
    assert key_fields(KEYS) == [pa.field("key 0", pa.string()), pa.field("key 1", pa.int32())]
    assert [column.to_pylist() for column in key_columns(TABLE, KEYS)] == [["a", "b"], [1, 2]]
    assert all(isinstance(column, pa.Array) for column in named_columns(TABLE, ["end", "key 0"]))


def test_whole_numbers_are_wide():
    found = integers(TABLE, "end")
    assert (found.tolist(), found.dtype) == ([3, 4], "int64")


def test_saved_columns_take_the_types_that_are_wanted():
    schema = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    found = with_types([pa.array([1]), pa.array([2]).cast(pa.timestamp("us", "UTC"))], schema)
    assert found.schema == schema


def test_what_is_missing_is_named_with_what_there_is():
    with pytest.raises(StateFormatError) as refused:
        named_columns(TABLE, ["end", "number", "firing"])
    assert str(refused.value) == "a table of the saved state lacks the column 'number'; it has key 0, key 1, end"
    saved = StateTables({}, {"panes": TABLE, "emitted": TABLE})
    assert saved.table("emitted") is TABLE
    for tables, there in ((saved.tables, "panes, emitted"), ({}, "none at all")):
        with pytest.raises(StateFormatError) as refused:
            StateTables({}, tables).table("purged")
        assert str(refused.value) == f"the saved state has no table 'purged', only {there}"
