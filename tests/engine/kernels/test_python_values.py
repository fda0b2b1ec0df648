"""Rows as users' functions see them, and what they return."""

from __future__ import annotations

import copy
import datetime as dt
import pickle

import pyarrow as pa
import pytest

from panestream.engine.kernels.python_values import RowType, result_columns
from panestream.errors import InvalidEventTimeError, InvalidPlanError

SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("unit price", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.map_(pa.string(), pa.int64())),
        ("lists", pa.list_(pa.map_(pa.string(), pa.int64()))),
        ("place", pa.struct([("x", pa.float64()), ("on", pa.date32())])),
    ]
)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
ROWS = [
    ("ann", 3, NOON, NOON.replace(tzinfo=None), {"a": 1}, [{"b": 2}, {}], {"x": 0.5, "on": dt.date(2026, 1, 1)}),
    (None,) * 7,
]


def table():
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*ROWS, strict=True), SCHEMA, strict=True)], schema=SCHEMA
    )


def test_rows_hold_plain_python_and_come_back_as_they_were():
    row_type = RowType(SCHEMA)
    rows = row_type.rows(table())
    assert [tuple(row) for row in rows] == ROWS
    assert pa.Table.from_arrays(row_type.columns(rows), schema=SCHEMA).equals(table())


def test_values_have_names():
    row = RowType(SCHEMA).rows(table())[0]
    assert (row.user, row["unit price"], row[1], row.asDict()["at"]) == ("ann", 3, 3, NOON)
    assert row.replace(user="bob").user == "bob"
    assert row.user == "ann"
    with pytest.raises(KeyError, match="did you mean 'unit price'"):
        row["unit prize"]
    with pytest.raises(AttributeError, match="did you mean 'user'"):
        _ = row.usr


def test_a_row_is_copied_and_pickled_as_the_tuple_of_its_values():
    """Its class is made of a schema, and no module has it."""
    row = RowType(SCHEMA).rows(table())[0]
    for made in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert (type(made), made) == (tuple, ROWS[0])


def test_a_timestamp_that_python_cannot_hold_is_an_error():
    far = pa.table({"at": pa.array([2**60], pa.timestamp("us", tz="UTC"))})
    with pytest.raises(InvalidEventTimeError, match="unix_micros"):
        RowType(far.schema).rows(far)


RESULTS = pa.schema([("n", pa.int64()), ("label", pa.string())])


def test_results_are_tuples_dicts_rows_or_nothing():
    columns = result_columns([(1, "a"), [2, "b"], {"label": "c"}, None], RESULTS)
    assert [column.to_pylist() for column in columns] == [[1, 2, None, None], ["a", "b", "c", None]]
    assert result_columns([1, (2,), None], pa.schema([("n", pa.int64())]))[0].to_pylist() == [1, 2, None]


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ((1, "a", 2), r"2 values \(n, label\)"),
        (7, "got 7"),
        ({"lable": "a"}, "did you mean 'label'"),
        (("x", "a"), r"'x' \(str\) does not fit the column 'n' of type int64"),
        ((2**70, "a"), "does not fit the column 'n'"),
        ((1.5, "a"), "the value 1.5 does not fit the column 'n' of type int64, which would cut its fraction off"),
        ((float("nan"), "a"), "'n'"),
    ],
)
def test_other_results_are_refused_by_name(result, named):
    with pytest.raises(InvalidPlanError, match=named):
        result_columns([(1, "a"), result], RESULTS)


@pytest.mark.parametrize(
    ("type_", "whole", "cut"),
    [
        (pa.list_(pa.int32()), [1, 2.0, None], [1, 2.5]),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, {"a": 0.5}),
        (pa.struct([("x", pa.int64()), ("y", pa.float64())]), {"x": 3.0, "y": 0.5}, {"x": 0.5, "y": 0.5}),
        (pa.list_(pa.struct([("x", pa.int64())])), [{"x": 1}], [{"x": 1}, {"x": 1.5}]),
    ],
)
def test_no_fraction_is_cut_off_inside_a_value(type_, whole, cut):
    schema = pa.schema([("n", pa.int64()), ("v", type_)])
    assert result_columns([(1, whole), (2, None)], schema)[1].null_count == 1
    with pytest.raises(InvalidPlanError, match="cut its fraction off"):
        result_columns([(1, whole), (2, cut)], schema)
