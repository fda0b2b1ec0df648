"""Accumulating panes against the row operator: functions over rows, in each of their shapes."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.rule import why_not_rows
from panestream.engine.operators.accumulating.spec import AccumulatingSpec
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, OverRows, TablePerWindow
from panestream.engine.operators.row.row_plan import Elements
from panestream.engine.plan import WindowPlan
from panestream.engine.planner import calling, over_tables
from panestream.engine.window_spec import WindowSpec
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from panestream.windowing.functions import WindowFunctionError, applied
from tests.comparison import harness
from tests.comparison.test_panes_random import random_assigner

CHUNKS = 4
RESULTS = pa.schema([("n", pa.int64()), ("vs", pa.list_(pa.int64())), ("edge", pa.int64())])


def listed(key, window, rows):
    return [(len(rows), [row.v for row in rows], window.start)]


def as_table(key, window, table):
    return pa.table(
        {"edge": [window.start], "n": [table.num_rows], "vs": pa.array([table["v"].to_pylist()], pa.list_(pa.int64()))}
    )


def all_at_once(table):
    edge = table["window_start"].cast(pa.int64())
    table = table.append_column("edge", edge).append_column("null", pa.compute.is_null(table["key"]))
    grouped = table.group_by(["key", "window_start", "window_end", "edge"], use_threads=False).aggregate(
        [("v", "list"), ("ts", "count")]
    )
    return grouped.rename_columns({"v_list": "vs", "ts_count": "n"})


@pytest.fixture(scope="module")
def shapes():
    return {"arrow": TablePerWindow(as_table), "all": AllWindows(all_at_once)}


def plans(windowing: WindowSpec, shape: str, late: bool, delay: int) -> tuple[WindowPlan, WindowPlan]:
    """The plan of the row operator, and that of the panes."""
    function = Elements(applied(listed))
    row = calling(replace(windowing, exact_firings=True), function, RESULTS, harness.ROWS, listed, harness.KEYS)
    if shape == "rows":
        panes = calling(windowing, function, RESULTS, harness.ROWS, listed, harness.KEYS)
    else:
        over: OverRows = TablePerWindow(as_table) if shape == "arrow" else AllWindows(all_at_once)
        panes = over_tables(windowing, over, RESULTS, harness.ROWS, harness.KEYS)
    assert isinstance(panes, AccumulatingSpec)
    return harness.plan_for(row, windowing, delay, late=late), harness.plan_for(panes, windowing, delay, late=late)


def case(rng: random.Random, seed: int) -> None:
    assigner, span = random_assigner(rng, by_processing_time=False)
    lateness = rng.choice([0, 0, 1, span])
    evictors = [
        None,
        None,
        CountEvictor(rng.randint(1, 4), rng.random() < 0.2),
        TimeEvictor(rng.randint(1, span), rng.random() < 0.2),
    ]
    windowing = WindowSpec(assigner, evictor=None if lateness else rng.choice(evictors), allowed_lateness=lateness)
    assert not why_not_rows(windowing)
    batches = harness.random_stream(rng, span)
    row, panes = plans(windowing, rng.choice(["rows", "arrow", "all"]), rng.random() < 0.5, rng.choice([0, 0, 3, span]))
    for number, (theirs, ours) in enumerate(zip(harness.run(row, batches), harness.run(panes, batches), strict=True)):
        wrong = harness.difference(harness.coalesced(theirs.fired), harness.once(ours.fired))
        assert wrong is None, f"seed {seed}: micro-batch {number}: {wrong}\n{windowing}\n{batches[: number + 1]}"
        assert (theirs.late, theirs.metrics.late_rows) == (ours.late, ours.metrics.late_rows), f"seed {seed}: late rows"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_panes_of_rows_are_what_the_row_operator_does(chunk):
    harness.run_cases(80, chunk, CHUNKS, case)


def test_evictors_that_need_the_row_operator():
    windows = SlidingEventTimeWindows(100, 10)
    assert "stays removed" in why_not_rows(WindowSpec(windows, evictor=CountEvictor(3), allowed_lateness=1))[0]
    for evictor in (CountEvictor(0), TimeEvictor(0), DeltaEvictor(1, lambda old, new: 0.0)):
        assert "single rows" in why_not_rows(WindowSpec(windows, evictor=evictor))[0]


def test_each_row_rests_once_however_many_windows_overlap():
    stored = []
    for slide in (100, 1):
        _, plan = plans(WindowSpec(SlidingEventTimeWindows(100, slide)), "arrow", False, 0)
        rows = [("a", time, time, None, time) for time in range(90)]
        stored.append(harness.run(plan, [harness.MicroBatch([rows])])[0].metrics.state_bytes)
    assert stored[1] < stored[0] * 1.2


def test_an_error_of_the_users_names_key_and_window():
    def broken(key, window, table):
        raise KeyError("prize")

    windowing = WindowSpec(TumblingEventTimeWindows(10))
    operator = over_tables(windowing, TablePerWindow(broken), RESULTS, harness.ROWS, harness.KEYS)
    rows = [("ann", 1, 1, None, 1), ("ann", 12, 1, None, 2)]
    with pytest.raises(WindowFunctionError, match=r"KeyError: 'prize' \(at key 'ann', window TimeWindow\(start=0, end=10\)"):
        harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])


def test_a_missing_column_is_named():
    windowing = WindowSpec(TumblingEventTimeWindows(10))
    operator = over_tables(windowing, TablePerWindow(lambda key, window, table: table), RESULTS, harness.ROWS, harness.KEYS)
    rows = [("ann", 1, 1, None, 1), ("ann", 12, 1, None, 2)]
    with pytest.raises(InvalidPlanError, match="no column"):
        harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])


def test_sessions_hand_tables_to_the_function_too_but_not_all_at_once():
    windowing = WindowSpec(EventTimeSessionWindows(5))
    operator = over_tables(windowing, TablePerWindow(as_table), RESULTS, harness.ROWS, harness.KEYS)
    rows = [("ann", 1, 1, None, 1), ("ann", 3, 2, None, 1), ("ann", 20, 1, None, 2)]
    (emitted,) = harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])
    assert emitted.fired == [(("ann", 1, 8), (2, [1, 2], 1))]
    with pytest.raises(InvalidPlanError, match="all_windows=True"):
        over_tables(windowing, AllWindows(all_at_once), RESULTS, harness.ROWS, harness.KEYS)
