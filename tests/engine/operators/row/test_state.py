"""The state of the row operator: pages, element chunks, the timer index, and when each of them is read and written."""

from __future__ import annotations

import gc
import struct
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panestream.engine.kernels.python_values import RowType
from panestream.engine.operators.row.contents import (
    NEVER,
    AggregateRows,
    KeepRows,
    KeyPage,
    KeyState,
    ReduceRows,
    RowPlan,
    TimerQueue,
    WindowState,
    WindowTimers,
)
from panestream.engine.operators.row.pages import ColumnReader, pickled_columns, split_parts
from panestream.engine.operators.row.state import MANY_CHUNKS
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.sealed_state import CountingState
from panestream.engine.storage.state import MemoryState
from panestream.errors import StateDamagedError, StateFormatError
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.evictors import CountEvictor, Evictor, TimeEvictor, TimestampedValue
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction
from panestream.windowing.state import (
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from panestream.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, ProcessingTimeoutTrigger


class Row(NamedTuple):
    name: str
    amount: float | None


class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x

    __hash__ = None


class AsList(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield list(elements)


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


# -------------------------------------------------------------------- what is read and written


def batches(plan, *steps, pages=None):
    """Run each step with a new operator. Return what fired, the calls of the last step, and the state."""
    memory, fired, counting = MemoryState(), [], None
    for rows, watermark in steps:
        counting = CountingState(memory)
        operator = RowOperator(plan, counting)
        fired += operator.process(rows, new_watermark=watermark).fired
        operator.commit()
    return fired, counting, memory


SUM = ReduceRows(lambda a, b: a + b)
MANY = [(f"key{n}", 5, n) for n in range(500)]


def test_watermark_that_fires_nothing_reads_only_the_meta_record():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), SUM)
    _, calls, _ = batches(plan, (MANY, 3), ([], 8))
    assert (calls.gets, calls.puts, calls.removes) == (1, 1, 0), "the meta record alone"
    _, calls, _ = batches(plan, (MANY, 3), ([], 3))
    assert (calls.gets, calls.puts) == (1, 0)


def test_only_touched_pages_are_read_and_written():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), SUM)
    _, calls, _ = batches(plan, (MANY, 3), ([("key7", 6, 1), ("key7", 7, 1)], 8))
    assert (calls.gets, calls.puts) == (2, 2)


def test_only_due_pages_are_read_and_empty_ones_removed():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), SUM, pages=16)
    fired, calls, memory = batches(plan, (MANY, 3), ([("late riser", 25, 1)], 19))
    assert len(fired) == 500
    assert {space for space, _ in memory.values} == {"meta", "pages"}
    assert len(memory.values) == 2
    assert calls.removes == 15
    fired, _, memory = batches(plan, (MANY, 3), ([], 100))
    assert len(fired) == 500
    assert list(memory.values) == [("meta", 0)]


def test_equal_input_gives_equal_bytes_of_state():
    plan = RowPlan(WindowQuery(EventTimeSessionWindows(7)), KeepRows(AsList()))
    steps = [([(f"k{n % 17}", n * 3 % 50, n) for n in range(100)], 5), ([(f"k{n % 19}", n, n) for n in range(60)], 20)]
    assert batches(plan, *steps)[2].values == batches(plan, *steps)[2].values


def test_elements_are_written_once_and_not_read_before_they_fire():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(1000)), KeepRows(AsList()), pages=1)
    rows = [("k", 5, "x" * 1000 + str(n)) for n in range(50)]
    memory, bytes_written = MemoryState(), []
    for _ in range(20):
        counting = CountingState(memory)
        operator = RowOperator(plan, counting)
        operator.process(rows)
        operator.commit()
        bytes_written.append(counting.bytes_written)
        assert counting.gets == (1 if len(bytes_written) == 1 else 2), "old elements are not read"
    assert bytes_written[-1] < bytes_written[0] * 1.1
    operator = RowOperator(plan, memory)
    ((_, _, value, _),) = operator.process([], new_watermark=999).fired
    assert value == [element for _, _, element in rows] * 20
    operator.commit()
    assert list(memory.values) == [("meta", 0)]


