"""Compare count windows with the row operator, on random queries and streams.

``PANESTREAM_CASES=20000 pytest tests/comparison/test_counts_random.py`` runs more; ``PANESTREAM_SEED`` others.

Firings of count windows carry their own content and never merge, so both operators must emit the same firings per key and
micro-batch. Only if everything so far fires repeatedly does the last firing of a micro-batch replace the others.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.triggers import CountTrigger
from tests.comparison import harness

CHUNKS = 8


def random_query(rng: random.Random) -> harness.Query:
    size = rng.choice([1, 2, 3, 5, 7, 12])
    kind = rng.choice(["tumbling", "sliding", "sliding", "everything"])
    if kind == "everything":
        windowing = WindowQuery(GlobalWindows.create(), CountTrigger.of(rng.choice([0, size])))
    elif kind == "tumbling":
        windowing = WindowQuery(*CountWindows(size).parts)
    else:
        windowing = WindowQuery(*CountWindows(size, rng.randint(0, size)).parts)
    return harness.Query(windowing, harness.random_aggregates(rng))


def by_key(emitted, *, last: bool) -> dict:
    found: dict = {}
    for place, values in emitted.fired:
        found[place] = [*([] if last else found.get(place, [])), values]
    return found


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_count_windows_agree_with_the_row_operator(chunk):
    def case(rng, seed):
        query, batches = random_query(rng), harness.random_stream(rng, 10)
        last = query.windowing.evictor is None and isinstance(query.windowing.trigger, CountTrigger)
        expected, found = harness.run(query.row(), batches), harness.run(query.columnar(), batches)
        for number, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
            if last:
                harness.single_firings(ours.fired)
            wrong = harness.difference(by_key(theirs, last=last), by_key(ours, last=last))
            assert wrong is None, f"{seed}: micro-batch {number}: {wrong}\n{query}\n{batches[: number + 1]}"

    harness.run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_count_windows_do_not_depend_on_micro_batches(chunk):
    def case(rng, seed):
        query, batches = random_query(rng), harness.random_stream(rng, 10)
        if query.windowing.evictor is None and isinstance(query.windowing.trigger, CountTrigger):
            return
        stream: dict = {}
        for emitted in harness.run(query.columnar(), batches):
            for place, values in by_key(emitted, last=False).items():
                stream[place] = [*stream.get(place, []), *values]
        whole = harness.MicroBatch([chunk for batch in batches for chunk in batch.chunks], end=True)
        (batch,) = harness.run(query.columnar(), [whole])
        assert harness.difference(by_key(batch, last=False), stream) is None, seed

    harness.run_cases(80, chunk, CHUNKS, case)


def test_metrics_count_keys_with_an_open_count_window():
    def case(rng, seed):
        plan, state = random_query(rng).columnar(), MemoryState()
        for batch in harness.random_stream(rng, 10):
            (emitted,) = harness.run(plan, [replace(batch, end=False)], state)
            operator = plan.operator.for_group(plan, state, 0)
            rows = operator._pages.read(np.ones(len(operator._pages.index), np.bool_))
            assert emitted.metrics.kept_windows == len(set(rows.column(0).to_pylist())), seed

    harness.run_cases(60, 0, 1, case)
