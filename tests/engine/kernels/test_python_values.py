"""Rows as user functions see them, and the results that user functions return."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
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


def test_rows_hold_plain_python_values_and_convert_back_unchanged():
    row_type = RowType(SCHEMA)
    rows = row_type.rows(table())
    assert [tuple(row) for row in rows] == ROWS
    assert pa.Table.from_arrays(row_type.columns(rows), schema=SCHEMA).equals(table())


def test_row_values_are_accessible_by_name():
    row = RowType(SCHEMA).rows(table())[0]
    assert (row.user, row["unit price"], row[1], row.asDict()["at"]) == ("ann", 3, 3, NOON)
    assert row.replace(user="bob").user == "bob"
    assert row.user == "ann"
    with pytest.raises(KeyError, match="did you mean 'unit price'"):
        row["unit prize"]
    with pytest.raises(AttributeError, match="did you mean 'user'"):
        _ = row.usr


def test_row_is_copied_and_pickled_as_a_tuple():
    """A row class is generated from a schema, so no module contains it for pickle to import."""
    row = RowType(SCHEMA).rows(table())[0]
    for copied in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert (type(copied), copied) == (tuple, ROWS[0])


def test_timestamp_beyond_the_range_of_python_is_an_error():
    far = pa.table({"at": pa.array([2**60], pa.timestamp("us", tz="UTC"))})
    with pytest.raises(InvalidEventTimeError, match="unix_micros"):
        RowType(far.schema).rows(far)


RESULTS = pa.schema([("n", pa.int64()), ("label", pa.string())])


def test_results_may_be_tuples_lists_dicts_or_none():
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
def test_error_names_the_columns_that_a_wrong_result_misses(result, named):
    with pytest.raises(InvalidPlanError, match=named):
        result_columns([(1, "a"), result], RESULTS)


@pytest.mark.parametrize(
    ("type_", "whole", "cut"),
    [
        (pa.int32(), Decimal("-2.00"), Decimal("-0.9")),
        (pa.int64(), Decimal(3), Decimal("2.7")),
        (pa.int64(), Fraction(4, 2), Fraction(5, 2)),
        (pa.int64(), np.float32(2.0), np.float32(1.5)),
        (pa.int64(), np.int8(2), np.longdouble(1.5)),
        (pa.list_(pa.int32()), [1, 2.0, None], [1, 2.5]),
        (pa.list_(pa.int32()), [Decimal(1)], [1, Decimal("2.5")]),
        (pa.list_(pa.int32()), np.array([1.0]), np.array([1.5])),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, {"a": 0.5}),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", Decimal("0.5"))]),
        (pa.map_(pa.string(), pa.int64()), [{"key": "a", "value": 1}], [{"key": "a", "value": Fraction(1, 2)}]),
        (pa.map_(pa.int64(), pa.string()), {1: "a"}, {Decimal("1.5"): "a"}),
        (pa.struct([("x", pa.int64()), ("y", pa.float64())]), {"x": 3.0, "y": 0.5}, {"x": 0.5, "y": 0.5}),
        (pa.struct([("x", pa.int64()), ("y", pa.float64())]), (3, 0.5), (Decimal("0.5"), 0.5)),
        (pa.struct([("x", pa.int64())]), [("x", 1)], [("x", Fraction(1, 2))]),
        (pa.list_(pa.struct([("x", pa.int64())])), [{"x": 1}], [{"x": 1}, {"x": 1.5}]),
    ],
)
def test_number_with_fraction_is_refused_for_whole_numbers_at_any_depth(type_, whole, cut):
    schema = pa.schema([("n", pa.int64()), ("v", type_)])
    assert result_columns([(1, whole), (2, None)], schema)[1].null_count == 1
    with pytest.raises(InvalidPlanError, match="cut its fraction off"):
        result_columns([(1, whole), (2, cut)], schema)


POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
SINCE_1970 = "would take it for a time since 1970"


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (pa.list_(pa.string()), "ab", "would take it apart"),
        (pa.map_(pa.string(), pa.int64()), "", "would take it apart"),
        (pa.int64(), np.True_, "would make a number of it"),
        (pa.list_(pa.float64()), [0.5, True], "would make a number of it"),
        (pa.int64(), np.timedelta64(5, "ns"), "would drop its unit"),
        (pa.float64(), np.uint64(2**64 - 1), "would change it"),
        (pa.date32(), np.datetime64(5, "ns"), "would take it for days since 1970"),
        (pa.list_(pa.list_(pa.string())), [["ab"], "cd"], "would take it apart"),
        (pa.list_(pa.int32()), b"ab", "would take it apart"),
        (pa.list_(pa.int32()), bytearray(b"ab"), "would take it apart"),
        (POINT, "", "would take it apart"),
        (pa.date32(), np.True_, "would take it for days since 1970"),
        (pa.timestamp("us"), np.array(2.7), SINCE_1970),
        (POINT, {"x": 1, "z": 2}, "would drop its field 'z'"),
        (POINT, [("x", 1), ("y", 2), ("z", 3)], "would drop its field 'z'"),
        (POINT, {"X": 1}, "would drop its field 'X'"),
        (pa.list_(POINT), [{"x": 1}, {1: 2}], "would drop its field 1"),
        (pa.map_(pa.string(), POINT), {"a": {"z": 1}}, "would drop its field 'z'"),
        (pa.timestamp("us", "UTC"), 5, SINCE_1970),
        (pa.timestamp("us", "UTC"), 5.5, SINCE_1970),
        (pa.timestamp("us"), Decimal(5), SINCE_1970),
        (pa.list_(pa.timestamp("us")), [5], SINCE_1970),
        (pa.date32(), 5, "would take it for days since 1970"),
        (pa.date32(), 5.5, "would take it for days since 1970"),
        (pa.date32(), NOON, "would drop its time of day"),
        (pa.struct([("on", pa.date32())]), {"on": NOON.replace(tzinfo=None)}, "would drop its time of day"),
        (pa.duration("us"), 5, "would take it for microseconds"),
        (pa.float32(), 1e39, "would make it infinite"),
        (pa.float64(), np.longdouble("1e400"), "would make it infinite"),
        (pa.float64(), np.longdouble(1) / 3, "would round it"),
        (pa.float32(), np.longdouble(1) / 3, "would round it"),
        (pa.list_(pa.float64()), np.array([1], np.longdouble) / 3, "would round it"),
    ],
)
def test_value_that_would_lose_information_is_refused(type_, value, reason):
    with pytest.raises(InvalidPlanError, match=rf"does not fit the column 'v' of type .*, which {reason}: "):
        result_columns([None, (value,)], pa.schema([("v", type_)]))


@pytest.mark.parametrize("unit", ["timestamp", "zoned", "duration"])
def test_pandas_time_with_nanoseconds_is_refused(unit):
    pd = pytest.importorskip("pandas")
    value = pd.Timedelta(1, "ns") if unit == "duration" else pd.Timestamp(1, tz="UTC" if unit == "zoned" else None)
    types = {"timestamp": pa.timestamp("us"), "zoned": pa.timestamp("us", "UTC"), "duration": pa.duration("us")}
    with pytest.raises(InvalidPlanError, match="would cut its nanoseconds off"):
        result_columns([(value,)], pa.schema([("v", types[unit])]))


@pytest.mark.parametrize(("labels", "message"), [([1, 0], "by their labels: return value.tolist"), ([5, 6], r"\(Series\)")])
def test_pandas_series_is_a_list_only_with_the_default_index(labels, message):
    pd = pytest.importorskip("pandas")
    schema = pa.schema([("n", pa.int64()), ("v", pa.list_(pa.int64()))])
    assert result_columns([(1, pd.Series([7, 8]))], schema)[1].to_pylist() == [[7, 8]]
    with pytest.raises(InvalidPlanError, match=message):
        result_columns([(1, pd.Series([7, 8], index=labels))], schema)


def test_pandas_nat_is_refused_as_a_date():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidPlanError, match="'v'"):
        result_columns([(pd.NaT,)], pa.schema([("v", pa.date32())]))


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.timestamp("us", "UTC"), NOON.replace(tzinfo=None), NOON),
        (pa.timestamp("us"), NOON.astimezone(dt.timezone(dt.timedelta(hours=8))), NOON.replace(tzinfo=None)),
        (pa.date32(), dt.datetime(2026, 1, 1), dt.date(2026, 1, 1)),
        (pa.list_(pa.string()), ("ab",), ["ab"]),
        (POINT, {"y": 1}, {"x": None, "y": 1}),
        (POINT, (1, 2), {"x": 1, "y": 2}),
        (POINT, [("x", 1)], {"x": 1, "y": None}),
        (pa.float64(), np.float16(0.5), 0.5),
        (pa.float64(), np.longdouble(0.1), 0.1),
        (pa.float32(), np.float32(0.5), 0.5),
        (pa.float32(), 0.1, float(np.float32(0.1))),
        (pa.float32(), float("inf"), float("inf")),
        (pa.string(), b"ab", "ab"),
    ],
)
def test_value_of_another_type_is_accepted_if_no_information_is_lost(type_, value, expected):
    assert result_columns([(value,)], pa.schema([("v", type_)]))[0].to_pylist() == [expected]


@pytest.mark.parametrize(("result", "at"), [((2, "b", 3), 2), ((2.5, "b"), 2), ((2, 7), 2)])
def test_error_names_the_place_of_the_result(result, at):
    with pytest.raises(InvalidPlanError, match=rf"\(place {at}\)"):
        result_columns([(1, "a"), None, result, result], RESULTS, lambda number: f" (place {number})")
