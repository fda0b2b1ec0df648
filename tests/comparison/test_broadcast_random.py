"""Keyed broadcast process functions over several key groups give what one list of rows and rules gives, however they are run."""

from __future__ import annotations

import random

import pytest

from panestream.engine.runtime.sides import SIDES
from panestream.testing.simulation.schedule import MicroBatch
from tests.comparison.broadcast import Naive, Query, by_key, engine, random_batches
from tests.comparison.harness import run_cases


def compare(rng, seed):
    delay, follows = rng.choice([0, 3]), rng.random() < 0.3
    query, naive = Query(engine(rng.choice([1, 2, 3, 5]), delay, follows=follows)), Naive(delay, follows)
    for number, batch in enumerate(random_batches(rng)):
        if rng.random() < 0.3:
            query = query.restored(rng.choice([1, 2, 3, 5]))
        main, side = query.run(batch, rng)
        wanted, to_side = naive.take(batch.rows)
        assert by_key(main) == by_key(wanted), (seed, number)
        assert by_key(side) == by_key(to_side), (seed, number)
        assert len({repr(header["counters"]["equal"]) for header in query.headers()}) == 1, (seed, number)


def test_key_groups_with_restarts_and_savepoints_give_what_one_list_gives():
    run_cases(400, 0, 1, compare)


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(4))
def test_thousands_of_programs_give_what_one_list_gives(chunk):
    for seed in range(10_000 + chunk, 12_000, 4):
        compare(random.Random(seed), seed)


def test_batch_gives_what_a_stream_of_rows_in_order_gives():
    def case(rng, seed):
        batches, query = random_batches(rng, in_order=True, timers=False), Query(engine(rng.choice([1, 2, 3]), 0))
        stream = [row for batch in batches for row in query.run(batch)[0]]
        assert by_key(stream) == by_key(engine(rng.choice([1, 2, 3]), 0).batch(batches)), seed

    run_cases(200, 0, 1, case)


def test_rows_and_rules_that_are_packed_together_or_apart_give_the_same():
    def case(rng, seed):
        (batch, *_), groups = random_batches(rng), rng.choice([1, 3])
        tasks = [tuple(row for row in batch.rows if row.side == side) for side in SIDES]
        apart = MicroBatch(tuple(task for task in tasks if task), 1)
        one, other = (Query(engine(groups, 0)).run(given) for given in (batch, apart))
        assert list(map(by_key, one)) == list(map(by_key, other)), seed

    run_cases(100, 0, 1, case)
