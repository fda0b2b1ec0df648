"""Payloads cross the shuffle in parts, and come together again. Without Spark: ``pack`` and ``gather`` are plain functions."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.exchange import packing
from panestream.engine.exchange.group_run import gather
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.accumulating.operator import KEPT
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import WindowPlan
from panestream.engine.planner import plan_functions
from panestream.engine.query import WindowSpec
from panestream.engine.storage import payload
from panestream.engine.storage.payload import END, PayloadPart, cut
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.functions import applied
from panestream.windowing.watermarks import WatermarkStrategy

KEYS = pa.schema([("key", pa.int64())])
ROWS = pa.schema([("key", pa.int64()), ("value", pa.int64())])
RESULTS = pa.schema([("n", pa.int64())])


def plan(groups: int = 1) -> WindowPlan:
    windowing = WindowSpec(TumblingEventTimeWindows(1_000_000))
    counting = KeepRows(applied(lambda key, window, rows: [len(rows)]))
    operator = plan_functions(windowing, counting, RESULTS, ROWS, "count", KEYS)
    return WindowPlan(("key",), KEYS, windowing.assigner, operator, WatermarkStrategy(0), "ts", groups, row_schema=ROWS)


def packed(rows: int) -> tuple[pa.Table, list[PayloadPart]]:
    """Rows, and the parts that they leave as from two source partitions, in any order."""
    rng = np.random.default_rng(5)
    row = pa.table([pa.array(rng.integers(0, 2**50, rows)), pa.array(rng.integers(0, 2**50, rows))], schema=ROWS)
    half = rows // 2
    parts = []
    for origin, held in enumerate((row.slice(0, half), row.slice(half))):
        columns = [pa.array(range(held.num_rows)), held["key"], held.to_struct_array()]
        table = pa.table(dict(zip(("time", "key", "row"), columns, strict=True)))
        sent = pack(plan(), PackColumns((pa.int64(),), (), row=2), table.to_batches(), origin)
        parts += [part for _, part in sent]
    random.Random(1).shuffle(parts)
    return row, parts


@pytest.mark.parametrize("part_bytes", [100, 1_000, 1 << 18])
def test_the_rows_come_back_in_order(monkeypatch, part_bytes):
    monkeypatch.setattr(payload, "PART_BYTES", part_bytes)
    rows, parts = packed(1_000)
    assert max(len(part.body) for part in parts) <= part_bytes
    assert (len(parts) > 10) == (part_bytes <= 1_000)
    batch = gather(plan(), parts)
    assert batch.input_rows == 1_000
    kept = pa.concat_tables(batch.of(KEPT))
    assert kept["row 0"].to_pylist() == rows["key"].to_pylist()
    assert kept["row 1"].to_pylist() == rows["value"].to_pylist()


def test_each_key_group_gets_its_own_rows():
    """The first group's rows are a slice from the first row on: before pyarrow 23 such a slice of structs became all rows."""
    rows = pa.table([pa.array(range(9)), pa.array(range(9, 18))], schema=ROWS)
    columns = {"time": pa.array(range(9)), "key": rows["key"], "row": rows.to_struct_array(), "group": pa.array([2, 0, 1] * 3)}
    parts = {}
    for group, part in pack(plan(3), PackColumns((pa.int64(),), (), row=2, group=3), pa.table(columns).to_batches()):
        parts.setdefault(group, []).append(part)
    kept = [pa.concat_tables(gather(plan(3), parts[group]).of(KEPT)) for group in range(3)]
    assert [table["row 0"].to_pylist() for table in kept] == [[1, 4, 7], [2, 5, 8], [0, 3, 6]]
    assert [table["row 1"].to_pylist() for table in kept] == [[10, 13, 16], [11, 14, 17], [9, 12, 15]]


