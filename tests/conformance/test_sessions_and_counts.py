"""Flink's recorded answers on the columnar operators of sessions and counts. Every step is a micro-batch.

A scenario runs here if it computes a declared aggregate. Lists are compared as multisets, since ``collect_list`` orders by event
time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.plan import MAIN, Chunk, WindowPlan
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidWindowError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import GapColumn
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkStrategy
from tests.conformance.scenario_format import plan_of, read_scenarios

FOLDER = Path(__file__).parent / "scenarios"
AGGREGATES = {
    "reduce_sum": agg.sum("value"),
    "aggregate_avg": agg.mean("value"),
    "count": agg.count(),
    "list": agg.collect_list("value"),
}
KEYS = pa.schema([("key", pa.string())])
ROWS = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("value", pa.int64()), ("gap", pa.int64())])


class Given(WatermarkGenerator):
    """A generator that is never called, because scenarios set their watermarks."""

    def on_event(self, element, timestamp, output):
        raise NotImplementedError


GIVEN = WatermarkStrategy.for_generator(Given)


class GapOfElement(GapColumn):
    """The gap column of the scenario, in its units."""

    @property
    def label(self):
        return "gap"


def columnar_plan(scenario) -> WindowPlan | None:
    """Return the plan of a scenario, or None if it needs another operator or a function that is not a declared aggregate."""
    function = scenario.spec["function"]["type"]
    kind = scenario.spec["assigner"]["type"]
    if function not in AGGREGATES or kind not in ("session", "dynamic_session", "global", "count"):
        return None
    row = plan_of(scenario)
    assigner = row.window.assigner
    if kind == "dynamic_session":
        by_processing_time = isinstance(assigner, ProcessingTimeSessionWindows)
        assigner = (ProcessingTimeSessionWindows if by_processing_time else EventTimeSessionWindows)(
            GapOfElement("gap", "microseconds")
        )
    windowing = replace(row.window, assigner=assigner)
    types = {"value": pa.int64(), "gap": pa.int64()}
    operator = plan_aggregates(windowing, [AGGREGATES[function].alias("r")], types, KEYS)
    if isinstance(operator, RowSpec):
        return None
    return WindowPlan(
        ("key",), KEYS, assigner, operator, GIVEN, "ts", 1,
        allowed_lateness=row.window.allowed_lateness, late_tag=row.late_output, row_schema=ROWS,
    )  # fmt: skip


def run(scenario, plan):
    """Return, per step, the firings as (key, start, end, value) and the late elements. Also return the number of late elements."""
    state, clock, steps, late, dropped = MemoryState(), 0, [], [], 0
    for step in [*scenario.steps, *([None] if scenario.end_of_input else [])]:
        batch = GroupInput()
        # In processing time, Flink fires nothing at the end of the input, but a batch does. So the end is only a watermark here.
        if step is None:
            if plan.operator.capabilities.uses_processing_time:
                steps.append([])
                late.append([])
                continue
            batch.end_of_input = True
        elif step.element is not None:
            table = pa.Table.from_pylist([step.element._asdict()], schema=ROWS)
            inputs = [table[name].chunk(0) for name in plan.operator.inputs]
            chunk = Chunk(table["ts"].to_numpy(), [table["key"].chunk(0)], inputs, table)
            for kind, part in plan.operator.pack(plan, chunk):
                batch.parts.setdefault(kind, []).append(part)
        elif step.kind == "watermark":
            batch.seen, batch.watermarks = {"": step.time}, {"": step.time}
        else:
            clock = step.time
        batch.batch_time = clock
        output = plan.operator.for_group(plan, state, 0).process(batch)
        dropped += output.metrics.late_rows
        fired = [table for tag, table in output.tables if tag == MAIN]
        steps.append([row for table in fired for row in rows_of(table)])
        late.append([row for tag, table in output.tables if tag != MAIN for row in table.to_pylist()])
    return steps, late, dropped


def rows_of(table):
    bounds = [table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
    return list(zip(table["key"].to_pylist(), *bounds, map(plain, table["r"].to_pylist()), strict=True))


def plain(value):
    return sorted(value) if isinstance(value, list) else value


def expected_of(step):
    return [(each["key"], each["start"], each["end"], plain(each["value"])) for each in step]


SCENARIOS = [
    pytest.param(scenario, plan, id=scenario.name, marks=[pytest.mark.full] if scenario.is_repeat else [])
    for path in sorted(FOLDER.glob("*.json"))
    for scenario in read_scenarios(path)
    if not (scenario.expected.error and not scenario.expected.steps)
    if (plan := columnar_plan(scenario)) is not None
]


@pytest.mark.parametrize(("scenario", "plan"), SCENARIOS)
def test_columnar_sessions_and_counts_give_flinks_answers(scenario, plan):
    if scenario.expected.error:
        with pytest.raises(InvalidWindowError):
            run(scenario, plan)
        return
    steps, late, dropped = run(scenario, plan)
    for number, (theirs, ours) in enumerate(zip(scenario.expected.steps, steps, strict=True)):
        assert sorted(expected_of(theirs), key=str) == sorted(ours, key=str), f"step {number}"
    for theirs, ours in zip(scenario.expected.late, late, strict=True):
        assert [{"gap": None, **element} for element in theirs] == [{**row, "gap": row["gap"]} for row in ours]
    assert plan.late_tag is not None or dropped == scenario.expected.late_dropped


def test_expected_number_of_scenarios_runs_on_sessions_and_counts():
    names = [case.values[1].operator.name for case in SCENARIOS]
    assert (names.count("sessions"), names.count("counts")) == (69, 19)
