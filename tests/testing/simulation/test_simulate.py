"""Users' own windows under simulation: what is found in them, and what they are told."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError
from panestream.testing import SimulationError, simulate
from panestream.testing.simulation.campaign import campaign
from panestream.testing.simulation.command import main
from panestream.testing.simulation.explore import CRASH, Disturbance, Explorer
from panestream.testing.simulation.choosing import OPERATORS, schedule_of
from panestream.testing.simulation.schedule import MicroBatch, Query, Row, Schedule
from panestream.testing.simulation.script import replay
from panestream.testing.simulation.subject import Known

MINUTE = pst.TumblingEventTimeWindows.of("1 minute")
SESSIONS = pst.EventTimeSessionWindows.with_gap("30 seconds")


class Mean(pst.AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class EverySecond(pst.Trigger):
    """Counts in state."""

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(pst.ValueStateDescriptor("count"))
        count.update((count.value() or 0) + 1)
        return pst.TriggerResult.FIRE if count.value() % 2 == 0 else pst.TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return pst.TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return pst.TriggerResult.CONTINUE

    def clear(self, window, ctx):
        ctx.get_partitioned_state(pst.ValueStateDescriptor("count")).clear()


class Firings(pst.ProcessWindowFunction):
    def process(self, key, context, elements):
        firings = context.global_state().get_state(pst.ValueStateDescriptor("firings"))
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
    ],
    ids=["panes", "sessions", "reduce", "aggregate", "process", "clock", "global"],
)
def test_windows_that_are_right_pass(query):
    done = simulate(**query, schedules=1, seed=4)
    assert done.by_disturbance["crash"] > 10
    assert done.by_disturbance["two copies"] > 10


def test_what_is_kept_beside_the_state_is_found():
    seen = []

    def counted(key, window, rows):
        seen.extend(rows)
        return [len(seen)]

    with pytest.raises(SimulationError) as found:
        simulate(MINUTE, apply=counted, schedules=3)
    said = str(found.value)
    assert "a crash in micro-batch" in said
    assert "<- crash" in said
    assert "micro-batch 0, clock" in said


def test_a_function_that_depends_on_how_rows_are_cut_is_found_beside_a_batch():
    class LastBatch(Mean):
        def get_result(self, accumulator):
            return round(random.Random(accumulator[1]).random() + len(calls), 6)

        def add(self, value, accumulator):
            calls.append(value)
            return super().add(value, accumulator)

    calls = []
    with pytest.raises(SimulationError):
        simulate(MINUTE, aggregate=LastBatch(), schedules=3)


def test_what_cannot_be_simulated_is_said():
    with pytest.raises(InvalidPlanError, match="at least one schedule"):
        simulate(MINUTE, reduce=max, schedules=0)
    with pytest.raises(InvalidPlanError, match=r"no values of the column 'at'.*give rows="):
        simulate(MINUTE, aggregate=pst.agg.max("at"), columns={"at": "date32"})
    made = simulate(
        MINUTE, aggregate=pst.agg.max("n"), columns={"n": "int64"}, rows=lambda rng: {"n": rng.randint(0, 3)}, schedules=1
    )
    assert made.schedules == 1


def test_three_lines_of_pytest(tmp_path):
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


def test_the_same_seed_gives_the_same_run():
    told = []
    for _ in range(2):
        schedule, change = schedule_of(6, 3)
        explorer = Explorer(Known.of(schedule), change, [CRASH])
        explorer.explore()
        told.append(([moment.name for moment in explorer.moments], explorer.runs))
    assert told[0] == told[1]
    assert schedule_of(6, 3) == schedule_of(6, 3) != schedule_of(7, 3)


def test_every_step_is_a_crash():
    schedule, change = schedule_of(6, 0)
    explorer = Explorer(Known.of(schedule), change, [CRASH])
    explorer.explore()
    assert explorer.runs[CRASH] == len(explorer.moments)
    names = " ".join(moment.name for moment in explorer.moments)
    for step in (
        "put meta",
        "commit the state",
        "rename an attempt",
        "commit to transactions",
        "send a record",
        "commit micro-batch",
    ):
        assert step in names


def test_the_command_tells_what_was_run(tmp_path, capsys):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    given = ["--seed", "9", "--schedules", "1", "--operators", "counts", "--json", str(figures), "--results", str(page)]
    assert main(given) == 0
    assert "nothing lost, nothing twice, nothing left behind" in capsys.readouterr().out
    told = json.loads(figures.read_text())
    assert (told["schedules"], told["failure"]) == (1, "")
    assert told["runs"] == sum(told["by_disturbance"].values())
    assert "--seed 9" in page.read_text()
    assert main(["--operators", "pains"]) == 2


def test_a_campaign_stops_where_it_is_told_to():
    assert campaign(2, 50, ["counts"], runs=1).schedules == 1


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_what_it_is_called(operator):
    names = {"panes": "aligned panes", "accumulating": "accumulating panes", "row": "row operator"}
    for number in range(20):
        schedule, _ = schedule_of(1, number, (operator,))
        subject = Known.of(schedule)
        operator_of_plan = subject.engine(subject.settings).plan.operator
        assert operator_of_plan.name == names.get(operator, operator), (schedule.query, operator_of_plan)


def test_where_no_event_time_was_assigned_evictors_look_at_the_clock():
    # Schedule 434 of seed 1, made small: the definition had looked at a time that no query of it had.
    assigner = {"type": "tumbling", "size": 10, "offset": 0, "time": "processing"}
    query = Query(operator="row", assigner=assigner, evictor={"type": "time", "size": 5, "after": False}, function="aggregate")
    rows = (Row("b", 1011, 2, 3, "p1"), Row("b", 1016, 1, 4, "p1"))
    replay(Schedule(query, (MicroBatch(clock=4, tasks=(rows,)),)), Disturbance(kind="nothing"), None)
