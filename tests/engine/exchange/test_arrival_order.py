"""Rows that cross the exchange as they are, and are put in order in their key group. Without Spark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.exchange.packing import in_order, unordered
from panestream.engine.operators.accumulating.operator import KEPT
from panestream.engine.plan import Chunk
from panestream.engine.query import WindowSpec
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness
from tests.engine.exchange.test_exchange import ROWS, plan

ARRIVAL = pa.schema([("file", pa.string()), ("place", pa.int64())])
Given = list[tuple[str | None, int | None]]


def numbered(given: list[Given]) -> list[Chunk]:
    """A chunk of each source partition; a row's number, which is its time, its key and its values, says where it stood."""
    numbers, chunks = iter(range(10_000)), []
    for some in given:
        values = pa.array([next(numbers) for _ in some], pa.int64())
        chunks.append(Chunk(values.to_numpy(), [values], [], pa.table([values, values], schema=ROWS)))
    return chunks


def crossed(given: list[Given], chunks: list[Chunk]) -> list[pa.Table]:
    """What key groups are sent."""
    orders = [[pa.array([one[column] for one in some], kind) for column, kind in enumerate(ARRIVAL.types)] for some in given]
    return [unordered(chunk, order) for chunk, order in zip(chunks, orders, strict=True)]


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ([[("a", 1)]], [0]),
        ([[("b", 1), ("a", 2), ("a", 1)]], [2, 1, 0]),
        ([[("b", 1), ("a", 9)], [("a", 10), ("b", 0)]], [1, 2, 3, 0]),
        # Nulls come last, of either column.
        ([[(None, 1), ("b", None), ("b", 7)], [("a", None), (None, 0), ("z", 5)]], [3, 2, 1, 5, 4, 0]),
        # What is equal stays as it is given, one source partition after the other.
        ([[("a", 1), ("a", 1)], [], [("a", 0), ("a", 1)]], [2, 0, 1, 3]),
    ],
)
def test_rows_are_in_the_order_of_the_columns(given, places):
    ((kind, rows),) = in_order(replace(plan(), arrival=ARRIVAL), crossed(given, numbered(given)))
    assert kind == KEPT
    assert [rows[name].to_pylist() for name in ("row 0", "row 1")] == [places, places]


def test_many_rows_that_are_equal_stay_as_they_are():
    """Few come out as they were of a sort that is not stable, too."""
    names = np.random.default_rng(3).integers(0, 4, 4_000)
    given = [[(f"file {name}", 0) for name in names[start : start + 1_000]] for start in range(0, 4_000, 1_000)]
    ((_, rows),) = in_order(replace(plan(), arrival=ARRIVAL), crossed(given, numbered(given)))
    assert rows["row 1"].to_pylist() == [place for name in range(4) for place in np.flatnonzero(names == name).tolist()]


@pytest.mark.parametrize("late", [False, True])
def test_keys_and_values_stay_with_their_rows_and_whole_rows_with_them_where_they_cross(late):
    query = harness.Query(
        WindowSpec(TumblingEventTimeWindows(10)), (agg.first("v").alias("f"), agg.last("u").alias("l")), late=late
    )
    # A schema of whole rows is there, too, where only rows without event time go to an output.
    asked = replace(query.columnar(), arrival=ARRIVAL, row_schema=harness.ROWS)
    whole = pa.Table.from_pylist(
        [
            dict(zip(harness.ROWS.names, row, strict=True))
            for row in [("a", 3, 1, 0.5, 10), ("b", 3, 2, 1.5, 20), ("a", 3, 3, 2.5, 30)]
        ],
        schema=harness.ROWS,
    )
    values = [whole[text].chunk(0) for text in asked.operator.inputs]
    sent = Chunk(whole["ts"].to_numpy(), [whole["key"].chunk(0)], values, whole if late else None)
    order = [pa.array(["x", "x", "a"]), pa.array([1, 0, 5])]
    given = {"input_rows": 3, "end_of_input": True, "seen": {"": 3}}
    batch = harness.GroupInput(**given)
    for kind, table in in_order(asked, [unordered(sent, order)]):
        batch.parts.setdefault(kind, []).append(table)
    # In the order in which they are now: the last of a, then b, then the first of a.
    expected = harness.GroupInput(**given)
    place = pa.array([2, 1, 0])
    taken = whole.take(place).combine_chunks()
    chunk = Chunk(
        taken["ts"].to_numpy(), [taken["key"].chunk(0)], [value.take(place) for value in values], taken if late else None
    )
    for kind, table in asked.operator.pack(asked, chunk):
        expected.parts.setdefault(kind, []).append(table)
    assert {kind: [table.to_pylist() for table in tables] for kind, tables in batch.parts.items()} == {
        kind: [table.to_pylist() for table in tables] for kind, tables in expected.parts.items()
    }
    (main,) = (table for tag, table in asked.operator.for_group(asked, harness.MemoryState(), 0).process(batch).tables)
    assert sorted(harness.rows_of(asked, main)) == [(("a", 0, 10), (3, 10)), (("b", 0, 10), (2, 20))]
