"""The row operator on columns, with keys of any type and over several micro-batches."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import KeepRows, ReduceRows
from panestream.engine.plan import Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.functions import WindowFunction
from panestream.windowing.triggers import ContinuousProcessingTimeTrigger, CountTrigger, ProcessingTimeoutTrigger
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness

KEYS = {
    "long": (pa.int64(), [1, 2, None]),
    "double": (pa.float64(), [0.0, 1.5, float("inf")]),
    "string": (pa.string(), ["a", "", None]),
    "binary": (pa.binary(), [b"a", b"", None]),
    "decimal": (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("1.51"), None]),
    "date": (pa.date32(), [dt.date(2026, 1, 1), dt.date(1900, 1, 1), None]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), None, dt.datetime.max.replace(tzinfo=dt.timezone.utc)],
    ),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": 1, "b": None}, None]),
    "array": (pa.list_(pa.string()), [["x", "y"], [], ["y", "x"]]),
}


def plan_of(key_type):
    rows = pa.schema([("value", pa.int64())])
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    function = ReduceRows(lambda a, b: a.replace(value=a.value + b.value))
    return WindowPlan(
        keys=("key",),
        key_schema=pa.schema([("key", key_type)]),
        assigner=windowing.assigner,
        operator=plan_functions(windowing, function, pa.schema([("value", pa.int64())]), rows, "sum"),
        watermark=WatermarkStrategy.for_monotonous_timestamps(),
        event_time="at",
        groups=1,
        row_schema=rows,
    )


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type_are_unchanged_after_state(name):
    key_type, keys = KEYS[name]
    plan, state, results = plan_of(key_type), MemoryState(), []
    for batch, newest_time in enumerate((3, 5, 100)):
        rows = pa.table({"value": pa.array([1, 10, 100], pa.int64())})
        chunk = Chunk(np.array([batch] * 3, np.int64), [pa.array(keys, key_type)], [], rows)
        parts = {kind: [table] for kind, table in plan.operator.pack(plan, chunk)} if batch < 2 else {}
        output = plan.operator.for_group(plan, state, 0).process(GroupInput(parts, seen={"": newest_time}))
        results += [row for _, table in output.tables for row in table.to_pylist()]
    assert sorted((row["value"], repr(row["key"])) for row in results) == [
        (total, repr(pa.array([key], key_type).to_pylist()[0])) for total, key in zip((2, 20, 200), keys, strict=True)
    ]


@pytest.mark.parametrize(("origins", "order"), [([0, 1], [1, 2, 4, 5, 3]), ([0, 0], [1, 5, 3, 2, 4]), ([], [1, 5, 3, 2, 4])])
def test_rows_of_source_partitions_are_interleaved_by_event_time(origins, order):
    rows = pa.schema([("value", pa.int64())])
    windowing = WindowQuery(EventTimeSessionWindows(5))
    plan = replace(plan_of(pa.int64()), assigner=windowing.assigner)
    plan = replace(
        plan, operator=plan_functions(windowing, KeepRows(AsText()), pa.schema([("value", pa.string())]), rows, "values")
    )
    parts = []
    for numbers in ([1, 5, 3], [2, 4]):
        table = pa.table({"value": pa.array(numbers, pa.int64())})
        chunk = Chunk(np.array(numbers, np.int64), [pa.array([7] * len(numbers))], [], table)
        parts += [table for _, table in plan.operator.pack(plan, chunk)]
    batch = GroupInput({"inputs": parts}, {"inputs": origins} if origins else {}, end_of_input=True)
    ((_, fired),) = plan.operator.for_group(plan, MemoryState(), 0).process(batch).tables
    assert fired.column("value").to_pylist() == [str(order)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((([8, 7, 7], [30, 1, 9]), ([7, 8], [4, 2])), ["[1, 4, 9]", "[2, 30]"]),
        ((([7, 8, 8], [30, 1, 9]), ([8], [4])), ["[1, 4, 9]", "[30]"]),
    ],
)
def test_rows_are_interleaved_by_event_time_for_each_key_alone(parts, expected):
    rows = pa.schema([("value", pa.int64())])
    windowing = WindowQuery(EventTimeSessionWindows(50))
    plan = replace(plan_of(pa.int64()), assigner=windowing.assigner)
    plan = replace(
        plan, operator=plan_functions(windowing, KeepRows(AsText()), pa.schema([("value", pa.string())]), rows, "values")
    )
    tables = []
    for keys, numbers in parts:
        chunk = Chunk(np.array(numbers, np.int64), [pa.array(keys)], [], pa.table({"value": pa.array(numbers, pa.int64())}))
        tables += [table for _, table in plan.operator.pack(plan, chunk)]
    batch = GroupInput({"inputs": tables}, {"inputs": [0, 1]}, end_of_input=True)
    ((_, fired),) = plan.operator.for_group(plan, MemoryState(), 0).process(batch).tables
    # If the 30 of the other key counted, 1 and 9 would come after 4.
    assert sorted(fired.column("value").to_pylist()) == expected


class AsText(WindowFunction):
    def apply(self, key, window, inputs):
        return [str([row.value for row in inputs])]


def test_elements_of_several_parts_and_batches_are_stored_with_their_values():
    rows = pa.schema([("value", pa.int64()), ("name", pa.string())])
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    plan = replace(plan_of(pa.int64()), row_schema=rows)
    plan = replace(
        plan, operator=plan_functions(windowing, KeepRows(AsText()), pa.schema([("value", pa.string())]), rows, "values")
    )
    state, results = MemoryState(), []

    def batch(parts, newest_time):
        tables = []
        for times in parts:
            table = pa.table({"value": pa.array(times, pa.int64()), "name": pa.array([str(time) for time in times])})
            chunk = Chunk(np.array(times, np.int64), [pa.array([7] * len(times))], [], table)
            tables += [part for _, part in plan.operator.pack(plan, chunk)]
        output = plan.operator.for_group(plan, state, 0).process(GroupInput({"inputs": tables}, seen={"": newest_time}))
        results.extend(row["value"] for _, table in output.tables for row in table.to_pylist())

    batch([[0, 1, 2, 3, 4], [10, 5, 6, 7, 8, 9, 11]], 9)
    # The first window had most of the stored elements. The others are rewritten together with the new ones.
    batch([[12], [13, 20]], 11)
    batch([[14]], 15)
    batch([[30]], 40)
    assert results == [str(list(range(10))), str([10, 11, 12, 13, 14]), "[20]", "[30]"]


def late_plan(key_schema):
    rows = pa.schema([("value", pa.int64())])
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    return WindowPlan(
        keys=tuple(key_schema.names),
        key_schema=key_schema,
        assigner=windowing.assigner,
        operator=plan_functions(windowing, KeepRows(Values()), pa.schema([("value", pa.int64())]), rows, "values"),
        watermark=WatermarkStrategy.for_monotonous_timestamps(),
        event_time="at",
        groups=1,
        late_tag="late",
        row_schema=rows,
    )


class Values(WindowFunction):
    """Emits the values in their order."""

    def apply(self, key, window, inputs):
        yield from (row.value for row in inputs)


@pytest.mark.parametrize("width", [0, 1, 2])
def test_processing_rows_key_by_key_keeps_their_order(width):
    """Rows of a key keep their order over several parts. Late rows of all keys keep their order too."""
    schema = pa.schema([(f"k{place}", pa.int64()) for place in range(width)])
    plan, state = late_plan(schema), MemoryState()
    rng = np.random.default_rng(7)

    def batch_of(first, times, newest_time):
        tables = []
        for part in np.array_split(np.arange(len(times)), 3):
            keys = [pa.array((first + part) * (place + 3) % 5) for place in range(width)]
            chunk = Chunk(times[part], keys, [], pa.table({"value": pa.array(first + part)}))
            tables += [table for _, table in plan.operator.pack(plan, chunk)]
        return plan.operator.for_group(plan, state, 0).process(
            GroupInput({"inputs": tables}, input_rows=len(times), seen={"": newest_time})
        )

    output = batch_of(0, rng.integers(0, 100, 60), 99)
    output = batch_of(60, rng.integers(0, 200, 60), 1_000)
    main, late = (
        pa.concat_tables([table for output_tag, table in output.tables if output_tag == tag]) for tag in ("main", "late")
    )
    values = late.column("value").to_pylist()
    assert len(values) > 10
    assert values == sorted(values)
    windows = {}
    for row in main.to_pylist():
        windows.setdefault((*(row[name] for name in schema.names), row["window_start"]), []).append(row["value"])
    assert sum(map(len, windows.values())) > 10
    assert all(of_window == sorted(of_window) for of_window in windows.values())


@pytest.mark.parametrize(
    ("windowing", "before", "at_the_end"),
    [
        (WindowQuery(TumblingProcessingTimeWindows(10)), [], [("a", 10, 20, 2), ("b", 10, 20, 1), ("a", 20, 30, 1)]),
        (
            WindowQuery(SlidingProcessingTimeWindows(10, 5)),
            [],
            # The clock ends the first two windows, the end of input ends the open ones.
            [("a", 10, 20, 2), ("b", 10, 20, 1), ("a", 15, 25, 3), ("b", 15, 25, 1), ("a", 20, 30, 1)],
        ),
        # The trigger fires event-time windows by the clock alone, and the clock has passed them when their rows come.
        (
            WindowQuery(TumblingEventTimeWindows(10), ContinuousProcessingTimeTrigger(50)),
            [("a", 0, 10, 1), ("b", 0, 10, 1)],
            [],
        ),
        (WindowQuery(GlobalWindows(), ProcessingTimeoutTrigger(CountTrigger(9), 30, False, True)), [], []),
    ],
    ids=["windows of the clock", "those that overlap", "a trigger by the clock", "the window without end"],
)
def test_open_processing_time_windows_fire_at_the_end_of_input(windowing, before, at_the_end):
    plan = harness.Query(windowing, (agg.count(),)).row()
    rows = [("a", 1, 1, None, 1), ("b", 2, 1, None, 2), ("a", 3, 1, None, 3)]
    emitted = harness.run(
        plan,
        [harness.MicroBatch([rows], clock=15), harness.MicroBatch([[("a", 4, 1, None, 4)]], clock=22, end=True)],
    )
    assert [[(*place, *values) for place, values in output.fired] for output in emitted] == [before, at_the_end]
    assert [output.metrics.firings for output in emitted] == [
        {"early": len(before)} if before else {},
        {"on_time": len(at_the_end)} if at_the_end else {},
    ]
