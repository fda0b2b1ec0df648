"""What is the same in every operator: what a micro-batch is told of."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from tests.comparison import harness
from tests.engine.operators.sessions.test_operator import batch, query


def test_a_micro_batch_without_rows_was_called_by_the_clock():
    emitted = harness.run(query().columnar(), [batch(("a", 0, None)), batch(), batch(("a", 5, None)), batch(end=True)])
    assert [one.metrics.woken for one in emitted] == [False, True, False, True]


def test_rows_of_which_none_is_usable_are_rows_and_so_are_those_that_only_move_time():
    plan = query().columnar()
    operator = plan.operator.for_group(plan, MemoryState(), 0)
    came = [GroupInput(input_rows=3, invalid_rows=3), GroupInput(seen={"": 5}), GroupInput()]
    assert [operator.process(one).metrics.woken for one in came] == [False, False, True]


def test_rows_without_a_usable_time_leave_as_they_came():
    rows = pa.table([[None], [None], [3], [None], [1]], schema=harness.ROWS)
    plan = query(more={"invalid_tag": "invalid"}).columnar()
    operator = plan.operator.for_group(plan, MemoryState(), 0)
    output = operator.process(GroupInput(input_rows=1, invalid_rows=1, invalid=[rows]))
    assert [(tag, table.to_pylist()) for tag, table in output.tables] == [("invalid", rows.to_pylist())]
    assert output.metrics.outputs == {"invalid": 1}


@pytest.mark.parametrize("late", [True, False])
def test_late_rows_are_counted_and_leave_where_there_is_an_output_for_them(late):
    emitted = harness.run(query(late=late).columnar(), [batch(("a", 50, 1)), batch(("a", 5, 2), ("b", 5, 3), ("b", 60, 4))])
    assert [one.metrics.late_rows for one in emitted] == [0, 2]
    assert [one.metrics.outputs.get(harness.LATE) for one in emitted] == [None, 2 if late else None]
    assert [len(one.late) for one in emitted] == [0, 2 if late else 0]
