"""Reducing rows before they are split by key group gives the partials of splitting them first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.panes.arriving import PARTIALS
from panestream.engine.plan import Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from panestream.windowing.triggers import ContinuousEventTimeTrigger
from panestream.windowing.watermarks import WatermarkStrategy
from tests.costs import random_cases

KEYS = pa.schema([("user", pa.string()), ("shop", pa.int64())])
AGGREGATES = (
    agg.sum("v").alias("total"),
    agg.sum("x").alias("x"),
    agg.count().alias("n"),
    agg.first("v").alias("first"),
    agg.last("x").alias("last"),
    agg.max("v").alias("most"),
    agg.collect_list("v").alias("all"),
    agg.count_distinct("v").alias("kinds"),
)
TYPES = {"v": pa.int64(), "x": pa.float64()}
TUMBLING = TumblingEventTimeWindows.of("7 seconds")


def plan_of(windows: WindowQuery, **options) -> WindowPlan:
    operator = plan_aggregates(windows, AGGREGATES, TYPES, KEYS)
    return WindowPlan(KEYS.names, KEYS, windows.assigner, operator, WatermarkStrategy(0), "ts", 5, **options)


def random_chunk(rng: np.random.Generator, plan: WindowPlan) -> tuple[Chunk, np.ndarray]:
    """Return rows with nulls in keys and values, and the key group of each row."""
    rows = int(rng.integers(1, 200))
    users, shops = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    keys = [pa.array([None if user == 0 else f"u{user}" for user in users.tolist()]), pa.array(shops)]
    numbers = pa.array(rng.integers(-5, 5, rows), mask=rng.random(rows) < 0.1)
    values = {"v": numbers, "x": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.1)}
    times = rng.integers(-40_000_000, 40_000_000, rows)
    chunk = Chunk(times, keys, [values[name] for name in plan.operator.inputs])
    return chunk, (users * 7 + shops) % plan.groups


def results_of(plan: WindowPlan, table: pa.Table) -> list[tuple[object, ...]]:
    """Return the results of each pane and key. Partials may have several forms for one result."""
    panes = np.unique(table["pane"].to_numpy())
    windows, results = plan.operator.aggregation.windows(table, panes, panes + 1)
    rows = zip(panes[windows].tolist(), *(column.to_pylist() for column in results.columns), strict=True)
    return sorted(rows, key=repr)


def split_first(plan: WindowPlan, chunk: Chunk, key_groups: np.ndarray) -> dict[int, pa.Table]:
    parts = {}
    for number in np.unique(key_groups).tolist():
        mine = key_groups == number
        keep = pa.array(mine)
        own = Chunk(chunk.times[mine], [key.filter(keep) for key in chunk.keys], [value.filter(keep) for value in chunk.values])
        [(kind, table)] = plan.operator.pack(plan, own)
        assert kind == PARTIALS
        parts[number] = table
    return parts


@pytest.mark.parametrize(
    "assigner",
    [TUMBLING, SlidingEventTimeWindows.of("10 seconds", "4 seconds"), TumblingProcessingTimeWindows.of("5 seconds")],
)
def test_key_groups_packed_in_one_pass_get_the_partials_of_rows_split_first(assigner: WindowAssigner) -> None:
    plan = plan_of(WindowQuery(assigner))
    rng = np.random.default_rng(20261128)
    for _ in range(random_cases(300)):
        chunk, key_groups = random_chunk(rng, plan)
        parts = plan.operator.pack_key_groups(plan, chunk, key_groups)
        assert parts is not None
        assert {kind for _, kind, _ in parts} == {PARTIALS}
        expected = split_first(plan, chunk, key_groups)
        assert [number for number, _, _ in parts] == sorted(expected)
        for number, _, table in parts:
            assert table.schema == plan.operator.part_schema(plan, PARTIALS)
            assert results_of(plan, table) == results_of(plan, expected[number])


def test_rows_that_must_cross_the_exchange_are_split_first() -> None:
    late = plan_of(WindowQuery(TUMBLING), late_tag="late", row_schema=pa.schema([("v", pa.int64())]))
    early = plan_of(WindowQuery(TUMBLING, ContinuousEventTimeTrigger.of("2 seconds")))
    gaps = plan_of(WindowQuery(SlidingEventTimeWindows.of("2 seconds", "5 seconds")))
    for plan in (late, early, gaps):
        chunk, key_groups = random_chunk(np.random.default_rng(1), plan)
        assert plan.operator.pack_key_groups(plan, chunk, key_groups) is None


def test_rows_of_a_key_in_several_key_groups_are_split_first() -> None:
    """The distinct values of a key are split over key groups: a value must not move to the key group of another."""
    plan = plan_of(WindowQuery(TUMBLING))
    rng = np.random.default_rng(2)
    for _ in range(random_cases(100)):
        chunk, key_groups = random_chunk(rng, plan)
        first_key = np.array([user is None for user in chunk.keys[0].to_pylist()])
        key_groups = np.where(first_key, np.arange(len(key_groups)) % plan.groups, key_groups)
        parts = plan.operator.pack_key_groups(plan, chunk, key_groups)
        expected = split_first(plan, chunk, key_groups)
        if parts is not None:
            assert {number: results_of(plan, table) for number, _, table in parts} == {
                number: results_of(plan, table) for number, table in expected.items()
            }
    chunk, _ = random_chunk(rng, plan)
    assert plan.operator.pack_key_groups(plan, chunk, np.arange(len(chunk.times)) % plan.groups) is None
