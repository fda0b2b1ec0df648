"""The trace of a batch equals the output of columnar operators for the same rows. A traced harness equals an untraced one."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panestream as pst
from panestream.engine.aggregates.two_phase import InTwoPhases
from panestream.engine.exchange.group_run import run_batch
from panestream.engine.exchange.packing import PackColumns, pack
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, TablePerWindow
from panestream.engine.operators.row.contents import KeepRows, ReduceRows
from panestream.engine.plan import MAIN, WindowPlan, WindowQuery
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates, FunctionOfRows, FunctionOfTables
from panestream.errors import InvalidPlanError
from panestream.testing import WindowTestHarness
from panestream.tracing.recorder import row_operator_of, trace_of_batch, traced_query
from panestream.tracing.why import explain
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.functions import applied
from panestream.windowing.watermarks import WatermarkStrategy
from tests.costs import random_cases

SECOND = 1_000_000
ROWS = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
KEYS = pa.schema([("key", pa.string())])
RESULTS = pa.schema([("n", pa.int64())])
COLUMNS = PackColumns((pa.string(),), (), row=2)
COLUMNS_WITH_V = PackColumns((pa.string(),), (pa.int64(),), row=3)
DECLARED = DeclaredAggregates(
    (agg.count().alias("n"), agg.sum("v").alias("total"), agg.collect_list("v").alias("all")), {"v": pa.int64()}, KEYS
)
BY_ROWS = FunctionOfRows(KeepRows(applied(lambda key, window, rows: [sum(row.v for row in rows)])), RESULTS, ROWS, "sum", KEYS)
BY_TABLES = FunctionOfTables(
    TablePerWindow(lambda key, window, rows: pa.table({"n": [sum(rows["v"].to_pylist())]})), RESULTS, ROWS, KEYS
)

assigners = st.sampled_from(
    [
        pst.TumblingEventTimeWindows.of("7 seconds"),
        pst.SlidingEventTimeWindows.of("10 seconds", "4 seconds"),
        pst.SlidingEventTimeWindows.of("2 seconds", "5 seconds"),
        pst.EventTimeSessionWindows.with_gap("3 seconds"),
    ]
)
rows_of = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-5, 40).map(lambda n: n * SECOND), st.integers(0, 99)), max_size=25
)


def plan_of(window, asked, operator=None, delay=0, **more):
    return WindowPlan(
        keys=("key",),
        key_schema=KEYS,
        assigner=window.assigner,
        operator=choose(window, asked) if operator is None else operator,
        watermark=WatermarkStrategy(delay),
        event_time="ts",
        groups=1,
        allowed_lateness=window.allowed_lateness,
        row_schema=ROWS,
        **more,
    )


def projected(rows, operator):
    """Return Spark's input of the operator: event time, key, inputs, the whole row."""
    table = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in rows], schema=ROWS)
    whole = table.to_struct_array()
    inputs = [("v", table["v"])] if operator.inputs else []
    made = pa.table(
        [table["ts"], table["key"], *(column for _, column in inputs), whole],
        names=["t", "k", *(name for name, _ in inputs), "row"],
    )
    return (COLUMNS_WITH_V if inputs else COLUMNS), made.combine_chunks().to_batches()


def trace_of(window, asked, rows, rows_per_batch=None, **more):
    operator = row_operator_of(window, asked)
    query = traced_query(plan_of(window, asked, operator, **more), asked, ROWS)
    return trace_of_batch(query, *projected(rows, operator), rows_per_batch=rows_per_batch)


def emitted_rows(window, asked, rows):
    """Return the output of the planned operator for the batch."""
    plan = plan_of(window, asked)
    columns, batches = projected(rows, plan.operator)
    output = run_batch(plan, 0, [part for _, part in pack(plan, columns, batches)])
    tables = [table for tag, table in output.tables if tag == MAIN]
    found = Counter()
    for table in tables:
        for row in table.cast(
            pa.schema([f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in table.schema])
        ).to_pylist():
            found[repr(tuple(row.values()))] += 1
    return found


def traced_rows(trace):
    found = Counter()
    for firing in trace.firings:
        window = trace.windows[firing.window]
        for value in firing.results:
            values = tuple(value.values()) if isinstance(value, dict) else tuple(value) if isinstance(value, tuple) else (value,)
            found[repr((window.key, window.window.start, window.window.end, *values))] += 1
    return found


@settings(max_examples=random_cases(150), deadline=None)
@given(assigners, rows_of)
def test_trace_of_declared_aggregates_equals_their_operator(assigner, rows):
    window = WindowQuery(assigner)
    trace = trace_of(window, DECLARED, rows)
    assert traced_rows(trace) == emitted_rows(window, DECLARED, rows)
    assert [tuple(element.value) for element in trace.elements] == rows
    for firing in trace.firings:
        seen = [trace.elements[number].value.v for number in firing.seen]
        assert (firing.results[0]["n"], firing.results[0]["total"]) == (len(seen), sum(seen))
    # In a batch, no row is late, and every window fires.
    assert {element.fate for element in trace.elements} <= {"taken", "outside"}
    assert all(window.cleared is not None or window.merged_into is not None for window in trace.windows)


@settings(max_examples=random_cases(60), deadline=None)
@given(assigners, rows_of, st.sampled_from([BY_ROWS, BY_TABLES]))
def test_trace_of_functions_equals_their_operator(assigner, rows, asked):
    window = WindowQuery(assigner)
    assert traced_rows(trace_of(window, asked, rows)) == emitted_rows(window, asked, rows)


