"""Compare columnar operators with the row operator if silence closes windows: without rows, by processing time.


``PANESTREAM_CASES=10000 pytest tests/comparison/test_silence_columns_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random
from dataclasses import replace

import pytest

from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness, test_panes_random, test_sessions_random

CHUNKS = 4


def silent(rng: random.Random, query: harness.Query, span: int) -> harness.Query:
    """Return the query with a watermark that follows the clock during silence."""
    watermark = WatermarkStrategy(query.delay, closes_after=rng.choice([1, span, 2 * span]))
    if rng.random() < 0.2:
        watermark = replace(watermark, idle_timeout=rng.choice([1, span, 3 * span]))
    return replace(query, more={"watermark": watermark, "ticks": 1})


def pauses(rng: random.Random, batches: list[harness.MicroBatch], span: int) -> list[harness.MicroBatch]:
    """Insert micro-batches without rows, during which processing time advances."""
    made, by = [], 0
    for batch in batches:
        made.append(replace(batch, clock=batch.clock + by))
        while rng.random() < 0.5 and not batch.end:
            by += rng.randint(0, 2 * span)
            made.append(harness.MicroBatch([], batch.clock + by))
    return made


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_panes_close_on_silence_like_the_row_operator(chunk):
    moved = []

    def case(rng, seed):
        while True:
            query, span = test_panes_random.random_query(rng)
            if query.windowing.assigner.is_event_time:
                break
        query = silent(rng, query, span)
        batches = pauses(rng, harness.random_stream(rng, span, clock=True), span)
        harness.compare(query, batches, seed)
        found = harness.run(query.columnar(), batches)
        moved.append(any(one.fired and not batch.rows and not batch.end for one, batch in zip(found, batches, strict=True)))

    harness.run_cases(320, chunk, CHUNKS, case)
    assert any(moved), "no window fired without rows: the test says nothing"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_sessions_close_on_silence_like_the_row_operator(chunk):
    def case(rng, seed):
        query, span = test_sessions_random.random_query(rng)
        query = silent(rng, query, span)
        batches = pauses(rng, harness.random_stream(rng, span, clock=True), span)
        harness.compare(query, batches, seed, test_sessions_random.of_the_row_operator(query, batches))

    harness.run_cases(60, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_silence_setting_does_not_change_a_batch(chunk):
    def case(rng, seed):
        query, span = test_panes_random.random_query(rng)
        batches = harness.random_stream(rng, span)
        whole = [harness.MicroBatch([chunk for one in batches for chunk in one.chunks], end=True)]
        (plain,), (closing,) = (harness.run(one.columnar(), whole) for one in (query, silent(rng, query, span)))
        assert (plain.fired, plain.late) == (closing.fired, closing.late), f"seed {seed}: {query}"
        assert closing.wake_up is None or not query.windowing.assigner.is_event_time

    harness.run_cases(20, chunk, CHUNKS, case)
