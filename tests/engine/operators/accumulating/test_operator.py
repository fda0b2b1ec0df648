"""The state and the output of the operator over whole rows."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating import operator
from panestream.engine.operators.accumulating.windowed_rows import AllWindows, TablePerWindow
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_table_function
from panestream.engine.storage.state import MemoryState
from panestream.errors import MemoryLimitError
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.evictors import CountEvictor, TimeEvictor
from panestream.windowing.functions import WindowFunctionError
from panestream.windowing.watermarks import WatermarkStrategy
from panestream.windowing.windows import TimeWindow
from tests.comparison import harness

RESULTS = pa.schema([("n", pa.int64()), ("vs", pa.list_(pa.int64()))])


def list_rows(key, window, table):
    return pa.table({"n": [table.num_rows], "vs": pa.array([table["v"].to_pylist()], pa.list_(pa.int64()))})


def plan_of(windows, function=list_rows, late=False, delay=0, **more):
    windowing = WindowQuery(windows, **more)
    spec = plan_table_function(windowing, TablePerWindow(function), RESULTS, harness.ROWS, harness.KEYS)
    return harness.plan_for(spec, windowing, delay, late=late)


def batch(*rows, end=False):
    """Return a micro-batch of (key, ts, v)."""
    return harness.MicroBatch([[(key, ts, v, None, 1) for key, ts, v in rows]] if rows else [], end=end)


def test_many_small_micro_batches_leave_few_blocks():
    plan, state = plan_of(TumblingEventTimeWindows(10_000)), MemoryState()
    for time in range(200):
        (output,) = harness.run(plan, [batch(("a", time, time))], state)
    assert output.metrics.blocks <= 24  # at most seven of each level
    (fired,) = harness.run(plan, [batch(("a", 10_001, 0))], state)
    assert fired.fired == [(("a", 0, 10_000), (200, list(range(200))))]


def test_rows_are_deleted_once_no_window_needs_them():
    plan, state = plan_of(SlidingEventTimeWindows(20, 10)), MemoryState()
    emitted = harness.run(
        plan, [batch(*(("a", time, time) for time in range(60))), batch(("a", 1000, 1)), batch(("a", 3000, 1))], state
    )
    assert [len(output.fired) for output in emitted] == [5, 2, 2]
    assert emitted[-1].metrics.blocks == 1


def test_each_window_over_a_shared_block_fires_at_its_own_end():
    """The micro-batch has rows of several panes. The count of open windows includes a window without rows."""
    plan = replace(plan_of(SlidingEventTimeWindows(20, 10)), watermark=WatermarkStrategy(100))
    batches = [batch(("a", 1, 1), ("b", 12, 2), ("a", 45, 3)), batch(("z", 119, 4)), batch(("z", 120, 5)), batch(("z", 300, 6))]
    emitted = harness.run(plan, batches)
    assert [output.fired for output in emitted] == [
        [],
        [(("a", -10, 10), (1, [1]))],
        [(("a", 0, 20), (1, [1])), (("b", 0, 20), (1, [2]))],
        [
            (("b", 10, 30), (1, [2])),
            (("a", 30, 50), (1, [3])),
            (("a", 40, 60), (1, [3])),
            (("z", 100, 120), (1, [4])),
            (("z", 110, 130), (2, [4, 5])),
            (("z", 120, 140), (1, [5])),
        ],
    ]
    # The window [0, 20) has number 0.
    assert [output.metrics.open_windows for output in emitted] == [(-1, 4), (0, 11), (1, 12), (29, 30)]
    (output,) = harness.run(plan_of(TumblingEventTimeWindows(10)), [batch()])
    assert output.metrics.open_windows is None


def test_late_row_refires_within_the_lateness_and_goes_to_the_late_output_after():
    plan = plan_of(TumblingEventTimeWindows(10), late=True, allowed_lateness=10)
    emitted = harness.run(
        plan, [batch(("a", 1, 1), ("b", 1, 7), ("a", 15, 2)), batch(("a", 2, 3)), batch(("a", 40, 4)), batch(("a", 3, 5))]
    )
    assert [output.fired for output in emitted] == [
        [(("a", 0, 10), (1, [1])), (("b", 0, 10), (1, [7]))],
        [(("a", 0, 10), (2, [1, 3]))],
        [(("a", 10, 20), (1, [2]))],
        [],
    ]
    assert [output.late for output in emitted] == [[], [], [], [("a", 3, 5, None, 1)]]
    assert [output.metrics.firings for output in emitted[:3]] == [{"on_time": 2}, {"late": 1}, {"on_time": 1}]


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
def test_evictor_keeps_the_newest_rows_of_each_key(evictor, expected):
    rows = [("a", 1, 4), ("b", 9, 0), ("a", 3, 2), ("a", 9, 7), ("a", 5, 1), ("a", 30, 9)]
    (output,) = harness.run(plan_of(TumblingEventTimeWindows(10), evictor=evictor), [batch(*rows)])
    assert dict(output.fired)["a", 0, 10] == (len(expected), expected)
    assert dict(output.fired)["b", 0, 10] == (1, [0])


@pytest.mark.parametrize("shape", [lambda table: table, lambda table: table.to_batches()[0]], ids=["table", "record batch"])
def test_function_may_return_a_table_or_a_record_batch(shape):
    plan = plan_of(TumblingEventTimeWindows(10), lambda *given: shape(list_rows(*given)))
    (output,) = harness.run(plan, [batch(("a", 1, 4), ("a", 30, 9))])
    assert output.fired == [(("a", 0, 10), (1, [4]))]


def test_error_of_a_function_over_all_windows_shows_their_time_span():
    def fail(table):
        raise ValueError(f"seen {table.num_rows}")

    windowing = WindowQuery(SlidingEventTimeWindows(10, 5))
    plan = harness.plan_for(plan_table_function(windowing, AllWindows(fail), RESULTS, harness.ROWS, harness.KEYS), windowing)
    with pytest.raises(WindowFunctionError) as limit_errors:
        harness.run(plan, [batch(("a", 6, 1), ("b", 12, 2), ("a", 40, 3))])
    where = "(at key 'all keys', window TimeWindow(start=0, end=20), which holds 4 elements)"
    assert f"the window function raised ValueError: seen 4 {where}" in str(limit_errors.value)


def test_function_may_return_no_rows_or_many():
    def some(key, window, table):
        return list_rows(key, window, table).slice(0, 0) if key == "a" else pa.concat_tables([list_rows(key, window, table)] * 3)

    (output,) = harness.run(plan_of(TumblingEventTimeWindows(10), some), [batch(("a", 1, 4), ("b", 2, 5), ("c", 30, 9))])
    assert output.fired == [(("b", 0, 10), (1, [5]))] * 3


@pytest.mark.parametrize("rows_stored", [True, False], ids=["stored rows", "rows of the micro-batch"])
def test_window_beyond_the_memory_limit_by_one_byte_is_an_error(rows_stored):
    """Three windows fire together. They are read one by one if each of them fits."""
    rows = [("a", 1, 1), ("b", 2, 2), ("b", 3, 3), ("b", 11, 4), ("a", 12, 5), ("c", 12, 6)]
    plan, state = plan_of(SlidingEventTimeWindows(30, 10), delay=12), MemoryState()
    harness.run(plan, [batch(rows[0]), batch(*rows[1:])] if rows_stored else [], state)
    closing = [batch(*([] if rows_stored else rows), ("z", 42, 9))]

    def fire_with_limit(most):
        return harness.run(replace(plan, most_bytes=most), closing, MemoryState(dict(state.values)))[0].fired

    most, limit_errors = 1, []
    while True:
        try:
            fired = fire_with_limit(most)
            break
        except MemoryLimitError as error:
            text = str(error)
        size = int(re.search(r"([\d,]+) bytes would be taken", text)[1].replace(",", ""))
        assert size > most
        limit_errors += re.findall(
            r"the window (.*) is too large .* of which the key (.*) has (\d+) rows; the limit is ([\d,]+) bytes", text
        )
        assert limit_errors[-1][3] == f"{most:,}"
        most = size
    # Pages are read as they are, so stored pages contain the rows of all three windows.
    first, second = (repr(TimeWindow(-20, 10)), "'b'", "2"), (repr(TimeWindow(-10, 20)), "'b'", "3")
    assert [limit_error[:3] for limit_error in limit_errors] == ([first] if rows_stored else [first, second])
    with pytest.raises(MemoryLimitError, match=f"the limit is {most - 1:,} bytes"):
        fire_with_limit(most - 1)
    wholly = [(("a", start), (2, [1, 5])) for start in (-10, 0)] + [(("b", start), (3, [2, 3, 4])) for start in (-10, 0)]
    wholly += [(("c", start), (1, [6])) for start in (-10, 0)]
    partly = [(("a", -20), (1, [1])), (("b", -20), (2, [2, 3]))]
    assert sorted(fired) == sorted(((key, start, start + 30), values) for (key, start), values in partly + wholly)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (pa.table({"a": [1, None], "b": ["x", "y"]}), [(1, "x"), (None, "y")]),
        (pa.table({"a": [1, None]}), [1, None]),
        (pa.table({"a": [1, None]}).select([]), [(), ()]),
    ],
    ids=["two columns", "one", "none"],
)
def test_keys_are_tuples_if_they_have_several_columns(keys, expected):
    assert operator._keys_of(keys) == expected


def test_rows_after_a_restore_come_after_the_restored_rows():
    plan, state = plan_of(TumblingEventTimeWindows(100)), MemoryState()
    harness.run(plan, [batch(("a", 5, 1), ("a", 3, 2)), batch(("a", 4, 3))], state)
    saved = plan.operator.for_group(plan, state, 0).tables()
    assert saved.header["counters"] == {"largest": {"arrived": 3, "kept from": 0}}
    assert saved.tables["rows"].to_pylist() == [
        {"key 0": "a", "time": time, "row 0": "a", "row 1": time, "row 2": v, "row 3": None, "row 4": 1, "arrival": v - 1}
        for v, time in enumerate((5, 3, 4), start=1)
    ]
    again = MemoryState()
    # The order of the saved rows does not matter, because each row stores its place in the order of arrival.
    saved.tables["rows"] = saved.tables["rows"].take(pa.array([2, 0, 1]))
    assert plan.operator.for_group(plan, again, 0).restore(saved) is None
    (output,) = harness.run(plan, [batch(("a", 2, 4), ("a", 1, 5), ("a", 101, 6))], again)
    assert output.fired == [(("a", 0, 100), (5, [1, 2, 3, 4, 5]))]
