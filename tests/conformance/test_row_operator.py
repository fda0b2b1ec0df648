"""All scenarios with Flink's recorded answers on the row operator, without and with a restart after every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.executors import EXECUTORS
from tests.conformance.runner import differences, main
from tests.conformance.scenario_format import read_scenarios
from tests.costs import thinned

FOLDER = Path(__file__).parent / "scenarios"
SCENARIOS = [scenario for path in sorted(FOLDER.glob("*.json")) for scenario in read_scenarios(path)]


def test_set_of_scenarios_is_complete():
    assert len(SCENARIOS) == 336
    assert [scenario.name for scenario in SCENARIOS if scenario.on_purpose] == [
        "quirk-dynamic-session-equal-window-loses-data",
        "quirk-session-merge-count-evictor",
        "continuous-negative-ts",
        "triggers-random-c1-005",
        "triggers-random-c1-025",
        "triggers-random-c1-029",
    ]


@pytest.mark.parametrize(
    ("executor", "restore"),
    [
        pytest.param("harness", False, id="harness, plain"),
        pytest.param("harness", True, id="harness, restored after every step", marks=pytest.mark.full),
        pytest.param("processor", False, id="processor, plain", marks=pytest.mark.full),
        pytest.param("processor", True, id="processor, restored after every step"),
    ],
)
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_row_operator_gives_flinks_recorded_answers(path, executor, restore):
    """The executors also report state or timers that remain after the end of input."""
    run = EXECUTORS[executor](restore).run
    # The engine is the same in all: the harness runs each scenario, and the others repeat that in Spark's shape.
    scenarios = read_scenarios(path) if executor == "harness" else thinned(read_scenarios(path), 6)
    failed = {scenario.name: found for scenario in scenarios if (found := differences(scenario, run(scenario)))}
    assert not failed


def test_command_prints_how_many_scenarios_passed(capsys):
    paths = sorted(FOLDER.glob("*.json"))[:2]
    assert main([str(path) for path in paths]) == 0
    assert capsys.readouterr().out.endswith(f"{sum(len(read_scenarios(path)) for path in paths)} passed, 0 failed\n")
