"""The simulation of user-defined windows finds mistakes in them, and its errors explain the mistakes."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError
from panestream.testing import SimulationError, simulate

MINUTE = pst.TumblingEventTimeWindows.of("1 minute")
SESSIONS = pst.EventTimeSessionWindows.with_gap("30 seconds")
ROLLING = {
    "assigner": pst.rolling({"1m": "1 minute", "ever": None}, every="10 seconds"),
    "aggregate": [pst.agg.count(), pst.agg.sum("n")],
    "columns": {"n": "int64"},
    "allowed_lateness": "20 seconds",
    "side_output_late_data": True,
}


class Mean(pst.AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class EverySecond(pst.triggers.Trigger):
    """A trigger that counts in state."""

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(pst.state.ValueStateDescriptor("count"))
        count.update((count.value() or 0) + 1)
        return pst.triggers.TriggerResult.FIRE if count.value() % 2 == 0 else pst.triggers.TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return pst.triggers.TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return pst.triggers.TriggerResult.CONTINUE

    def clear(self, window, ctx):
        ctx.get_partitioned_state(pst.state.ValueStateDescriptor("count")).clear()


class Firings(pst.ProcessWindowFunction):
    def process(self, key, context, elements):
        firings = context.global_state().get_state(pst.state.ValueStateDescriptor("firings"))
        firings.update((firings.value() or 0) + 1)
        context.output("seen", firings.value())
        yield firings.value(), sum(elements)


@pytest.mark.parametrize(
    "query",
    [
        {"assigner": MINUTE, "aggregate": [pst.agg.sum("price"), pst.agg.count()], "columns": {"price": "double"}},
        {"assigner": SESSIONS, "aggregate": pst.agg.max("n"), "columns": {"n": "int64"}, "side_output_late_data": True},
        {"assigner": MINUTE, "reduce": lambda a, b: a + b, "allowed_lateness": "30 seconds", "side_output_late_data": True},
        {"assigner": SESSIONS, "aggregate": Mean()},
        {"assigner": MINUTE, "process": Firings(), "trigger": EverySecond()},
        {"assigner": pst.TumblingProcessingTimeWindows.of("1 minute"), "apply": lambda key, window, rows: [len(rows)]},
        {
            "assigner": pst.GlobalWindows.create(),
            "trigger": pst.CountTrigger.of(3),
            "apply": lambda key, window, rows: [sum(rows)],
        },
        {"assigner": pst.LookBackWindows.of("1 minute"), "aggregate": pst.agg.sum("n"), "columns": {"n": "int64"}},
        ROLLING,
        {
            "assigner": pst.PredicateWindows.of(start="on", end="off"),
            "aggregate": [pst.agg.count(), pst.agg.sum("n")],
            "columns": {"n": "double", "on": "bool", "off": "bool"},
        },
        {
            "assigner": SESSIONS.closed_by("off"),
            "aggregate": pst.agg.count(),
            "columns": {"off": "bool"},
            "side_output_late_data": True,
        },
        {"assigner": MINUTE, "aggregate": pst.agg.count()},
        {"assigner": MINUTE, "aggregate": pst.agg.count(), "columns": {"row": "int64"}, "side_output_late_data": True},
    ],
    ids=[
        "panes",
        "sessions",
        "reduce",
        "aggregate",
        "process",
        "clock",
        "global",
        "look-backs",
        "rolling values",
        "predicates",
        "closed by a row",
        "no columns",
        "a column called row",
    ],
)
def test_correct_windows_pass_the_simulation(query):
    done = simulate(**query, schedules=1, seed=4)
    assert done.by_disturbance["crash"] > 10
    assert done.by_disturbance["two copies"] > 10


@pytest.mark.full
def test_rolling_values_survive_five_thousand_disturbed_runs():
    assert simulate(**ROLLING, schedules=25, seed=7).runs >= 5_000


def test_state_outside_of_the_checkpoint_is_reported():
    seen = []

    def counted(key, window, rows):
        seen.extend(rows)
        return [len(seen)]

    with pytest.raises(SimulationError) as found:
        simulate(MINUTE, apply=counted, schedules=3)
    said = str(found.value)
    assert "a crash in micro-batch" in said
    assert "<- crash" in said
    assert "micro-batch 0, clock 1970-01-01 00:0" in said
    assert re.search(r"found .*1970-01-01 .*, must be .*1970-01-01 ", said)
    assert ", which closes all windows:\n  ~ at 1970-01-01 16:40:00: " in said
    assert said.count("the steps of micro-batch") == 1
    assert "The same rows gave another result" in said
    assert found.value.__cause__ is None


def test_failure_that_does_not_repeat_is_not_shrunk():
    seen = set()

    def once(key, window, rows):
        new = key not in seen
        seen.add(key)
        return [len(rows)] * new

    with pytest.raises(SimulationError, match=r"(?s)must be \('bob'.*Run once more, the same rows passed") as found:
        simulate(MINUTE, apply=once, schedules=3)
    assert "The same rows gave another result" not in str(found.value)


def test_error_of_a_function_is_quoted_once_without_steps():
    def divide(key, window, rows):
        return [1 // (len(rows) - 2)]

    with pytest.raises(SimulationError, match=r"with no disturbance: .*ZeroDivisionError.* 16:41:00 UTC") as found:
        simulate(MINUTE, apply=divide, schedules=3)
    assert str(found.value).count("Traceback") == 1
    assert "put meta" not in str(found.value)


def test_function_that_depends_on_the_cut_into_micro_batches_is_reported():
    class LastBatch(Mean):
        def get_result(self, accumulator):
            return round(random.Random(accumulator[1]).random() + len(calls), 6)

        def add(self, value, accumulator):
            calls.append(value)
            return super().add(value, accumulator)

    calls = []
    with pytest.raises(SimulationError):
        simulate(MINUTE, aggregate=LastBatch(), schedules=3)


def test_queries_that_cannot_be_simulated_are_refused():
    with pytest.raises(InvalidPlanError, match="at least one schedule"):
        simulate(MINUTE, reduce=max, schedules=0)
    with pytest.raises(InvalidPlanError, match=r"cannot make values for the column 'at'.*[Gg]ive rows="):
        simulate(MINUTE, aggregate=pst.agg.max("at"), columns={"at": "date32"})
    with pytest.raises(InvalidPlanError, match="does not support joins of two streams"):
        simulate("clicks.join(views)", apply=lambda key, window, left, right: [])
    with pytest.raises(InvalidPlanError, match=r"no column 'on'.*[Gg]ive each expression of the query as a column"):
        simulate(pst.PredicateWindows.of(start="on"), aggregate=pst.agg.count(), columns={"off": "bool"})
    with pytest.raises(InvalidPlanError, match="columns only, with declared aggregates"):
        simulate(pst.LookBackWindows.of("1 hour"), apply=lambda key, window, rows: [len(rows)])
    with pytest.raises(InvalidPlanError, match=r"[Ll]eave out allowed_lateness"):
        simulate(pst.LookBackWindows.of("1 hour"), aggregate=pst.agg.count(), allowed_lateness="1 minute")
    made = simulate(
        MINUTE, aggregate=pst.agg.max("n"), columns={"n": "int64"}, rows=lambda rng: {"n": rng.randint(0, 3)}, schedules=1
    )
    assert made.schedules == 1


def test_simulation_works_in_a_pytest_file_of_users(tmp_path):
    file = tmp_path / "test_mine.py"
    file.write_text(
        "import panestream as pst\n"
        "from panestream.testing import simulate\n\n"
        "def test_my_windows():\n"
        "    simulate(pst.TumblingEventTimeWindows.of('1 minute'), reduce=lambda a, b: a + b, schedules=1)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)], capture_output=True, text=True, check=False
    )
    assert "1 passed" in ran.stdout, ran.stdout
