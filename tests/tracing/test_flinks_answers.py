"""The trace of every named scenario agrees with Flink's answer, independently of the operator's output."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from panestream.testing import WindowTestHarness
from panestream.windowing.windows import TimeWindow
from tests.conformance.executors.harness import HarnessExecutor
from tests.conformance.runner import differences
from tests.conformance.scenario_format import read_scenarios

FOLDER = Path(__file__).parents[1] / "conformance" / "scenarios"
SCENARIOS = [scenario for path in sorted(FOLDER.glob("*.json")) for scenario in read_scenarios(path)]
FUNCTIONS = {
    "list": lambda values: values,
    "count": len,
    "reduce_sum": lambda values: sum(values) if values else None,
    "aggregate_avg": lambda values: sum(values) / len(values) if values else None,
}


def traced(scenario):
    """Return the trace and the observed output of a scenario. The trace is None if the scenario is refused at the start."""
    made = []

    def make(plan):
        made.append(WindowTestHarness.of_plan(plan, traced=True))
        return made[0]

    observed = HarnessExecutor(make=make).run(scenario)
    return (made[0].trace() if made else None), observed


def answer(key, start, end, value):
    return json.dumps([key, start, end, value])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_trace_of_a_scenario_has_the_firings_of_flink(scenario):
    trace, observed = traced(scenario)
    assert not differences(scenario, observed)
    if trace is None:
        assert scenario.expected.error is not None
        return
    expected = scenario.expected
    flinks = Counter(
        answer(
            each["key"],
            each["start"],
            each["end"],
            sorted(each["value"]) if scenario.any_list_order and isinstance(each["value"], list) else each["value"],
        )
        for step in expected.steps
        for each in step
    )
    told = Counter()
    for firing in trace.firings:
        window = trace.windows[firing.window]
        bounds = (window.window.start, window.window.end) if isinstance(window.window, TimeWindow) else (None, None)
        values = [trace.elements[number].value.value for number in firing.seen]
        function = FUNCTIONS.get(scenario.spec["function"]["type"])
        # Compute the value again from the elements that the function saw according to the trace.
        results = firing.results if function is None else [function(values)]
        for value in results:
            told[
                answer(window.key, *bounds, sorted(value) if scenario.any_list_order and isinstance(value, list) else value)
            ] += 1
    if observed.error is None:
        assert told == flinks
    else:
        assert flinks <= told  # Flink's record does not contain firings of the step that failed
    late = [each.value for each in trace.late]
    if scenario.spec.get("late_output"):
        assert [(each.key, each.ts, each.value) for each in late] == [
            (each["key"], each["ts"], each["value"]) for step in expected.late for each in step
        ]
    else:
        assert len(late) == expected.late_dropped


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_trace_of_a_scenario_is_consistent(scenario):
    trace, observed = traced(scenario)
    if trace is None or observed.error is not None:
        return
    assert [each.number for each in trace.elements] == list(range(len(trace.elements)))
    assert [each.number for each in trace.windows] == list(range(len(trace.windows)))
    steps = [
        *(each.step for each in trace.elements),
        *(each.opened for each in trace.windows),
        *(each.step for each in trace.firings),
    ]
    steps += [each.step for each in (*trace.watermarks, *trace.clocks)] + [
        each.cleared for each in trace.windows if each.cleared is not None
    ]
    assert len(set(steps)) == len(steps)
    for element in trace.elements:
        assert (element.fate == "taken") == bool(element.windows)
        assert all(element.number in trace.windows[window].elements for window in element.windows)
        if element.fate == "late":
            assert element.timestamp <= element.closed
            assert all(window.max_timestamp() <= element.closed for window in element.refused)
    for window in trace.windows:
        assert all(trace.windows[each].merged_into == window.number for each in window.merged_from)
        assert all(firing.window == window.number and set(firing.elements) <= set(window.elements) for firing in window.firings)
        assert {trace.elements[each].key for each in window.elements} <= {window.key}
        assert all((firing.cause.kind == "element") == (firing.cause.element is not None) for firing in window.firings)
        for firing in window.firings:
            assert firing.cause.element is None or firing.cause.element in window.elements
