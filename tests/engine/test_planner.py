"""The choice of the operator of a query, and the errors if no suitable operator exists."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.windowed_rows import AllWindows, TablePerWindow
from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions, plan_table_function
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.functions import applied
from panestream.windowing.triggers import AfterCount, AfterWatermark, CountTrigger
from tests.comparison import harness
from tests.engine.aggregates.test_two_phase import ACCUMULATOR, Mean

TEN = TumblingEventTimeWindows(10)
SEVERAL = SeveralWindows.of({"a": TEN, "b": TumblingEventTimeWindows(20)})
RESULT = pa.schema([("mean", pa.float64())])
EXACT = "every firing was asked for"
NOTHING = applied(lambda key, window, rows: [])


def plan_count(windowing):
    return plan_aggregates(windowing, (agg.count(),), harness.TYPES, harness.KEYS)


def plan_function(windowing, function, accumulators=None):
    return plan_functions(windowing, function, RESULT, harness.ROWS, "it", harness.KEYS, accumulators)


def plan_tables(windowing, function):
    return plan_table_function(windowing, function, RESULT, harness.ROWS, harness.KEYS)


@pytest.mark.parametrize(
    ("windowing", "name"),
    [
        (WindowQuery(TEN), "aligned panes"),
        (WindowQuery(SEVERAL), "aligned panes"),
        (WindowQuery(TEN, every_firing=True), "row operator"),
        (WindowQuery(EventTimeSessionWindows(5)), "sessions"),
        (WindowQuery(*CountWindows(3).parts), "counts"),
        (WindowQuery(GlobalWindows.create()), "row operator"),
        (WindowQuery(LookBackWindows(5)), "look-backs"),
        (WindowQuery(PredicateWindows("v > 0")), "predicates"),
    ],
)
def test_operator_of_declared_aggregates(windowing, name):
    assert plan_count(windowing).name == name


@pytest.mark.parametrize(
    ("windowing", "names"),
    [
        (WindowQuery(TEN), ["row operator", "row operator", "accumulating panes", "accumulating panes"]),
        (WindowQuery(EventTimeSessionWindows(5)), ["row operator"] * 4),
        (WindowQuery(TEN, every_firing=True), ["row operator"] * 4),
    ],
)
def test_operator_of_functions_over_rows_and_tables(windowing, names):
    operators = [plan_function(windowing, function) for function in (ReduceRows(max), AggregateRows(Mean()), KeepRows(NOTHING))]
    operators.append(plan_tables(windowing, TablePerWindow(lambda key, window, table: table)))
    assert [operator.name for operator in operators] == names


def test_table_function_runs_on_the_row_operator_if_every_firing_is_required():
    function = TablePerWindow(len)
    operator = plan_tables(WindowQuery(TEN, every_firing=True), function)
    assert (operator.reasons, operator.described) == ((EXACT,), "<built-in function len>")
    assert (operator.result_schema, operator.advice) == (RESULT, "")


def test_two_phase_functions_run_on_columnar_operators():
    assert plan_function(WindowQuery(TEN), AggregateRows(Mean()), ACCUMULATOR).name == "aligned panes"
    assert plan_function(WindowQuery(EventTimeSessionWindows(5)), AggregateRows(Mean()), ACCUMULATOR).name == "sessions"
    # A composed trigger may be used if it reduces to the default one.
    assert plan_function(WindowQuery(TEN, AfterWatermark()), AggregateRows(Mean()), ACCUMULATOR).name == "aligned panes"


REDUCE = "two_phase=True of reduce would combine them before it"
ADD = "accumulator_type of aggregate would have them added before it, and accumulators merged after it"


@pytest.mark.parametrize(
    ("windowing", "function", "advice"),
    [
        (WindowQuery(TEN), ReduceRows(max), REDUCE),
        (WindowQuery(TEN), AggregateRows(Mean()), ADD),
        (WindowQuery(EventTimeSessionWindows(5)), AggregateRows(Mean()), ADD),
        (WindowQuery(TEN, AfterWatermark()), ReduceRows(max), REDUCE),
        (WindowQuery(TEN), ReduceRows(max, NOTHING), ""),
        (WindowQuery(TEN), AggregateRows(Mean(), NOTHING), ""),
        (WindowQuery(TEN, every_firing=True), KeepRows(NOTHING), ""),
        (WindowQuery(TEN, every_firing=True), ReduceRows(max), ""),
        (WindowQuery(*CountWindows(3).parts), AggregateRows(Mean()), ""),
    ],
)
def test_advice_to_reduce_rows_before_the_shuffle_if_possible(windowing, function, advice):
    assert plan_function(windowing, function).advice == advice


def test_no_advice_for_declared_aggregates():
    assert plan_count(WindowQuery(TEN, CountTrigger.of(3))).advice == ""


@pytest.mark.parametrize(
    ("windowing", "function", "why", "leave_out"),
    [
        (WindowQuery(TEN, every_firing=True), AggregateRows(Mean()), EXACT, "accumulator_type"),
        (WindowQuery(TEN, every_firing=True), ReduceRows(max), EXACT, "two_phase=True"),
        (WindowQuery(EventTimeSessionWindows(5), every_firing=True), ReduceRows(max), EXACT, "two_phase=True"),
        (
            WindowQuery(TEN),
            AggregateRows(Mean(), NOTHING),
            "then= sees one window at a time, with its context",
            "accumulator_type",
        ),
        (
            WindowQuery(TEN, every_firing=True),
            AggregateRows(Mean(), NOTHING),
            f"then= sees one window at a time, with its context; {EXACT}",
            "accumulator_type",
        ),
    ],
)
def test_error_says_why_a_function_cannot_run_in_two_phases(windowing, function, why, leave_out):
    accumulators = harness.ROWS if isinstance(function, ReduceRows) else ACCUMULATOR
    with pytest.raises(InvalidPlanError) as error:
        plan_functions(windowing, function, accumulators, harness.ROWS, "it", harness.KEYS, accumulators)
    assert str(error.value).endswith(
        f"cannot run in two phases here, so that rows would be added before the shuffle: {why}. Leave out {leave_out}: then the "
        "rows cross, and the row operator runs the query"
    )


@pytest.mark.parametrize(("function", "keys"), [(KeepRows(NOTHING), harness.KEYS), (AggregateRows(Mean()), None)])
def test_function_that_sees_rows_is_refused_in_two_phases(function, keys):
    with pytest.raises(InvalidPlanError, match="'it' sees rows, which cannot be merged"):
        plan_functions(WindowQuery(TEN), function, RESULT, harness.ROWS, "it", keys, ACCUMULATOR)


def test_all_windows_needs_aligned_panes():
    assert plan_tables(WindowQuery(TEN), AllWindows(len)).name == "accumulating panes"
    with pytest.raises(InvalidPlanError) as error:
        plan_tables(WindowQuery(TEN, every_firing=True), AllWindows(len))
    assert str(error.value) == f"all_windows=True runs as aligned panes only, and cannot here: {EXACT}"


@pytest.mark.parametrize(
    ("windowing", "why"),
    [
        (WindowQuery(SEVERAL, every_firing=True), EXACT),
        (
            WindowQuery(SEVERAL, AfterWatermark().early(AfterCount(3))),
            "AfterWatermark().early(AfterCount.of(3)) does not come to a trigger of columns: early firings by AfterCount.of(3)",
        ),
    ],
)
def test_several_windows_need_aligned_panes(windowing, why):
    with pytest.raises(InvalidPlanError) as error:
        plan_count(windowing)
    assert str(error.value) == f"several windows in one query run as aligned panes only, and cannot here: {why}"
