"""The arguments and results of functions over tables. It must not matter whether windows are handled one by one
or together.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panestream.engine.co_groups import OfTables
from panestream.engine.kernels.frames import frame_of
from panestream.engine.operators.accumulating.windowed_rows import (
    Collected,
    Now,
    PerWindow,
    TableOfRows,
    TablePerWindow,
    WindowedRows,
)
from panestream.engine.runtime.sides import Sides
from panestream.errors import InvalidPlanError
from panestream.windowing.functions import WindowFunctionError, applied
from tests.costs import random_cases

pd = pytest.importorskip("pandas")

SCHEMA = pa.schema(
    [
        ("whole", pa.int64()),
        ("half", pa.float64()),
        ("truth", pa.bool_()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
    ]
)
NESTED = SCHEMA.append(pa.field("several", pa.list_(pa.int64())))
OUT = pa.schema([("n", pa.int64()), ("label", pa.string())])


def windows_of(table: pa.Table, sizes: list[int]) -> WindowedRows:
    """Return windows with these numbers of rows, which repeat the rows of the table."""
    begins = np.append(0, np.cumsum(sizes)).astype(np.int64)
    order = np.arange(begins[-1], dtype=np.int64) % max(table.num_rows, 1)
    number = np.arange(len(sizes), dtype=np.int64)
    return WindowedRows(table, order, begins, pa.table({"key": number}), number * 10, number * 10 + 10)


def row(draw: Any) -> tuple[Any, ...]:
    """Return a row in which any value may be null."""
    return (draw % 7 or None, None if draw % 5 == 0 else draw / 2, None if draw % 3 == 0 else draw % 2 == 0, None if draw % 4 == 0 else f"t{draw}", None if draw % 6 == 0 else draw * 1_000_000, None if draw % 8 == 0 else draw)  # fmt: skip


@settings(max_examples=random_cases(60), deadline=None)
@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=60), st.lists(st.integers(1, 9), min_size=1, max_size=12), st.booleans()
)
def test_frame_of_a_window_depends_only_on_its_rows(numbers: list[int], sizes: list[int], nested: bool) -> None:
    columns = [list(column) for column in zip(*map(row, numbers), strict=True)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    if nested:
        arrays.append(pa.array([[None if number % 11 == 0 else number] for number in numbers], pa.list_(pa.int64())))
    table = pa.Table.from_arrays(arrays, schema=NESTED if nested else SCHEMA)
    windows, frames = windows_of(table, sizes), []

    def look(key: Any, window: Any, frame: Any) -> None:
        frames.append(frame.copy())
        frame.iloc[:, 0] = -1  # the frame is a copy, so other windows do not see this

    TablePerWindow(look, "pandas").results(windows, OUT, Now(0, 0))
    assert len(frames) == len(sizes)
    for frame, (begin, end) in zip(frames, windows.pieces(), strict=True):
        alone = frame_of(table.take(pa.array(windows.order[begin:end])))
        pd.testing.assert_frame_equal(frame, alone, check_index_type="exact")


@pytest.mark.parametrize(
    ("column", "alone"),
    [
        # A null within a list turns the whole numbers of all lists in the same conversion into Python numbers.
        (pa.array([[1, 2], [None, 3]], pa.list_(pa.int64())), [[["int64"]], [["object"]]]),
        (pa.array(["a", "b"]).dictionary_encode(), [[["a", "b"]], [["a", "b"]]]),
    ],
    ids=["lists", "categories"],
)
def test_values_in_a_frame_do_not_depend_on_other_windows(column: pa.Array, alone: list) -> None:
    frames: list[Any] = []
    windows = windows_of(pa.table({"v": column}), [1, 1])
    TablePerWindow(lambda key, window, frame: frames.append(frame), "pandas").results(windows, OUT, Now(0, 0))

    def element_types(frame: Any) -> list:
        categories = getattr(frame["v"].dtype, "categories", None)
        return [[str(value.dtype)] for value in frame["v"]] if categories is None else [list(categories)]

    assert [element_types(frame) for frame in frames] == alone


OF_CODES = pa.StructArray.from_arrays([pa.array([1.005]).dictionary_encode()], ["x"])
OF_DOUBLES = pa.map_(pa.string(), pa.float64())
ID = 2**53 + 1
"""A number that no double can represent."""
IDS = pa.table(
    {
        "id": pa.array([ID, None]),
        "several": pa.array([[ID, None], None], pa.list_(pa.int64())),
        "inner": pa.array([{"id": ID}, {"id": None}]),
        "by_name": pa.array([[("a", ID), ("b", None)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def _unchanged(key: Any, window: Any, frame: Any) -> Any:
    return frame


def _ids(frame: Any) -> tuple[Any, ...]:
    return frame["id"].tolist()[0], list(frame["several"][0]), frame["inner"][0], dict(frame["by_name"][0])


EXACT = (ID, [ID, None], {"id": ID}, {"a": ID, "b": None})


@pytest.mark.parametrize("sizes", [[2], [2, 2]], ids=str)
def test_whole_numbers_above_2_to_the_53_next_to_null_are_exact_in_frames(sizes):
    values_seen: list[Any] = []

    def look(key: Any, window: Any, frame: Any) -> Any:
        values_seen.append(_ids(frame))
        return frame[["id", "several", "inner"]]

    out = IDS.schema.remove(3)
    results = TablePerWindow(look, "pandas").results(windows_of(IDS, sizes), out, Now(0, 0))
    assert values_seen == [EXACT] * len(sizes)
    assert results.rows.to_pylist() == IDS.select(out.names).to_pylist() * len(sizes)


def test_frames_of_the_row_operator_and_of_two_streams_are_exact():
    frames_seen: list[Any] = []
    rows = [tuple(row.values()) for row in IDS.to_pylist()]
    of_rows = TablePerWindow(lambda key, window, frame: frames_seen.append(frame), "pandas")
    TableOfRows(of_rows, IDS.schema, OUT).apply(1, None, rows)
    side = pa.StructArray.from_arrays([column.chunk(0) for column in IDS.columns], fields=list(IDS.schema))
    both = pa.table({"left": side, "right": side})
    of_two = OfTables(
        lambda key, window, *frames: frames_seen.extend(frames), Sides(IDS.schema, IDS.schema, ((), ())), pandas=True
    )
    of_two(1, None, both)
    assert list(map(_ids, frames_seen)) == [EXACT] * 3


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(pa.int8(), "Int8"), (pa.int16(), "Int16"), (pa.int32(), "Int32"), (pa.int64(), "Int64"), (pa.uint8(), "UInt8")],
)
def test_integers_with_null_have_a_nullable_pandas_type_of_their_width(kind, dtype):
    assert [
        str(dtype_)
        for dtype_ in frame_of(pa.table({"with": pa.array([1, None], kind), "without": pa.array([1, 2], kind)})).dtypes
    ] == [dtype, dtype.lower()]


def test_windows_beyond_the_conversion_limit_are_converted_in_portions() -> None:
    table = pa.table({"whole": np.arange(30_000)})
    sizes = [1, 9_000, 3, 10_000, 1, 1, 9_994, 1_000]
    total = TablePerWindow(lambda key, window, frame: pd.DataFrame({"n": [frame.whole.sum()], "label": ["x"]}), "pandas")
    results = total.results(windows_of(table, sizes), OUT, Now(0, 0))
    ends = np.cumsum(sizes)
    values = np.arange(ends[-1]) % 30_000
    expected = [int(values[end - size : end].sum()) for size, end in zip(sizes, ends, strict=True)]
    assert results.rows.column("n").to_pylist() == expected
    assert results.of.tolist() == list(range(len(sizes)))


SHAPES = {
    "frame": lambda rows: pd.DataFrame(rows, columns=["n", "label"]),
    "frame with other types": lambda rows: pd.DataFrame(rows, columns=["n", "label"]).astype({"n": "Int64", "label": "string"}),
    "frame of floats": lambda rows: pd.DataFrame(rows, columns=["n", "label"]).astype({"n": "float64"}),
    "frame, columns turned, one too many": lambda rows: pd.DataFrame(rows, columns=["n", "label"]).assign(x=1)[
        ["x", "label", "n"]
    ],
    "table": lambda rows: pa.Table.from_pylist([dict(zip(OUT.names, row, strict=True)) for row in rows], OUT),
    "table with other types": lambda rows: pa.table(
        {"n": pa.array([row[0] for row in rows], pa.int8()), "label": [row[1] for row in rows]}
    ),
    "batch": lambda rows: pa.record_batch([[row[0] for row in rows], pa.array([row[1] for row in rows], "string")], OUT.names),
    "list": lambda rows: rows,
    "generator": lambda rows: (row for row in rows),
    "list of dicts": lambda rows: [dict(zip(OUT.names, row, strict=True)) for row in rows],
    "none": lambda rows: None,
}


@settings(max_examples=random_cases(120), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(SHAPES)), st.integers(0, 3)), max_size=20))
def test_results_of_any_shape_keep_the_order_of_their_windows(returned: list[tuple[str, int]]) -> None:
    collected, expected, counts = Collected(OUT), [], []
    for number, (shape, size) in enumerate(returned):
        rows = [(number + at, None if at == 2 else f"{number} {at}") for at in range(size)]
        result = SHAPES[shape](rows)
        collected.add(list(result) if shape == "generator" else result)
        new_rows = [] if shape == "none" else rows
        expected += new_rows
        counts.append(len(new_rows))
    table, element_types = collected.table()
    assert [tuple(row.values()) for row in table.to_pylist()] == expected
    assert element_types == counts
    assert table.schema.equals(OUT)


FLOATS = pa.schema([("x", pa.float64())])
NAN = float("nan")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([[NAN, 1.5], [2.5]], [None, 1.5, 2.5]),
        ([[1.5], [NAN]], [1.5, None]),
        ([[1.5], [2, 3]], [1.5, 2.0, 3.0]),  # of another type, so the frames are converted one by one
        ([[NAN], [2, 3], []], [None, 2.0, 3.0]),
        ([[], [], [NAN]], [None]),
        ([[], []], []),
    ],
)
def test_nan_in_returned_frames_becomes_null(returned, expected):
    collected = Collected(FLOATS)
    for values in returned:
        collected.add(pd.DataFrame({"x": values}))
    table, counts = collected.table()
    assert table.schema.equals(FLOATS)
    assert table["x"].to_pylist() == expected
    assert counts == list(map(len, returned))


NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 123456)
ITEMS = {
    pa.int64(): 2**53 + 1,
    pa.float64(): 0.1,
    pa.string(): "a",
    pa.bool_(): True,
    pa.binary(): b"a",
    pa.date32(): NOON.date(),
    pa.timestamp("us"): NOON,
    pa.timestamp("us", "UTC"): NOON.replace(tzinfo=dt.timezone.utc),
    pa.duration("us"): dt.timedelta(microseconds=1),
    pa.decimal128(38, 2): Decimal("0.10"),
    pa.list_(pa.int64()): [2**53 + 1, None],
    pa.list_(pa.timestamp("us")): [NOON, None],
    pa.struct([("x", pa.int64()), ("at", pa.timestamp("us"))]): {"x": None, "at": NOON},
    pa.map_(pa.string(), pa.int64()): [("a", 2**53 + 1), ("b", None)],
}


@pytest.mark.parametrize("item", ITEMS, ids=str)
def test_maps_in_a_frame_returned_unchanged_are_exact(item: pa.DataType) -> None:
    """pandas holds maps as lists of pairs, and Arrow does not recognise them as maps."""
    value = ITEMS[item]
    pairs = [[("a", value), ("b", None)], None, []]
    columns = {
        "map": pa.array(pairs, pa.map_(pa.string(), item)),
        "list": pa.array([pairs, None, []], pa.list_(pa.map_(pa.string(), item))),
        "struct": pa.array([{"m": maps} for maps in pairs], pa.struct([("m", pa.map_(pa.string(), item))])),
    }
    if not pa.types.is_map(item):  # Spark does not allow maps as keys
        columns["key"] = pa.array([[(value, 1)], None, []], pa.map_(item, pa.int64()))
    table = pa.table(columns)
    collected = Collected(table.schema)
    for returned in (frame_of(table), frame_of(table.slice(1)), frame_of(table.slice(0, 0)), table):
        collected.add(returned)
    assert collected.table()[0].equals(pa.concat_tables([table, table.slice(1), table]))


def test_frames_without_a_common_type_are_converted_separately() -> None:
    """Arrow finds no common type for the two columns. The row operator never joins them."""
    schema = pa.schema([("v", pa.decimal128(10, 2))])
    frames = [pd.DataFrame({"v": pd.Series(values, dtype=object)}) for values in ([Decimal("1.50")], [0.5])]
    collected = Collected(schema)
    for frame in frames:
        collected.add(frame)
    assert collected.table()[0]["v"].to_pylist() == [Decimal("1.50"), Decimal("0.50")]


def _table_of(returned: list[Any]) -> pa.Table:
    collected = Collected(OUT)
    for result in returned:
        collected.add(result)
    return collected.table()[0]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([pd.DataFrame({"n": [1]})], "no column 'label', but n: it must return each of n, label once"),
        ([pd.DataFrame([[1, 2, "a"]], columns=["n", "n", "label"])], "2 columns 'n', but n, n, label"),
        ([pa.Table.from_arrays([pa.array([1])] * 2, ["n", "n"])], "2 columns 'n', but n, n"),
        ([pd.DataFrame({"n": [1], "label": ["a"]}), pd.DataFrame({"n": []})], "label"),
        ([pd.DataFrame({"n": ["one"], "label": ["a"]})], "fit"),
        ([pd.DataFrame({"n": [1.5], "label": ["a"]})], "fit"),
        ([pa.table({"n": [1]})], "no column 'label'"),
        ([[(1,)]], "2 values"),
        ([pd.DataFrame({"n": [True], "label": ["a"]})], "would make a number of it"),
        ([7], "a value of type int, which does not fit"),
        ([((1, "a"),)], "a value of type tuple, which does not fit"),
    ],
)
def test_error_names_the_returned_column_that_does_not_fit(returned: list[Any], message: str) -> None:
    with pytest.raises(InvalidPlanError, match=message):
        _table_of(returned)


@pytest.mark.parametrize(
    ("returned", "type_", "reason"),
    [
        (pa.array([Decimal("2.7")]), pa.int64(), "Rescaling"),
        (pa.array([2.7]), pa.int64(), "truncated"),
        (pa.array([1.005]), pa.decimal128(12, 2), "1.005 does not fit decimal128.*, which would change it"),
        (pa.array([1e39]), pa.float32(), "1e.39 does not fit float, which would make it infinite"),
        (pa.array([2.5]), pa.bool_(), "would change it"),
        (pa.array([2]), pa.bool_(), "would change it"),
        (pa.array([5]), pa.timestamp("us", "UTC"), "would take it for a time since 1970"),
        (pa.array([5], pa.int32()), pa.date32(), "would take it for days since 1970"),
        (pa.array([5]), pa.duration("us"), "would take it for microseconds"),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us", "UTC"), "lose data"),
        (pa.array([1], pa.timestamp("us")), pa.date32(), "would drop its time of day"),
        (pa.array([[1]], pa.list_(pa.timestamp("us"))), pa.list_(pa.date32()), "would drop its time of day"),
        (pa.array([{"x": 1, "z": 2}]), pa.struct([("x", pa.int64())]), "no field 'z'"),
        (pa.array([[("a", 1.005)]], OF_DOUBLES), pa.map_(pa.string(), pa.decimal128(12, 2)), "would change it|does not fit the column"),
        (pa.array(["ab"]), pa.list_(pa.string()), "Unsupported cast"),
        (pa.array([5]).dictionary_encode(), pa.timestamp("us"), "would take it for a time since 1970"),
        (OF_CODES, pa.struct([("x", pa.decimal128(12, 2))]), "1.005 does not fit decimal128.*, which would change it"),
        (pa.array([Decimal(2**53 + 1)]), pa.float64(), "which would change it: make it a decimal"),
        (pa.array([5], pa.timestamp("us")), pa.int64(), "would drop its unit"),
        (pa.array([5], pa.duration("us")), pa.int64(), "would drop its unit"),
        (pa.array([10**13], pa.timestamp("s")), pa.date32(), "out of range"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_error_about_a_lossy_returned_column_names_key_and_window(returned, type_, reason, kind):
    table = pa.table({"v": returned})
    if kind == "pandas":
        table = table.to_pandas(types_mapper={pa.timestamp("us"): pd.ArrowDtype(pa.timestamp("us"))}.get)
    good = pa.table({"v": pa.nulls(1, type_)})

    def per_window(key: Any, window: Any, rows: Any) -> Any:
        return good if key == 0 else table

    with pytest.raises(InvalidPlanError, match=reason) as raised:
        TablePerWindow(per_window).results(windows_of(pa.table({"whole": [1, 2]}), [1, 1]), good.schema, Now(0, 0))
    assert re.search("the returned column 'v' does not fit its type|does not fit the column 'v' of type", str(raised.value))
    assert "(at key 1, window TimeWindow(start=10, end=20))" in str(raised.value)


@pytest.mark.parametrize("rows", [[(1, "a", 2)], [(2.5, "a")], [(1, 7)]])
def test_error_about_returned_rows_names_key_and_window(rows):
    windows = windows_of(pa.table({"whole": [1, 2]}), [1, 1])
    for function in (
        TablePerWindow(lambda key, window, table: None if key == 0 else rows),
        PerWindow(applied(lambda key, window, elements: [] if key == 0 else rows)),
    ):
        with pytest.raises(InvalidPlanError, match=r"\(at key 1, window TimeWindow\(start=10, end=20\)\)"):
            function.results(windows, OUT, Now(0, 0))


def test_error_raised_by_a_generator_is_a_window_function_error() -> None:
    def failing(key: Any, window: Any, frame: Any) -> Any:
        yield (1, "a")
        raise ValueError("no more")

    with pytest.raises(WindowFunctionError, match="no more"):
        TablePerWindow(failing, "pandas").results(windows_of(pa.table({"whole": [1, 2]}), [2]), OUT, Now(0, 0))
