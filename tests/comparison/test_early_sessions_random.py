"""Compare a table of sessions with early results with their definition, on random queries and streams.

Each micro-batch has a new operator on the stored bytes. Sometimes the state also passes through state tables, as a savepoint does,
and sometimes a micro-batch runs twice from the same state. ``PANESTREAM_CASES=10000 pytest ...`` runs more; ``PANESTREAM_SEED`` others.
"""

import random

import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows
from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, EventTimeTrigger, Repeatedly
from tests.comparison import harness
from tests.comparison.early_sessions import FOREVER, Sessions, merged
from tests.comparison.savepoints import shuffled

CHUNKS = 4
AGGREGATES = (agg.count().alias("n"), agg.sum("u").alias("s"), agg.max("u").alias("m"))


def random_query(rng: random.Random) -> tuple[harness.Query, Sessions, int]:
    gap = rng.choice([1, 4, 10, 30])
    interval = rng.choice([1, 3, gap, 4 * gap])
    trigger = rng.choice(
        [
            ContinuousEventTimeTrigger(interval),
            ContinuousEventTimeTrigger(interval, only_changed=True),
            ContinuousEventTimeTrigger(interval, only_changed=True),
            CountTrigger(rng.choice([1, 2, 3])),
            EventTimeTrigger.create(),
        ]
    )
    lateness = rng.choice([0, 0, gap // 2, 3 * gap])
    written = Repeatedly.of(trigger) if isinstance(trigger, ContinuousEventTimeTrigger) and rng.random() < 0.2 else trigger
    windowing = WindowQuery(EventTimeSessionWindows(gap), written, allowed_lateness=lateness)
    query = harness.Query(windowing, AGGREGATES, rng.choice([0, gap // 2, 2 * gap]), more={"changelog": True})
    return query, Sessions(gap, trigger, lateness), gap


def case(rng: random.Random, seed: int) -> None:
    query, defined, gap = random_query(rng)
    batches, plan, state, table = harness.random_stream(rng, 2 * gap), query.row(), MemoryState(), {}
    for number, batch in enumerate(batches):
        before = dict(state.values)
        (emitted,) = harness.run(plan, [batch], state)
        for row in batch.rows:
            defined.row(row)
        reached = FOREVER if batch.end else emitted.metrics.watermark
        defined.advance(defined.watermark if reached is None else reached)
        where = f"seed {seed}: micro-batch {number}: {query}\n{batches[: number + 1]}"
        for place, (*values, op) in emitted.fired:
            if op in ("update_before", "delete"):
                assert table[place] == tuple(values), where
            assert (op == "insert") == (place not in table) or op == "update_after", where
        table = merged(table, emitted.fired)
        if rng.random() < 0.2:  # a crash between the table and Spark's commit: the micro-batch runs again
            state = MemoryState(before)
            (again,) = harness.run(plan, [batch], state)
            table = merged(table, again.fired)
        assert table == defined.table, f"{where}\n{harness.difference(defined.table, table)}"
        if rng.random() < 0.2 and not batch.end:
            saved, state = plan.operator.for_group(plan, state, 0).tables(), MemoryState()
            plan.operator.for_group(plan, state, 0).restore(shuffled(saved, rng))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_table_of_early_results_has_each_session_once(chunk):
    harness.run_cases(160, chunk, CHUNKS, case)


def test_repeated_micro_batch_of_early_results_leaves_the_same_bytes():
    def rerun(rng, seed):
        query, _, gap = random_query(rng)
        harness.check_reruns(query.row(), harness.random_stream(rng, 2 * gap), seed)

    harness.run_cases(24, 0, 1, rerun)
