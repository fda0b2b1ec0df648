"""Look-backs against their definition, on random queries and streams.

``PANESTREAM_CASES=10000 pytest tests/comparison/test_look_back_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import pytest

from tests.comparison import harness, look_backs

CHUNKS = 8


def check(plan, batches, seed, found):
    for number, ((rows, late), ours) in enumerate(zip(look_backs.expected(plan, batches), found, strict=True)):
        where = f"{seed}: micro-batch {number}\n{plan.assigner} {plan.operator.aggregates}\n{batches[: number + 1]}"
        theirs, our_rows = look_backs.by_key(rows), look_backs.by_key(ours.fired)
        assert theirs.keys() == our_rows.keys(), where
        for key, values in theirs.items():
            assert harness.same(values, our_rows[key]), f"{where}\n{key}: expected {values}\nfound {our_rows[key]}"
        assert ours.metrics.late_rows == len(late), where
        assert ours.late == (late if plan.late_tag else []), where


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_as_the_definition(chunk):
    def case(rng, seed):
        plan, span = look_backs.random_plan(rng)
        batches = harness.random_stream(rng, span)
        check(plan, batches, seed, harness.run(plan, batches))

    harness.run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_as_stream(chunk):
    def case(rng, seed):
        plan, span = look_backs.random_plan(rng)
        batches = [batch for batch in harness.random_stream(rng, span, late=0.0) if not batch.end]
        back = harness.furthest_back(batches)
        plan = look_backs.plan_of(plan.assigner, plan.operator.aggregates, plan.operator.kept.names, back)
        stream = [row for one in harness.run(plan, [*batches, harness.MicroBatch([], end=True)]) for row in one.fired]
        (batch,) = harness.run(plan, [harness.MicroBatch([chunk for one in batches for chunk in one.chunks], end=True)])
        ours, theirs = look_backs.by_key(batch.fired), look_backs.by_key(stream)
        assert ours.keys() == theirs.keys(), seed
        assert all(harness.same(values, ours[key]) for key, values in theirs.items()), seed

    harness.run_cases(80, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(4))
def test_a_micro_batch_that_is_run_again_gives_the_same_bytes(chunk):
    def case(rng, seed):
        plan, span = look_backs.random_plan(rng)
        harness.check_reruns(plan, harness.random_stream(rng, span), seed)

    harness.run_cases(16, chunk, 4, case)
