"""What the operator over whole rows keeps, and what it says of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.planner import over_tables
from panestream.engine.storage.state import MemoryState
from panestream.engine.window_spec import WindowSpec
from panestream.errors import MemoryLimitError
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor, TimeEvictor
from panestream.windowing.windows import TimeWindow
from tests.comparison import harness

RESULTS = pa.schema([("n", pa.int64()), ("vs", pa.list_(pa.int64()))])


def listed(key, window, table):
    return pa.table({"n": [table.num_rows], "vs": pa.array([table["v"].to_pylist()], pa.list_(pa.int64()))})


def plan_of(windows, function=listed, late=False, delay=0, **more):
    windowing = WindowSpec(windows, **more)
    operator = over_tables(windowing, TablePerWindow(function), RESULTS, harness.ROWS, harness.KEYS)
    return harness.plan_for(operator, windowing, delay, late=late)


def batch(*rows, end=False):
    """A micro-batch of (key, ts, v)."""
    return harness.MicroBatch([[(key, ts, v, None, 1) for key, ts, v in rows]] if rows else [], end=end)


def test_many_small_micro_batches_do_not_leave_many_blocks():
    plan, state = plan_of(TumblingEventTimeWindows(10_000)), MemoryState()
    for time in range(200):
        (one,) = harness.run(plan, [batch(("a", time, time))], state)
    assert one.metrics.blocks <= 24  # at most seven of each level
    (fired,) = harness.run(plan, [batch(("a", 10_001, 0))], state)
    assert fired.fired == [(("a", 0, 10_000), (200, list(range(200))))]


def test_rows_that_no_window_needs_any_more_are_gone():
    plan, state = plan_of(SlidingEventTimeWindows(20, 10)), MemoryState()
    emitted = harness.run(
        plan, [batch(*(("a", time, time) for time in range(60))), batch(("a", 1000, 1)), batch(("a", 3000, 1))], state
    )
    assert [len(one.fired) for one in emitted] == [5, 2, 2]
    assert emitted[-1].metrics.blocks == 1


def test_late_rows_leave_as_they_came_and_those_within_the_lateness_fire_again():
    plan = plan_of(TumblingEventTimeWindows(10), late=True, allowed_lateness=10)
    emitted = harness.run(
        plan, [batch(("a", 1, 1), ("b", 1, 7), ("a", 15, 2)), batch(("a", 2, 3)), batch(("a", 40, 4)), batch(("a", 3, 5))]
    )
    assert [one.fired for one in emitted] == [
        [(("a", 0, 10), (1, [1])), (("b", 0, 10), (1, [7]))],
        [(("a", 0, 10), (2, [1, 3]))],
        [(("a", 10, 20), (1, [2]))],
        [],
    ]
    assert [one.late for one in emitted] == [[], [], [], [("a", 3, 5, None, 1)]]
    assert [one.metrics.firings for one in emitted[:3]] == [{"on_time": 2}, {"late": 1}, {"on_time": 1}]


@pytest.mark.parametrize(
    ("evictor", "expected"),
    [
        (CountEvictor(2), [7, 1]),
        (CountEvictor(9), [4, 2, 7, 1]),
        (TimeEvictor(4), [7]),
        (TimeEvictor(5), [7, 1]),
        (TimeEvictor(6), [7, 1]),
        (TimeEvictor(7), [2, 7, 1]),
    ],
    ids=repr,
)
def test_an_evictor_leaves_the_newest_of_each_key(evictor, expected):
    rows = [("a", 1, 4), ("b", 9, 0), ("a", 3, 2), ("a", 9, 7), ("a", 5, 1), ("a", 30, 9)]
    (one,) = harness.run(plan_of(TumblingEventTimeWindows(10), evictor=evictor), [batch(*rows)])
    assert dict(one.fired)["a", 0, 10] == (len(expected), expected)
    assert dict(one.fired)["b", 0, 10] == (1, [0])


@pytest.mark.parametrize("shape", [lambda table: table, lambda table: table.to_batches()[0]], ids=["table", "record batch"])
def test_a_function_may_return_a_table_or_a_record_batch(shape):
    plan = plan_of(TumblingEventTimeWindows(10), lambda *given: shape(listed(*given)))
    (one,) = harness.run(plan, [batch(("a", 1, 4), ("a", 30, 9))])
    assert one.fired == [(("a", 0, 10), (1, [4]))]


def test_a_function_may_return_no_rows_and_many():
    def some(key, window, table):
        return listed(key, window, table).slice(0, 0) if key == "a" else pa.concat_tables([listed(key, window, table)] * 3)

    (one,) = harness.run(plan_of(TumblingEventTimeWindows(10), some), [batch(("a", 1, 4), ("b", 2, 5), ("c", 30, 9))])
    assert one.fired == [(("b", 0, 10), (1, [5]))] * 3


@pytest.mark.parametrize("rows_rest", [True, False], ids=["rows that rest", "rows of the micro-batch"])
def test_a_window_takes_as_much_memory_as_is_allowed_and_no_byte_more(rows_rest):
    """The windows [-10, 10) and [0, 20) fire together: together their rows are taken into memory."""
    rows, last = [("a", 1, 1), ("b", 2, 2), ("b", 3, 3), ("b", 11, 4), ("a", 12, 5), ("c", 12, 6)], ("z", 20, 9)
    batches = [batch(rows[0]), batch(*rows[1:])] if rows_rest else []
    plan, state = plan_of(SlidingEventTimeWindows(20, 10), delay=12), MemoryState()
    harness.run(plan, batches, state)
    closing = [batch(*([] if rows_rest else rows), ("z", 32, 9), last)]

    def limited(most):
        return harness.run(replace(plan, most_bytes=most), closing, MemoryState(dict(state.values)))[0].fired

    with pytest.raises(MemoryLimitError) as raised:
        limited(1)
    text = str(raised.value)
    size = int(re.search(r"([\d,]+) bytes would be taken", text)[1].replace(",", ""))
    assert text.startswith(
        f"the window {TimeWindow(-10, 20)!r} is too large for a function over its rows: {size:,} bytes would be taken into memory "
        "at once, of which the key 'b' has 3 rows; the limit is 1 bytes."
    )
    with pytest.raises(MemoryLimitError, match=f"the limit is {size - 1:,} bytes"):
        limited(size - 1)
    assert sorted(limited(size)) == [
        (("a", -10, 10), (1, [1])),
        (("a", 0, 20), (2, [1, 5])),
        (("b", -10, 10), (2, [2, 3])),
        (("b", 0, 20), (3, [2, 3, 4])),
        (("c", 0, 20), (1, [6])),
    ]
