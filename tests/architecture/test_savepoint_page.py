"""The table in docs/how-to/savepoints.md agrees with the operators: which changes of a query a savepoint allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import KEY_GROUPS, WindowPlan, WindowQuery, check_taken_over
from panestream.engine.planner import plan_functions
from panestream.errors import PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    RollingWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger, PurgingTrigger
from tests.comparison import harness, look_backs, predicates, rolling, test_accumulating

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "savepoints.md"
TUMBLING = TumblingEventTimeWindows(10)


def plan_of_aggregates(windowing: WindowQuery, *, on_rows: bool = False) -> WindowPlan:
    query = harness.Query(windowing, (agg.count().alias("n"), agg.sum("v").alias("total")))
    return query.row() if on_rows else query.columnar()


def functions() -> WindowPlan:
    windowing = WindowQuery(TUMBLING, every_firing=True)
    function = KeepRows(applied(test_accumulating.listed))
    row = plan_functions(windowing, function, test_accumulating.RESULTS, harness.ROWS, test_accumulating.listed, harness.KEYS)
    return harness.plan_for(row, windowing)


PLANS = {
    "aligned panes": lambda: plan_of_aggregates(WindowQuery(TUMBLING)),
    "accumulating panes": lambda: test_accumulating.plans(WindowQuery(TUMBLING), "rows", False, 0)[1],
    "sessions": lambda: plan_of_aggregates(WindowQuery(EventTimeSessionWindows(5))),
    "count windows": lambda: plan_of_aggregates(WindowQuery(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)))),
    "look-backs": lambda: look_backs.plan_of(LookBackWindows(5), (agg.count().alias("n"),)),
    "windows by predicates": lambda: predicates.plan_of(PredicateWindows("v > 0"), (agg.count().alias("n"),)),
    "rolling values": lambda: rolling.plan_of(RollingWindows((("h", 5), ("ever", None)), 5), (agg.count().alias("n"),)),
    "row operator, declared aggregates": lambda: plan_of_aggregates(WindowQuery(TUMBLING), on_rows=True),
    "row operator, functions": functions,
}
# The names of the table's rows in the identity of a plan. The identity does not contain rows without an entry.
NAMES = {
    "number of key groups, up and down (1)": {KEY_GROUPS},
    "version of Spark, of panestream (2)": {"state format"},
    "size, slide and offset of windows (7)": {"windows"},
    "columns that a function returns": {"results"},
    "columns of the rows that are kept for functions": {"rows", "elements"},
    "a purging trigger or not": {"purges"},
    "an evictor or not": {"evicts"},
    "`.with_firing()` and `.changelog()`": {"emitted"},
    "`split_distinct` and its number of parts": {"split"},
    "key columns and event time, as they are written": {"key", "event time"},
    "the operator": {"operator"},
}
# Only these operators have these names in their identity.
ONLY = {"purges": ("aligned panes",), "evicts": ("row operator, declared aggregates", "row operator, functions")}
AGGREGATES = "aggregates left out, renamed, in another order, added (4)"


def table() -> dict[str, dict[str, str]]:
    """Return the table's cells by row and operator."""
    lines = PAGE.read_text("utf-8").split("## What may change")[1].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, _, *body = rows
    assert head[1:] == list(PLANS)
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}


def taken_over(plan: WindowPlan, name: str) -> bool:
    """Return whether a plan accepts a savepoint whose identity differs in one name."""
    try:
        check_taken_over({**plan.identity(), name: "something else"}, plan)
    except PlanMismatchError as error:
        return name not in error.changed
    return True


@pytest.mark.parametrize("operator", PLANS)
def test_table_of_allowed_changes_agrees_with_each_operator(operator):
    plan, cells = PLANS[operator](), table()
    names = {**NAMES, AGGREGATES: {"aggregates", "partials"} if operator != "row operator, declared aggregates" else {"results"}}
    assert set(names) < set(cells)
    for row, of in names.items():
        cell = cells[row][operator]
        if cell != "-":
            mine = {name for name in of if operator in ONLY.get(name, (operator,))}
            assert cell == ("yes" if all(taken_over(plan, name) for name in mine) else "no"), (row, operator)
    for row in set(cells) - set(names):
        assert cells[row][operator] in ("yes", "-"), (row, operator)


@pytest.mark.parametrize("operator", PLANS)
def test_savepoint_allows_other_lateness_and_key_groups(operator):
    """Change watermark, lateness and key groups, which are not compared."""
    plan = PLANS[operator]()
    assert pa.types.is_string(plan.key_schema.field(0).type)
    check_taken_over(plan.identity(), replace(plan, allowed_lateness=7, late_tag="late", groups=11))