def test_of_many_rows_too_those_of_a_key_group_keep_their_order():
    """Few rows come out in order of a sort that is not stable, too."""
    numbers = pa.array(range(5_000))
    groups = np.random.default_rng(3).integers(0, 3, 5_000)
    rows = pa.table([numbers, numbers], schema=ROWS)
    columns = {"time": numbers, "key": numbers, "row": rows.to_struct_array(), "group": pa.array(groups)}
    parts = {}
    for group, part in pack(plan(3), PackColumns((pa.int64(),), (), row=2, group=3), pa.table(columns).to_batches()):
        parts.setdefault(group, []).append(part)
    for group in range(3):
        kept = pa.concat_tables(gather(plan(3), parts[group]).of(KEPT))
        assert kept["row 0"].to_pylist() == np.flatnonzero(groups == group).tolist()


def test_rows_of_the_history_are_left_out_and_counted():
    numbers = pa.array(range(10))
    rows = pa.table([numbers, numbers], schema=ROWS)
    columns = {"time": numbers, "key": numbers, "row": rows.to_struct_array()}
    later = replace(plan(), since=7)
    parts = [part for _, part in pack(later, PackColumns((pa.int64(),), (), row=2), pa.table(columns).to_batches())]
    batch = gather(later, parts)
    assert (batch.input_rows, batch.history_rows, batch.invalid_rows) == (3, 7, 0)
    assert pa.concat_tables(batch.of(KEPT))["row 0"].to_pylist() == [7, 8, 9]


@pytest.mark.parametrize("chunk_rows", [2, packing.CHUNK_ROWS])
@pytest.mark.parametrize(
    ("clocks", "latest"), [([5, 9, 7, 6], 9), ([9, 5, 6, 7], 9), ([5, None, 7, None], 7), ([None] * 4, 0)], ids=str
)
def test_of_several_processing_times_the_latest_counts(monkeypatch, chunk_rows, clocks, latest):
    monkeypatch.setattr(packing, "CHUNK_ROWS", chunk_rows)
    numbers = pa.array(range(4))
    rows = pa.table([numbers, numbers], schema=ROWS)
    columns = {"time": numbers, "key": numbers, "row": rows.to_struct_array(), "clock": pa.array(clocks, pa.int64())}
    batches = pa.table(columns).to_batches(max_chunksize=2)
    parts = [part for _, part in pack(plan(), PackColumns((pa.int64(),), (), row=2, processing_time=3), batches)]
    assert gather(plan(), parts).batch_time == latest


def reported(origin: int, times: list[int], partition: str, clock: int, run: str, plan: WindowPlan) -> list[PayloadPart]:
    """What a source partition sends of rows of one key: an event time of -1 is none that can be used."""
    rows = pa.table([pa.array([origin] * len(times)), pa.array(times)], schema=ROWS)
    columns = {
        "time": pa.array([None if time < 0 else time for time in times], pa.int64()),
        "key": rows["key"],
        "row": rows.to_struct_array(),
        "partition": pa.array([partition] * len(times)),
        "clock": pa.array([clock] * len(times)),
    }
    found = PackColumns((pa.int64(),), (), partition=3, row=2, processing_time=4)
    return [part for _, part in pack(plan, found, pa.table(columns).to_batches(), origin, run)]


@pytest.mark.parametrize("swapped", [False, True])
def test_what_source_partitions_say_is_put_together_whichever_says_the_most(swapped):
    asked = replace(plan(), invalid_tag="invalid", since=3)
    told = [([9, 2, -1], "p", 70, "run 1"), ([4, 5, 3, 8], "q", 60, "run 2"), ([6], "p", 50, "")]
    told = told[::-1] if swapped else told
    parts = [part for origin, one in enumerate(told) for part in reported(origin, *one, asked)]
    parts += cut(payload.encode(pa.table({}), {"kind": END}), 9, 0)
    random.Random(2).shuffle(parts)
    batch = gather(asked, parts, end_of_input=swapped)
    assert (batch.seen, batch.watermarks) == ({"p": 9, "q": 8}, {})
    assert (batch.input_rows, batch.invalid_rows, batch.history_rows) == (7, 1, 1)
    assert (batch.batch_time, batch.run, batch.planned_in) == (70, "run 2", "")
    assert (batch.end_of_available, batch.end_of_input) == (True, swapped)
    assert [table.to_pylist() for table in batch.invalid] == [[{"key": 2 if swapped else 0, "value": -1}]]
    # Each part with the source partition that it is of.
    assert batch.origins == {KEPT: [0, 1, 2]}
    kept = [[6], [4, 5, 3, 8], [9]]
    assert [table["row 1"].to_pylist() for table in batch.of(KEPT)] == (kept if swapped else kept[::-1])


