"""Compare composed triggers that columns can run with the row operator, which runs them as written.


``PANESTREAM_CASES=20000 pytest tests/comparison/test_composed_columns.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random
import re
from dataclasses import replace

import pytest

import panestream as pst
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.rule import AT_EVERY_ROW, reduction, told
from tests.comparison import harness
from tests.comparison.test_panes_random import random_assigner
from tests.comparison.test_sessions_random import of_the_row_operator

CHUNKS = 4
AT_ROWS = [pst.triggers.AfterCount(1), pst.CountTrigger.of(1), pst.triggers.Repeatedly.of(pst.triggers.AfterCount(1))]


def random_query(rng: random.Random) -> tuple[harness.Query, int]:
    """Return a query with a composed trigger that columns support, on aligned windows or sessions."""
    sessions, lateness = rng.random() < 0.25, rng.choice([0, 0, 1, 8, 60])
    assigner, span = (pst.EventTimeSessionWindows(7), 7) if sessions else random_assigner(rng, False)
    trigger = pst.AfterWatermark()
    if not sessions and rng.random() < 0.7:
        trigger = trigger.early(rng.choice([*AT_ROWS, pst.ContinuousEventTimeTrigger(rng.choice([1, 2, 5, 20]))]))
    if lateness or rng.random() < 0.5:
        trigger = trigger.late(rng.choice(AT_ROWS))
    elif rng.random() < 0.3:
        trigger = trigger.late(pst.triggers.AfterCount(7))
    if rng.random() < 0.15:
        trigger = pst.triggers.Repeatedly.of(pst.AfterWatermark())
    windowing = WindowQuery(assigner, trigger, allowed_lateness=lateness)
    return harness.Query(windowing, harness.random_aggregates(rng), rng.choice([0, 3, span]), rng.random() < 0.4), span


def by_key(emitted: harness.Emitted) -> dict[object, list[object]]:
    """Return the firings of each key, in order. Keys have no order, and one operator rebuilds growing sessions."""
    found: dict[object, list[object]] = {}
    for place, values in emitted.fired:
        found.setdefault(place[0], []).append((place, values))
    return found


def case(rng: random.Random, seed: int) -> None:
    query, span = random_query(rng)
    batches = harness.random_stream(rng, span)
    expected = of_the_row_operator(query, batches) if query.windowing.merges else None
    harness.compare(query, batches, f"seed {seed}", expected)
    if seed % 4 == 0 and not (
        query.windowing.merges and query.windowing.allowed_lateness
    ):  # otherwise a session may fire and then grow
        harness.compare_batch(query, batches, f"seed {seed}")
    plain = reduction(query.windowing).trigger
    if plain != AT_EVERY_ROW:
        same = replace(query, windowing=replace(query.windowing, trigger=plain))
        ours, theirs = harness.run(query.row(), batches), harness.run(same.row(), batches)
        assert [by_key(one) for one in ours] == [by_key(one) for one in theirs], f"seed {seed}: {query} is not {plain!r}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_columns_agree_with_the_composed_trigger(chunk):
    harness.run_cases(100, chunk, CHUNKS, case)


def numbered(rng: random.Random, seed: int) -> None:
    """Compare firing labels and retractions of a trigger that fires at every row with the row operator's last firings."""
    assigner, span = random_assigner(rng, False)
    trigger = pst.AfterWatermark().early(pst.triggers.AfterCount(1)).late(pst.triggers.AfterCount(1))
    windowing = WindowQuery(assigner, trigger, allowed_lateness=rng.choice([0, 5]))
    query = harness.Query(windowing, harness.random_aggregates(rng), more={"with_firing": True})
    batches = harness.random_stream(rng, span)
    for theirs, ours in zip(harness.run(query.row(), batches), harness.run(query.columnar(), batches), strict=True):
        last = {place: values[:-2] for place, values in theirs.fired}
        assert harness.difference(last, {place: values[:-2] for place, values in ours.fired}) is None, f"seed {seed}: {query}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_firing_labels_of_composed_triggers_agree_with_the_row_operator(chunk):
    harness.run_cases(40, chunk, CHUNKS, numbered)


def counting(rng: random.Random, seed: int) -> None:
    """Compare a repeated count with Flink's count trigger, firing by firing."""
    count = rng.randint(1, 4)
    ours, theirs = (
        harness.Query(WindowQuery(pst.GlobalWindows.create(), trigger), (pst.agg.count(), pst.agg.sum("v")))
        for trigger in (pst.triggers.Repeatedly.of(pst.triggers.AfterCount(count)), pst.CountTrigger.of(count))
    )
    batches = harness.random_stream(rng, 10)
    expected = [one.fired for one in harness.run(theirs.row(), batches)]
    assert [one.fired for one in harness.run(ours.row(), batches)] == expected, f"seed {seed}"
    assert plan_aggregates(ours.windowing, ours.aggregates, harness.TYPES, harness.KEYS) == plan_aggregates(
        theirs.windowing, theirs.aggregates, harness.TYPES, harness.KEYS
    )


def test_repeated_count_equals_the_count_trigger():
    harness.run_cases(20, 0, 1, counting)


MINUTES = pst.TumblingEventTimeWindows.of("1 minute")


@pytest.mark.parametrize(
    ("trigger", "lateness", "why"),
    [
        (pst.AfterWatermark(), 5, "drops the rows that come within the allowed lateness"),
        (pst.AfterWatermark().late(pst.triggers.AfterCount(3)), 5, r"late firings of AfterCount.of\(3\)"),
        (pst.AfterWatermark().early(pst.triggers.AfterCount(3)), 0, r"early firings by AfterCount.of\(3\)"),
        (pst.AfterWatermark().early(pst.triggers.AfterProcessingTime.of("1 minute")), 0, "early firings by the clock"),
        (pst.triggers.AfterAll.of(pst.triggers.AfterCount(3), pst.AfterWatermark()), 0, "AfterAll runs row by row"),
        (pst.PurgingTrigger.of(pst.AfterWatermark().early(pst.triggers.AfterCount(1))), 0, "gives every row by itself"),
    ],
)
def test_plan_explains_why_columns_cannot_run_a_trigger(trigger, lateness, why):
    operator = plan_aggregates(WindowQuery(MINUTES, trigger, allowed_lateness=lateness), (pst.agg.count(),), {}, harness.KEYS)
    assert operator.name == "row operator"
    (reason,) = operator.reasons
    assert re.search(why, reason), reason


def test_explain_shows_the_simplified_trigger():
    late = pst.AfterWatermark().late(pst.triggers.AfterCount(1))
    assert told(WindowQuery(MINUTES, late, allowed_lateness=9), columnar=True) == [
        f"{late!r}: the same as EventTimeTrigger.create()"
    ]
    assert "once a micro-batch" in told(WindowQuery(MINUTES, AT_EVERY_ROW), columnar=True)[0]
    (finishes,) = told(WindowQuery(MINUTES, pst.PurgingTrigger.of(pst.triggers.AfterCount(3))), columnar=False)
    assert "may finish" in finishes
    assert told(WindowQuery(MINUTES), columnar=True) == told(WindowQuery(MINUTES, pst.CountTrigger.of(3)), columnar=False) == []