@settings(max_examples=random_cases(60), deadline=None)
@given(assigners, rows_of, st.integers(1, 6), st.integers(0, 4), st.integers(0, 4))
def test_traced_row_is_judged_by_the_watermark_before_its_micro_batch(assigner, rows, size, delay, lateness):
    window = WindowQuery(assigner, allowed_lateness=lateness * SECOND)
    trace = trace_of(window, DECLARED, rows, rows_per_batch=size, delay=delay * SECOND)
    for place, element in enumerate(trace.elements):
        before = [time for _, time, _ in rows[: place - place % size]]
        # As in Flink, the watermark is just before the largest event time less the delay.
        expected = max(before) - delay * SECOND - 1 if before else None
        assert (element.watermark == expected) if before else (element.watermark < -(2**60))
    late = [each for each in trace.late if each.refused]
    assert all(max(w.max_timestamp() for w in each.refused) + lateness * SECOND <= each.watermark for each in late)


def test_why_explains_a_row_without_event_time():
    window, rows = WindowQuery(pst.TumblingEventTimeWindows.of("7 seconds")), [("a", SECOND, 1), ("a", None, 2)]
    failing = explain(trace_of(window, DECLARED, rows), row={"v": 2})
    assert "(key='a', ts=None, v=2) does not have a usable event time" in str(failing)
    assert "It makes the query fail." in str(failing)
    assert failing.facts[0].refuses
    kept = explain(trace_of(window, DECLARED, rows, invalid_tag="bad"), row={"v": 2})
    assert not kept.facts[0].refuses
    assert "It goes to the output for invalid rows." in kept._repr_html_()
    # Other rows are not mentioned.
    assert len(explain(trace_of(window, DECLARED, rows), row={"v": 1}).facts) == 1


def test_two_phase_function_is_traced_as_written():
    window = WindowQuery(pst.TumblingEventTimeWindows.of("7 seconds"))
    largest = ReduceRows(lambda a, b: a if a.v > b.v else b)
    asked = FunctionOfRows(largest, pa.schema([("ts", pa.int64()), ("v", pa.int64())]), ROWS, "max", KEYS, ROWS)
    assert isinstance(choose(window, asked).aggregates[0], InTwoPhases)
    trace = trace_of(window, asked, [("a", SECOND, 1), ("a", 2 * SECOND, 5), ("a", 3 * SECOND, 3)])
    assert [firing.results[0].v for firing in trace.firings] == [5]


def test_function_over_all_windows_is_traced_without_results():
    window = WindowQuery(pst.TumblingEventTimeWindows.of("7 seconds"))
    trace = trace_of(window, FunctionOfTables(AllWindows(lambda rows: rows), RESULTS, ROWS, KEYS), [("a", SECOND, 1)])
    assert [firing.seen for firing in trace.firings] == [(0,)]
    assert "all_windows=True" in str(explain(trace, key="a"))


def test_trace_of_several_windows_is_refused():
    several = SeveralWindows.of(
        {"s": pst.TumblingEventTimeWindows.of("1 second"), "m": pst.TumblingEventTimeWindows.of("1 minute")}
    )
    with pytest.raises(InvalidPlanError, match=r"several windows in one query \(s, m\)"):
        row_operator_of(WindowQuery(several), DECLARED)


# ---------------------------------------------------------------- traced = untraced

steps = st.lists(
    st.one_of(
        st.tuples(st.just("element"), st.integers(0, 30), st.sampled_from("ab")),
        st.tuples(st.just("watermark"), st.integers(0, 40), st.none()),
        st.tuples(st.just("clock"), st.integers(0, 40), st.none()),
    ),
    max_size=30,
)
triggers = st.sampled_from(
    [
        None,
        pst.CountTrigger(2),
        pst.PurgingTrigger(pst.CountTrigger(2)),
        pst.ContinuousEventTimeTrigger(4),
        pst.triggers.ContinuousProcessingTimeTrigger(4),
        pst.triggers.ProcessingTimeTrigger(),
    ]
)
evictors = st.sampled_from([None, pst.evictors.CountEvictor(1), pst.evictors.CountEvictor(2, True), pst.evictors.TimeEvictor(3)])
unit_assigners = st.sampled_from(
    [
        pst.TumblingEventTimeWindows(7),
        pst.SlidingEventTimeWindows(10, 4),
        pst.EventTimeSessionWindows(3),
        pst.TumblingProcessingTimeWindows(5),
        pst.ProcessingTimeSessionWindows(3),
        pst.GlobalWindows(),
    ]
)


def run_steps(harness, steps):
    clock = 0
    for what, time, key in steps:
        if what == "element":
            harness.process_element(time, time, key=key)
        elif what == "watermark":
            harness.process_watermark(time)
        else:
            clock = max(clock, time)
            harness.set_processing_time(clock)
    return harness


@settings(max_examples=random_cases(300), deadline=None)
@given(unit_assigners, triggers, evictors, st.integers(0, 5), st.booleans(), steps)
def test_traced_harness_gives_the_output_of_an_untraced_one(assigner, trigger, evictor, lateness, reduces, steps):
    what = {"reduce": lambda a, b: a + b} if reduces else {"apply": lambda key, window, values: [list(values)]}
    lateness = lateness if assigner.is_event_time else 0
    how = {"trigger": trigger, "evictor": evictor, "allowed_lateness": lateness, "side_output_late_data": True, **what}
    plain = run_steps(WindowTestHarness(assigner, **how), steps)
    traced = run_steps(WindowTestHarness(assigner, **how, traced=True), steps)
    trace = traced.trace()
    output, late = plain.extract_output(), plain.extract_late_elements()
    assert traced.extract_output() == output
    assert traced.extract_late_elements() == late
    assert (traced.num_timers(), traced.num_state_entries()) == (plain.num_timers(), plain.num_state_entries())
    assert [value for firing in trace.firings for value in firing.results] == [each.value for each in output]
    assert [each.value for each in trace.late] == [each.value for each in late]
