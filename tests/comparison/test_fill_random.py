"""Filled windows on random streams, compared with their definition after every micro-batch."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from panestream.engine.storage.state import MemoryState
from tests.comparison import fills, harness

CHUNKS = 4


def check_stream(rng: random.Random, seed: int) -> None:
    linear = rng.random() < 0.3
    query = fills.random_query(rng, linear=linear)
    changes = rng.random() < 0.3
    query = replace(query, more={"changelog": True}) if changes else query
    batches = harness.random_stream(rng, query.windowing.assigner.size, batches=8)
    judge, found = fills.judge_of(query), {}
    for batch, emitted in zip(batches, harness.run(query.columnar(), batches), strict=True):
        judge.take_in(batch)
        apply(found, emitted.fired, changes=changes)
        wrong = harness.difference(judge.table(), found)
        assert wrong is None, f"seed {seed}: {wrong}\n{query}\n{batches}"
        on_time = not emitted.metrics.firings.get("late", 0)
        assert changes or not on_time or all(ends == sorted(ends) for _, ends in fills.by_time(emitted.fired)), seed


def apply(found: dict, fired: list, *, changes: bool) -> None:
    """Apply the rows of a micro-batch to the table of results; each change must fit the row that it replaces."""
    rows = harness.single_firings(fired).items() if not changes else fired
    for place, values in rows:
        *results, op = values if changes else (*values, "row")
        if op in ("update_before", "insert"):
            assert harness.same(found.get(place), tuple(results) if op == "update_before" else None), (place, op)
        if op != "update_before":
            found[place] = tuple(results)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_filled_windows_equal_their_definition_after_every_micro_batch(chunk):
    harness.run_cases(400, chunk, CHUNKS, check_stream)


def check_batch(rng: random.Random, seed: int) -> None:
    query = fills.random_query(rng, linear=rng.random() < 0.3, lateness=0)
    batches = harness.random_stream(rng, query.windowing.assigner.size, batches=6)
    harness.compare_batch(query, batches, seed)
    whole = harness.MicroBatch([chunk for batch in batches for chunk in batch.chunks], end=True)
    judge = fills.judge_of(query)
    judge.take_in(whole)
    (emitted,) = harness.run(query.columnar(), [whole])
    wrong = harness.difference(judge.table(), harness.single_firings(emitted.fired))
    assert wrong is None, f"seed {seed}: {wrong}\n{query}\n{batches}"
    harness.check_reruns(query.columnar(), batches, seed)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_filled_batch_equals_stream_and_definition(chunk):
    harness.run_cases(200, chunk, CHUNKS, check_batch)


def check_emitted_once(rng: random.Random, seed: int) -> None:
    query = fills.random_query(rng, linear=rng.random() < 0.3, lateness=0)
    batches = harness.random_stream(rng, query.windowing.assigner.size, batches=8)
    places = [place for emitted in harness.run(query.columnar(), batches) for place, _ in emitted.fired]
    assert len(places) == len(set(places)), f"seed {seed}: a window was emitted twice\n{query}\n{batches}"


def test_window_is_emitted_once_without_allowed_lateness():
    harness.run_cases(100, 0, 1, check_emitted_once)


def check_listed(rng: random.Random, seed: int) -> None:
    """List keys at the start and more of them in a later run, and forget none at a restart after each micro-batch."""
    query = fills.random_query(rng, linear=rng.random() < 0.3, lateness=0)
    batches = harness.random_stream(rng, query.windowing.assigner.size, batches=8)
    at_first, later = (rng.sample(["a", "b", "y", "z"], rng.randint(0, 4)) for _ in range(2))
    cut = rng.randint(0, len(batches))
    judge, found, state = fills.judge_of(query), {}, MemoryState()
    for number, batch in enumerate(batches):
        keys = at_first if number < cut else [*at_first, *later]
        if number in (0, cut):
            judge.list(keys)
        (emitted,) = harness.run(fills.listing(query, keys).columnar(), [batch], state)
        places = [place for place, _ in emitted.fired]
        assert not Counter(places) - Counter(set(places) - found.keys()), f"seed {seed}: a window was emitted twice"
        judge.take_in(batch)
        apply(found, emitted.fired, changes=False)
        wrong = harness.difference(judge.table(), found)
        assert wrong is None, f"seed {seed}, {at_first} + {later} at {cut}: {wrong}\n{query}\n{batches}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_listed_keys_are_filled_by_their_definition_after_every_restart(chunk):
    harness.run_cases(400, chunk, CHUNKS, check_listed)


def check_listed_batch(rng: random.Random, seed: int) -> None:
    query = fills.listing(fills.random_query(rng, linear=rng.random() < 0.3, lateness=0), ["a", "y"])
    batches = harness.random_stream(rng, query.windowing.assigner.size, batches=6)
    harness.compare_batch(query, batches, seed)
    judge = fills.judge_of(query)
    judge.list(["a", "y"])
    whole = harness.MicroBatch([chunk for batch in batches for chunk in batch.chunks], end=True)
    judge.take_in(whole)
    (emitted,) = harness.run(query.columnar(), [whole])
    wrong = harness.difference(judge.table(), harness.single_firings(emitted.fired))
    assert wrong is None, f"seed {seed}: {wrong}\n{query}\n{batches}"


def test_batch_with_listed_keys_equals_stream_and_definition():
    harness.run_cases(150, 0, 1, check_listed_batch)
