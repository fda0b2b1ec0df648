"""Payloads cross the shuffle in parts and are joined again. ``pack`` and ``gather`` are plain functions, so no Spark is
needed.
"""

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
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.storage import payload
from panestream.engine.storage.payload import END, PayloadPart, cut
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.functions import applied
from panestream.windowing.watermarks import WatermarkStrategy

KEYS = pa.schema([("key", pa.int64())])
ROWS = pa.schema([("key", pa.int64()), ("value", pa.int64())])
RESULTS = pa.schema([("n", pa.int64())])


def plan(groups: int = 1) -> WindowPlan:
    windowing = WindowQuery(TumblingEventTimeWindows(1_000_000))
    counting = KeepRows(applied(lambda key, window, rows: [len(rows)]))
    operator = plan_functions(windowing, counting, RESULTS, ROWS, "count", KEYS)
    return WindowPlan(("key",), KEYS, windowing.assigner, operator, WatermarkStrategy(0), "ts", groups, row_schema=ROWS)


def pack_rows(rows: int) -> tuple[pa.Table, list[PayloadPart]]:
    """Return rows, and the parts in which two source partitions send them, in random order."""
    rng = np.random.default_rng(5)
    row = pa.table([pa.array(rng.integers(0, 2**50, rows)), pa.array(rng.integers(0, 2**50, rows))], schema=ROWS)
    half = rows // 2
    parts = []
    for origin, half_rows in enumerate((row.slice(0, half), row.slice(half))):
        columns = [pa.array(range(half_rows.num_rows)), half_rows["key"], half_rows.to_struct_array()]
        table = pa.table(dict(zip(("time", "key", "row"), columns, strict=True)))
        packed = pack(plan(), PackColumns((pa.int64(),), (), row=2), table.to_batches(), origin)
        parts += [part for _, part in packed]
    random.Random(1).shuffle(parts)
    return row, parts


@pytest.mark.parametrize("part_bytes", [100, 1_000, 1 << 18])
def test_rows_are_in_order_after_the_exchange(monkeypatch, part_bytes):
    monkeypatch.setattr(payload, "PART_BYTES", part_bytes)
    rows, parts = pack_rows(1_000)
    assert max(len(part.body) for part in parts) <= part_bytes
    assert (len(parts) > 10) == (part_bytes <= 1_000)
    batch = gather(plan(), parts)
    assert batch.input_rows == 1_000
    rows_kept = pa.concat_tables(batch.of(KEPT))
    assert rows_kept["row 0"].to_pylist() == rows["key"].to_pylist()
    assert rows_kept["row 1"].to_pylist() == rows["value"].to_pylist()


def test_each_key_group_gets_its_own_rows():
    """The rows of the first group are a slice that begins at row 0. Before pyarrow 23, such a slice of structs became all
    rows.
    """
    rows = pa.table([pa.array(range(9)), pa.array(range(9, 18))], schema=ROWS)
    columns = {"time": pa.array(range(9)), "key": rows["key"], "row": rows.to_struct_array(), "group": pa.array([2, 0, 1] * 3)}
    parts = {}
    for group, part in pack(plan(3), PackColumns((pa.int64(),), (), row=2, group=3), pa.table(columns).to_batches()):
        parts.setdefault(group, []).append(part)
    rows_kept = [pa.concat_tables(gather(plan(3), parts[group]).of(KEPT)) for group in range(3)]
    assert [table["row 0"].to_pylist() for table in rows_kept] == [[1, 4, 7], [2, 5, 8], [0, 3, 6]]
    assert [table["row 1"].to_pylist() for table in rows_kept] == [[10, 13, 16], [11, 14, 17], [9, 12, 15]]


def test_many_rows_of_a_key_group_keep_their_order():
    """With few rows, even an unstable sort keeps their order."""
    numbers = pa.array(range(5_000))
    groups = np.random.default_rng(3).integers(0, 3, 5_000)
    rows = pa.table([numbers, numbers], schema=ROWS)
    columns = {"time": numbers, "key": numbers, "row": rows.to_struct_array(), "group": pa.array(groups)}
    parts = {}
    for group, part in pack(plan(3), PackColumns((pa.int64(),), (), row=2, group=3), pa.table(columns).to_batches()):
        parts.setdefault(group, []).append(part)
    for group in range(3):
        rows_kept = pa.concat_tables(gather(plan(3), parts[group]).of(KEPT))
        assert rows_kept["row 0"].to_pylist() == np.flatnonzero(groups == group).tolist()


def test_rows_before_the_start_are_skipped_and_counted_as_history():
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
def test_latest_of_several_processing_times_is_used(monkeypatch, chunk_rows, clocks, latest):
    monkeypatch.setattr(packing, "CHUNK_ROWS", chunk_rows)
    numbers = pa.array(range(4))
    rows = pa.table([numbers, numbers], schema=ROWS)
    columns = {"time": numbers, "key": numbers, "row": rows.to_struct_array(), "clock": pa.array(clocks, pa.int64())}
    batches = pa.table(columns).to_batches(max_chunksize=2)
    parts = [part for _, part in pack(plan(), PackColumns((pa.int64(),), (), row=2, processing_time=3), batches)]
    assert gather(plan(), parts).batch_time == latest