def test_many_small_chunks_are_merged():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(1000)), KeepRows(AsList()), pages=1)
    memory = MemoryState()
    for n in range(200):
        operator = RowOperator(plan, memory)
        operator.process([("a", 5, n), ("b", 5, -n)])
        operator.commit()
        assert sum(space == "elements" for space, _ in memory.values) <= MANY_CHUNKS + 1
    fired = RowOperator(plan, memory).process([], new_watermark=999).fired
    assert [value for _, _, value, _ in fired] == [list(range(200)), [-n for n in range(200)]]


def test_overlapping_windows_share_stored_elements():
    sizes = []
    for slide in (100, 1):
        plan = RowPlan(WindowQuery(SlidingEventTimeWindows(100, slide)), KeepRows(AsList()), pages=1)
        _, _, memory = batches(plan, ([("k", 150, ("some long text " * 50, n)) for n in range(100)], 100))
        sizes.append(sum(len(value) for (space, _), value in memory.values.items() if space == "elements"))
        fired = RowOperator(plan, memory).process([], new_watermark=10_000).fired
        assert len(fired) == 100 // slide
        assert all([n for _, n in value] == list(range(100)) for _, _, value, _ in fired)
    assert sizes[1] < sizes[0] + 100 * 100 * 2


def test_evicting_the_oldest_elements_rewrites_nothing():
    plan = RowPlan(
        WindowQuery(GlobalWindows.create(), trigger=CountTrigger(100), evictor=CountEvictor(150)), KeepRows(AsList()), pages=1
    )
    rows = [("k", n, "y" * 500 + str(n)) for n in range(100)]
    fired, counting, memory = batches(plan, *[(rows, None)] * 6)
    assert [value for _, _, value, _ in fired[-2:]] == [[element for _, _, element in rows * 2][-150:]] * 2
    assert counting.bytes_written < 100 * 520 + 4000
    assert sum(space == "elements" for space, _ in memory.values) == 2, "chunks that nothing refers to are gone"


def test_partly_evicted_chunk_keeps_its_newest_elements():
    evictor = CountEvictor(150, do_evict_after=True)
    plan = RowPlan(WindowQuery(GlobalWindows.create(), trigger=CountTrigger(100), evictor=evictor), KeepRows(AsList()), pages=1)
    fired, _, _ = batches(plan, *[([("k", n, (turn, n)) for n in range(100)], None) for turn in range(4)])
    everything = [(turn, n) for turn in range(4) for n in range(100)]
    assert fired[-1][2] == everything[-250:]


def test_evicting_from_the_middle_keeps_the_other_elements():
    plan = RowPlan(
        WindowQuery(GlobalWindows.create(), trigger=CountTrigger(3), evictor=TimeEvictor(5)), KeepRows(AsList()), pages=1
    )
    fired, _, _ = batches(
        plan, ([("k", 10, 1), ("k", 1, 2)], None), ([("k", 9, 3), ("k", 8, 4)], None), ([("k", 9, 5), ("k", 12, 6)], None)
    )
    assert [value for _, _, value, _ in fired] == [[1, 3], [1, 3, 4, 5, 6]]


class ReplacingEvictor(Evictor):
    """Replaces the rows by other rows."""

    def evict_before(self, elements, size, window, ctx):
        replaced = [
            element._replace(value=element.value.replace(price=1.5)) for element in elements if type(element.value) is not tuple
        ]
        return [*replaced[:2], TimestampedValue(("a", "tuple"), 7)]


def test_rows_created_by_an_evictor_are_stored_unchanged():
    row_type = RowType(pa.schema([("name", pa.string()), ("price", pa.int64())]))
    plan = RowPlan(
        WindowQuery(TumblingEventTimeWindows(100), trigger=CountTrigger(2), evictor=ReplacingEvictor()),
        KeepRows(AsList()),
        element_type=row_type.element,
    )
    rows = [("k", n, row_type.make((str(n), n))) for n in range(4)]
    fired, _, memory = batches(plan, (rows[:2], None), (rows[2:], None))
    assert fired[1][2] == [("0", 1.5), ("1", 1.5), ("a", "tuple")]
    fired = RowOperator(plan, memory).process([("k", 5, row_type.make(("5", 5)))] * 2).fired
    assert fired[0][2] == [("0", 1.5), ("1", 1.5), ("a", "tuple")]
    assert type(fired[0][2][0]) is row_type.element


