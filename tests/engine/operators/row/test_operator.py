"""Whole micro-batches of the row operator of a key group: counts, side outputs, memory limit and state."""

from __future__ import annotations

import gc
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import KeepRows, KeyState, WindowState
from panestream.engine.operators.row.operator import _codes_of
from panestream.engine.plan import MAIN, WindowQuery
from panestream.engine.planner import plan_functions
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, MemoryLimitError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.functions import ProcessWindowFunction, processed
from panestream.windowing.windows import TimeWindow
from tests.comparison import harness

TEN = TumblingEventTimeWindows(10)
RESULT = pa.schema([("values", pa.list_(pa.int64()))])
SIDES = {"one": pa.schema([("x", pa.int64())]), "other": pa.schema([("y", pa.string()), ("z", pa.float64())])}


class FirstHalf(WindowAssigner):
    """Assigns the first five of every ten time units to a window. The other units are in no window."""

    is_event_time = True

    def assign_windows(self, element, timestamp, processing_time):
        start = timestamp - timestamp % 10
        return [TimeWindow(start, start + 5)] if timestamp < start + 5 else []


class Values(ProcessWindowFunction):
    """Emits the values. Negative ones go to one side output, the number and sum of several values to another."""

    def process(self, key, context, elements):
        values = [element.v for element in elements]
        for value in values:
            if value < 0:
                context.output("one", (value,))
        if len(values) > 1:
            context.output("other", (str(len(values)), float(sum(values))))
        yield (values,)


def of_values(windowing, **more):
    operator = plan_functions(replace(windowing, every_firing=True), KeepRows(Values()), RESULT, harness.ROWS, "it", harness.KEYS)
    return harness.plan_for(operator, windowing, side_outputs=SIDES, **more)


def batch(*rows, end=False, **more):
    return harness.MicroBatch([[(key, time, value, None, value) for key, time, value in rows]] if rows else [], end=end, **more)


def outputs_of(plan, state, rows):
    output = plan.operator.for_group(plan, state, 0).process(harness.group_input(plan, rows))
    return [(tag, with_integers(table).to_pylist()) for tag, table in output.tables], output


def with_integers(table):
    """Return the table with window bounds as integers."""
    bounds = [field.with_type(pa.int64()) if field.name in ("window_start", "window_end") else field for field in table.schema]
    return table.cast(pa.schema(bounds))


@pytest.mark.parametrize("late", [False, True])
def test_each_row_is_counted_once_as_windowed_late_or_outside(late):
    plan = harness.Query(WindowQuery(FirstHalf()), (agg.count(),), late=late).row()
    state = MemoryState()
    counted = []
    for rows in (
        batch(("a", 1, 1), ("a", 2, 2), ("b", 7, 3), ("a", 31, 4)),
        batch(("a", 3, 5), ("b", 4, 6), ("a", 8, 7), ("a", 33, 8), ("b", 36, 9), ("a", 34, 10), ("b", 35, 11)),
        batch(),
        batch(("a", 1, 12)),
    ):
        (emitted,) = harness.run(plan, [rows], state)
        metrics = emitted.metrics
        counted.append((metrics.windowed_rows, metrics.late_rows, metrics.outside_rows, [row[2] for row in emitted.late]))
    # A row outside of all windows is late if it is behind the watermark by more than the lateness.
    assert [counts[:3] for counts in counted] == [(3, 0, 1), (2, 3, 2), (0, 0, 0), (0, 1, 0)]
    assert [counts[3] for counts in counted] == ([[], [5, 6, 7], [], [12]] if late else [[], [], [], []])


def test_late_rows_are_emitted_in_order_of_arrival_with_all_columns():
    plan, state = of_values(WindowQuery(TEN), late=True), MemoryState()
    harness.run(plan, [batch(("b", 1, 1), ("a", 50, 2))], state)
    # Keys are processed one after the other, not in the order of arrival.
    (emitted,) = harness.run(plan, [batch(("b", 3, 3), ("a", 4, 4), ("b", 51, 5), ("a", 5, 6), ("b", 2, 7))], state)
    assert emitted.late == [("b", 3, 3, None, 3), ("a", 4, 4, None, 4), ("a", 5, 6, None, 6), ("b", 2, 7, None, 7)]


