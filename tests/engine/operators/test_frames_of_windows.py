"""What functions over tables are given, and what becomes of what they return: the same whether windows are served one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panestream.engine.operators.accumulating.windowed_rows import Collected, Now, TablePerWindow, WindowedRows
from panestream.errors import InvalidPlanError
from panestream.windowing.functions import WindowFunctionError

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
    """Windows of so many rows each, over all rows in turn."""
    begins = np.append(0, np.cumsum(sizes)).astype(np.int64)
    order = np.arange(begins[-1], dtype=np.int64) % max(table.num_rows, 1)
    number = np.arange(len(sizes), dtype=np.int64)
    return WindowedRows(table, order, begins, pa.table({"key": number}), number * 10, number * 10 + 10)


def row(draw: Any) -> tuple[Any, ...]:
    """Values of which any may be null."""
    return (draw % 7 or None, None if draw % 5 == 0 else draw / 2, None if draw % 3 == 0 else draw % 2 == 0, None if draw % 4 == 0 else f"t{draw}", None if draw % 6 == 0 else draw * 1_000_000, None if draw % 8 == 0 else draw)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=60), st.lists(st.integers(1, 9), min_size=1, max_size=12), st.booleans()
)
def test_a_window_s_frame_is_that_of_its_rows_alone(numbers: list[int], sizes: list[int], nested: bool) -> None:
    columns = [list(column) for column in zip(*map(row, numbers), strict=True)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    if nested:
        arrays.append(pa.array([[None if number % 11 == 0 else number] for number in numbers], pa.list_(pa.int64())))
    table = pa.Table.from_arrays(arrays, schema=NESTED if nested else SCHEMA)
    windows, seen = windows_of(table, sizes), []

    def look(key: Any, window: Any, frame: Any) -> None:
        seen.append(frame.copy())
        frame.iloc[:, 0] = -1  # a frame of its own: nobody else sees this

    TablePerWindow(look, "pandas").results(windows, OUT, Now(0, 0))
    assert len(seen) == len(sizes)
    for frame, (begin, end) in zip(seen, windows.pieces(), strict=True):
        alone = table.take(pa.array(windows.order[begin:end])).to_pandas()
        pd.testing.assert_frame_equal(frame, alone, check_index_type="exact")


@pytest.mark.parametrize(
    ("column", "alone"),
    [
        # A null within a list makes floats of the whole numbers of all lists that are converted with it.
        (pa.array([[1, 2], [None, 3]], pa.list_(pa.int64())), [[["int64"]], [["float64"]]]),
        (pa.array(["a", "b"]).dictionary_encode(), [[["a", "b"]], [["a", "b"]]]),
    ],
    ids=["lists", "categories"],
)
def test_values_within_a_window_are_as_if_no_other_were_there(column: pa.Array, alone: list) -> None:
    seen: list[Any] = []
    windows = windows_of(pa.table({"v": column}), [1, 1])
    TablePerWindow(lambda key, window, frame: seen.append(frame), "pandas").results(windows, OUT, Now(0, 0))

    def told(frame: Any) -> list:
        categories = getattr(frame["v"].dtype, "categories", None)
        return [[str(one.dtype)] for one in frame["v"]] if categories is None else [list(categories)]

    assert [told(frame) for frame in seen] == alone


def test_many_windows_that_are_more_than_is_held_at_once() -> None:
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
    "table": lambda rows: pa.Table.from_pylist([dict(zip(OUT.names, one, strict=True)) for one in rows], OUT),
    "table with other types": lambda rows: pa.table(
        {"n": pa.array([one[0] for one in rows], pa.int8()), "label": [one[1] for one in rows]}
    ),
    "batch": lambda rows: pa.record_batch([[one[0] for one in rows], pa.array([one[1] for one in rows], "string")], OUT.names),
    "list": lambda rows: rows,
    "generator": lambda rows: (one for one in rows),
    "list of dicts": lambda rows: [dict(zip(OUT.names, one, strict=True)) for one in rows],
    "none": lambda rows: None,
}


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(SHAPES)), st.integers(0, 3)), max_size=20))
def test_results_of_any_shape_come_out_in_the_order_of_their_windows(returned: list[tuple[str, int]]) -> None:
    collected, expected, counts = Collected(OUT), [], []
    for number, (shape, size) in enumerate(returned):
        rows = [(number + at, None if at == 2 else f"{number} {at}") for at in range(size)]
        made = SHAPES[shape](rows)
        collected.add(list(made) if shape == "generator" else made)
        found = [] if shape == "none" else rows
        expected += found
        counts.append(len(found))
    table, told = collected.table()
    assert [tuple(one.values()) for one in table.to_pylist()] == expected
    assert told == counts
    assert table.schema.equals(OUT)


FLOATS = pa.schema([("x", pa.float64())])
NAN = float("nan")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([[NAN, 1.5], [2.5]], [None, 1.5, 2.5]),
        ([[1.5], [NAN]], [1.5, None]),
        ([[1.5], [2, 3]], [1.5, 2.0, 3.0]),  # of another type, and so one by one
        ([[NAN], [2, 3], []], [None, 2.0, 3.0]),
        ([[], [], [NAN]], [None]),
        ([[], []], []),
    ],
)
def test_what_is_no_number_in_a_frame_is_null_however_many_frames_there_are(returned, expected):
    collected = Collected(FLOATS)
    for values in returned:
        collected.add(pd.DataFrame({"x": values}))
    table, counts = collected.table()
    assert table.schema.equals(FLOATS)
    assert table["x"].to_pylist() == expected
    assert counts == list(map(len, returned))


def _table_of(returned: list[Any]) -> pa.Table:
    collected = Collected(OUT)
    for one in returned:
        collected.add(one)
    return collected.table()[0]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([pd.DataFrame({"n": [1]})], "label"),
        ([pd.DataFrame({"n": [1], "label": ["a"]}), pd.DataFrame({"n": []})], "label"),
        ([pd.DataFrame({"n": ["one"], "label": ["a"]})], "fit"),
        ([pd.DataFrame({"n": [1.5], "label": ["a"]})], "fit"),
        ([pa.table({"n": [1]})], "label"),
        ([[(1,)]], "2 values"),
        ([7], "fit"),
    ],
)
def test_what_does_not_fit_is_named(returned: list[Any], said: str) -> None:
    with pytest.raises(InvalidPlanError, match=said):
        _table_of(returned)


def test_what_a_generator_raises_is_told_with_its_window() -> None:
    def failing(key: Any, window: Any, frame: Any) -> Any:
        yield (1, "a")
        raise ValueError("no more")

    with pytest.raises(WindowFunctionError, match="no more"):
        TablePerWindow(failing, "pandas").results(windows_of(pa.table({"whole": [1, 2]}), [2]), OUT, Now(0, 0))
