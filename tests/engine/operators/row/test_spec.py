"""The spec of the row operator: identity, elements, ``explain()``, and what crosses the exchange."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.operators.row.operator import INPUTS
from panestream.engine.plan import Chunk, WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger, PurgingTrigger
from tests.comparison import harness
from tests.engine.aggregates.test_two_phase import Mean

EXACT = WindowQuery(TumblingEventTimeWindows(10), every_firing=True)
AGGREGATES = (agg.sum("v").alias("total"), agg.last("x"))
TYPES = {**harness.TYPES, "session gap u in seconds": pa.int64()}
RESULT = pa.schema([("mean", pa.float64()), ("n", pa.int64())])
NOTHING = applied(lambda key, window, rows: [])
ROWS = "key string, ts int64, v int64, x double, u int64"


class OwnTrigger(CountTrigger):
    """A user's trigger."""


def plan_declared(windowing=EXACT, aggregates=AGGREGATES):
    return plan_aggregates(windowing, aggregates, TYPES, harness.KEYS)


def over_rows(function, windowing=EXACT, results=RESULT):
    return plan_functions(windowing, function, results, harness.ROWS, "it at 0x7f00", harness.KEYS)


@pytest.mark.parametrize(
    ("operator", "function", "results", "elements", "evicts"),
    [
        (
            plan_declared(),
            "agg.sum('v').alias('total'), agg.last('x')",
            "total int64, last(x) double",
            "v int64, x double, __time int64",
            "False",
        ),
        (
            plan_declared(replace(EXACT, evictor=CountEvictor(3)), [agg.count()]),
            "agg.count()",
            "count int64",
            "__time int64",
            "True",
        ),
        (over_rows(ReduceRows(max)), "reduce", "mean double, n int64", ROWS, "False"),
        (over_rows(AggregateRows(Mean())), "aggregate with Mean", "mean double, n int64", ROWS, "False"),
        (over_rows(KeepRows(NOTHING)), "all elements", "mean double, n int64", ROWS, "False"),
    ],
)
def test_identity_of_the_row_operator(operator, function, results, elements, evicts):
    assert operator.identity() == {"function": function, "results": results, "elements": elements, "evicts": evicts}


@pytest.mark.parametrize(
    ("operator", "changeable"),
    [
        (plan_declared(), {"results", "function", "elements"}),
        (plan_declared(replace(EXACT, evictor=CountEvictor(3))), {"results"}),
        (over_rows(AggregateRows(Mean())), {"results"}),
        (over_rows(KeepRows(NOTHING)), {"results"}),
    ],
)
def test_changeable_parts_of_the_row_operator(operator, changeable):
    assert operator.changeable == changeable
    assert (operator.declared is not None) == ("function" in changeable)


def test_capabilities_of_the_row_operator():
    operator = plan_declared(replace(EXACT, trigger=CountTrigger.of(3), evictor=CountEvictor(3)))
    assert operator.capabilities.no_firings is None
    assert operator.capabilities.no_changelog == (
        "the row operator's functions may return any number of rows, none of which replaces another. Reasons for the row "
        "operator: " + "; ".join(operator.reasons)
    )
    assert plan_declared(replace(EXACT, trigger=CountTrigger.of(3), every_firing=False)).capabilities.no_changelog is None
    assert (operator.capabilities.evicts, plan_declared().capabilities.evicts) == (True, False)
    assert (operator.capabilities.fires_by_time, plan_declared().capabilities.fires_by_time) == (False, True)


@pytest.mark.parametrize(
    ("windowing", "reason"),
    [
        (replace(EXACT, trigger=CountTrigger.of(3)), "every firing was asked for, and a changelog has the last one of each"),
        (replace(EXACT, trigger=PurgingTrigger.of(CountTrigger.of(3))), "a purging trigger fires parts of a window"),
        (replace(EXACT, trigger=OwnTrigger.of(3)), "a user-defined trigger may purge a window"),
    ],
)
def test_changelog_of_the_row_operator_is_refused_with_the_reason(windowing, reason):
    assert plan_declared(windowing).capabilities.no_changelog.startswith(reason)