def test_side_output_rows_have_declared_columns_key_and_window():
    plan, state = of_values(WindowQuery(TEN)), MemoryState()
    sent_rows, output = outputs_of(plan, state, batch(("a", 1, -3), ("a", 2, 5), ("b", 3, 7), ("a", 19, -1)))
    assert sent_rows == [
        (MAIN, [
            {"key": "a", "window_start": 0, "window_end": 10, "values": [-3, 5]},
            {"key": "b", "window_start": 0, "window_end": 10, "values": [7]},
        ]),
        ("one", [
            {"key": "a", "window_start": 0, "window_end": 10, "x": -3},
        ]),
        ("other", [{"key": "a", "window_start": 0, "window_end": 10, "y": "2", "z": 2.0}]),
    ]  # fmt: skip
    assert output.metrics.outputs == {MAIN: 2, "one": 1, "other": 1}
    sent_rows, output = outputs_of(plan, state, batch(("b", 25, 1)))
    assert [(tag, len(rows)) for tag, rows in sent_rows] == [(MAIN, 1), ("one", 1)]
    # An output without rows has no table.
    sent_rows, output = outputs_of(plan, state, batch(("b", 26, 1)))
    assert (sent_rows, output.metrics.outputs) == ([], {})


@pytest.mark.parametrize(
    ("side_value", "result"),
    [(Decimal("2.7"), (1,)), (1, (Decimal("2.7"),)), (1, ([Fraction(1, 2)],)), (1, ("ab",)), (1, ({"v": 1},))],
    ids=repr,
)
@pytest.mark.parametrize("stateless", [False, True])
def test_error_about_a_lossy_result_or_side_output_names_key_and_window(side_value, result, stateless):
    def process(key, context, elements):
        context.output("one", side_value)
        yield result if isinstance(result[0], list) or not isinstance(result[0], int) else ([1],)

    window = WindowQuery(TEN)
    function = KeepRows(processed(process), stateless)
    plan = harness.plan_for(
        plan_functions(window, function, RESULT, harness.ROWS, "it", harness.KEYS), window, side_outputs={"one": SIDES["one"]}
    )
    with pytest.raises(InvalidPlanError, match=r"\(at key 'b', window TimeWindow\(start=0, end=10\)\)"):
        harness.run(plan, [batch(("b", 1, 1), end=True)], MemoryState())


def test_results_do_not_depend_on_the_number_of_parts():
    rows = [("a", 1, 1, None, 1), ("b", 2, 2, None, 2), ("a", 3, 3, None, 3), ("b", 4, 4, None, 4)]
    plan = of_values(WindowQuery(EventTimeSessionWindows(5)))
    fired = {
        tuple(map(len, chunks)): harness.run(plan, [harness.MicroBatch(chunks, end=True)])[0].fired
        for chunks in ([rows], [rows[:1], rows[1:]], [rows[:2], rows[2:]], [[], rows, []])
    }
    expected = [(("a", 1, 8), ([1, 3],)), (("b", 2, 9), ([2, 4],))]
    assert fired == dict.fromkeys(fired, expected)
    assert len(fired) == 4


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_memory_limit_of_window_elements_is_exact_to_the_byte(values):
    plan = of_values(WindowQuery(TEN))

    def fires(limit):
        """Return whether the window fires if the limit is ``limit`` bytes above the size of its elements."""
        state = MemoryState()
        outputs_of(plan, state, batch(*(("a", time, time) for time in values)))
        size = plan.operator.for_group(plan, state, 0)._operator.store.bytes_of_elements
        limited = replace(plan, most_bytes=size + limit)
        try:
            sent_rows, _ = outputs_of(limited, state, batch(("b", 11, 1)))
        except MemoryLimitError:
            return False
        return sent_rows[0][1] == [{"key": "a", "window_start": 0, "window_end": 10, "values": values}]

    assert [fires(limit) for limit in (-1, 0, 1)] == [False, True, True]


def test_memory_is_freed_without_the_garbage_collector():
    """The collector is paused while a key group runs, so reference cycles would stay in memory."""
    plan, state = harness.Query(WindowQuery(TEN), (agg.sum("v"),)).row(), MemoryState()
    gc.collect()
    gc.disable()
    try:
        before = keys_and_windows_in_memory()
        outputs_of(plan, state, batch(("a", 1, 1), ("b", 2, 2), ("a", 13, 3), ("b", 24, 4)))
        assert keys_and_windows_in_memory() == before
        assert plan.operator.for_group(plan, state, 0).tables().table("windows").num_rows == 1
        assert keys_and_windows_in_memory() == before
    finally:
        gc.enable()


def keys_and_windows_in_memory():
    """Return the number of keys and windows in memory."""
    return sum(isinstance(object_, (KeyState, WindowState)) for object_ in gc.get_objects())


def test_key_codes_number_keys_in_order_of_arrival():
    nested = pa.array([{"a": 1}, {"a": 2}, {"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int64())]))
    assert _codes_of([nested], 5).tolist() == [0, 1, 0, 2, 1]
    assert _codes_of([], 3).tolist() == [0, 0, 0]
    assert _codes_of([pa.array(["x", "y", "x"]), pa.array([1, 1, 1])], 3).tolist() == [0, 1, 0]
    assert _codes_of([nested.slice(0, 0)], 0).dtype == np.int64
