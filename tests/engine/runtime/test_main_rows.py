"""The columns of rows of the main output and of side outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.runtime.group_operator import firing_columns, side_schema, window_rows
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger, PurgingTrigger
from tests.comparison import harness

COUNT = (agg.count().alias("n"),)
TEN = TumblingEventTimeWindows(10)
SEVERAL = SeveralWindows.of({"short": TEN, "long": TumblingEventTimeWindows(20)})


def plan_of(assigner, trigger=None, **more):
    return harness.Query(WindowQuery(assigner, trigger), COUNT, more=more).columnar()


def rows_of(table):
    """Return the rows with window bounds as integers."""
    table.validate(full=True)
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    return [tuple(row.values()) for row in pa.table(columns, names=table.column_names).to_pylist()]


def ints(*values):
    return pa.array(values, pa.int64())


def test_main_rows_have_keys_bounds_and_results():
    bounds = np.array([0, 10]), ints(10, 20)
    table = window_rows(plan_of(TEN), [pa.array(["a", None])], bounds, [ints(3, 4)])
    assert rows_of(table) == [("a", 0, 10, 3), (None, 10, 20, 4)]


@pytest.mark.parametrize(("kind", "label"), [(0, "short"), (1, "long")])
def test_rows_of_several_windows_have_the_label_of_their_window(kind, label):
    bounds = np.array([0, 20]), np.array([20, 40])
    table = window_rows(plan_of(SEVERAL), [pa.array(["a", "b"])], bounds, [ints(3, 4)], kind=kind)
    assert rows_of(table) == [("a", label, 0, 20, 3), ("b", label, 20, 40, 4)]


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_global_window_has_no_bounds(rows):
    plan = plan_of(GlobalWindows(), PurgingTrigger(CountTrigger(3)))
    table = window_rows(plan, [pa.array(["a"] * rows)], (None, None), [ints(*range(rows))])
    assert rows_of(table) == [("a", None, None, number) for number in range(rows)]


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_main_rows_may_lack_keys_and_result_columns(rows):
    windowing, nothing = WindowQuery(TEN), pa.schema([])
    operator = plan_functions(
        windowing, KeepRows(applied(lambda key, window, rows: [()])), nothing, harness.ROWS, "f", harness.KEYS
    )
    plan = replace(harness.plan_for(operator, windowing), keys=(), key_schema=nothing)
    table = window_rows(plan, [], (ints(*range(rows)), ints(*range(10, 10 + rows))), [])
    assert rows_of(table) == [(number, number + 10) for number in range(rows)]


def test_rows_of_a_side_output_have_its_columns():
    plan = plan_of(TEN, side_outputs={"seen": pa.schema([("x", pa.int64()), ("y", pa.int64())])})
    table = window_rows(plan, [pa.array(["a"])], (ints(0), ints(10)), [ints(3), ints(4)], tag="seen")
    assert (table.schema.names, rows_of(table)) == (["key", "window_start", "window_end", "x", "y"], [("a", 0, 10, 3, 4)])
    assert side_schema(plan, "seen") is plan.side_outputs["seen"]


@pytest.mark.parametrize(
    ("declared", "hint"), [({}, "none is declared"), ({"seen": pa.schema([])}, "did you mean 'seen'?")], ids=["none", "another"]
)
def test_undeclared_side_output_is_refused(declared, hint):
    with pytest.raises(InvalidPlanError) as error:
        side_schema(plan_of(TEN, side_outputs=declared), "sen")
    message = "the window function sent to the output 'sen': declare it, .side_output('sen', schema)"
    assert str(error.value) == f"{message}; {hint}"


@pytest.mark.parametrize("changelog", [False, True])
@pytest.mark.parametrize("with_firing", [False, True])
def test_firing_and_changelog_columns_follow_the_plan(with_firing, changelog):
    plan = plan_of(TEN, with_firing=with_firing, changelog=changelog)
    every = np.arange(3), np.array([0, 7, 9]), np.array([False, False, True])
    columns = [column.to_pylist() for column in firing_columns(plan, *every, np.array([0, 2, 3]))]
    firing = [["early", "on_time", "late"], [0, 7, 9], [False, False, True]]
    assert columns == [*(firing if with_firing else []), *([["insert", "update_after", "delete"]] if changelog else [])]
