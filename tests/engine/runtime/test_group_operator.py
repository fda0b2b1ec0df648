"""What is the same in every operator: what a micro-batch is told of."""

from __future__ import annotations

from tests.comparison import harness
from tests.engine.operators.sessions.test_operator import batch, query


def test_a_micro_batch_without_rows_was_called_by_the_clock():
    emitted = harness.run(query().columnar(), [batch(("a", 0, None)), batch(), batch(("a", 5, None)), batch(end=True)])
    assert [one.metrics.woken for one in emitted] == [False, True, False, True]
