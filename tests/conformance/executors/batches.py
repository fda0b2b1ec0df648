"""Scenarios as micro-batches, with results as JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from panestream.engine.operators.row.contents import AggregateRows, AnyWindowFunction, KeepRows, ProcessRows, ReduceRows, RowPlan
from panestream.windowing.functions import ProcessWindowFunction, WindowFunction
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkOutput
from tests.conformance.scenario_format import Element, Scenario, Step, plan_of


@dataclass(slots=True)
class MicroBatch:
    """Steps that run together: first the clock, then elements, then the watermark.

    Attributes:
        clock, watermark: in the units of the scenario, or None if unchanged.
        elements: in order.
        steps: the number of steps of the scenario in this micro-batch.
    """

    clock: int | None = None
    elements: list[Element] = field(default_factory=list)
    watermark: int | None = None
    steps: int = 0


def micro_batches(scenario: Scenario, longest: int) -> list[MicroBatch]:
    """Cut a scenario's steps at random into micro-batches of at most ``longest`` elements. The scenario's name is the seed."""
    # Randomness only decides the cuts, which are the same in every run.
    rng = random.Random(scenario.name)
    batches = [MicroBatch()]
    room = rng.randint(1, longest)
    for step in scenario.steps:
        batch = batches[-1]
        full = len(batch.elements) >= room
        if batch.steps and (batch.watermark is not None or step.kind == "processing_time" or (step.kind == "element" and full)):
            batches.append(batch := MicroBatch())
            room = rng.randint(1, longest)
        _add(batch, step)
    if scenario.end_of_input:
        if batches[-1].watermark is not None:
            batches.append(MicroBatch())
        batches[-1].watermark = MAX_TIMESTAMP
        batches[-1].steps += 1
    return [batch for batch in batches if batch.steps]


def _add(batch: MicroBatch, step: Step) -> None:
    batch.steps += 1
    if step.element is not None:
        batch.elements.append(step.element)
    elif step.kind == "watermark":
        batch.watermark = step.time
    else:
        batch.clock = step.time


def json_plan_of(scenario: Scenario) -> RowPlan:
    """Return the plan of a scenario with results as JSON text of any type."""
    plan = plan_of(scenario)
    assert not isinstance(plan.function, ProcessRows)
    return replace(plan, function=_as_json(plan.function), element_type=None)


def _as_json(function: ReduceRows | AggregateRows | KeepRows) -> ReduceRows | AggregateRows | KeepRows:
    if isinstance(function, KeepRows):
        return KeepRows(_Json(function.function))
    return replace(function, then=_Json(function.then))


@dataclass(frozen=True)
class _Json(ProcessWindowFunction):
    """Turn the results of a function, or the single result if it is None, into JSON text of any type."""

    inner: AnyWindowFunction | None

    def process(self, key: Any, context: Any, elements: Sequence[Any]) -> list[str]:
        if self.inner is None:
            results: Any = elements
        elif isinstance(self.inner, WindowFunction):
            results = self.inner.apply(key, context.window(), elements)
        else:
            results = self.inner.process(key, context, elements)
        return [json.dumps(result) for result in results]

    def clear(self, context: Any) -> None:
        if isinstance(self.inner, ProcessWindowFunction):
            self.inner.clear(context)


def fired_as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the main output in the terms of the format. ``window_start`` and ``window_end`` become integers or None."""
    value = None if row["value"] is None else json.loads(row["value"])
    return {"key": row["key"], "start": row["window_start"], "end": row["window_end"], "value": value}


def late_as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the late output in the terms of the format."""
    found = {"key": row["key"], "ts": row["ts"], "value": row["value"]}
    return found if row["gap"] is None else {**found, "gap": row["gap"]}


class StepWatermarks(WatermarkGenerator):
    """Emit the watermark that a row has in its column ``watermark``."""

    def on_event(self, element: Any, timestamp: int, output: WatermarkOutput) -> None:
        if element.watermark is not None:
            output.emit_watermark(element.watermark)
