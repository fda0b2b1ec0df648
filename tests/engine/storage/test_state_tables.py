"""Columns of saved state by name, and the error about a missing one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.kernels.columns import key_fields
from panestream.engine.storage.state_tables import StateTables, integers, key_columns, named_columns, with_types
from panestream.errors import StateFormatError

KEYS = pa.schema([("user", pa.string()), ("0", pa.int32())])
TABLE = pa.table({"key 0": pa.chunked_array([["a"], ["b"]]), "key 1": [1, 2], "end": pa.array([3, 4], pa.int16())})


def test_key_columns_are_named_by_their_position():
    assert key_fields(KEYS) == [pa.field("key 0", pa.string()), pa.field("key 1", pa.int32())]
    assert [column.to_pylist() for column in key_columns(TABLE, KEYS)] == [["a", "b"], [1, 2]]
    assert all(isinstance(column, pa.Array) for column in named_columns(TABLE, ["end", "key 0"]))


def test_integer_columns_are_read_as_int64():
    values = integers(TABLE, "end")
    assert (values.tolist(), values.dtype) == ([3, 4], "int64")


def test_saved_columns_are_cast_to_the_expected_types():
    schema = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    table = with_types([pa.array([1]), pa.array([2]).cast(pa.timestamp("us", "UTC"))], schema)
    assert table.schema == schema


def test_error_names_the_missing_column_or_table_and_those_that_exist():
    with pytest.raises(StateFormatError) as refused:
        named_columns(TABLE, ["end", "number", "firing"])
    assert str(refused.value) == "a table of the saved state lacks the column 'number'; it has key 0, key 1, end"
    saved = StateTables({}, {"panes": TABLE, "emitted": TABLE})
    assert saved.table("emitted") is TABLE
    for tables, names in ((saved.tables, "panes, emitted"), ({}, "nothing")):
        with pytest.raises(StateFormatError) as refused:
            StateTables({}, tables).table("purged")
        assert str(refused.value) == f"the saved state has no table 'purged', only {names}"
