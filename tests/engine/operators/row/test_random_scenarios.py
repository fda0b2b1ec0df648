"""The row operator compared with the definition on random plans and streams.

``PANESTREAM_RANDOM_SCENARIOS=20000 pytest tests/engine/operators/row/test_random_scenarios.py`` runs more cases,
``PANESTREAM_RANDOM_SEED`` others.
"""

from __future__ import annotations

import os

import pytest

from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.storage.state import MemoryState
from panestream.windowing.time import MAX_TIMESTAMP
from tests.conformance.executors import HarnessExecutor, Observed
from tests.conformance.executors.harness import _as_json, _late_as_json
from tests.conformance.runner import differences
from tests.conformance.scenario_format import plan_of, scenario_of
from tests.costs import random_cases
from tests.engine.operators.row.delegating import Delegating
from tests.engine.operators.row.random_scenarios import scenario
from tests.testing.simulation.campaign.reference_model.definition import Definition

COUNT = int(os.environ.get("PANESTREAM_RANDOM_SCENARIOS") or random_cases(400))
FIRST = int(os.environ.get("PANESTREAM_RANDOM_SEED", "0"))
CHUNKS = 8


def with_answer(seed: int) -> dict:
    spec = scenario(seed)
    steps, late, dropped = Definition(spec).run()
    return {**spec, "expected": {"steps": steps, "late": late, "late_dropped": dropped}}


def seeds(chunk: int) -> range:
    return range(FIRST + chunk, FIRST + COUNT, CHUNKS)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_row_operator_equals_the_definition_on_random_scenarios(chunk):
    for seed in seeds(chunk):
        read = scenario_of(with_answer(seed))
        assert not differences(read, HarnessExecutor().run(read)), seed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_row_operator_equals_the_definition_if_restored_after_every_step(chunk):
    for seed in list(seeds(chunk))[::4]:
        read = scenario_of(with_answer(seed))
        assert not differences(read, HarnessExecutor(restore=True).run(read)), seed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_fast_loops_equal_the_general_protocol(chunk):
    """A user trigger that passes every call on runs in the general protocol."""
    for seed in list(seeds(chunk))[::2]:
        read = scenario_of(with_answer(seed))
        assert not differences(read, HarnessExecutor(wrap=Delegating.in_plan).run(read)), seed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_results_do_not_depend_on_the_cut_into_micro_batches(chunk):
    """Rows up to the next watermark or clock step form one batch. Each batch has a new operator, which reads the stored state."""
    for seed in list(seeds(chunk))[::4]:
        spec = with_answer(seed)
        read = scenario_of(spec)
        fired, late, dropped = in_micro_batches(read)
        flat = {key: [[entry for step in spec["expected"][key] for entry in step]] for key in ("steps", "late")}
        whole = scenario_of({**spec, "expected": {**flat, "late_dropped": spec["expected"]["late_dropped"]}})
        assert not differences(whole, Observed([fired], [late], dropped)), seed


def in_micro_batches(read):
    """Run a scenario cut at its watermarks and clock steps. Return what fired, late elements, and the number of dropped ones."""
    plan, state, outputs, rows = plan_of(read), MemoryState(), [], []

    def batch(rows, **time):
        operator = RowOperator(plan, state)
        outputs.append(operator.process(rows, **time))
        operator.commit()

    for step in read.steps:
        if step.element is not None:
            rows.append((step.element.key, step.element.ts, step.element))
            continue
        if step.kind == "processing_time":
            batch(rows)
            batch([], processing_time=step.time)
        else:
            batch(rows, new_watermark=step.time)
        rows = []
    batch(rows, new_watermark=MAX_TIMESTAMP if read.end_of_input else None)
    fired = [_as_json(*result[:3]) for output in outputs for result in output.fired]
    late = [_late_as_json(result[2]) for output in outputs for result in output.late]
    return fired, late, sum(output.late_dropped for output in outputs)