def test_of_nothing_nothing_is_known():
    batch = gather(plan(), [])
    assert (batch.parts, batch.origins, batch.invalid, batch.seen, batch.watermarks) == ({}, {}, [], {}, {})
    assert (batch.input_rows, batch.batch_time, batch.run, batch.end_of_input, batch.end_of_available) == (0, 0, "", False, False)


def test_two_key_groups_are_two():
    rows = pa.table([pa.array(range(4)), pa.array(range(4))], schema=ROWS)
    columns = {"time": pa.array(range(4)), "key": rows["key"], "row": rows.to_struct_array(), "group": pa.array([1, 0, 1, 0])}
    parts = {}
    for group, part in pack(plan(2), PackColumns((pa.int64(),), (), row=2, group=3), pa.table(columns).to_batches()):
        parts.setdefault(group, []).append(part)
    kept = [pa.concat_tables(gather(plan(2), parts[group]).of(KEPT)) for group in range(2)]
    assert [table["row 0"].to_pylist() for table in kept] == [[1, 3], [0, 2]]


@pytest.mark.parametrize(("most_rows", "most_bytes"), [(4, 1 << 40), (1 << 40, 4 * 8), (4, 4 * 8)])
def test_small_batches_are_gathered_until_there_are_rows_or_bytes_enough(monkeypatch, most_rows, most_bytes):
    monkeypatch.setattr(packing, "CHUNK_ROWS", most_rows)
    monkeypatch.setattr(packing, "CHUNK_BYTES", most_bytes)
    batches = [pa.record_batch({"x": pa.array(range(rows), pa.int64())}) for rows in (2, 0, 2, 1, 3, 5, 1)]
    chunks = list(packing._chunks(iter(batches)))
    assert [chunk["x"].to_pylist() for chunk in chunks] == [[0, 1, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3, 4], [0]]
    assert all(chunk["x"].num_chunks == 1 for chunk in chunks)


def test_a_lost_part_is_not_passed_over(monkeypatch):
    monkeypatch.setattr(payload, "PART_BYTES", 200)
    _, parts = packed(1_000)
    last = max(parts, key=lambda part: part[:2])
    with pytest.raises(RuntimeError, match="lacks its last part"):
        gather(plan(), [part for part in parts if part is not last])


@pytest.mark.parametrize("part_bytes", [200, payload.PART_BYTES])
def test_a_part_that_comes_twice_is_not_counted_twice(monkeypatch, part_bytes):
    monkeypatch.setattr(payload, "PART_BYTES", part_bytes)
    _, parts = packed(1_000)
    for part in parts:
        with pytest.raises(RuntimeError, match="twice"):
            gather(plan(), [*parts, part])


def test_a_lost_part_is_named_wherever_it_was():
    """Arrow would read what follows, of another payload, as the rest of it."""
    parts = [PayloadPart(0, 1, 2, b"a"), PayloadPart(0, 2, 1, b"b"), PayloadPart(0, 3, 0, b"c"), PayloadPart(1, 1, 0, b"d")]
    assert list(payload.joined(reversed(parts))) == [(0, b"abc"), (1, b"d")]
    for lost in (1, 2):
        with pytest.raises(RuntimeError, match="source partition 0 lacks a part"):
            list(payload.joined(parts[:lost] + parts[lost + 1 :]))
