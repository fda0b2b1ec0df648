"""Rows that cross the exchange unordered and are sorted in their key group, without Spark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.exchange.packing import in_order, unordered
from panestream.engine.operators.accumulating.operator import KEPT
from panestream.engine.plan import Chunk, WindowQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness
from tests.engine.exchange.test_exchange import ROWS, plan

ARRIVAL = pa.schema([("file", pa.string()), ("place", pa.int64())])
Given = list[tuple[str | None, int | None]]


def numbered_chunks(partitions: list[Given]) -> list[Chunk]:
    """Return a chunk for each source partition. Time, key and value of a row are its number, which shows its original place."""
    numbers, chunks = iter(range(10_000)), []
    for rows in partitions:
        values = pa.array([next(numbers) for _ in rows], pa.int64())
        chunks.append(Chunk(values.to_numpy(), [values], [], pa.table([values, values], schema=ROWS)))
    return chunks


def tables_that_cross(partitions: list[Given], chunks: list[Chunk]) -> list[pa.Table]:
    """Return the tables that key groups receive."""
    orders = [[pa.array([row[column] for row in rows], kind) for column, kind in enumerate(ARRIVAL.types)] for rows in partitions]
    return [unordered(chunk, order) for chunk, order in zip(chunks, orders, strict=True)]


@pytest.mark.parametrize(
    ("partitions", "places"),
    [
        ([[("a", 1)]], [0]),
        ([[("b", 1), ("a", 2), ("a", 1)]], [2, 1, 0]),
        ([[("b", 1), ("a", 9)], [("a", 10), ("b", 0)]], [1, 2, 3, 0]),
        # Nulls of either column come last.
        ([[(None, 1), ("b", None), ("b", 7)], [("a", None), (None, 0), ("z", 5)]], [3, 2, 1, 5, 4, 0]),
        # Equal rows keep their order, one source partition after the other.
        ([[("a", 1), ("a", 1)], [], [("a", 0), ("a", 1)]], [2, 0, 1, 3]),
    ],
)
def test_rows_are_sorted_by_the_arrival_columns(partitions, places):
    ((kind, rows),) = in_order(replace(plan(), arrival=ARRIVAL), tables_that_cross(partitions, numbered_chunks(partitions)))
    assert kind == KEPT
    assert [rows[name].to_pylist() for name in ("row 0", "row 1")] == [places, places]


def test_many_equal_rows_keep_their_order():
    """With few rows, even an unstable sort keeps their order."""
    names = np.random.default_rng(3).integers(0, 4, 4_000)
    partitions = [[(f"file {name}", 0) for name in names[start : start + 1_000]] for start in range(0, 4_000, 1_000)]
    ((_, rows),) = in_order(replace(plan(), arrival=ARRIVAL), tables_that_cross(partitions, numbered_chunks(partitions)))
    assert rows["row 1"].to_pylist() == [place for name in range(4) for place in np.flatnonzero(names == name).tolist()]


@pytest.mark.parametrize("late", [False, True])
def test_keys_values_and_whole_rows_move_together_when_rows_are_sorted(late):
    query = harness.Query(
        WindowQuery(TumblingEventTimeWindows(10)), (agg.first("v").alias("f"), agg.last("u").alias("l")), late=late
    )
    # The schema of whole rows also exists if only rows without event time go to an output.
    ordered_plan = replace(query.columnar(), arrival=ARRIVAL, row_schema=harness.ROWS)
    whole = pa.Table.from_pylist(
        [
            dict(zip(harness.ROWS.names, row, strict=True))
            for row in [("a", 3, 1, 0.5, 10), ("b", 3, 2, 1.5, 20), ("a", 3, 3, 2.5, 30)]
        ],
        schema=harness.ROWS,
    )
    values = [whole[text].chunk(0) for text in ordered_plan.operator.inputs]
    whole_chunk = Chunk(whole["ts"].to_numpy(), [whole["key"].chunk(0)], values, whole if late else None)
    order = [pa.array(["x", "x", "a"]), pa.array([1, 0, 5])]
    header = {"input_rows": 3, "end_of_input": True, "seen": {"": 3}}
    batch = harness.GroupInput(**header)
    for kind, table in in_order(ordered_plan, [unordered(whole_chunk, order)]):
        batch.parts.setdefault(kind, []).append(table)
    # In sorted order: the last row of a, then b, then the first row of a.
    expected = harness.GroupInput(**header)
    place = pa.array([2, 1, 0])
    sorted_rows = whole.take(place).combine_chunks()
    chunk = Chunk(
        sorted_rows["ts"].to_numpy(),
        [sorted_rows["key"].chunk(0)],
        [value.take(place) for value in values],
        sorted_rows if late else None,
    )
    for kind, table in ordered_plan.operator.pack(ordered_plan, chunk):
        expected.parts.setdefault(kind, []).append(table)
    assert {kind: [table.to_pylist() for table in tables] for kind, tables in batch.parts.items()} == {
        kind: [table.to_pylist() for table in tables] for kind, tables in expected.parts.items()
    }
    (main,) = (
        table for tag, table in ordered_plan.operator.for_group(ordered_plan, harness.MemoryState(), 0).process(batch).tables
    )
    assert sorted(harness.rows_of(ordered_plan, main)) == [(("a", 0, 10), (3, 10)), (("b", 0, 10), (2, 20))]
