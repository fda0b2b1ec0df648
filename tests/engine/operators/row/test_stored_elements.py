"""Input rows are stored by the schema of the input, and are read back unchanged whatever their types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.pages import ElementArrivals, ElementChunkCodec, split_parts, stamped

UTC = dt.timezone.utc
NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 7)
COLUMNS = {
    "bool": (pa.bool_(), [True, None, False]),
    "byte": (pa.int8(), [-128, None, 127]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "long without nulls": (pa.int64(), [1, 1, 1]),
    "float": (pa.float32(), [0.5, float("inf"), None]),
    "double": (pa.float64(), [0.1, -0.0, None]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1.5000000000"), None, Decimal("-9999999999999999999999999999.9999999999")]),
    "string": (pa.string(), ["", "ä", None]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC), None, dt.datetime(1, 1, 1, tzinfo=UTC)]),
    "timestamp without zone": (pa.timestamp("us"), [NOON, None, dt.datetime.max]),
    "interval": (pa.duration("us"), [dt.timedelta(days=-1, microseconds=3), None, dt.timedelta(0)]),
    "list": (pa.list_(pa.int32()), [[1, None], [], None]),
    "list of timestamps": (pa.list_(pa.timestamp("us")), [[NOON, None], [], None]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
        [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None],
    ),
    "map": (pa.map_(pa.string(), pa.int32()), [{"a": 1, "b": None}, {}, None]),
    "null": (pa.null(), [None, None, None]),
}


def codec_of(schema):
    row_type = RowType(schema)
    return row_type, ElementChunkCodec(row_type.element, Codec(row_type.element), timed=False)


@pytest.mark.parametrize("name", COLUMNS)
def test_elements_of_every_spark_type_are_read_back_unchanged(name):
    type_, values = COLUMNS[name]
    row_type, codec = codec_of(pa.schema([("n", pa.int32()), ("it", type_)]))
    # built from Arrow, like the rows of a query
    rows = row_type.rows(pa.table([pa.array([1, 2, 3], pa.int32()), pa.array(values, type_)], schema=row_type.schema))
    assert [row[1] for row in rows] == values
    for elements in (rows, rows[:1], rows[2:], rows * 3):
        elements_read = codec.decode(codec.encode(elements))
        assert repr(elements_read) == repr(elements)
        assert {type(element) for element in elements_read} == {row_type.element}
    timed = ElementChunkCodec(row_type.element, Codec(row_type.element), timed=True)
    with_times = [stamped((row, -at)) for at, row in enumerate(rows)]
    assert repr(timed.decode(timed.encode(with_times))) == repr(with_times)


def test_elements_may_have_duplicate_column_names_or_no_columns():
    row_type, codec = codec_of(pa.schema([("a", pa.int32()), ("a", pa.string())]))
    rows = [row_type.make((1, "x")), row_type.make((2, None))]
    assert codec.decode(codec.encode(rows)) == rows
    row_type, codec = codec_of(pa.schema([]))
    assert codec.decode(codec.encode([row_type.make(())] * 3)) == [()] * 3


def test_repeated_element_is_read_back_as_one_object():
    row_type, codec = codec_of(pa.schema([("a", pa.string())]))
    repeated, other = row_type.make(("x" * 1000,)), row_type.make(("y",))
    data = codec.encode([repeated, other, repeated, repeated])
    assert len(data) < 3000
    elements_read = codec.decode(data)
    assert elements_read == [repeated, other, repeated, repeated]
    assert elements_read[0] is elements_read[2] is elements_read[3]


def test_reference_numbers_are_stored_only_for_repeated_elements():
    row_type, codec = codec_of(pa.schema([("a", pa.int64())]))
    elements = [row_type.make((number,)) for number in range(3)]
    alone, twice = codec.encode(elements), codec.encode([*elements, elements[0]])
    (_, references), (_, numbers) = split_parts(alone), split_parts(twice)
    assert references == b""
    assert len(numbers) > 0


def test_equal_but_distinct_elements_stay_distinct_objects():
    row_type, codec = codec_of(pa.schema([("a", pa.string())]))
    elements_read = codec.decode(codec.encode([row_type.make(("x",)), row_type.make(("x",))]))
    assert elements_read == [("x",), ("x",)]
    assert elements_read[0] is not elements_read[1]


def test_columns_of_new_elements_are_reused_for_writing():
    row_type = RowType(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    old, early, more = (row_type.from_columns([[*numbers], [*"xyz"]], 3) for numbers in ((1, 2, 3), (4, 5, 6), (7, 8, 9)))
    arrivals = ElementArrivals()

    def rows_written(*elements):
        columns = arrivals.columns(elements, row_type)
        assert [column.type for column in columns] == row_type.schema.types
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    assert rows_written(old[1], old[0]) == [(2, "y"), (1, "x")], "nothing has come yet"
    # The columns differ from the elements, which shows the source of each value.
    arrivals.add(early, [pa.array([40, 50, 60]), pa.array(["X", "Y", None])])
    assert rows_written(early[2], early[0], early[2]) == [(60, None), (40, "X"), (60, None)]
    assert rows_written(old[2], old[0]) == [(3, "z"), (1, "x")], "none of these has just come"
    assert rows_written() == []
    arrivals.add(more, [pa.array([70, 80, 90]), pa.array(["P", "Q", "R"])])
    arrivals.add([], [pa.array([], pa.int64()), pa.array([], pa.string())])
    for _ in range(2):  # the columns are joined only the first time
        assert rows_written(old[1], more[0], early[1], old[0], early[0], more[2]) == [
            (2, "y"), (70, "P"), (50, "Y"), (1, "x"), (40, "X"), (90, "R"),
        ]  # fmt: skip
    arrivals.add(old, [pa.array([10, 20, 30]), pa.array(["x", "y", "z"])])
    assert rows_written(old[0], more[1]) == [(10, "x"), (80, "Q")]
    assert rows_written(more[0], row_type.make((0, "new"))) == [(70, "P"), (0, "new")]
