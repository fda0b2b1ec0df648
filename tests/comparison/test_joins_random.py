"""Compare joins of two streams with their definition, on random queries and streams, and as one batch.


``PANESTREAM_CASES=10000 pytest tests/comparison/test_joins_random.py`` runs more; ``PANESTREAM_SEED`` others.
"""

from dataclasses import replace

import pytest

from panestream.engine.operators.row.spec import RowSpec
from tests.comparison import joins
from tests.comparison.harness import run_cases

CHUNKS = 8


def compare(join, batches, seed, **how):
    for place, (ours, theirs) in enumerate(
        zip(joins.found(join.plan(), batches, **how), joins.defined(join, batches, **how), strict=True)
    ):
        told = f"seed {seed}, micro-batch {place}\n{join}\n{batches}"
        assert ours.rows == theirs.rows, told
        assert {side: sorted(rows, key=str) for side, rows in ours.late.items()} == {
            side: sorted(rows, key=str) for side, rows in theirs.late.items()
        }, told


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_window_join_agrees_with_the_definition(chunk):
    def case(rng, seed):
        join, span = joins.random_join(rng)
        assert not isinstance(join.plan().operator, RowSpec)
        compare(join, joins.random_streams(rng, span), seed)

    run_cases(160, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_batch_window_join_agrees_with_the_definition(chunk):
    def case(rng, seed):
        join, span = joins.random_join(rng)
        compare(join, joins.random_streams(rng, span), seed, end=True)

    run_cases(56, chunk, CHUNKS, case)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_window_join_on_the_row_operator_agrees_with_the_definition(chunk):
    """The row operator fires for every late row. Its last firing of a window in a micro-batch must agree."""

    def case(rng, seed):
        join, span = joins.random_join(rng, exact=True)
        # The row operator also fires the smaller sessions that grow within a micro-batch.
        if hasattr(join.windowing.assigner, "gap"):
            join = replace(join, windowing=replace(join.windowing, allowed_lateness=0))
        plan = join.plan()
        assert isinstance(plan.operator, RowSpec)
        batches = joins.random_streams(rng, span)
        for ours, theirs in zip(joins.last_firings(plan, batches), joins.defined(join, batches), strict=True):
            assert ours == theirs.rows, f"seed {seed}\n{join}\n{batches}"

    run_cases(56, chunk, CHUNKS, case)