@pytest.mark.parametrize(
    ("operator", "inputs", "takes_rows"),
    [
        (plan_declared(), ("v", "x"), False),
        (plan_declared(aggregates=[agg.count()]), (), False),
        (over_rows(ReduceRows(max)), (), True),
        (
            plan_declared(replace(EXACT, assigner=EventTimeSessionWindows.with_gap_column("u", "seconds")), [agg.sum("v")]),
            None,
            False,
        ),
    ],
    ids=["inputs", "nothing but time", "rows", "a gap of each row"],
)
def test_inputs_of_the_row_operator(operator, inputs, takes_rows):
    inputs = ("v", "session gap u in seconds") if inputs is None else inputs
    assert (operator.inputs, operator.capabilities.takes_rows) == (inputs, takes_rows)


def explain_operator(operator, *, streaming=True):
    return operator.explain(harness.plan_for(operator, EXACT), streaming=streaming)


def test_explain_shows_why_the_row_operator_runs_and_what_it_keeps():
    assert explain_operator(plan_declared()) == {
        "operator": ["not columnar: every firing was asked for"],
        "trigger": ["EventTimeTrigger.create()"],
        "function": ["agg.sum('v').alias('total'), agg.last('x')"],
        "exchange": ["rows cross the shuffle unreduced, in columns"],
        "state": [
            "one accumulator per key and window, in 2 pages per key group or more, as it grows; touched and due pages are read and written"
        ],
    }
    assert explain_operator(plan_declared(), streaming=False)["state"] == ["in memory: a batch"]
    sections = explain_operator(over_rows(KeepRows(NOTHING), replace(EXACT, evictor=CountEvictor(3), pickled_state=True)))
    in_pages = "in 2 pages per key group or more, as it grows; touched and due pages are read and written"
    assert sections["state"] == [f"all elements of each window, {in_pages}; other values are pickled"]
    assert (sections["evictor"], sections["function"]) == (["CountEvictor.of(3)"], ["'it'"])
    advised = over_rows(AggregateRows(Mean()), WindowQuery(TumblingEventTimeWindows(10)))
    assert explain_operator(advised)["exchange"] == ["rows cross the shuffle unreduced, in columns", advised.advice]


def columns_that_cross(operator, *, late):
    """Return the columns that cross for two rows."""
    plan = harness.plan_for(operator, EXACT, late=late)
    table = pa.table([["a", None], [1, 2], [3, None], [0.5, None], [7, 8]], schema=harness.ROWS)
    inputs = [harness.input_of(table, text) for text in operator.inputs]
    chunk = Chunk(np.array([1, 2]), [table["key"].chunk(0)], inputs, table if plan.carries_rows else None)
    ((kind, part),) = operator.pack(plan, chunk)
    assert (kind, part.schema) == (INPUTS, operator.part_schema(plan, INPUTS))
    return [column.to_pylist() for column in part.columns]


KEYS, TIMES, WHOLE = ["a", None], [1, 2], [["a", None], [1, 2], [3, None], [0.5, None], [7, 8]]


@pytest.mark.parametrize("late", [False, True])
def test_whole_rows_cross_only_if_a_function_or_late_output_needs_them(late):
    of_inputs = [KEYS, TIMES, [3, None], [0.5, None], TIMES]
    assert columns_that_cross(plan_declared(), late=late) == of_inputs + (WHOLE if late else [])
    assert columns_that_cross(over_rows(ReduceRows(max)), late=late) == [KEYS, TIMES, *WHOLE]


def test_reduced_row_is_emitted_without_its_key():
    rest = pa.schema([field for field in harness.ROWS if field.name != "key"])
    operator = over_rows(ReduceRows(max), results=rest)
    columns = operator.results([("a", 1, 2, 0.5, 3)])
    assert [column.to_pylist() for column in columns] == [[1], [2], [0.5], [3]]
    # A function after reduce may return any columns.
    with_function = over_rows(ReduceRows(max, NOTHING))
    assert [column.to_pylist() for column in with_function.results([(0.5, 3)])] == [[0.5], [3]]


def test_row_operator_uses_the_clock_only_if_windows_or_triggers_do():
    assert (plan_declared().capabilities.uses_processing_time, plan_declared().capabilities.shows_processing_time) == (
        False,
        True,
    )
    assert plan_declared(WindowQuery(GlobalWindows.create())).capabilities.uses_processing_time is False
