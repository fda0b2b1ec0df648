"""Compare windows by predicates with their definition, on random queries and streams.


``PANESTREAM_CASES=10000 pytest tests/comparison/test_predicates_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random

import pytest

from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, PredicateWindows
from tests.comparison import harness, predicates

CHUNKS = 8
ORDERLESS = (agg.Count, agg.Sum, agg.Mean, agg.Min, agg.Max, agg.Var, agg.CountDistinct)
"""Aggregates that do not depend on the order of rows with equal times."""


def check(plan, batches, seed, found):
    for number, ((fired, late), ours) in enumerate(zip(predicates.expected(plan, batches), found, strict=True)):
        where = f"{seed}: micro-batch {number}\n{plan.assigner} {plan.operator.aggregates}\n{batches[: number + 1]}"
        wrong = harness.difference(fired, harness.single_firings(ours.fired))
        assert wrong is None, f"{where}\n{wrong}"
        assert ours.metrics.late_rows == len(late), where
        assert ours.late == (late if plan.late_tag else []), where


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_windows_by_predicates_agree_with_the_definition(chunk):
    def case(rng, seed):
        plan, span = predicates.random_plan(rng)
        batches = harness.random_stream(rng, span)
        check(plan, batches, seed, harness.run(plan, batches))

    harness.run_cases(240, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_windows_by_predicates_agree_with_the_stream_in_any_order(chunk):
    def case(rng, seed):
        plan, span = predicates.random_plan(rng)
        batches = [batch for batch in harness.random_stream(rng, span, late=0.0) if not batch.end]
        recipes = tuple(one for one in plan.operator.aggregates if isinstance(one, ORDERLESS))
        plan = predicates.plan_of(plan.assigner, recipes or (agg.count(),), harness.furthest_back(batches))
        stream = [row for one in harness.run(plan, [*batches, harness.MicroBatch([], end=True)]) for row in one.fired]
        rows = [row for batch in batches for row in batch.rows]
        rng.shuffle(rows)
        (batch,) = harness.run(plan, [harness.MicroBatch([rows[:5], rows[5:]], end=True)])
        wrong = harness.difference(harness.single_firings(stream), harness.single_firings(batch.fired))
        assert wrong is None, f"{seed}: {wrong}\n{plan.assigner}\n{batches}"

    harness.run_cases(120, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(4))
def test_windows_whose_end_predicate_never_holds_equal_sessions(chunk):
    def case(rng, seed):
        gap = rng.choice([1, 4, 30])
        batches = [batch for batch in harness.random_stream(rng, gap, late=0.0) if not batch.end]
        recipes, back = harness.random_aggregates(rng), harness.furthest_back(batches) + 1
        closed = EventTimeSessionWindows(gap).closed_by("never")
        sessions = harness.Query(harness.WindowQuery(EventTimeSessionWindows(gap)), recipes, back).columnar()
        last = [*batches, harness.MicroBatch([], end=True)]
        ours, theirs = (
            harness.single_firings([row for one in harness.run(plan, last) for row in one.fired])
            for plan in (predicates.plan_of(closed, recipes, back), sessions)
        )
        assert harness.difference(theirs, ours) is None, seed

    harness.run_cases(32, chunk, 4, case)


@pytest.mark.parametrize("chunk", range(4))
def test_repeated_micro_batch_of_predicates_gives_the_same_bytes(chunk):
    def case(rng, seed):
        plan, span = predicates.random_plan(rng)
        harness.check_reruns(plan, harness.random_stream(rng, span), seed)

    harness.run_cases(16, chunk, 4, case)


def test_state_of_closed_windows_by_predicates_is_removed():
    plan = predicates.plan_of(PredicateWindows("u % 5 = 0", "u % 4 = 1", 10), (agg.count(),))
    rng, state = random.Random(1), MemoryState()
    for number in range(30):
        rows = [(rng.choice("abc"), 10 * number + rng.randint(0, 9), 1, None, rng.randint(0, 999)) for _ in range(20)]
        plan.operator.for_group(plan, state, 0).process(harness.group_input(plan, harness.MicroBatch([rows])))
    last = harness.MicroBatch([[("z", 10_000, 1, None, 7)]])
    plan.operator.for_group(plan, state, 0).process(harness.group_input(plan, last))
    kept = plan.operator.for_group(plan, state, 0).tables().tables["steps"]
    assert kept["key 0"].to_pylist() == ["z"]
    assert sum(len(value) for place, value in state.values.items() if place[0] == "pages") < 2_000
