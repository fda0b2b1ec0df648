"""Aligned panes against the row operator, on random queries and streams.

``PANESTREAM_CASES=20000 pytest tests/columnar/test_panes_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

import random

import pytest

from panestream.engine.planner import Windowing
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.columnar import kit

CHUNKS = 8


def random_query(rng: random.Random) -> tuple[kit.Query, int]:
    """A query, and about the size of its windows."""
    size, slide = rng.choice(
        [(10, 10), (7, 7), (1, 1), (10, 5), (12, 3), (10, 4), (7, 5), (20, 3), (5, 8), (3, 10), (40, 1), (64, 2)]
    )
    offset = rng.randint(1 - slide, slide - 1) if rng.random() < 0.4 else 0
    assigner = TumblingEventTimeWindows(size, offset) if size == slide else SlidingEventTimeWindows(size, slide, offset)
    windowing = Windowing(assigner)
    return kit.Query(windowing, kit.random_aggregates(rng), rng.choice([0, 0, 3, size]), rng.random() < 0.4), size


def case(rng: random.Random, seed: int) -> None:
    query, span = random_query(rng)
    batches = kit.random_stream(rng, span)
    kit.compare(query, batches, f"seed {seed}")
    if seed % 4 == 0:
        kit.compare_batch(query, batches, f"seed {seed}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_panes_are_what_the_row_operator_does(chunk):
    kit.run_cases(400, chunk, CHUNKS, case)
