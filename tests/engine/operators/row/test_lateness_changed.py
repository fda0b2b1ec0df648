"""The row operator compared with the definition on random queries that restart with another allowed lateness."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from panestream.testing.harness import WindowTestHarness
from panestream.windowing.assigners import TumblingEventTimeWindows
from panestream.windowing.triggers import ContinuousProcessingTimeTrigger
from tests.conformance.executors.base import Observed
from tests.conformance.executors.harness import HarnessExecutor
from tests.conformance.runner import differences
from tests.conformance.scenario_format import plan_of, scenario_of
from tests.costs import random_cases
from tests.engine.operators.row.delegating import Delegating
from tests.engine.operators.row.random_scenarios import scenario
from tests.testing.simulation.campaign.reference_model.definition import Definition

COUNT, CHUNKS = random_cases(2_000), 4


def random_restarts(seed: int) -> tuple[dict, dict[int, int]]:
    """Return a scenario, and the new lateness by the step before which the query restarts."""
    spec, rng = scenario(seed), random.Random(-seed)
    # A processing timeout fires at every timer, even at the end of a lateness that no longer applies.
    if "processing_timeout" in str(spec["trigger"]):
        spec["trigger"] = None
    return spec, {step: rng.choice([0, 1, 5, 20, 200]) for step in range(len(spec["input"])) if rng.random() < 0.15}


def run(read, latenesses: dict[int, int], wrap) -> Observed:
    plan = wrap(plan_of(read))
    harness, observed = WindowTestHarness.of_plan(plan), Observed()
    for number, step in enumerate([*read.steps, *([None] if read.end_of_input else [])]):
        if number in latenesses:
            snapshot = harness.snapshot()
            plan = replace(plan, window=replace(plan.window, allowed_lateness=latenesses[number]))
            harness = WindowTestHarness.of_plan(plan)
            harness.restore(snapshot)
        HarnessExecutor._take(harness, step)
        HarnessExecutor._record(harness, observed)
    observed.late_dropped = harness.late_dropped
    return observed


@pytest.mark.parametrize("wrap", [lambda plan: plan, Delegating.in_plan], ids=["fast loops", "general protocol"])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_row_operator_equals_the_definition_when_the_lateness_changes(chunk, wrap):
    for seed in range(chunk, COUNT, CHUNKS):
        spec, latenesses = random_restarts(seed)
        steps, late, dropped = Definition(spec, latenesses).run()
        read = scenario_of({**spec, "expected": {"steps": steps, "late": late, "late_dropped": dropped}})
        assert not differences(read, run(read, latenesses, wrap)), (seed, latenesses)


def test_clock_does_not_fire_a_window_that_a_lower_lateness_closed():
    """The window is kept until 109. After a restart without lateness it is over at 9, before the clock reaches its timer."""

    def harness_with(lateness):
        windows, trigger = TumblingEventTimeWindows(10), ContinuousProcessingTimeTrigger(30)
        return WindowTestHarness(windows, trigger=trigger, allowed_lateness=lateness, reduce=max)

    for lateness, expected in ((100, [1]), (0, [])):
        before, after = harness_with(100), harness_with(lateness)
        before.process_element(1, 1, "k")
        after.restore(before.snapshot())
        after.process_watermark(20)
        after.set_processing_time(40)
        assert [result.value for result in after.extract_output()] == expected
    assert (after.num_timers(), after.num_state_entries()) == (0, 0)
