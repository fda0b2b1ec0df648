"""Compare accumulating panes with the row operator: functions over rows, in each of their shapes."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.operator import AccumulatingSpec, why_not_rows
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, OverRows, TablePerWindow
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.engine.planner import plan_functions, plan_table_function
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from panestream.windowing.functions import ProcessWindowFunction, WindowFunctionError, applied, processed
from tests.comparison import harness
from tests.comparison.test_panes_random import random_assigner

CHUNKS = 4
SHAPES = ["rows", "arrow", "all", "process"]
SIDE = {"seen": pa.schema([("watermark", pa.int64()), ("rows", pa.int64())])}
RESULTS = pa.schema([("n", pa.int64()), ("vs", pa.list_(pa.int64())), ("edge", pa.int64())])


def listed(key, window, rows):
    return [(len(rows), [row.v for row in rows], window.start)]


def with_context(key, context, rows):
    context.output("seen", (context.current_watermark(), len(rows)))
    yield len(rows), [context.current_watermark(), context.current_processing_time()], context.window().end


def sending(key, context, rows):
    for row in rows[:2]:
        context.output("seen", (context.current_watermark(), row.u))
        yield len(rows), [row.v, context.current_processing_time()], context.window().start


FUNCTIONS = {"process": with_context, "sending": sending}


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


def plans(windowing: WindowQuery, shape: str, late: bool, delay: int) -> tuple[WindowPlan, WindowPlan]:
    """Return the plan of the row operator, and the plan of the panes."""
    more = {"side_outputs": SIDE} if shape in FUNCTIONS else {}
    function = KeepRows(processed(FUNCTIONS[shape]), True) if shape in FUNCTIONS else KeepRows(applied(listed))
    row = plan_functions(replace(windowing, every_firing=True), function, RESULTS, harness.ROWS, listed, harness.KEYS)
    if shape in ("rows", *FUNCTIONS):
        panes = plan_functions(windowing, function, RESULTS, harness.ROWS, listed, harness.KEYS)
    else:
        over: OverRows = TablePerWindow(as_table) if shape == "arrow" else AllWindows(all_at_once)
        panes = plan_table_function(windowing, over, RESULTS, harness.ROWS, harness.KEYS)
    assert isinstance(panes, AccumulatingSpec)
    return tuple(harness.plan_for(operator, windowing, delay, late=late, **more) for operator in (row, panes))


def case(rng: random.Random, seed: int) -> None:
    assigner, span = random_assigner(rng, by_processing_time=False)
    lateness = rng.choice([0, 0, 1, span])
    evictors = [
        None,
        None,
        CountEvictor(rng.randint(1, 4), rng.random() < 0.2),
        TimeEvictor(rng.randint(1, span), rng.random() < 0.2),
    ]
    windowing = WindowQuery(assigner, evictor=None if lateness else rng.choice(evictors), allowed_lateness=lateness)
    assert not why_not_rows(windowing)
    batches = harness.random_stream(rng, span, clock=True)
    row, panes = plans(windowing, rng.choice(SHAPES), rng.random() < 0.5, rng.choice([0, 0, 3, span]))
    for number, (theirs, ours) in enumerate(zip(harness.run(row, batches), harness.run(panes, batches), strict=True)):
        wrong = harness.difference(harness.coalesced(theirs.fired), harness.single_firings(ours.fired))
        assert wrong is None, f"seed {seed}: micro-batch {number}: {wrong}\n{windowing}\n{batches[: number + 1]}"
        assert (theirs.late, theirs.metrics.late_rows) == (ours.late, ours.metrics.late_rows), f"seed {seed}: late rows"


def outputs(plan: WindowPlan, batches) -> list[dict[str, list]]:
    """Return all rows of each micro-batch by output, sorted."""
    state, emitted = MemoryState(), []
    for batch in batches:
        output = plan.operator.for_group(plan, state, 0).process(harness.group_input(plan, batch))
        rows: dict[str, list] = {}
        for tag, table in output.tables:
            rows.setdefault(tag, []).extend(map(repr, table.to_pylist()))
        emitted.append({tag: sorted(of_tag) for tag, of_tag in rows.items()})
    return emitted


def sending_case(rng: random.Random, seed: int) -> None:
    assigner, span = random_assigner(rng, by_processing_time=False)
    windowing = WindowQuery(assigner, evictor=rng.choice([None, TimeEvictor(rng.randint(1, span), False)]))
    batches = harness.random_stream(rng, span, clock=True)
    row, panes = plans(windowing, "sending", rng.random() < 0.5, rng.choice([0, 3, span]))
    assert outputs(row, batches) == outputs(panes, batches), f"seed {seed}: {windowing}\n{batches}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_outputs_of_process_functions_agree_with_the_row_operator(chunk):
    harness.run_cases(40, chunk, CHUNKS, sending_case)


@pytest.mark.parametrize("asked", ["window_state", "global_state"])
@pytest.mark.parametrize("exact", [False, True], ids=["columns", "rows"])
def test_stateless_function_that_uses_state_is_refused(asked, exact):
    def process(key, context, rows):
        getattr(context, asked)()

    windowing = WindowQuery(TumblingEventTimeWindows(10), every_firing=exact)
    function = KeepRows(processed(process), True)
    operator = plan_functions(windowing, function, RESULTS, harness.ROWS, process, harness.KEYS)
    assert isinstance(operator, RowSpec if exact else AccumulatingSpec)
    rows = [("ann", 1, 1, None, 1), ("ann", 12, 1, None, 2)]
    with pytest.raises(InvalidPlanError, match=rf"context\.{asked}\(\), but stateless=True"):
        harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])


class Clearing(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [(len(elements), [], 0)]

    def clear(self, context):
        pass


def test_plan_explains_why_a_process_function_needs_the_row_operator():
    def reasons(windows, function, stateless):
        asked = KeepRows(processed(function), stateless)
        return plan_functions(WindowQuery(windows), asked, RESULTS, harness.ROWS, function, harness.KEYS).reasons

    tumbling, sessions = TumblingEventTimeWindows(10), EventTimeSessionWindows(10)
    assert "stateless=True" in reasons(tumbling, with_context, False)[0]
    assert "clear()" in reasons(tumbling, Clearing(), True)[0]
    # The hint is missing if it would not help.
    assert "stateless" not in " ".join(reasons(sessions, with_context, False))


@pytest.mark.parametrize("shape", ["rows", "process"])
@pytest.mark.parametrize("exact", [False, True], ids=["columns", "rows"])
def test_function_that_returns_a_string_is_refused(shape, exact):
    asked = KeepRows(processed(lambda key, context, rows: "no"), True)
    if shape == "rows":
        asked = KeepRows(applied(lambda key, window, rows: "no"))
    windowing = WindowQuery(TumblingEventTimeWindows(10), every_firing=exact)
    operator = plan_functions(windowing, asked, pa.schema([("letter", pa.string())]), harness.ROWS, "no", harness.KEYS)
    rows = [("ann", 1, 1, None, 1), ("ann", 12, 1, None, 2)]
    with pytest.raises(InvalidPlanError, match="returned 'no': return a list of results"):
        harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_panes_of_rows_agree_with_the_row_operator(chunk):
    harness.run_cases(80, chunk, CHUNKS, case)


def test_plan_explains_why_an_evictor_needs_the_row_operator():
    windows = SlidingEventTimeWindows(100, 10)
    assert "stays removed" in why_not_rows(WindowQuery(windows, evictor=CountEvictor(3), allowed_lateness=1))[0]
    for evictor in (CountEvictor(0), TimeEvictor(0), DeltaEvictor(1, lambda old, new: 0.0)):
        assert "single rows" in why_not_rows(WindowQuery(windows, evictor=evictor))[0]


def test_row_of_many_overlapping_windows_is_stored_once():
    stored = []
    for slide in (100, 1):
        _, plan = plans(WindowQuery(SlidingEventTimeWindows(100, slide)), "arrow", False, 0)
        rows = [("a", time, time, None, time) for time in range(90)]
        stored.append(harness.run(plan, [harness.MicroBatch([rows])])[0].metrics.state_bytes)
    assert stored[1] < stored[0] * 1.2


def test_error_of_user_function_names_key_and_window():
    def broken(key, window, table):
        raise KeyError("prize")

    windowing = WindowQuery(TumblingEventTimeWindows(10))
    operator = plan_table_function(windowing, TablePerWindow(broken), RESULTS, harness.ROWS, harness.KEYS)
    rows = [("ann", 1, 1, None, 1), ("ann", 12, 1, None, 2)]
    with pytest.raises(WindowFunctionError, match=r"KeyError: 'prize' \(at key 'ann', window TimeWindow\(start=0, end=10\)"):
        harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])


def test_result_without_a_declared_column_is_refused():
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    operator = plan_table_function(
        windowing, TablePerWindow(lambda key, window, table: table), RESULTS, harness.ROWS, harness.KEYS
    )
    rows = [("ann", 1, 1, None, 1), ("ann", 12, 1, None, 2)]
    with pytest.raises(InvalidPlanError, match="no column"):
        harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])


def test_sessions_support_a_function_per_table_but_not_over_all_windows():
    windowing = WindowQuery(EventTimeSessionWindows(5))
    operator = plan_table_function(windowing, TablePerWindow(as_table), RESULTS, harness.ROWS, harness.KEYS)
    rows = [("ann", 1, 1, None, 1), ("ann", 3, 2, None, 1), ("ann", 20, 1, None, 2)]
    (emitted,) = harness.run(harness.plan_for(operator, windowing), [harness.MicroBatch([rows])])
    assert emitted.fired == [(("ann", 1, 8), (2, [1, 2], 1))]
    with pytest.raises(InvalidPlanError, match="all_windows=True"):
        plan_table_function(windowing, AllWindows(all_at_once), RESULTS, harness.ROWS, harness.KEYS)
