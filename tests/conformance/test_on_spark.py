"""Scenarios with recorded outputs of Flink, on Spark. They are chosen so that every word of the vocabulary runs.

The command ``python -m tests.conformance.runner --executor spark FILE.json...`` runs all of them in half an hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.executors.batches import micro_batches
from tests.conformance.executors.streaming import StreamingExecutor
from tests.conformance.runner import differences
from tests.conformance.scenario_format import Scenario, read_scenarios

# Flink's scenarios drop late rows.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.json"))
AT_LEAST = 40
EXECUTOR = StreamingExecutor()


def words(scenario: Scenario) -> set[Any]:
    """Return the words of the vocabulary that a scenario uses."""
    spec, assigner = scenario.spec, scenario.spec["assigner"]
    slides = assigner["type"] == "count" and "slide" in assigner
    shape = (bool(assigner.get("offset")), bool(assigner.get("end_of_stream")), slides)
    found: set[Any] = {
        ("assigner", assigner["type"], assigner.get("time", "event"), shape),
        ("function", spec["function"]["type"]),
    }
    found.update(("trigger", *path) for path in trigger_words(spec.get("trigger")))
    if spec.get("evictor"):
        found.add(("evictor", spec["evictor"]["type"], spec["evictor"].get("after", False)))
    if spec.get("allowed_lateness"):
        found.add(("lateness", assigner["type"]))
    if spec.get("late_output"):
        found.add(("late output", assigner["type"]))
    return found | ({("error",)} if scenario.expected.error else set())


def trigger_words(trigger: Mapping[str, Any] | None, outer: str = "") -> Iterator[tuple[str, str]]:
    if trigger is not None:
        yield trigger["type"], outer
        yield from trigger_words(trigger.get("inner"), trigger["type"])


ALL = [scenario for file in FILES for scenario in read_scenarios(file)]
COST = {scenario.name: len(micro_batches(scenario, EXECUTOR.longest)) + 2 for scenario in ALL}


def chosen() -> list[Scenario]:
    """Choose scenarios that use every word, cheap ones first, and then the next cheapest with several micro-batches."""
    wanted = set().union(*map(words, ALL))
    left, picked = sorted(ALL, key=lambda scenario: (COST[scenario.name], scenario.name)), []
    while wanted:
        best = max(left, key=lambda scenario: len(words(scenario) & wanted) / COST[scenario.name])
        wanted -= words(best)
        left.remove(best)
        picked.append(best)
    return picked + [scenario for scenario in left if COST[scenario.name] > 3][: max(AT_LEAST - len(picked), 0)]


CHOSEN = chosen()


def test_chosen_scenarios_use_the_whole_vocabulary() -> None:
    assert len(CHOSEN) >= AT_LEAST
    assert set().union(*map(words, CHOSEN)) == set().union(*map(words, ALL))


@pytest.mark.parametrize("scenario", CHOSEN, ids=lambda scenario: scenario.name)
def test_spark_gives_the_recorded_answer_of_flink(spark: Any, scenario: Scenario) -> None:
    assert differences(scenario, EXECUTOR.run(scenario)) == []


def test_executor_that_restarts_after_each_micro_batch_gives_flinks_answer(spark: Any) -> None:
    scenario = next(scenario for scenario in ALL if scenario.name == "session-random-c1-025")
    assert differences(scenario, StreamingExecutor(restore=True, longest=3).run(scenario)) == []
