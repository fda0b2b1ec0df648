"""Random queries on Spark with a restart agree with the row operator in the engine on the same micro-batches.


``PANESTREAM_SPARK_CASES=100 pytest tests/comparison/test_random_on_spark.py`` runs more; ``PANESTREAM_SEED`` others.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

import panestream as pst
from panestream.testing import MicroBatches
from panestream.windowing.triggers import CountTrigger
from tests.comparison import harness, test_counts_random, test_panes_random, test_sessions_random
from tests.comparison.on_spark import SCHEMA, by_place, fired, in_our_time, windowed_by, with_timestamps

# Random streams drop late rows, and .main warns about its columns.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

CASES = int(os.environ.get("PANESTREAM_SPARK_CASES", "4"))


def random_case(rng: random.Random) -> tuple[harness.Query, list[harness.MicroBatch], str]:
    """Return a query that a columnar operator runs, at least two micro-batches with data, and its kind."""
    kind = rng.choice(["panes", "panes", "sessions", "counts"])
    if kind == "panes":
        query, span = test_panes_random.random_query(rng)
        while not query.windowing.assigner.is_event_time:
            query, span = test_panes_random.random_query(rng)
    elif kind == "sessions":
        query, span = test_sessions_random.random_query(rng)
        while not isinstance(query.windowing.assigner.gap, int):
            query, span = test_sessions_random.random_query(rng)
    else:
        query, span = test_counts_random.random_query(rng), 10
    batches: list[harness.MicroBatch] = []
    while len(batches) < 2:
        # Each micro-batch is one file, because Spark skips empty micro-batches.
        made = [batch.rows for batch in harness.random_stream(rng, span, batches=6) if batch.rows]
        batches = [harness.MicroBatch([in_our_time(rows)]) for rows in made]
    return query, batches, kind


def expected_of(query: harness.Query, batches: list[harness.MicroBatch], kind: str) -> list[list[tuple]]:
    """Return by micro-batch the (place, values) that a columnar operator must emit."""
    emitted = (
        test_sessions_random.of_the_row_operator(query, batches) if kind == "sessions" else harness.run(query.row(), batches)
    )
    per_firing = kind == "counts" and not (query.windowing.evictor is None and isinstance(query.windowing.trigger, CountTrigger))
    return [one.fired if per_firing else list(harness.coalesced(one.fired).items()) for one in emitted]


@pytest.mark.parametrize("seed", range(harness.first_seed(), harness.first_seed() + CASES))
def test_restarted_query_on_spark_agrees_with_the_row_operator(spark, tmp_path, seed):
    rng = random.Random(seed)
    query, batches, kind = random_case(rng)
    files = MicroBatches(spark, tmp_path / "in", SCHEMA)
    query = replace(query, late=False)
    expected = expected_of(query, batches, kind)
    found: dict[int, list[tuple]] = {}

    def collect(rows, batch_id):
        found[batch_id] = fired(rows)

    half = rng.randint(0, len(batches))
    for part in (batches[:half], batches[half:]):
        for batch in part:
            files.add(with_timestamps(batch.rows))
        if part:
            result = windowed_by(files.stream(), query.windowing, query.delay).aggregate(*query.aggregates)
            assert result.operator.name != "row operator"
            result.start(main=pst.ForeachBatchSink(collect, idempotent=True), checkpoint=f"{tmp_path}/c").await_termination()
    for number, wanted in enumerate(expected):
        wrong = harness.difference(by_place(wanted), by_place(found.get(number, ())))
        assert wrong is None, f"seed {seed}: micro-batch {number}: {wrong}\n{query}\n{batches}"
