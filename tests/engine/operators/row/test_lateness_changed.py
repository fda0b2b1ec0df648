"""The row operator against the definition where the query is started again with another allowed lateness, at random."""

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
from tests.engine.operators.row.delegating import Delegating
from tests.engine.operators.row.random_scenarios import scenario
from tests.testing.simulation.campaign.reference_model.definition import Definition

COUNT, CHUNKS = 400, 4


def changed(seed: int) -> tuple[dict, dict[int, int]]:
    """A scenario, and before which steps it begins anew with which lateness."""
    spec, rng = scenario(seed), random.Random(-seed)
    # A processing timeout fires at every timer, and so at the end of a lateness that is none any more.
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
def test_the_operator_does_what_the_definition_says(chunk, wrap):
    for seed in range(chunk, COUNT, CHUNKS):
        spec, latenesses = changed(seed)
        steps, late, dropped = Definition(spec, latenesses).run()
        read = scenario_of({**spec, "expected": {"steps": steps, "late": late, "late_dropped": dropped}})
        assert not differences(read, run(read, latenesses, wrap)), (seed, latenesses)


def test_what_a_lower_lateness_closes_fires_no_more_by_the_clock():
    """The window was to be kept until 109; started again without lateness it is over at 9, before the clock comes to its timer."""

    def opened(lateness):
        windows, trigger = TumblingEventTimeWindows(10), ContinuousProcessingTimeTrigger(30)
        return WindowTestHarness(windows, trigger=trigger, allowed_lateness=lateness, reduce=max)

    for lateness, expected in ((100, [1]), (0, [])):
        before, after = opened(100), opened(lateness)
        before.process_element(1, 1, "k")
        after.restore(before.snapshot())
        after.process_watermark(20)
        after.set_processing_time(40)
        assert [one.value for one in after.extract_output()] == expected
    assert (after.num_timers(), after.num_state_entries()) == (0, 0)
