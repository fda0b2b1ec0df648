"""The campaign: its queries run on the named operators, and schedules that were once broken keep their promises."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest

from panestream.spark.operator.processor import RestartInfo
from panestream.testing.simulation import schedule as package_schedule
from panestream.testing.simulation.explore import CRASH, KINDS, Disturbance, Explorer, first_broken
from panestream.testing.simulation.schedule import MicroBatch, Row, Settings
from tests.testing.simulation.campaign.__main__ import main
from tests.testing.simulation.campaign.campaign import campaign
from tests.testing.simulation.campaign.queries import HOWS, TWO_STREAMS, Query, QuerySchedule
from tests.testing.simulation.campaign.random_schedules import OPERATORS, schedule_of
from tests.testing.simulation.campaign.reference_model import definition
from tests.testing.simulation.campaign.script import replay
from tests.testing.simulation.campaign.subjects import ReferenceSubject

pytestmark = pytest.mark.usefixtures("values_apart")  # each value is a step at which a task may be killed


def test_same_seed_gives_the_same_steps_and_runs():
    told = []
    for _ in range(2):
        schedule, change = schedule_of(6, 3)
        explorer = Explorer(ReferenceSubject.of(schedule), change, [CRASH])
        explorer.explore()
        told.append(([moment.name for moment in explorer.moments], explorer.runs))
    assert told[0] == told[1]
    assert schedule_of(6, 3) == schedule_of(6, 3) != schedule_of(7, 3)


def test_explorer_crashes_before_every_step():
    schedule, change = schedule_of(6, 0)
    explorer = Explorer(ReferenceSubject.of(schedule), change, [CRASH])
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


@pytest.mark.full
def test_command_writes_its_figures_and_refuses_unknown_operators(tmp_path, capsys):
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    given = ["--seed", "9", "--schedules", "1", "--operators", "counts", "--json", str(figures), "--results", str(page)]
    assert main(given) == 0
    assert "nothing lost, nothing twice, nothing left behind" in capsys.readouterr().out
    told = json.loads(figures.read_text())
    assert (told["schedules"], told["failure"]) == (1, "")
    assert told["runs"] == sum(told["by_disturbance"].values())
    assert "--seed 9" in page.read_text()
    assert main(["--operators", "pains"]) == 2


def test_campaign_stops_after_the_given_number_of_runs():
    assert campaign(17, 50, ["counts"], runs=1).schedules == 1


@pytest.mark.parametrize("operator", OPERATORS)
def test_queries_run_on_the_operator_they_are_named_after(operator):
    names = {
        "panes": {"aligned panes"},
        "accumulating": {"accumulating panes"},
        "row": {"row operator"},
        "joins": {"aligned panes", "sessions", "row operator"},
        "co-groups": {"accumulating panes", "row operator"},
        "intervals": {"interval join"},
        "as-of joins": {"as-of join"},
        "tiles": {"aligned panes"},
    }.get(operator, {operator})
    found = set()
    for number in range(40):
        schedule, _ = schedule_of(1, number, (operator,))
        subject = ReferenceSubject.of(schedule)
        plan = subject.engine(subject.settings).plan
        assert (plan.sides is not None) == (operator in TWO_STREAMS)
        found.add(plan.operator.name)
    assert found == names


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("seed", [963, pytest.param(7, marks=pytest.mark.full)])  # the schedules of 963 are short
def test_schedule_of_each_operator_keeps_its_promises(operator, seed):
    figures = campaign(seed, 1, [operator])
    assert (figures.schedules, figures.failure) == (1, "")


def test_schedules_of_two_streams_contain_hard_cases_for_joins():
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


def test_schedules_contain_rows_of_every_category():
    counted = {}
    for number in range(210):
        schedule, _ = schedule_of(
            1, number, ("joins", "co-groups", "intervals", "look-backs", "predicates", "tiles", "as-of joins")
        )
        subject = ReferenceSubject.of(schedule)
        for answer, counts in subject.must_be([subject.settings] * len(subject.job.batches), []):
            of = counted.setdefault(schedule.query.operator, Counter())
            of.update({name: count for name, count in counts.items() if count})
            of["results"] += sum(map(len, answer["main"].values()))
    assert len(counted) == 7
    for operator, counts in counted.items():
        assert min(counts[name] for name in ("windowed_rows", "late_rows", "invalid_rows", "results")) > 0, (operator, counts)


def test_restart_may_change_the_kind_of_a_window_join_only():
    minutes = {"type": "tumbling", "size": 10, "offset": 0}
    rows = ((Row("a", 1, 1, 1, "left"), Row("a", 2, 1, 2, "right"), Row("b", 3, 1, 3, "right")),)
    schedule = QuerySchedule(Query("joins", minutes, function="pairs", how="inner"), (MicroBatch(rows, 5),))
    subject = ReferenceSubject.of(schedule)
    told = [[answer["main"] for answer, _ in subject.must_be([Settings(code=code)] * 2, [])][-1] for code in range(6)]
    assert told[0] == {"a": [(0, 10, 1, 1, 1, 2)]}
    assert told[2] == {"a": [(0, 10, 1, 1, 1, 2)], "b": [(0, 10, None, None, 1, 3)]}
    assert told[5] == {}
    assert first_broken(subject, Settings(code=1), KINDS) is None


def test_reference_model_does_not_import_the_engine():
    campaign_folder = Path(definition.__file__).parents[1]
    allowed = (
        "tests.testing.simulation.campaign.reference_model",
        "tests.testing.simulation.campaign.queries",
        package_schedule.__name__,
    )
    for file in [*campaign_folder.glob("reference_model/*.py"), campaign_folder / "queries.py", Path(package_schedule.__file__)]:
        for imported in re.findall(r"^(?:from|import) ([\w.]+)", file.read_text("utf-8"), re.MULTILINE):
            assert imported.startswith(allowed) or not imported.startswith(("panestream", "tests")), (
                f"{file.name} imports {imported}"
            )


def test_processing_time_reads_tasks_one_after_another():
    # Schedule 109 of seed 1 for two streams. The model had merged tasks by an event time that queries like it do not have.
    assigner = {"type": "session", "gap": 3, "time": "processing"}
    query = Query("co-groups", assigner, trigger={"type": "count", "count": 1}, function="tables")
    rows = (Row("b", 5, 1, 3, "right"),), (Row("b", -16, 1, 7, "right"),)
    replay(QuerySchedule(query, (MicroBatch(clock=13, tasks=rows),)), Disturbance(kind="nothing"), None)


def test_repeated_micro_batch_uses_the_idle_times_of_the_run_that_planned_it():
    # Schedule 24 of seed 2 of intervals, shrunk. A row that was committed to a table appeared again later, since the idle side
    # held the watermark back when the micro-batch ran again.
    query = Query("intervals", {"type": "interval", "lower": -2, "upper": -1}, function="pairs", idle=5, how="full")
    times = [(1001, 3), (1004, 5), (1006, 14), (1009, 15)]
    batches = tuple(MicroBatch(((Row("a", at, None, at, "right"),),), clock) for clock, at in times)
    schedule = QuerySchedule(query, batches)
    explorer = Explorer(ReferenceSubject.of(schedule), kinds=[CRASH])
    explorer.explore()
    assert explorer.runs[CRASH] > 30
    # The old behaviour used the current run.
    with mock.patch.object(RestartInfo, "planned_in", lambda self, number: self.run):
        error = first_broken(ReferenceSubject.of(schedule), None, [CRASH])
    assert error is not None
    assert "main, micro-batch 2: found {'a': [" in error.what


def test_evictors_use_the_clock_without_event_time():
    # Schedule 434 of seed 1, shrunk. The model had used an event time that queries like it do not have.
    assigner = {"type": "tumbling", "size": 10, "offset": 0, "time": "processing"}
    query = Query(operator="row", assigner=assigner, evictor={"type": "time", "size": 5, "after": False}, function="aggregate")
    rows = (Row("b", 1011, 2, 3, "p1"), Row("b", 1016, 1, 4, "p1"))
    replay(QuerySchedule(query, (MicroBatch(clock=4, tasks=(rows,)),)), Disturbance(kind="nothing"), None)