class TupleEvictor(Evictor):
    """Replaces all rows by a tuple that looks like a row."""

    def evict_before(self, elements, size, window, ctx):
        return [TimestampedValue(("a", 3), 7)]


def test_tuple_that_looks_like_a_row_is_read_back_as_a_tuple():
    row_type = RowType(pa.schema([("name", pa.string()), ("price", pa.int64())]))
    windows, trigger = TumblingEventTimeWindows(100), CountTrigger(2)
    plan = RowPlan(
        WindowQuery(windows, trigger=trigger, evictor=TupleEvictor()), KeepRows(AsList()), element_type=row_type.element
    )
    _, _, memory = batches(plan, ([("k", n, row_type.make((str(n), n))) for n in range(2)], None))
    plan = RowPlan(
        WindowQuery(windows, trigger=trigger, evictor=CountEvictor(9)), KeepRows(AsList()), element_type=row_type.element
    )
    fired = RowOperator(plan, memory).process([("k", 5, row_type.make(("5", 5)))] * 2).fired
    assert [type(value) is tuple for value in fired[0][2]] == [True, False, False]


def test_timestamps_of_elements_are_stored_for_evictors():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(100), evictor=TimeEvictor(10)), KeepRows(AsList()))
    fired, _, _ = batches(plan, ([("k", 5, 1), ("k", 30, 2)], None), ([("k", 25, 3)], None), ([], 99))
    assert [value for _, _, value, _ in fired] == [[2, 3]]


def test_none_is_a_valid_element_and_accumulator_of_reduce():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), ReduceRows(lambda a, b: None))
    fired, _, _ = batches(plan, ([("k", 1, None), ("j", 1, 3)], None), ([("j", 1, 4)], None), ([], 9))
    assert sorted((key, value) for key, _, value, _ in fired) == [("j", None), ("k", None)]


def test_function_gets_elements_that_are_none():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(AsList()))
    fired, _, _ = batches(plan, ([("k", 1, None), ("k", 1, None)], None), ([("k", 2, None)], 9))
    assert [value for _, _, value, _ in fired] == [[None, None, None]]


def test_accumulators_of_plain_types_are_not_pickled():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), AggregateRows(Average()))
    _, _, memory = batches(plan, (MANY, 3))
    pages = [value for (space, _), value in memory.values.items() if space == "pages"]
    assert not [name for page in pages for name in pickled_columns(split_parts(page)[0])]


def test_pages_with_processing_time_timers_are_read_only_when_due():
    plan, state = RowPlan(WindowQuery(TumblingProcessingTimeWindows(10)), SUM, pages=16), MemoryState()
    operator = RowOperator(plan, state)
    operator.process(MANY, processing_time=3)
    operator.commit()
    for now, fired, reads in ((9, 0, 1), (10, 500, 17)):
        counting = CountingState(state)
        operator = RowOperator(plan, counting)
        assert operator.next_processing_time_timer() == 9
        assert len(operator.process([], processing_time=now).fired) == fired
        assert counting.gets == reads
    operator.commit()
    assert list(state.values) == [("meta", 0)]


@pytest.mark.parametrize(
    ("windowing", "event", "processing"),
    [
        (WindowQuery(TumblingEventTimeWindows(10)), None, None),
        (WindowQuery(TumblingProcessingTimeWindows(10)), None, None),
        (WindowQuery(GlobalWindows(), CountTrigger(5)), None, None),
        (WindowQuery(TumblingEventTimeWindows(10), ContinuousEventTimeTrigger(4)), [[4, 9]], [[]]),
        (WindowQuery(TumblingEventTimeWindows(10), ProcessingTimeoutTrigger(CountTrigger(5), 6, False, True)), [[9]], [[9]]),
        (WindowQuery(TumblingProcessingTimeWindows(10), ContinuousEventTimeTrigger(4)), [[4, 9]], [[9]]),
        (WindowQuery(TumblingProcessingTimeWindows(10), ProcessingTimeoutTrigger(CountTrigger(5), 2, False, True)), [[]], [[5, 9]]),
        (WindowQuery(GlobalWindows(), ProcessingTimeoutTrigger(CountTrigger(5), 6, False, True)), [[]], [[9]]),
    ],
    ids=[
        "event time", "clock", "global", "more than the end", "both kinds", "the other kind", "the clock more than the end",
        "global by the clock",
    ],
)  # fmt: skip
def test_timers_are_written_only_if_they_differ_from_the_default_one(windowing, event, processing):
    plan, state = RowPlan(windowing, SUM), MemoryState()
    operator = RowOperator(plan, state)
    operator.process([("a", 1, 5)], processing_time=3, new_watermark=0)
    operator.commit()
    (page,) = [value for (space, _), value in state.values.items() if space == "pages"]
    reader = ColumnReader(split_parts(page)[0])
    assert [reader.booleans("usual timers"), reader.integer_lists("event_timers"), reader.integer_lists("processing_timers")] == [
        [event is None], event or [[]], processing or [[]]
    ]  # fmt: skip
    # The timers are the same whether they were written or not.
    (before,), (after,) = (
        list(each_operator.store.all_window_states()) for each_operator in (operator, RowOperator(plan, state))
    )
    assert timers_of(after) == timers_of(before)


