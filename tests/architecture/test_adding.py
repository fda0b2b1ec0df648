"""A trigger and an assigner are added as CONTRIBUTING describes. One module each is enough to plan, explain and run them."""

from __future__ import annotations

import importlib
import sys

import pytest

from panestream.engine.explain import explain_plan
from panestream.engine.plan import WindowPlan, WindowQuery
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import TumblingEventTimeWindows
from tests.comparison import harness
from tests.windowing.driven import Driven

TRIGGER = '''
from dataclasses import dataclass

from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.triggers import EventTimeTrigger, Trigger, TriggerResult

SEEN = ReducingStateDescriptor("seen", max)


@dataclass(frozen=True)
class NewMaximum(Trigger):
    """Fires whenever an element is larger than all before it."""

    least: int

    def on_element(self, element, timestamp, window, ctx):
        seen = ctx.get_partitioned_state(SEEN)
        largest = seen.get()
        value = element if isinstance(element, int) else element["v"]
        seen.add(value)
        return TriggerResult.FIRE if value > (self.least if largest is None else largest) else TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def clear(self, window, ctx):
        ctx.get_partitioned_state(SEEN).clear()
'''

ASSIGNER = '''
from dataclasses import dataclass

from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.windows import TimeWindow


@dataclass(frozen=True)
class DoublingWindows(WindowAssigner):
    """[0, first), [first, 2 * first), [2 * first, 4 * first), ..."""

    first: int
    is_event_time = True

    def assign_windows(self, element, timestamp, processing_time):
        start, end = 0, self.first
        while timestamp >= end:
            start, end = end, 2 * end
        return [TimeWindow(start, end)]
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a user module, import it, and remove it at the end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = []

    def write(name: str, text: str):
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        written.append(name)
        return importlib.import_module(name)

    yield write
    for name in written:
        sys.modules.pop(name)


def plan_of(window: WindowQuery) -> WindowPlan:
    """Return the planner's plan of the number and sum of rows in some windows."""
    aggregates = [agg.count().alias("n"), agg.sum("v").alias("total")]
    return harness.plan_for(harness.plan_aggregates(window, aggregates, harness.TYPES, harness.KEYS), window)


def emitted_rows(plan: WindowPlan, *rows: tuple[int, int], end: bool = False) -> list[list[tuple]]:
    """Return the bounds and results of each firing. Rows are pairs (time, value), each a micro-batch after a restart."""
    batches = [harness.MicroBatch([[("k", time, value, None, number)]]) for number, (time, value) in enumerate(rows)]
    batches += [harness.MicroBatch([], end=True)] if end else []
    return [[(*place[1:], *values) for place, values in each.fired] for each in harness.run(plan, batches)]


def test_new_trigger_in_one_module_is_planned_explained_and_run(module):
    trigger = module("novel_trigger", TRIGGER).NewMaximum(2)
    plan = plan_of(WindowQuery(TumblingEventTimeWindows(100), trigger))
    explained = explain_plan(plan, streaming=True, chosen=None)
    assert "row operator" in explained
    assert "NewMaximum" in explained
    rows = [(1, 2), (2, 5), (3, 4), (4, 6)]
    assert emitted_rows(plan, *rows) == [[], [(0, 100, 2, 7)], [], [(0, 100, 4, 17)]]
    driven = Driven(TumblingEventTimeWindows(100), trigger)
    assert [driven.element(time, value) for time, value in rows] == [[], [[2, 5]], [], [[2, 5, 4, 6]]]
    assert driven.watermark(99) == []
    assert driven.left == (0, 0)


def test_new_assigner_in_one_module_is_planned_explained_and_run(module):
    assigner = module("novel_assigner", ASSIGNER).DoublingWindows(10)
    plan = plan_of(WindowQuery(assigner))
    explained = explain_plan(plan, streaming=True, chosen=None)
    assert "DoublingWindows(first=10)" in explained
    assert "DoublingWindows are not aligned windows" in explained
    assert "DoublingWindows(first=10)" in plan.identity()["windows"]
    rows = [(3, 1), (12, 2), (25, 3), (39, 4)]
    assert emitted_rows(plan, *rows, end=True) == [[], [(0, 10, 1, 1)], [(10, 20, 1, 2)], [], [(20, 40, 2, 7)]]
    assert Driven(assigner).windows(3, 12, 25, 39) == {(0, 10): [3], (10, 20): [12], (20, 40): [25, 39]}
