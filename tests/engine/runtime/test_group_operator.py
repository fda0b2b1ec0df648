"""What is the same in every operator: what a micro-batch is told of."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import ProcessingTimeSessionWindows, TumblingProcessingTimeWindows
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


@pytest.mark.parametrize("assigner", [TumblingProcessingTimeWindows(10), ProcessingTimeSessionWindows(10)])
@pytest.mark.parametrize("clock", [10, 15, 17, 18, 19])
def test_a_window_by_the_clock_that_is_open_is_taken_over_until_its_last_instant(assigner, clock):
    """A row came at ten: the window is over at twenty, and its key group is woken when the clock is past nineteen."""
    plan, state, taken_over = query(assigner).columnar(), MemoryState(), MemoryState()
    *_, before = harness.run(plan, [harness.MicroBatch([[("a", 0, 1, None, 1)]], 10), harness.MicroBatch([], clock)], state)
    saved = plan.operator.for_group(plan, state, 0).tables()
    assert saved.header["clock"] == clock
    wake_up = plan.operator.for_group(plan, taken_over, 0).restore(saved)
    assert (before.wake_up, wake_up) == (19, 19)
    assert plan.operator.for_group(plan, taken_over, 0).tables().tables == saved.tables
    (after,) = harness.run(plan, [harness.MicroBatch([], 20)], taken_over)
    assert (after.fired, after.wake_up) == ([(("a", 10, 20), (1,))], None)