def timers_of(window):
    return [sorted(timers.times) if timers else [] for timers in (window.event_timers, window.processing_timers)]


def test_missing_page_or_element_chunk_is_an_error():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(AsList()), pages=1)
    for space in ("pages", "elements"):
        _, _, memory = batches(plan, (MANY, 3))
        for key in [key for key in memory.values if key[0] == space]:
            del memory.values[key]
        with pytest.raises(StateDamagedError, match=f"value 0 of '{space}' is referred to, but missing"):
            RowOperator(plan, memory).process([], new_watermark=100)


def test_nothing_is_written_before_the_commit():
    state = CountingState(MemoryState())
    operator = RowOperator(RowPlan(WindowQuery(TumblingEventTimeWindows(10)), SUM), state)
    operator.process(MANY, new_watermark=3)
    assert (state.puts, state.removes) == (0, 0)


def test_operator_can_be_reused_after_a_commit():
    plan, memory = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(AsList())), MemoryState()
    operator = RowOperator(plan, memory)
    for n in range(5):
        operator.process([("k", 1, n)])
        operator.commit()
    ((_, _, value, _),) = RowOperator(plan, MemoryState(dict(memory.values))).process([], new_watermark=9).fired
    assert value == [0, 1, 2, 3, 4], "what came after the first commit was written too"
    ((_, _, value, _),) = operator.process([], new_watermark=9).fired
    assert value == [0, 1, 2, 3, 4]
    operator.commit()
    assert list(memory.values) == [("meta", 0)]


# -------------------------------------------------------------------- timers and handles


def test_timer_queue_drops_a_moved_timer_when_its_time_comes():
    queue, timers = TimerQueue(), WindowTimers("w", 1)
    queue.register(timers, 10)
    timers.times = {20}
    assert queue.first() == 10
    assert list(queue.due(15)) == []
    assert queue.first() == 20
    assert [(time, called) for time, _, called in queue.due(20)] == [(20, True)]
    assert queue.first() == NEVER


def test_timers_of_equal_time_run_in_the_order_of_their_windows():
    queue = TimerQueue()
    for order in (3, 1, 2):
        queue.register(WindowTimers(order, order), 5)
    assert [timers.owner for _, timers, _ in queue.due(5)] == [1, 2, 3]


def test_cleanup_time_is_due_once_even_if_its_timer_was_deleted():
    queue, timers = TimerQueue(), WindowTimers("w", 1, cleanup=9)
    queue.register(timers, 9)
    timers.times.discard(9)
    assert [(time, called) for time, _, called in queue.due(9)] == [(9, False)]
    assert list(queue.due(100)) == []


@given(st.lists(st.tuples(st.sampled_from("rdD"), st.integers(0, 3), st.integers(0, 30)), max_size=60))
def test_timer_queue_equals_a_sorted_list(script):
    queue, timers_of_windows = TimerQueue(), [WindowTimers(n, n) for n in range(4)]
    expected, now = set(), -1
    for what, who, time in script:
        if what == "r":
            queue.register(timers_of_windows[who], time)
            expected.add((time, who))
        elif what == "d":
            timers_of_windows[who].times.discard(time)
            expected.discard((time, who))
        else:
            now = max(now, time)
            due = sorted(entry for entry in expected if entry[0] <= now)
            assert [(at, timers.owner) for at, timers, _ in queue.due(now)] == due
            expected -= set(due)
        assert queue.first() <= min((at for at, _ in expected), default=NEVER)


