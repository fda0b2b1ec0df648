"""Compare rolling values with their definition, on random queries and streams.

``PANESTREAM_CASES=10000 pytest tests/comparison/test_rolling_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import pytest

from panestream.engine.operators.panes import rollups
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import RollingWindows
from tests.comparison import harness, look_backs, rolling

CHUNKS = 8


def check(plan, batches, seed, found):
    """Compare each micro-batch. If values have rounding errors, only the last row of each key and step is comparable."""
    for number, ((changes, late), ours) in enumerate(zip(rolling.expected(plan, batches), found, strict=True)):
        where = f"{seed}: micro-batch {number}\n{plan.assigner} {plan.operator.aggregates}\n{batches[: number + 1]}"
        theirs, our_rows = look_backs.by_key(rolling.shown(plan, changes)), look_backs.by_key(ours.fired)
        assert theirs.keys() == our_rows.keys(), f"{where}\nexpected {theirs}\nfound {our_rows}"
        for key, values in theirs.items():
            assert harness.same(values, our_rows[key]), f"{where}\n{key}: expected {values}\nfound {our_rows[key]}"
        assert ours.metrics.late_rows == len(late), where
        assert ours.late == (late if plan.late_tag else []), where


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_rolling_values_agree_with_the_definition(chunk, monkeypatch):
    def case(rng, seed):
        monkeypatch.setattr(rollups, "_LONG", rng.choice([1, 4, 24]))
        plan, span = rolling.random_plan(rng)
        batches = harness.random_stream(rng, span)
        check(plan, batches, seed, harness.run(plan, batches))

    harness.run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_of_rolling_values_agrees_with_the_stream(chunk):
    def case(rng, seed):
        plan, span = rolling.random_plan(rng)
        batches = [batch for batch in harness.random_stream(rng, span, late=0.0) if not batch.end]
        plan = rolling.with_delay(plan, harness.furthest_back(batches))
        stream = [row for one in harness.run(plan, [*batches, harness.MicroBatch([], end=True)]) for row in one.fired]
        (batch,) = harness.run(plan, [harness.MicroBatch([chunk for one in batches for chunk in one.chunks], end=True)])
        ours, theirs = look_backs.by_key(batch.fired), look_backs.by_key(stream)
        assert ours.keys() == theirs.keys(), seed
        assert all(harness.same(values, ours[key]) for key, values in theirs.items()), f"{seed}\n{ours}\n{theirs}"

    harness.run_cases(80, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(4))
def test_repeated_micro_batch_of_rolling_values_gives_the_same_bytes(chunk):
    def case(rng, seed):
        plan, span = rolling.random_plan(rng)
        harness.check_reruns(plan, harness.random_stream(rng, span), seed)

    harness.run_cases(16, chunk, 4, case)


@pytest.mark.parametrize("chunk", range(4))
def test_restored_rolling_values_agree(chunk):
    def case(rng, seed):
        plan, span = rolling.random_plan(rng)
        batches = harness.random_stream(rng, span, batches=20)
        state, found = MemoryState(), []
        for batch in batches:
            found += harness.run(plan, [batch], state)
            if rng.random() < 0.3 and not batch.end:
                saved, state = plan.operator.for_group(plan, state, 0).tables(), MemoryState()
                plan.operator.for_group(plan, state, 0).restore(saved)
        check(plan, batches, seed, found)

    harness.run_cases(64, chunk, 4, case)


def test_row_within_allowed_lateness_corrects_the_last_step_at_once():
    rows = [[("a", 1, 1, None, 1)], [("a", 25, 2, None, 2)], [("a", 12, 4, None, 3)]]
    batches = [harness.MicroBatch([one]) for one in rows]
    windows, total = RollingWindows((("h", 30),), 10), (agg.sum("v").alias("s"),)
    *_, late = harness.run(rolling.plan_of(windows, total), batches)
    assert (late.fired, late.metrics.late_rows) == ([], 1)
    *_, taken = harness.run(rolling.plan_of(windows, total, lateness=20), batches)
    assert (taken.fired, taken.metrics.late_rows, taken.metrics.firings) == ([(("a",), (20, 5))], 0, {"late": 1})


def test_late_row_follows_an_equal_time_that_left_the_longest_window():
    """The first row at time 1 is in the partial of all time when the second row at time 1 comes."""
    rows = [[("a", 1, 5, None, 1), ("a", 45, 6, None, 2)], [("a", 1, 7, None, 3), ("a", 46, 8, None, 4)]]
    plan = rolling.plan_of(RollingWindows((("h", 10), ("ever", None)), 10), (agg.first("v").alias("f"),), lateness=100)
    _, taken = harness.run(plan, [harness.MicroBatch([one]) for one in rows])
    assert (taken.fired, taken.metrics.late_rows) == ([], 0)
    *_, end = harness.run(plan, [*(harness.MicroBatch([one]) for one in rows), harness.MicroBatch([], end=True)])
    assert [values[2] for _, values in end.fired] == [5, 5]
