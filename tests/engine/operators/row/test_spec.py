"""What the row operator says of a query, and what crosses the exchange for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.operators.row.operator import INPUTS
from panestream.engine.plan import Chunk
from panestream.engine.planner import plan_aggregates, plan_functions
from panestream.engine.query import WindowSpec
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger
from tests.comparison import harness
from tests.engine.aggregates.test_two_phase import Mean

EXACT = WindowSpec(TumblingEventTimeWindows(10), every_firing=True)
AGGREGATES = (agg.sum("v").alias("total"), agg.last("x"))
TYPES = {**harness.TYPES, "session gap u in seconds": pa.int64()}
RESULT = pa.schema([("mean", pa.float64()), ("n", pa.int64())])
NOTHING = applied(lambda key, window, rows: [])
ROWS = "key string, ts int64, v int64, x double, u int64"


def declared(windowing=EXACT, aggregates=AGGREGATES):
    return plan_aggregates(windowing, aggregates, TYPES, harness.KEYS)


def of_rows(function, windowing=EXACT, results=RESULT):
    return plan_functions(windowing, function, results, harness.ROWS, "it at 0x7f00", harness.KEYS)


@pytest.mark.parametrize(
    ("operator", "function", "results", "elements", "evicts"),
    [
        (
            declared(),
            "agg.sum('v').alias('total'), agg.last('x')",
            "total int64, last(x) double",
            "v int64, x double, __time int64",
            "False",
        ),
        (declared(replace(EXACT, evictor=CountEvictor(3)), [agg.count()]), "agg.count()", "count int64", "__time int64", "True"),
        (of_rows(ReduceRows(max)), "reduce", "mean double, n int64", ROWS, "False"),
        (of_rows(AggregateRows(Mean())), "aggregate with Mean", "mean double, n int64", ROWS, "False"),
        (of_rows(KeepRows(NOTHING)), "all elements", "mean double, n int64", ROWS, "False"),
    ],
)
def test_what_a_checkpoint_is_tied_to(operator, function, results, elements, evicts):
    assert operator.identity() == {"function": function, "results": results, "elements": elements, "evicts": evicts}


@pytest.mark.parametrize(
    ("operator", "changeable"),
    [
        (declared(), {"results", "function", "elements"}),
        (declared(replace(EXACT, evictor=CountEvictor(3))), {"results"}),
        (of_rows(AggregateRows(Mean())), {"results"}),
        (of_rows(KeepRows(NOTHING)), {"results"}),
    ],
)
def test_what_may_be_another_where_state_is_taken_over(operator, changeable):
    assert operator.changeable == changeable
    assert (operator.declared is not None) == ("function" in changeable)


def test_what_it_says_of_changes_and_firings():
    operator = declared(replace(EXACT, trigger=CountTrigger.of(3), evictor=CountEvictor(3)))
    assert operator.capabilities.no_firings is None
    assert operator.capabilities.no_changelog == (
        "the row operator's functions may return any number of rows, none of which takes the place of another; it runs the query for: "
        + "; ".join(operator.reasons)
    )
    assert (operator.capabilities.evicts, declared().capabilities.evicts) == (True, False)
    assert (operator.capabilities.fires_by_time, declared().capabilities.fires_by_time) == (False, True)


@pytest.mark.parametrize(
    ("operator", "inputs", "takes_rows"),
    [
        (declared(), ("v", "x"), False),
        (declared(aggregates=[agg.count()]), (), False),
        (of_rows(ReduceRows(max)), (), True),
        (
            declared(replace(EXACT, assigner=EventTimeSessionWindows.with_gap_column("u", "seconds")), [agg.sum("v")]),
            None,
            False,
        ),
    ],
    ids=["inputs", "nothing but time", "rows", "a gap of each row"],
)
def test_what_elements_are_made_of(operator, inputs, takes_rows):
    inputs = ("v", "session gap u in seconds") if inputs is None else inputs
    assert (operator.inputs, operator.capabilities.takes_rows) == (inputs, takes_rows)


def explained(operator, *, streaming=True):
    return operator.explain(harness.plan_for(operator, EXACT), streaming=streaming)


def test_explain_says_why_it_runs_and_what_it_keeps():
    assert explained(declared()) == {
        "operator": ["not columnar: every firing was asked for"],
        "trigger": ["EventTimeTrigger.create()"],
        "function": ["agg.sum('v').alias('total'), agg.last('x')"],
        "exchange": ["rows cross the shuffle unreduced, in columns"],
        "state": [
            "one accumulator per key and window, in 2 pages per key group or more, as it grows; touched and due pages are read and written"
        ],
    }
    assert explained(declared(), streaming=False)["state"] == ["in memory: a batch"]
    kept = explained(of_rows(KeepRows(NOTHING), replace(EXACT, evictor=CountEvictor(3), pickled_state=True)))
    in_pages = "in 2 pages per key group or more, as it grows; touched and due pages are read and written"
    assert kept["state"] == [f"all elements of each window, {in_pages}; what has no columns is pickled"]
    assert (kept["evictor"], kept["function"]) == (["CountEvictor.of(3)"], ["'it'"])
    advised = of_rows(AggregateRows(Mean()), WindowSpec(TumblingEventTimeWindows(10)))
    assert explained(advised)["exchange"] == ["rows cross the shuffle unreduced, in columns", advised.advice]


def crossing(operator, *, late):
    """The columns that cross for two rows."""
    plan = harness.plan_for(operator, EXACT, late=late)
    table = pa.table([["a", None], [1, 2], [3, None], [0.5, None], [7, 8]], schema=harness.ROWS)
    inputs = [harness.input_of(table, text) for text in operator.inputs]
    chunk = Chunk(np.array([1, 2]), [table["key"].chunk(0)], inputs, table if plan.carries_rows else None)
    ((kind, part),) = operator.pack(plan, chunk)
    assert (kind, part.schema) == (INPUTS, operator.part_schema(plan, INPUTS))
    return [column.to_pylist() for column in part.columns]


KEYS, TIMES, WHOLE = ["a", None], [1, 2], [["a", None], [1, 2], [3, None], [0.5, None], [7, 8]]


@pytest.mark.parametrize("late", [False, True])
def test_elements_cross_as_columns_and_whole_rows_where_anything_wants_them(late):
    of_inputs = [KEYS, TIMES, [3, None], [0.5, None], TIMES]
    assert crossing(declared(), late=late) == of_inputs + (WHOLE if late else [])
    assert crossing(of_rows(ReduceRows(max)), late=late) == [KEYS, TIMES, *WHOLE]


def test_a_reduced_row_is_a_row_of_the_input_and_the_result_is_without_its_key():
    rest = pa.schema([field for field in harness.ROWS if field.name != "key"])
    operator = of_rows(ReduceRows(max), results=rest)
    columns = operator.results([("a", 1, 2, 0.5, 3)])
    assert [column.to_pylist() for column in columns] == [[1], [2], [0.5], [3]]
    # A function behind it returns what it likes.
    behind = of_rows(ReduceRows(max, NOTHING))
    assert [column.to_pylist() for column in behind.results([(0.5, 3)])] == [[0.5], [3]]


def test_the_clock_matters_where_windows_or_triggers_say_so():
    assert (declared().capabilities.uses_processing_time, declared().capabilities.shows_processing_time) == (False, True)
    assert declared(WindowSpec(GlobalWindows.create())).capabilities.uses_processing_time is False