def test_state_handles_read_and_write_their_values():
    store = KeyedStateStore(values := {})
    value, listed = store.get_state(ValueStateDescriptor("v")), store.get_list_state(ListStateDescriptor("l"))
    mapped, summed = store.get_map_state(MapStateDescriptor("m")), store.get_reducing_state(ReducingStateDescriptor("r", max))
    averaged = store.get_aggregating_state(AggregatingStateDescriptor("a", Average()))
    assert (value.value(), listed.get(), mapped.get(1), summed.get(), averaged.get()) == (None, [], None, None, None)
    value.update(0)
    listed.add(1)
    listed.add_all([2, 3])
    mapped.put("a", 1)
    mapped.put("b", 2)
    summed.add(3)
    summed.add(2)
    averaged.add(1)
    averaged.add(4)
    assert (value.value(), listed.get(), summed.get(), averaged.get()) == (0, [1, 2, 3], 3, 2.5)
    assert (list(mapped.items()), mapped.contains("a"), mapped.contains("z"), mapped.is_empty()) == (
        [("a", 1), ("b", 2)],
        True,
        False,
        False,
    )
    value.update(None)
    listed.update([])
    mapped.remove("a")
    mapped.remove("b")
    mapped.remove("c")
    summed.clear()
    averaged.clear()
    assert mapped.is_empty()
    assert values == {}


def test_released_operator_leaves_no_reference_cycles():
    plan, state = RowPlan(WindowQuery(EventTimeSessionWindows(7)), KeepRows(AsList())), MemoryState()

    def one_batch(start):
        operator = RowOperator(plan, state)
        operator.process([(f"k{n % 50}", start + n // 10, n) for n in range(1000)], new_watermark=start + 90)
        operator.commit()
        operator.store.release()

    one_batch(0)
    gc.collect()
    gc.disable()
    try:
        one_batch(100)
        kinds = (KeyState, WindowState, KeyPage)
        assert not [object_ for object_ in gc.get_objects() if type(object_) in kinds]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("assigner", "watermark"),
    [
        (TumblingEventTimeWindows(10), 9),
        (TumblingEventTimeWindows(10), 50),
        (EventTimeSessionWindows(5), 8),
        (EventTimeSessionWindows(5), 50),
    ],
)
def test_windows_closed_by_a_lowered_lateness_take_no_rows(assigner, watermark):
    state = MemoryState()
    patient = RowOperator(RowPlan(WindowQuery(assigner, allowed_lateness=100), SUM, late_output="late"), state)
    assert [result[2] for result in patient.process([("k", 3, 1)], new_watermark=watermark).fired] == [1]
    assert [result[2] for result in patient.process([("k", 4, 1)]).fired] == [2]
    patient.commit()
    strict = RowOperator(RowPlan(WindowQuery(assigner), SUM, late_output="late"), state)
    output = strict.process([("k", 4, 1)])
    assert (output.fired, output.late) == ([], [("k", 4, 1)])
    strict.commit()
    assert list(state.values) == [("meta", 0)]


def test_damaged_element_chunk_is_not_reported_as_an_error_of_the_function():
    plan, memory = RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(AsList()), pages=1), MemoryState()
    operator = RowOperator(plan, memory)
    operator.process([("k", 1, 1)])
    operator.commit()
    memory.values["elements", 0] = struct.pack("<I", 4) + b"none"
    with pytest.raises((StateDamagedError, StateFormatError)):
        RowOperator(plan, memory).process([], new_watermark=100)
    memory.values["elements", 0] = memory.values["pages", 0]
    with pytest.raises(StateDamagedError, match="value 0 of 'elements' in the state cannot be taken apart"):
        RowOperator(plan, memory).process([], new_watermark=100)


def test_pickle_of_a_missing_class_is_a_state_format_error(monkeypatch):
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10), pickled_state=True), KeepRows(AsList()), pages=1)
    memory = MemoryState()
    operator = RowOperator(plan, memory)
    operator.process([("k", 1, MovedClass())])
    operator.commit()
    monkeypatch.delitem(globals(), "MovedClass")
    with pytest.raises(StateFormatError, match=r"pickled values that are unreadable \(AttributeError"):
        RowOperator(plan, memory).process([], new_watermark=100)


class MovedClass:
    """A user class that no longer exists when its pickle is read."""
