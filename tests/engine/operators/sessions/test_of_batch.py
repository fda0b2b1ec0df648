"""Sessions of a batch: no row can be late, so rows stay behind, and sessions are built before rows are split by key group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.exchange.group_run import bodies, gather, run_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.sessions.exchange import ROWS, SESSIONS
from panestream.engine.plan import MAIN, Chunk, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.storage import payload
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.watermarks import WatermarkStrategy
from tests.costs import random_cases

KEYS = pa.schema([("user", pa.string()), ("shop", pa.int64())])
TYPES = {"v": pa.int64(), "x": pa.float64(), "gap": pa.int64()}
AGGREGATES = (
    agg.sum("v").alias("total"),
    agg.count().alias("n"),
    agg.first("v").alias("first"),
    agg.last("x").alias("last"),
    agg.max("x").alias("most"),
    agg.collect_set("v").alias("all"),
)
ASSIGNERS = [
    EventTimeSessionWindows(10),
    EventTimeSessionWindows(GapColumn("gap")),
    LimitedEventTimeSessionWindows(10, 25),
    ProcessingTimeSessionWindows(10),
]
NEAR = EventTimeSessionWindows(10)


def plan_of(assigner=NEAR, **options) -> WindowPlan:
    windows = WindowQuery(assigner)
    operator = plan_aggregates(windows, AGGREGATES, TYPES, KEYS)
    return WindowPlan(KEYS.names, KEYS, assigner, operator, WatermarkStrategy(0), "ts", 5, **options)


def random_rows(rng: np.random.Generator, plan: WindowPlan) -> pa.Table:
    """Return rows in the layout of ``pack``, with nulls in keys and values. Their times are not in order."""
    rows = int(rng.integers(1, 120))
    users, shops = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    values = {
        "v": pa.array(rng.integers(-5, 5, rows), mask=rng.random(rows) < 0.1),
        "x": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.1),
        "gap": pa.array(rng.integers(1, 20, rows)),
    }
    columns = {"time": pa.array(rng.permutation(1000)[:rows]), "user": [None if user == 0 else f"u{user}" for user in users]}
    inputs = {name: values.get(name, values["gap"]) for name in plan.operator.inputs}
    columns |= {"shop": shops, **inputs, "group": (users * 7 + shops) % plan.groups}
    return pa.table(columns)


def parts_of(plan: WindowPlan, tasks: list[pa.Table], *, never_late: bool) -> list[list[payload.PayloadPart]]:
    """Return what each key group gets of the rows of some tasks."""
    inputs = tuple(TYPES.get(name, TYPES["gap"]) for name in plan.operator.inputs)
    columns = PackColumns(tuple(KEYS.types), inputs, group=3 + len(inputs), never_late=never_late)
    arrived: list[list[payload.PayloadPart]] = [[] for _ in range(plan.groups)]
    for origin, table in enumerate(tasks):
        for group, part in pack(plan, columns, table.combine_chunks().to_batches(), origin):
            arrived[group].append(part)
    return arrived


def results_of(plan: WindowPlan, arrived: list[list[payload.PayloadPart]]) -> list[list[str]]:
    """Return the emitted rows of each key group. Equal windows are in any order."""
    emitted = [
        [body for tag, body in bodies(run_batch(plan, group, parts)) if tag == MAIN] for group, parts in enumerate(arrived)
    ]
    tables = [[payload.decode(body, plan.main_schema)[0] for body in of_group] for of_group in emitted]
    return [sorted(repr(row) for table in of_group for row in table.to_pylist()) for of_group in tables]


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=lambda assigner: type(assigner).__name__)
def test_batch_gives_the_sessions_of_rows_that_may_be_late(assigner) -> None:
    plan = plan_of(assigner)
    rng = np.random.default_rng(20261129)
    for _ in range(random_cases(200)):
        tasks = [random_rows(rng, plan) for _ in range(int(rng.integers(1, 4)))]
        of_batch = parts_of(plan, tasks, never_late=True)
        assert results_of(plan, of_batch) == results_of(plan, parts_of(plan, tasks, never_late=False))
        kinds = {kind for parts in of_batch for kind in gather(plan, parts).parts}
        assert kinds == {SESSIONS}


def test_rows_cross_the_exchange_of_a_stream() -> None:
    plan = plan_of()
    arrived = parts_of(plan, [random_rows(np.random.default_rng(1), plan)], never_late=False)
    assert {kind for parts in arrived for kind in gather(plan, parts).parts} == {SESSIONS, ROWS}


def test_key_with_rows_in_several_key_groups_is_split_first() -> None:
    plan = plan_of()
    chunk = Chunk(
        np.array([0, 5]), [pa.array(["a", "a"]), pa.array([1, 1])], [pa.array([1, 2]), pa.array([0.5, 1.5])], None, True
    )
    assert plan.operator.pack_key_groups(plan, chunk, np.array([0, 1])) is None
    assert plan.operator.pack_key_groups(plan, chunk, np.array([1, 1])) is not None
