"""Users' own windows under simulation: what is found in them, and what they are told."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError
from panestream.spark.operator.processor import TakenUp
from panestream.testing import SimulationError, simulate
from panestream.testing.simulation.campaign import campaign
from panestream.testing.simulation.choosing import OPERATORS, schedule_of
from panestream.testing.simulation.command import main
from panestream.testing.simulation.explore import CRASH, Disturbance, Explorer, explored, first_broken
from panestream.testing.simulation.meaning import base
from panestream.testing.simulation.schedule import HOWS, TWO_STREAMS, MicroBatch, Query, Row, Schedule, Settings
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


class EverySecond(pst.triggers.Trigger):
    """Counts in state."""

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
        "predicates",
        "closed by a row",
        "no columns",
    ],
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
    assert "micro-batch 0, clock 1970-01-01 00:0" in said
    assert re.search(r"found .*1970-01-01 .*, must be .*1970-01-01 ", said)
    assert ", which closes all windows:\n  ~ at 1970-01-01 16:40:00: " in said
    assert said.count("the steps of micro-batch") == 1
    assert "The same rows gave another result" in said
    assert found.value.__cause__ is None


def test_rows_that_pass_the_second_time_are_not_said_to_be_small():
    seen = set()

    def once(key, window, rows):
        new = key not in seen
        seen.add(key)
        return [len(rows)] * new

    with pytest.raises(SimulationError, match=r"(?s)must be \('bob'.*Run once more, the same rows passed") as found:
        simulate(MINUTE, apply=once, schedules=3)
    assert "The same rows gave another result" not in str(found.value)


def test_what_a_function_raises_is_quoted_once_and_without_steps():
    def divide(key, window, rows):
        return [1 // (len(rows) - 2)]

    with pytest.raises(SimulationError, match=r"with no disturbance: .*ZeroDivisionError.* 16:41:00 UTC") as found:
        simulate(MINUTE, apply=divide, schedules=3)
    assert str(found.value).count("Traceback") == 1
    assert "put meta" not in str(found.value)


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
    with pytest.raises(InvalidPlanError, match=r"no place for a second stream.*--operators joins"):
        simulate("clicks.join(views)", apply=lambda key, window, left, right: [])
    with pytest.raises(InvalidPlanError, match=r"no column 'on'.*a column of its own"):
        simulate(pst.PredicateWindows.of(start="on"), aggregate=pst.agg.count(), columns={"off": "bool"})
    with pytest.raises(InvalidPlanError, match="columns only, with declared aggregates"):
        simulate(pst.LookBackWindows.of("1 hour"), apply=lambda key, window, rows: [len(rows)])
    with pytest.raises(InvalidPlanError, match="leave out allowed_lateness"):
        simulate(pst.LookBackWindows.of("1 hour"), aggregate=pst.agg.count(), allowed_lateness="1 minute")
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
    names = {
        "panes": {"aligned panes"},
        "accumulating": {"accumulating panes"},
        "row": {"row operator"},
        "joins": {"aligned panes", "sessions", "row operator"},
        "co-groups": {"accumulating panes", "row operator"},
        "intervals": {"interval join"},
        "tiles": {"aligned panes"},
    }.get(operator, {operator})
    found = set()
    for number in range(40):
        schedule, _ = schedule_of(1, number, (operator,))
        subject = Known.of(schedule)
        plan = subject.engine(subject.settings).plan
        assert (plan.sides is not None) == (operator in TWO_STREAMS)
        found.add(plan.operator.name)
    assert found == names


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_schedule_of_every_operator_keeps_its_promises(operator):
    figures = campaign(7, 1, [operator])
    assert (figures.schedules, figures.failure) == (1, "")


def test_schedules_of_two_streams_have_what_joins_stumble_over():
    queries, rows, silent = [], [], 0
    for number in range(60):
        schedule, _ = schedule_of(1, number, TWO_STREAMS)
        queries.append(schedule.query)
        rows += [(schedule, row) for batch in schedule.batches for row in batch.rows]
        silent += any(len({row.side for row in batch.rows}) == 1 for batch in schedule.batches)
    assert {query.how for query in queries} == set(HOWS)
    assert {query.function for query in queries} == {"pairs", "lists", "tables"}
    assert {row.side for _, row in rows} == {"left", "right"}
    assert any(row.key is None for _, row in rows)
    assert any(row.time is None for _, row in rows)
    assert any(query.partitions for query in queries)
    assert any(query.by_clock for query in queries)
    assert silent > 20


def test_rows_of_every_kind_come():
    counted = {}
    for number in range(180):
        schedule, _ = schedule_of(1, number, ("joins", "co-groups", "intervals", "look-backs", "predicates", "tiles"))
        subject = Known.of(schedule)
        for answer, counts in subject.must_be([subject.settings] * len(subject.job.batches), []):
            of = counted.setdefault(schedule.query.operator, Counter())
            of.update({name: count for name, count in counts.items() if count})
            of["results"] += sum(map(len, answer["main"].values()))
    assert len(counted) == 6
    for operator, counts in counted.items():
        assert min(counts[name] for name in ("windowed_rows", "late_rows", "invalid_rows", "results")) > 0, (operator, counts)


def test_the_kind_of_a_join_may_change_with_a_start_and_that_of_an_interval_join_not():
    minutes = {"type": "tumbling", "size": 10, "offset": 0}
    rows = ((Row("a", 1, 1, 1, "left"), Row("a", 2, 1, 2, "right"), Row("b", 3, 1, 3, "right")),)
    schedule = Schedule(Query("joins", minutes, function="pairs", how="inner"), (MicroBatch(rows, 5),))
    subject = Known.of(schedule)
    told = [[answer["main"] for answer, _ in subject.must_be([Settings(code=code)] * 2, [])][-1] for code in range(6)]
    assert told[0] == {"a": [(0, 10, 1, 1, 1, 2)]}
    assert told[2] == {"a": [(0, 10, 1, 1, 1, 2)], "b": [(0, 10, None, None, 1, 3)]}
    assert told[5] == {}
    explored(subject, Settings(code=1))


def test_the_meaning_of_queries_knows_no_engine():
    folder = Path(base.__file__).parent
    for file in folder.glob("*.py"):
        for imported in re.findall(r"^(?:from|import) ([\w.]+)", file.read_text("utf-8"), re.MULTILINE):
            ours = (
                imported.startswith("panestream.testing.simulation.meaning")
                or imported == "panestream.testing.simulation.schedule"
            )
            assert ours or not imported.startswith("panestream"), f"{file.name} imports {imported}"


def test_where_no_event_time_was_assigned_tasks_are_taken_one_after_another():
    # Schedule 109 of seed 1 of those of two streams: the definition had put tasks side by side by a time that no query of it had.
    assigner = {"type": "session", "gap": 3, "time": "processing"}
    query = Query("co-groups", assigner, trigger={"type": "count", "count": 1}, function="tables")
    rows = (Row("b", 5, 1, 3, "right"),), (Row("b", -16, 1, 7, "right"),)
    replay(Schedule(query, (MicroBatch(clock=13, tasks=rows),)), Disturbance(kind="nothing"), None)


def test_what_comes_again_is_of_the_run_that_planned_it():
    # Schedule 24 of seed 2 of intervals, made small: what was committed to a table came again later, since the side that is idle
    # held the watermark when the micro-batch was run again.
    query = Query("intervals", {"type": "interval", "lower": -2, "upper": -1}, function="pairs", idle=5, how="full")
    times = [(1001, 3), (1004, 5), (1006, 14), (1009, 15)]
    batches = tuple(MicroBatch(((Row("a", at, None, at, "right"),),), clock) for clock, at in times)
    schedule = Schedule(query, batches)
    assert explored(Known.of(schedule), kinds=[CRASH])[CRASH] > 30
    # As it was: of the run that is at it.
    with mock.patch.object(TakenUp, "planned_in", lambda self, number: self.run):
        error = first_broken(Known.of(schedule), None, [CRASH])
    assert error is not None
    assert "main, micro-batch 2: found {'a': [" in error.what


def test_where_no_event_time_was_assigned_evictors_look_at_the_clock():
    # Schedule 434 of seed 1, made small: the definition had looked at a time that no query of it had.
    assigner = {"type": "tumbling", "size": 10, "offset": 0, "time": "processing"}
    query = Query(operator="row", assigner=assigner, evictor={"type": "time", "size": 5, "after": False}, function="aggregate")
    rows = (Row("b", 1011, 2, 3, "p1"), Row("b", 1016, 1, 4, "p1"))
    replay(Schedule(query, (MicroBatch(clock=4, tasks=(rows,)),)), Disturbance(kind="nothing"), None)
