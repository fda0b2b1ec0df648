"""Limits for the memory of a worker: the largest stored value, the rows that are read at once, and the errors beyond a limit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from panestream.engine.exchange.group_run import run_batch, run_micro_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.accumulating import operator as accumulating
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, PerWindow
from panestream.engine.operators.row import state as row_state
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions, plan_table_function
from panestream.engine.storage import blocks, sealed_state
from panestream.engine.storage.state import MOST_BYTES, MemoryState
from panestream.errors import MemoryLimitError
from panestream.windowing.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import WindowFunction
from panestream.windowing.watermarks import WatermarkStrategy

SECOND = 1_000_000
KEYS = pa.schema([("key", pa.string())])
ROWS = pa.schema([("key", pa.string()), ("text", pa.string())])
RESULT = pa.schema([("n", pa.int64()), ("size", pa.int64())])


class SizesOfWindow(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> list[tuple[int, int]]:
        return [(len(inputs), sum(len(row.text) for row in inputs))]


def sizes_of_windows(rows: pa.Table) -> pa.Table:
    sizes = pc.binary_length(rows["text"])
    counted = rows.append_column("size", sizes).group_by(["key", "window_start", "window_end"], use_threads=False)
    return counted.aggregate([([], "count_all"), ("size", "sum")]).rename_columns({"count_all": "n", "size_sum": "size"})


def plan_of(kind: str, most: int = MOST_BYTES) -> WindowPlan:
    windows = WindowQuery(
        TumblingEventTimeWindows(10 * SECOND) if kind in ("tables", "rows") else EventTimeSessionWindows(SECOND)
    )
    if kind == "evicted sessions":
        windows = replace(windows, evictor=CountEvictor(3))
    if kind == "tables":
        operator = plan_table_function(windows, AllWindows(sizes_of_windows), RESULT, ROWS, KEYS)
    else:
        operator = plan_functions(windows, KeepRows(SizesOfWindow()), RESULT, ROWS, "sizes_of_windows", KEYS)
    assert operator.name == ("accumulating panes" if kind in ("tables", "rows") else "row operator")
    return WindowPlan(("key",), KEYS, windows.assigner, operator, WatermarkStrategy(0), "ts", 1, row_schema=ROWS, most_bytes=most)


def run(plan: WindowPlan, state: Any, times: Any, size: int, keys: Any = None) -> list[tuple[Any, ...]]:
    """Run a micro-batch of rows with texts of a size. Return the results as tuples."""
    texts = pa.array([f"{number:06d}" + "x" * (size - 6) for number in range(len(times))], pa.string())
    names = pa.array(keys or ["hot"] * len(times), pa.string())
    whole = pa.StructArray.from_arrays([names, texts], fields=list(ROWS))
    values = [names, texts] if plan.operator.inputs else []
    arrays = [pa.array(np.asarray(times, np.int64)), names, *values, whole]
    columns = PackColumns((pa.string(),), tuple(value.type for value in values), row=len(arrays) - 1)
    batch = pa.RecordBatch.from_arrays(arrays, list(map(str, range(len(arrays)))))
    output = run_micro_batch(plan, state, 0, [part for _, part in pack(plan, columns, [batch])])
    return [tuple(row[name] for name in ("key", "n", "size")) for _, table in output.tables for row in table.to_pylist()]


def largest(state: MemoryState) -> int:
    return max(map(len, state.values.values()))


@pytest.mark.parametrize("kind", ["tables", "rows"])
def test_rows_of_one_pane_are_stored_in_order_in_blocks_of_limited_size(monkeypatch, kind):
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 50_000)
    monkeypatch.setattr(blocks, "_MERGED_BYTES", 200_000)
    plan, state = plan_of(kind), MemoryState()
    for number in range(12):
        assert run(plan, state, [number] * 100, 2_000) == []
        # A block has this many bytes of rows, and some hundred bytes of overhead.
        assert largest(state) < 60_000
    # A row that is larger than a block gets its own block.
    assert run(plan, state, [20], 70_000) == []
    assert 70_000 < largest(state) < 80_000
    assert run(plan, state, [11 * SECOND], 10) == [("hot", 1201, 1200 * 2_000 + 70_000)]


@pytest.mark.parametrize(
    ("limit", "cuts"),
    [
        (10_000, [(0, 4), (4, 6)]),
        (600, [(0, 4), (4, 6)]),
        (599, [(0, 4), (4, 6)]),
        (300, [(0, 3), (3, 4), (4, 6)]),
        (250, [(0, 2), (2, 4), (4, 6)]),
        (1, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]),
    ],
)
def test_block_has_as_many_rows_as_fit_and_at_least_one(monkeypatch, limit, cuts):
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", limit)
    # Each row has an integer of 8 bytes, a text of 88 bytes and an offset of 4 bytes.
    table = pa.table({"pane": pa.array(range(6), pa.int64()), "text": pa.array(["x" * 88] * 6)})
    assert table.nbytes == 600
    assert list(blocks._by_bytes(table, [(0, 4), (4, 6)])) == cuts


def test_rows_of_a_pane_keep_their_order_when_blocks_are_merged(monkeypatch):
    """Blocks are merged and cut again in between. The function must see the order of arrival."""
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 5_000)
    texts: list[str] = []

    class Kept(WindowFunction):
        def apply(self, key: Any, window: Any, inputs: Any) -> list[tuple[int, int]]:
            texts.extend(row.text for row in inputs)
            return [(len(inputs), 0)]

    windows = WindowQuery(TumblingEventTimeWindows(10 * SECOND))
    plan, state = (
        replace(plan_of("rows"), operator=plan_functions(windows, KeepRows(Kept()), RESULT, ROWS, "kept", KEYS)),
        MemoryState(),
    )
    for number in range(20):
        # Texts begin with their number in the micro-batch. Their length shows the micro-batch.
        run(plan, state, [number] * 30, 300 + number)
    run(plan, state, [11 * SECOND], 10)
    assert [(len(text) - 300, int(text[:6])) for text in texts] == [(batch, row) for batch in range(20) for row in range(30)]


@pytest.mark.parametrize(("of", "most"), [("_BYTES_AT_ONCE", 100_000), ("_AT_ONCE", 8)], ids=["bytes", "rows"])
def test_windows_that_fire_together_are_read_in_portions(monkeypatch, of, most):
    monkeypatch.setattr(accumulating, of, most)
    calls = []

    def record_and_count(rows: pa.Table) -> pa.Table:
        calls.append(rows.nbytes)
        return sizes_of_windows(rows)

    windows = WindowQuery(TumblingEventTimeWindows(10 * SECOND))
    plan = replace(plan_of("tables"), operator=plan_table_function(windows, AllWindows(record_and_count), RESULT, ROWS, KEYS))
    state = MemoryState()
    times = [number * 10 * SECOND for number in range(8)]
    results = run(plan, state, [*times, 100 * SECOND], 20_000)
    assert (len(results), len(calls)) == (8, 8)
    assert max(calls) < 25_000


@pytest.mark.parametrize("kind", ["tables", "rows", "sessions", "evicted sessions"])
def test_error_names_the_window_beyond_the_memory_limit(kind):
    plan, state = plan_of(kind, 1_000_000), MemoryState()
    for number in range(12):
        keys = ["hot"] * 90 + ["cold"] * 10
        assert run(plan, state, [number * 1000] * 100, 2_000, keys) == []
    before = dict(state.values)
    name = r"window TimeWindow\(start=0, end=\d+\) is too large for a function over its rows: 2\.\d\d MiB"
    with pytest.raises(MemoryLimitError, match=rf"{name} .* the key 'hot' has 1,080 rows; the limit is 1,000,000 bytes"):
        run(plan, state, [30 * SECOND], 10)
    # Spark commits nothing of this micro-batch, and the query continues with a larger limit.
    state = MemoryState()
    state.values.update(before)
    results = run(replace(plan, most_bytes=1 << 30), state, [30 * SECOND], 10)
    hot = (3, 6_000) if kind == "evicted sessions" else (1080, 1080 * 2_000)
    assert ("hot", *hot) in results


def test_windows_that_exceed_the_limit_only_together_are_read_one_by_one():
    plan, state = replace(plan_of("tables", 1_000_000), watermark=WatermarkStrategy(60 * SECOND)), MemoryState()
    for number in range(6):
        assert run(plan, state, [number % 3 * 10 * SECOND] * 150, 2_000, ["hot"] * 100 + ["cold"] * 50) == []
    results = run(plan, state, [100 * SECOND], 10)
    assert sorted(results) == [("cold", 100, 200_000)] * 3 + [("hot", 200, 400_000)] * 3


def test_memory_limit_counts_stored_and_new_rows():
    plan, state = plan_of("tables", 1_000_000), MemoryState()
    assert run(plan, state, [5] * 300, 2_000) == []
    name = r"TimeWindow\(start=0, end=10000000\) is too large .*: 1\.\d\d MiB"
    with pytest.raises(MemoryLimitError, match=rf"{name} .* the key 'hot' has 600 rows; the limit is 1,000,000 bytes"):
        run(plan, state, [5] * 300 + [11 * SECOND], 2_000)


def test_error_names_the_oversized_one_of_several_windows():
    """To the byte: the window fits if the limit is the number of bytes read, and fails if it is one less."""
    plan, state = replace(plan_of("tables", 1_000_000), watermark=WatermarkStrategy(60 * SECOND)), MemoryState()
    for number in range(3):
        run(plan, state, [number * 10 * SECOND] * 100, 1_000)
    run(plan, state, [10 * SECOND] * 30, 1_000, ["cold"] * 10 + ["hot"] * 20)
    before = dict(state.values)
    with pytest.raises(MemoryLimitError) as raised:
        run(replace(plan, most_bytes=120_000), state, [100 * SECOND], 10)
    (size,) = re.findall(r": ([\d,]+) bytes would", str(raised.value))
    bounds = f"TimeWindow(start={10 * SECOND}, end={20 * SECOND})"
    assert str(raised.value).startswith(f"the window {bounds} is too large for a function over its rows: {size} bytes would be ")
    assert "of which the key 'hot' has 120 rows; the limit is 120,000 bytes. " in str(raised.value)
    least = int(size.replace(",", ""))
    with pytest.raises(MemoryLimitError, match=f": {size} bytes would .* the limit is {least - 1:,} bytes"):
        run(replace(plan, most_bytes=least - 1), MemoryState(dict(before)), [100 * SECOND], 10)
    results = run(replace(plan, most_bytes=least), MemoryState(dict(before)), [100 * SECOND], 10)
    assert results == [("hot", 100, 100_000), ("cold", 10, 10_000), ("hot", 120, 120_000), ("hot", 100, 100_000)]


@pytest.mark.parametrize("kind", ["tables", "sessions"])
def test_micro_batch_beyond_the_memory_limit_is_refused_before_it_is_joined(kind):
    plan = plan_of(kind, 1_000_000)
    with pytest.raises(
        MemoryLimitError,
        match=r"key group 0 has more than 1,000,000 bytes of rows in one micro-batch\. Read less .*maxFilesPerTrigger.*memory_limit=bytes",
    ):
        run(plan, MemoryState(), [0] * 700, 2_000)
    assert run(plan, MemoryState(), [0] * 300, 2_000) == []


def test_batch_has_only_an_explicit_memory_limit():
    """All rows of a key group come at once in a batch. A default limit would refuse batches that run today."""
    times = [0] * 700
    texts = pa.array(["x" * 2_000] * len(times), pa.string())
    names = pa.array(["hot"] * len(times), pa.string())
    whole = pa.StructArray.from_arrays([names, texts], fields=list(ROWS))
    batch = pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), names, whole], ["0", "1", "2"])
    plan = plan_of("tables", 1_000_000)
    parts = [part for _, part in pack(plan, PackColumns((pa.string(),), (), row=2), [batch])]
    with pytest.raises(
        MemoryLimitError, match=r"key group 3 has more than 1,000,000 bytes of rows in this batch\. Take more key"
    ):
        run_batch(replace(plan, batch_bytes=1_000_000), 3, parts)
    roomy = replace(plan, most_bytes=MOST_BYTES)
    for limit in (None, 2_000_000):
        assert run_batch(replace(roomy, batch_bytes=limit), 3, parts).metrics.fired_rows == 1


def test_large_chunks_of_elements_are_not_merged(monkeypatch):
    monkeypatch.setattr(row_state, "_LARGE_BYTES", 100_000)
    plan, state = plan_of("sessions"), MemoryState()
    for number in range(100):
        run(plan, state, [number * 1000] * 100, 2_000)
        # A chunk has the elements of one micro-batch. Merged chunks would be thirty times as large.
        assert largest(state) < 250_000
    assert run(plan, state, [30 * SECOND], 10) == [("hot", 10_000, 10_000 * 2_000)]


def test_error_names_a_value_too_large_for_the_state_store(monkeypatch):
    monkeypatch.setattr(sealed_state, "STORED_BYTES", 100_000)
    with pytest.raises(
        MemoryLimitError,
        match=r"value 0 of 'elements' in the state of key group 0 \(row operator\) would be .* [Rr]ead less at a time",
    ):
        run(plan_of("sessions"), MemoryState(), [0] * 100, 2_000)


def test_memory_limit_is_not_part_of_the_identity():
    assert plan_of("rows", 5_000_000).identity() == plan_of("rows").identity()
    assert PerWindow(SizesOfWindow()).described
