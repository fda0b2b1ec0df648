"""Flink's recorded answers on aligned panes. Every step is a micro-batch, and only its last firing of a window counts.

Declared aggregates run on aggregating panes, lists also on accumulating ones. Lists are compared as multisets: ``collect_list``
orders by event time, Flink by arrival.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.operator import why_not_rows
from panestream.engine.operators.panes.rule import why_not_panes
from panestream.engine.operators.row.contents import KeepRows
from panestream.engine.plan import WindowPlan
from panestream.engine.planner import plan_aggregates, plan_functions
from panestream.windowing.functions import applied
from tests.conformance.scenario_format import plan_of, read_scenarios
from tests.conformance.test_sessions_and_counts import AGGREGATES, FOLDER, GIVEN, KEYS, ROWS, plain, run


def plan_over(operator, row) -> WindowPlan:
    return WindowPlan(
        ("key",), KEYS, row.window.assigner, operator, GIVEN, "ts", 1,
        allowed_lateness=row.window.allowed_lateness, late_tag=row.late_output, row_schema=ROWS,
    )  # fmt: skip


def plans_of(scenario) -> list[WindowPlan]:
    """Return the plans of a scenario on panes: at most one for each kind of panes."""
    function = scenario.spec["function"]["type"]
    if function not in AGGREGATES:
        return []
    row = plan_of(scenario)
    windowing = row.window
    found = []
    if not why_not_panes(windowing):
        types = dict(zip(ROWS.names, ROWS.types, strict=True))
        found.append(plan_over(plan_aggregates(windowing, [AGGREGATES[function].alias("r")], types, KEYS), row))
    if function == "list" and not why_not_rows(windowing):
        listed = KeepRows(applied(lambda key, window, rows: [([each.value for each in rows],)]))
        results = pa.schema([("r", pa.list_(pa.int64()))])
        found.append(plan_over(plan_functions(windowing, listed, results, ROWS, listed, KEYS), row))
    return found


CASES = [
    pytest.param(
        scenario,
        plan,
        id=f"{scenario.name}, {plan.operator.name}",
        marks=[pytest.mark.full] if scenario.is_repeat else [],
    )
    for path in sorted(FOLDER.glob("*.json"))
    for scenario in read_scenarios(path)
    if not scenario.expected.error
    for plan in plans_of(scenario)
]


@pytest.mark.parametrize(("scenario", "plan"), CASES)
def test_panes_give_the_last_answer_of_flink_in_each_step(scenario, plan):
    steps, late, dropped = run(scenario, plan)
    for number, (theirs, ours) in enumerate(zip(scenario.expected.steps, steps, strict=True)):
        expected = {(row["key"], row["start"], row["end"]): plain(row["value"]) for row in theirs}
        assert len({row[:3] for row in ours}) == len(ours), f"step {number}: a window fired twice"
        found = {row[:3]: row[3] for row in ours}
        assert expected == found, f"step {number}"
    for theirs, ours in zip(scenario.expected.late, late, strict=True):
        assert [{"gap": None, **element} for element in theirs] == ours
    assert plan.late_tag is not None or dropped == scenario.expected.late_dropped


def test_expected_number_of_scenarios_runs_on_panes():
    names = [case.values[1].operator.name for case in CASES]
    assert (names.count("aligned panes"), names.count("accumulating panes")) == (100, 61)
