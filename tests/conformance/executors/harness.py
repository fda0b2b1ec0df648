"""An executor that runs scenarios on the row operator, through the harness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from panestream.engine.operators.row.contents import RowPlan
from panestream.engine.plan import WindowQuery
from panestream.errors import PanestreamError
from panestream.testing.harness import WindowTestHarness
from panestream.windowing.windows import TimeWindow
from tests.conformance.executors.base import Observed
from tests.conformance.scenario_format import Element, Scenario, ScenarioError, Step, plan_of


@dataclass(frozen=True, slots=True)
class HarnessExecutor:
    """Runs scenarios on the row operator.

    Attributes:
        restore: take a snapshot after **every** step, and continue from it with a new operator.
        wrap: changes each plan before it runs.
        make: makes the harness of each plan.
    """

    restore: bool = False
    wrap: Callable[[RowPlan], RowPlan] | None = None
    make: Callable[[RowPlan], WindowTestHarness] = WindowTestHarness.of_plan

    def run(self, scenario: Scenario) -> Observed:
        observed = Observed()
        try:
            plan = plan_of(scenario)
            harness = self.make(plan if self.wrap is None else self.wrap(plan))
        except ScenarioError:
            raise
        except PanestreamError as error:
            observed.error = f"{type(error).__name__}: {error}"
            return observed
        for step in [*scenario.steps, *([None] if scenario.end_of_input else [])]:
            try:
                self._take(harness, step)
            except PanestreamError as error:
                observed.error = f"{type(error).__name__}: {error}"
                # Flink's recorder has a list for the failed step and one for the end.
                observed.steps += [[], []]
                observed.late += [[], []]
                return observed
            self._record(harness, observed)
            if self.restore:
                harness.restore(harness.snapshot())
        observed.late_dropped = harness.late_dropped
        if scenario.end_of_input:
            self._check_that_nothing_is_left(harness, plan.window, observed)
        return observed

    @staticmethod
    def _take(harness: WindowTestHarness, step: Step | None) -> None:
        if step is None:
            harness.end_of_input()
        elif step.element is not None:
            harness.process_element(step.element, step.element.ts, step.element.key)
        elif step.kind == "watermark":
            harness.process_watermark(step.time)
        else:
            harness.set_processing_time(step.time)

    @staticmethod
    def _record(harness: WindowTestHarness, observed: Observed) -> None:
        fired = harness.extract_output()
        observed.steps.append([_as_json(each.key, each.window, each.value) for each in fired])
        observed.late.append([_late_as_json(element.value) for element in harness.extract_late_elements()])
        observed.complaints += [
            f"step {len(observed.steps) - 1}: a result of {each.window} carries the timestamp {each.timestamp}"
            for each in fired
            if each.timestamp != each.window.max_timestamp()
        ]

    @staticmethod
    def _check_that_nothing_is_left(harness: WindowTestHarness, window: WindowQuery, observed: Observed) -> None:
        """Check that the final watermark removed all event-time windows and their state."""
        if not window.assigner.is_event_time:
            return
        entries, timers = harness.num_state_entries(), harness.num_timers()
        if entries or timers:
            observed.complaints.append(f"after the end of input {entries} state entries and {timers} timers are left")


def _as_json(key: Any, window: Any, value: Any) -> dict[str, Any]:
    start, end = (window.start, window.end) if isinstance(window, TimeWindow) else (None, None)
    return {"key": key, "start": start, "end": end, "value": value}


def _late_as_json(element: Element) -> dict[str, Any]:
    found = {"key": element.key, "ts": element.ts, "value": element.value}
    return found if element.gap is None else {**found, "gap": element.gap}
