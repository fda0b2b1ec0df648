"""What is the same in every operator: what a micro-batch is told of."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError, StateFormatError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.watermarks import WatermarkStrategy
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


def process(plan, state, given, group=0):
    return plan.operator.for_group(plan, state, group).process(given)


def test_all_that_happened_in_a_micro_batch_is_told():
    plan, state = query(lateness=5, late=True, more={"invalid_tag": "bad"}).columnar(), MemoryState()
    first = process(plan, state, GroupInput(seen={"": 50}, input_rows=3, invalid_rows=1, history_rows=2)).metrics.to_json()
    written = sum(map(len, state.values.values()))
    alike = {"outside_rows": 0, "fired_windows": [], "open_windows": None, "key_group": 0, "operator_us": 0}
    alike |= {"partition_count": 1, "idle_partitions": 0}
    assert first == alike | {
        "input_rows": 3,
        "invalid_rows": 1,
        "history_rows": 2,
        "watermark_before": None,
        "watermark": 49,
        "max_event_time": 50,
        "late_rows": 0,
        "windowed_rows": 0,
        "fired_rows": 0,
        "kept_windows": 0,
        "firings": {"late": 0, "on_time": 0},
        "outputs": {},
        "partitions": [("", 50, 49, False)],
        "blocks": 0,
        "woken": False,
        "state_of": -1,
        "state_bytes": 0,
        "state_calls": 4,
        "bytes_read": 0,
        "bytes_written": written,
    }
    given = harness.group_input(plan, batch(("a", 51), ("b", 20), ("a", 200)))
    second = process(plan, state, given, 0).metrics.to_json()
    # A page without its seal: that is a head of eight bytes, its place in 21, and the name of its space in five.
    page = len(state.values["pages", 0]) - 8 - 21 - len("pages")
    assert second == alike | {
        "input_rows": 3,
        "invalid_rows": 0,
        "history_rows": 0,
        "watermark_before": 49,
        "watermark": 199,
        "max_event_time": 200,
        "late_rows": 1,
        "windowed_rows": 2,
        "fired_rows": 1,
        "kept_windows": 1,
        "firings": {"late": 0, "on_time": 1},
        "outputs": {"late": 1, "main": 1},
        "partitions": [("", 200, 199, False)],
        "blocks": 1,
        "woken": False,
        "state_of": 0,
        "state_bytes": page,
        "state_calls": 5,
        "bytes_read": written,
        "bytes_written": sum(map(len, state.values.values())),
    }


def test_only_the_first_key_group_tells_of_source_partitions_which_all_know():
    plan = query().columnar()
    told = [process(plan, MemoryState(), GroupInput(seen={"": 50}, input_rows=1), group).metrics for group in (0, 1, 7)]
    assert [one.key_group for one in told] == [0, 1, 7]
    assert [one.partitions for one in told] == [[("", 50, 49, False)], None, None]
    assert [one.partition_count for one in told] == [1, 1, 1]


@pytest.mark.parametrize(
    ("given", "watermark"),
    [
        (GroupInput(end_of_available=True), 209),
        (GroupInput(end_of_available=True, input_rows=1, invalid_rows=1), 199),
        (GroupInput(end_of_available=True, seen={"": 201}, input_rows=1), 200),
        (GroupInput(), 199),
    ],
    ids=["nothing came", "an invalid row", "a row", "more may be there"],
)
def test_where_nothing_more_is_available_and_nothing_came_all_windows_close(given, watermark):
    """The newest row is of 200, its session ends at 210."""
    plan, state = query().columnar(), MemoryState()
    process(plan, state, harness.group_input(plan, batch(("a", 200))))
    output = process(plan, state, given)
    assert (output.metrics.watermark, output.metrics.fired_rows) == (watermark, int(watermark == 209))


def test_of_nothing_at_all_nothing_closes():
    plan, state = query().columnar(), MemoryState()
    assert process(plan, state, GroupInput(end_of_available=True)).metrics.watermark is None


def test_the_clock_of_windows_never_goes_back():
    plan, state = query(ProcessingTimeSessionWindows(10)).columnar(), MemoryState()
    batches = [harness.MicroBatch([[("a", 0, 1, None, 1)]], clock) for clock in (100, 95, 105)]
    assert [one.wake_up for one in harness.run(plan, batches, state)] == [109, 109, 114]
    (one,) = harness.run(plan, [harness.MicroBatch([], 200)], state)
    assert one.fired == [(("a", 100, 115), (3,))]


def test_a_key_group_wakes_for_its_windows_or_for_silence_whichever_comes_first():
    plan = query(ProcessingTimeSessionWindows(10)).columnar()
    plan = replace(plan, ticks=1)
    given = harness.group_input(plan, harness.MicroBatch([[("a", 0, 1, None, 1)]], 100))
    given.seen = {"": 5}
    for after, due in ((50, 104), (300, 109)):
        closing = replace(plan, watermark=WatermarkStrategy(0, closes_after=after))
        assert process(closing, MemoryState(), given).wake_up == due
        assert process(closing, MemoryState(), replace(given, end_of_input=True)).wake_up is None


def test_nothing_is_kept_at_the_end_of_the_input():
    state = MemoryState()
    (one,) = harness.run(query().columnar(), [batch(("a", 0), end=True)], state)
    assert (len(one.fired), state.values) == (1, {})


# -- saved state ---------------------------------------------------------------------------------------------------------------


def saved_of(plan, *batches):
    state = MemoryState()
    harness.run(plan, batches, state)
    return plan.operator.for_group(plan, state, 0).tables(), state


def test_the_header_says_whose_state_it_is_and_how_far_time_is():
    plan = query(lateness=5).columnar()
    header = saved_of(plan, batch(("a", 50)))[0].header
    known = ("format", "operator", "identity", "clock", "closed", "counters")
    assert {name: header[name] for name in known} == {
        "format": 1,
        "operator": "sessions",
        "identity": dict(plan.identity()),
        "clock": 0,
        "closed": 44,
        "counters": {},
    }
    assert header["watermarks"]["watermark"] == 49
    assert "incomplete" not in header


def test_saved_state_is_put_where_none_is():
    plan = query().columnar()
    saved, state = saved_of(plan, batch(("a", 50)))
    with pytest.raises(PlanMismatchError, match="the key group has state already: saved state is put into new checkpoints only"):
        plan.operator.for_group(plan, state, 0).restore(saved)


@pytest.mark.parametrize("found", [0, 2, None])
def test_saved_state_of_another_format_is_refused(found):
    plan = query().columnar()
    saved, _ = saved_of(plan, batch(("a", 50)))
    other = replace(saved, header={**saved.header, "format": found})
    with pytest.raises(StateFormatError, match=f"the saved state has format {found}, this version of panestream reads 1"):
        plan.operator.for_group(plan, MemoryState(), 0).restore(other)


def test_what_was_closed_stays_closed_where_state_is_taken_over():
    """Rows of before are late, whatever the lateness."""
    saved, _ = saved_of(query().columnar(), batch(("a", 50)))
    later, state = query(lateness=1000).columnar(), MemoryState()
    assert later.operator.for_group(later, state, 0).restore(saved) is None
    assert harness.run(later, [batch(("a", 39))], state)[0].metrics.late_rows == 1


def test_saved_state_of_other_windows_is_refused():
    saved, _ = saved_of(query().columnar(), batch(("a", 50)))
    other = query(EventTimeSessionWindows(11)).columnar()
    with pytest.raises(PlanMismatchError, match="the saved state belongs to another plan"):
        other.operator.for_group(other, MemoryState(), 0).restore(saved)


def test_what_was_added_and_may_lack_rows_is_remembered():
    saved, _ = saved_of(query().columnar(), batch(("a", 50)))
    more, state = query(aggregates=(agg.count().alias("n"), agg.sum("v").alias("total"))).columnar(), MemoryState()
    more.operator.for_group(more, state, 0).restore(saved)
    harness.run(more, [batch(("a", 51, 3))], state)
    header = more.operator.for_group(more, state, 0).header()
    assert header["incomplete"] == sorted(one["of"] for one in header["partials"])


def test_windows_of_the_clock_know_no_lateness():
    plan = query(TumblingProcessingTimeWindows(10), lateness=100).columnar()
    batches = [harness.MicroBatch([[("a", 0, 1, None, 1)]], 15), harness.MicroBatch([], 20)]
    state = MemoryState()
    first, second = harness.run(plan, batches, state)
    assert (first.metrics.open_windows, second.metrics.open_windows) == ((1, 1), None)
    assert (first.metrics.kept_windows, second.metrics.kept_windows) == (0, 0), "they have numbers"
    assert plan.operator.for_group(plan, state, 0).header()["closed"] == 19


@pytest.mark.parametrize("clock", [19, 20, 21])
def test_sliding_windows_of_the_clock_are_taken_over_with_the_panes_that_they_need(clock):
    plan, state, taken_over = query(SlidingProcessingTimeWindows(20, 10)).columnar(), MemoryState(), MemoryState()
    harness.run(plan, [harness.MicroBatch([[("a", 0, 1, None, 1)] * 3], 12), harness.MicroBatch([], clock)], state)
    plan.operator.for_group(plan, taken_over, 0).restore(plan.operator.for_group(plan, state, 0).tables())
    came = harness.MicroBatch([[("a", 0, 1, None, 1)]], 25)
    told = harness.run(plan, [came, harness.MicroBatch([], 30), harness.MicroBatch([], 40)], taken_over)
    assert [one.fired for one in told[1:]] == [[(("a", 10, 30), (4,))], [(("a", 20, 40), (1,))]]


def test_state_of_another_plan_is_refused_as_soon_as_a_key_group_is_opened():
    _, state = saved_of(query().columnar(), batch(("a", 50)))
    other = query(EventTimeSessionWindows(11)).columnar()
    with pytest.raises(PlanMismatchError, match="the checkpoint belongs to another plan"):
        other.operator.for_group(other, state, 0)


def test_how_far_event_time_is_goes_with_state_that_is_taken_over():
    plan, state = query().columnar(), MemoryState()
    saved, before = saved_of(plan, batch(("a", 50)), batch(("b", 70)))
    plan.operator.for_group(plan, state, 0).restore(saved)
    header = plan.operator.for_group(plan, state, 0).header()
    assert header == plan.operator.for_group(plan, before, 0).header()
    assert (header["watermarks"]["watermark"], header["closed"]) == (69, 69)
    # A row behind it is late at once.
    assert harness.run(plan, [batch(("a", 40))], state)[0].metrics.late_rows == 1
