"""Compare look-backs with their definition, on random queries and streams.


``PANESTREAM_CASES=10000 pytest tests/comparison/test_look_back_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import pytest

from panestream.engine.operators.look_back import history
from panestream.engine.storage.state import MemoryState
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


def bits(emitted):
    """Return the rows of each key in order, as text. NaN then equals itself, and other floats must be identical."""
    return {key: repr(values) for key, values in look_backs.by_key(emitted.fired).items()}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_look_backs_agree_with_the_definition(chunk, monkeypatch):
    def case(rng, seed):
        look_backs.small_slices(monkeypatch, rng)
        plan, span = look_backs.random_plan(rng)
        batches = harness.random_stream(rng, span)
        check(plan, batches, seed, harness.run(plan, batches))

    harness.run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_look_backs_agree_with_the_stream(chunk, monkeypatch):
    def case(rng, seed):
        look_backs.small_slices(monkeypatch, rng)
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
def test_repeated_micro_batch_of_look_backs_gives_the_same_bytes(chunk, monkeypatch):
    def case(rng, seed):
        look_backs.small_slices(monkeypatch, rng)
        plan, span = look_backs.random_plan(rng)
        harness.check_reruns(plan, harness.random_stream(rng, span), seed)

    harness.run_cases(16, chunk, 4, case)


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_look_backs_with_slices_have_the_same_bits_as_without(chunk, monkeypatch):
    """Each key must have the same rows in the same order for all aggregates, with floats equal to the last bit."""
    merged = []
    scan = history.PaneBlocks.scan_spans

    def counted(blocks, low, end):
        for table in scan(blocks, low, end):
            if blocks.space == history.SLICES:
                merged.append(table.num_rows)
            yield table

    def case(rng, seed):
        plan, span = look_backs.random_plan(rng)
        batches = harness.random_stream(rng, span, batches=30)
        look_backs.small_slices(monkeypatch, rng)
        ours = harness.run(plan, batches)
        with monkeypatch.context() as without:
            without.setattr(history, "slice_length", lambda keyed, longest: 0)
            theirs = harness.run(plan, batches)
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert bits(one) == bits(other), f"{seed}: micro-batch {number}\n{plan.operator}\n{batches[: number + 1]}"
            assert (one.late, one.metrics.kept_windows) == (other.late, other.metrics.kept_windows), seed

    monkeypatch.setattr(history.PaneBlocks, "scan_spans", counted)
    harness.run_cases(160, chunk, CHUNKS, case)
    assert sum(merged) > 20, "no case read a slice: nothing was compared"


@pytest.mark.parametrize("chunk", range(4))
def test_restored_look_backs_with_other_slices_agree(chunk, monkeypatch):
    def case(rng, seed):
        look_backs.small_slices(monkeypatch, rng)
        plan, span = look_backs.random_plan(rng)
        batches = harness.random_stream(rng, span, batches=20)
        expected, state, found = harness.run(plan, batches), MemoryState(), []
        for batch in batches:
            found += harness.run(plan, [batch], state)
            if rng.random() < 0.3 and not batch.end:
                saved, state = plan.operator.for_group(plan, state, 0).tables(), MemoryState()
                plan.operator.for_group(plan, state, 0).restore(saved)
        assert [bits(one) for one in found] == [bits(one) for one in expected], f"{seed}\n{plan.operator}\n{batches}"

    harness.run_cases(64, chunk, 4, case)