def pack_report(origin: int, times: list[int], partition: str, clock: int, run: str, plan: WindowPlan) -> list[PayloadPart]:
    """Return the parts that a source partition sends for rows of one key. An event time of -1 means that it is unusable."""
    rows = pa.table([pa.array([origin] * len(times)), pa.array(times)], schema=ROWS)
    columns = {
        "time": pa.array([None if time < 0 else time for time in times], pa.int64()),
        "key": rows["key"],
        "row": rows.to_struct_array(),
        "partition": pa.array([partition] * len(times)),
        "clock": pa.array([clock] * len(times)),
    }
    columns_ = PackColumns((pa.int64(),), (), partition=3, row=2, processing_time=4)
    return [part for _, part in pack(plan, columns_, pa.table(columns).to_batches(), origin, run)]


@pytest.mark.parametrize("reversed_order", [False, True])
def test_reports_of_source_partitions_are_combined_in_any_order(reversed_order):
    recipe = replace(plan(), invalid_tag="invalid", since=3)
    reports = [([9, 2, -1], "p", 70, "run 1"), ([4, 5, 3, 8], "q", 60, "run 2"), ([6], "p", 50, "")]
    reports = reports[::-1] if reversed_order else reports
    parts = [part for origin, report in enumerate(reports) for part in pack_report(origin, *report, recipe)]
    parts += cut(payload.encode(pa.table({}), {"kind": END}), 9, 0)
    random.Random(2).shuffle(parts)
    batch = gather(recipe, parts, end_of_input=reversed_order)
    assert (batch.seen, batch.watermarks) == ({"p": 9, "q": 8}, {})
    assert (batch.input_rows, batch.invalid_rows, batch.history_rows) == (7, 1, 1)
    assert (batch.batch_time, batch.run, batch.planned_in) == (70, "run 2", "")
    assert (batch.end_of_available, batch.end_of_input) == (True, reversed_order)
    assert [table.to_pylist() for table in batch.invalid] == [[{"key": 2 if reversed_order else 0, "value": -1}]]
    # Each part is stored with the number of its source partition.
    assert batch.origins == {KEPT: [0, 1, 2]}
    rows_kept = [[6], [4, 5, 3, 8], [9]]
    assert [table["row 1"].to_pylist() for table in batch.of(KEPT)] == (rows_kept if reversed_order else rows_kept[::-1])


def test_gathering_no_parts_gives_an_empty_batch():
    batch = gather(plan(), [])
    assert (batch.parts, batch.origins, batch.invalid, batch.seen, batch.watermarks) == ({}, {}, [], {}, {})
    assert (batch.input_rows, batch.batch_time, batch.run, batch.end_of_input, batch.end_of_available) == (0, 0, "", False, False)


def test_two_key_groups_get_separate_rows():
    rows = pa.table([pa.array(range(4)), pa.array(range(4))], schema=ROWS)
    columns = {"time": pa.array(range(4)), "key": rows["key"], "row": rows.to_struct_array(), "group": pa.array([1, 0, 1, 0])}
    parts = {}
    for group, part in pack(plan(2), PackColumns((pa.int64(),), (), row=2, group=3), pa.table(columns).to_batches()):
        parts.setdefault(group, []).append(part)
    rows_kept = [pa.concat_tables(gather(plan(2), parts[group]).of(KEPT)) for group in range(2)]
    assert [table["row 0"].to_pylist() for table in rows_kept] == [[1, 3], [0, 2]]


@pytest.mark.parametrize(("most_rows", "most_bytes"), [(4, 1 << 40), (1 << 40, 4 * 8), (4, 4 * 8)])
def test_small_batches_are_collected_until_rows_or_bytes_reach_a_limit(monkeypatch, most_rows, most_bytes):
    monkeypatch.setattr(packing, "CHUNK_ROWS", most_rows)
    monkeypatch.setattr(packing, "CHUNK_BYTES", most_bytes)
    batches = [pa.record_batch({"x": pa.array(range(rows), pa.int64())}) for rows in (2, 0, 2, 1, 3, 5, 1)]
    chunks = list(packing._chunks(iter(batches)))
    assert [chunk["x"].to_pylist() for chunk in chunks] == [[0, 1, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3, 4], [0]]
    assert all(chunk["x"].num_chunks == 1 for chunk in chunks)


def test_missing_last_part_is_an_error(monkeypatch):
    monkeypatch.setattr(payload, "PART_BYTES", 200)
    _, parts = pack_rows(1_000)
    last = max(parts, key=lambda part: part[:2])
    with pytest.raises(RuntimeError, match="lacks its last part"):
        gather(plan(), [part for part in parts if part is not last])


@pytest.mark.parametrize("part_bytes", [200, payload.PART_BYTES])
def test_duplicate_part_is_an_error(monkeypatch, part_bytes):
    monkeypatch.setattr(payload, "PART_BYTES", part_bytes)
    _, parts = pack_rows(1_000)
    for part in parts:
        with pytest.raises(RuntimeError, match="twice"):
            gather(plan(), [*parts, part])


def test_missing_part_in_the_middle_is_an_error():
    """Otherwise Arrow would read the next payload as the rest of the incomplete one."""
    parts = [PayloadPart(0, 1, 2, b"a"), PayloadPart(0, 2, 1, b"b"), PayloadPart(0, 3, 0, b"c"), PayloadPart(1, 1, 0, b"d")]
    assert list(payload.joined(reversed(parts))) == [(0, b"abc"), (1, b"d")]
    for lost in (1, 2):
        with pytest.raises(RuntimeError, match="source partition 0 lacks a part"):
            list(payload.joined(parts[:lost] + parts[lost + 1 :]))
