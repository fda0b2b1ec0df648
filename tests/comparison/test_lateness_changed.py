"""Compare every columnar operator with the row operator, restarted repeatedly with another allowed lateness.

A closed window stays closed under any later lateness. Windows that the new lateness closes are removed at once.
``PANESTREAM_CASES=20000 pytest tests/comparison/test_lateness_changed.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random

import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import PurgingTrigger
from tests.comparison import harness, test_accumulating, test_panes_random, test_sessions_random

CHUNKS = 4


def latenesses(rng: random.Random, span: int, batches: int) -> list[int]:
    """Return the allowed lateness of each micro-batch. Sometimes the query restarts with another one."""
    chosen, lateness = [], rng.choice([0, span])
    for _ in range(batches):
        if rng.random() < 0.3:
            lateness = rng.choice([0, 1, span // 2, span, 3 * span, 50 * span])
        chosen.append(lateness)
    return chosen


def panes(rng: random.Random, seed: int) -> None:
    while True:
        query, span = test_panes_random.random_query(rng)
        # With a purging trigger, another lateness may need another operator, which a checkpoint does not allow.
        if query.windowing.assigner.is_event_time and not isinstance(query.windowing.trigger, PurgingTrigger):
            break
    batches = harness.random_stream(rng, span, late=rng.choice([0.2, 0.5]))
    harness.compare(query, batches, f"seed {seed}", latenesses=latenesses(rng, span, len(batches)))


def sessions(rng: random.Random, seed: int) -> None:
    query, span = test_sessions_random.random_query(rng)
    batches = harness.random_stream(rng, span, late=rng.choice([0.2, 0.5]))
    changed = latenesses(rng, span, len(batches))
    expected = test_sessions_random.of_the_row_operator(query, batches, changed)
    harness.compare(query, batches, f"seed {seed}", expected, latenesses=changed)


def rows(rng: random.Random, seed: int) -> None:
    """Functions over rows."""
    assigner, span = test_panes_random.random_assigner(rng, by_processing_time=False)
    batches = harness.random_stream(rng, span, late=rng.choice([0.2, 0.5]))
    changed = latenesses(rng, span, len(batches))
    row, columnar = test_accumulating.plans(WindowQuery(assigner), rng.choice(["rows", "arrow", "all"]), rng.random() < 0.5, 0)
    runs = [harness.run(plan, batches, latenesses=changed) for plan in (row, columnar)]
    for number, (theirs, ours) in enumerate(zip(*runs, strict=True)):
        wrong = harness.difference(harness.coalesced(theirs.fired), harness.single_firings(ours.fired))
        assert wrong is None, f"seed {seed}: micro-batch {number}: {wrong}\n{assigner}\n{batches[: number + 1]}\n{changed}"
        assert (theirs.late, theirs.metrics.late_rows) == (ours.late, ours.metrics.late_rows), f"seed {seed}: late rows"


@pytest.mark.parametrize("case", [panes, sessions, rows], ids=lambda case: case.__name__)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_restarts_with_another_lateness_agree_with_the_row_operator(case, chunk):
    harness.run_cases(80, chunk, CHUNKS, case)


def row(time, value):
    return ("a", time, value, None, 0)


COUNTED = (agg.count().alias("n"), agg.sum("v").alias("total"))


@pytest.mark.parametrize("columnar", [False, True], ids=["row operator", "columns"])
@pytest.mark.parametrize(
    ("assigner", "whole", "later"),
    [
        (TumblingEventTimeWindows(10), ("a", 0, 10), ("a", 20, 30)),
        (SlidingEventTimeWindows(10, 10), ("a", 0, 10), ("a", 20, 30)),
        (EventTimeSessionWindows(10), ("a", 1, 11), ("a", 25, 35)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_late_row_of_a_closed_window_stays_late_under_a_longer_lateness(assigner, whole, later, columnar):
    query = harness.Query(WindowQuery(assigner), COUNTED)
    plan, state = query.columnar() if columnar else query.row(), MemoryState()
    patient = harness.with_lateness(plan, 1000)
    first = harness.run(plan, [harness.MicroBatch([[row(1, 5), row(1, 6), row(25, 1)]])], state)[0]
    assert first.fired == [(whole, (2, 11))]
    late, on_time, again = harness.run(
        patient,
        [harness.MicroBatch([[row(2, 9)]]), harness.MicroBatch([[row(60, 1)]]), harness.MicroBatch([[row(25, 3)]])],
        state,
    )
    assert (late.fired, late.metrics.late_rows) == ([], 1)
    assert on_time.fired == [(later, (1, 1))]
    assert (again.fired, again.metrics.late_rows) == ([(later, (2, 4))], 0)


@pytest.mark.parametrize("columnar", [False, True], ids=["row operator", "columns"])
@pytest.mark.parametrize(
    "assigner", [TumblingEventTimeWindows(10), EventTimeSessionWindows(10)], ids=lambda value: type(value).__name__
)
def test_window_closed_by_a_shorter_lateness_stays_closed(assigner, columnar):
    query = harness.Query(WindowQuery(assigner, allowed_lateness=1000), COUNTED)
    plan, state = query.columnar() if columnar else query.row(), MemoryState()
    lateness = [1000, 0, 1000]
    batches = [
        harness.MicroBatch([[row(1, 5), row(45, 1)]]),
        harness.MicroBatch([[row(46, 1)]]),
        harness.MicroBatch([[row(2, 9)]]),
    ]
    last = harness.run(plan, batches, state, lateness)[-1]
    assert (last.fired, last.metrics.late_rows) == ([], 1)


def test_session_across_the_closed_border_accepts_touching_rows():
    for plan in (lambda query: query.row(), lambda query: query.columnar()):
        query = harness.Query(WindowQuery(EventTimeSessionWindows(10)), COUNTED)
        batches = [harness.MicroBatch([[row(20, 1)]]), harness.MicroBatch([[row(11, 2)]]), harness.MicroBatch([[row(0, 4)]])]
        batches[0].chunks[0].append(("b", 25, 1, None, 0))
        taken, late = harness.run(plan(query), batches, latenesses=[0, 100, 100])[1:]
        assert (taken.metrics.late_rows, late.metrics.late_rows) == (0, 1)


@pytest.mark.parametrize("more", ["with_firing", "changelog"])
def test_query_with_firings_may_get_an_allowed_lateness_at_restart(more):
    query = harness.Query(WindowQuery(TumblingEventTimeWindows(10)), COUNTED, more={more: True})
    batches = [[row(1, 5), row(15, 1)], [row(25, 1)], [row(16, 2)], [row(30, 2)], [row(17, 3)]]
    found = harness.run(query.columnar(), [harness.MicroBatch([rows]) for rows in batches], latenesses=[0, 100, 100, 0, 100])
    told = {"with_firing": (2, 3, "late", 1, False), "changelog": (2, 3, "update_after")}[more]
    assert found[2].fired[-1] == (("a", 10, 20), told)
    assert (found[4].fired, found[4].metrics.late_rows) == ([], 1)
