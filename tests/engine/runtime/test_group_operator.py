"""Behaviour that all operators share: metrics, invalid and late rows, closing, and saved state."""

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

pytestmark = pytest.mark.usefixtures("values_apart")


def test_micro_batch_without_rows_counts_as_woken_by_the_clock():
    emitted = harness.run(query().columnar(), [batch(("a", 0, None)), batch(), batch(("a", 5, None)), batch(end=True)])
    assert [output.metrics.woken for output in emitted] == [False, True, False, True]


def test_micro_batch_with_invalid_rows_or_event_times_is_not_woken():
    plan = query().columnar()
    operator = plan.operator.for_group(plan, MemoryState(), 0)
    inputs = [GroupInput(input_rows=3, invalid_rows=3), GroupInput(seen={"": 5}), GroupInput()]
    assert [operator.process(group_input).metrics.woken for group_input in inputs] == [False, False, True]


def test_invalid_rows_are_emitted_unchanged():
    rows = pa.table([[None], [None], [3], [None], [1]], schema=harness.ROWS)
    plan = query(more={"invalid_tag": "invalid"}).columnar()
    operator = plan.operator.for_group(plan, MemoryState(), 0)
    output = operator.process(GroupInput(input_rows=1, invalid_rows=1, invalid=[rows]))
    assert [(tag, table.to_pylist()) for tag, table in output.tables] == [("invalid", rows.to_pylist())]
    assert output.metrics.outputs == {"invalid": 1}


@pytest.mark.parametrize("late", [True, False])
def test_late_rows_are_counted_and_emitted_if_there_is_a_late_output(late):
    emitted = harness.run(query(late=late).columnar(), [batch(("a", 50, 1)), batch(("a", 5, 2), ("b", 5, 3), ("b", 60, 4))])
    assert [output.metrics.late_rows for output in emitted] == [0, 2]
    assert [output.metrics.outputs.get(harness.LATE) for output in emitted] == [None, 2 if late else None]
    assert [len(output.late) for output in emitted] == [0, 2 if late else 0]


@pytest.mark.parametrize("assigner", [TumblingProcessingTimeWindows(10), ProcessingTimeSessionWindows(10)])
@pytest.mark.parametrize("clock", [10, 15, 17, 18, 19])
def test_open_processing_time_window_is_restored_until_its_last_instant(assigner, clock):
    """The row comes at 10, so the window is over at 20. Its key group is woken once the clock has passed 19."""
    plan, state, taken_over = query(assigner).columnar(), MemoryState(), MemoryState()
    *_, before = harness.run(plan, [harness.MicroBatch([[("a", 0, 1, None, 1)]], 10), harness.MicroBatch([], clock)], state)
    saved = plan.operator.for_group(plan, state, 0).tables()
    assert saved.header["clock"] == clock
    wake_up = plan.operator.for_group(plan, taken_over, 0).restore(saved)
    assert (before.wake_up, wake_up) == (19, 19)
    assert plan.operator.for_group(plan, taken_over, 0).tables().tables == saved.tables
    (after,) = harness.run(plan, [harness.MicroBatch([], 20)], taken_over)
    assert (after.fired, after.wake_up) == ([(("a", 10, 20), (1,))], None)


def process(plan, state, group_input, group=0):
    return plan.operator.for_group(plan, state, group).process(group_input)


def test_metrics_of_a_micro_batch_are_complete():
    plan, state = query(lateness=5, late=True, more={"invalid_tag": "bad"}).columnar(), MemoryState()
    first = process(plan, state, GroupInput(seen={"": 50}, input_rows=3, invalid_rows=1, history_rows=2)).metrics.to_json()
    bytes_written = sum(map(len, state.values.values()))
    common_metrics = {"outside_rows": 0, "fired_windows": [], "open_windows": None, "key_group": 0, "operator_us": 0}
    common_metrics |= {"partition_count": 1, "idle_partitions": 0}
    assert first == common_metrics | {
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
        "bytes_written": bytes_written,
    }
    group_input = harness.group_input(plan, batch(("a", 51), ("b", 20), ("a", 200)))
    second = process(plan, state, group_input, 0).metrics.to_json()
    # The size of the page without its seal: a head of 8 bytes, its place (21), and the name of its space.
    page = len(state.values["pages", 0]) - 8 - 21 - len("pages")
    assert second == common_metrics | {
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
        "bytes_read": bytes_written,
        "bytes_written": sum(map(len, state.values.values())),
    }


def test_only_the_first_key_group_reports_source_partitions():
    plan = query().columnar()
    metrics_of_groups = [
        process(plan, MemoryState(), GroupInput(seen={"": 50}, input_rows=1), group).metrics for group in (0, 1, 7)
    ]
    assert [metrics.key_group for metrics in metrics_of_groups] == [0, 1, 7]
    assert [metrics.partitions for metrics in metrics_of_groups] == [[("", 50, 49, False)], None, None]
    assert [metrics.partition_count for metrics in metrics_of_groups] == [1, 1, 1]


@pytest.mark.parametrize(
    ("group_input", "watermark"),
    [
        (GroupInput(end_of_available=True), 209),
        (GroupInput(end_of_available=True, input_rows=1, invalid_rows=1), 199),
        (GroupInput(end_of_available=True, seen={"": 201}, input_rows=1), 200),
        (GroupInput(), 199),
    ],
    ids=["nothing came", "an invalid row", "a row", "more may be there"],
)
def test_all_windows_close_if_no_more_input_is_available(group_input, watermark):
    """The newest row has the time 200, so its session ends at 210."""
    plan, state = query().columnar(), MemoryState()
    process(plan, state, harness.group_input(plan, batch(("a", 200))))
    output = process(plan, state, group_input)
    assert (output.metrics.watermark, output.metrics.fired_rows) == (watermark, int(watermark == 209))


def test_end_of_available_input_without_any_rows_sets_no_watermark():
    plan, state = query().columnar(), MemoryState()
    assert process(plan, state, GroupInput(end_of_available=True)).metrics.watermark is None


def test_clock_of_processing_time_windows_never_goes_back():
    plan, state = query(ProcessingTimeSessionWindows(10)).columnar(), MemoryState()
    batches = [harness.MicroBatch([[("a", 0, 1, None, 1)]], clock) for clock in (100, 95, 105)]
    assert [output.wake_up for output in harness.run(plan, batches, state)] == [109, 109, 114]
    (output,) = harness.run(plan, [harness.MicroBatch([], 200)], state)
    assert output.fired == [(("a", 100, 115), (3,))]


def test_key_group_wakes_for_windows_or_silence_whichever_is_first():
    plan = query(ProcessingTimeSessionWindows(10)).columnar()
    plan = replace(plan, ticks=1)
    group_input = harness.group_input(plan, harness.MicroBatch([[("a", 0, 1, None, 1)]], 100))
    group_input.seen = {"": 5}
    for after, due in ((50, 104), (300, 109)):
        closing = replace(plan, watermark=WatermarkStrategy(0, closes_after=after))
        assert process(closing, MemoryState(), group_input).wake_up == due
        assert process(closing, MemoryState(), replace(group_input, end_of_input=True)).wake_up is None


def test_state_is_empty_at_the_end_of_input():
    state = MemoryState()
    (output,) = harness.run(query().columnar(), [batch(("a", 0), end=True)], state)
    assert (len(output.fired), state.values) == (1, {})


# -- saved state ---------------------------------------------------------------------------------------------------------------


def saved_of(plan, *batches):
    state = MemoryState()
    harness.run(plan, batches, state)
    return plan.operator.for_group(plan, state, 0).tables(), state


def test_header_of_saved_state_has_identity_and_progress_of_time():
    plan = query(lateness=5).columnar()
    header = saved_of(plan, batch(("a", 50)))[0].header
    names = ("format", "operator", "identity", "clock", "closed", "counters")
    assert {name: header[name] for name in names} == {
        "format": 1,
        "operator": "sessions",
        "identity": dict(plan.identity()),
        "clock": 0,
        "closed": 44,
        "counters": {},
    }
    assert header["watermarks"]["watermark"] == 49
    assert "incomplete" not in header


def test_saved_state_is_not_restored_over_existing_state():
    plan = query().columnar()
    saved, state = saved_of(plan, batch(("a", 50)))
    with pytest.raises(PlanMismatchError, match="the key group has state already: saved state is put into new checkpoints only"):
        plan.operator.for_group(plan, state, 0).restore(saved)


@pytest.mark.parametrize("version", [0, 2, None])
def test_saved_state_of_another_format_is_refused(version):
    plan = query().columnar()
    saved, _ = saved_of(plan, batch(("a", 50)))
    other = replace(saved, header={**saved.header, "format": version})
    with pytest.raises(StateFormatError, match=f"the saved state has format {version}, this version of panestream reads 1"):
        plan.operator.for_group(plan, MemoryState(), 0).restore(other)


def test_restore_with_a_longer_lateness_does_not_reopen_windows():
    """Earlier rows are late, whatever the new lateness."""
    saved, _ = saved_of(query().columnar(), batch(("a", 50)))
    later, state = query(lateness=1000).columnar(), MemoryState()
    assert later.operator.for_group(later, state, 0).restore(saved) is None
    assert harness.run(later, [batch(("a", 39))], state)[0].metrics.late_rows == 1


def test_saved_state_of_other_windows_is_refused():
    saved, _ = saved_of(query().columnar(), batch(("a", 50)))
    other = query(EventTimeSessionWindows(11)).columnar()
    with pytest.raises(PlanMismatchError, match="the saved state belongs to another plan"):
        other.operator.for_group(other, MemoryState(), 0).restore(saved)


def test_header_marks_added_aggregates_as_incomplete():
    saved, _ = saved_of(query().columnar(), batch(("a", 50)))
    more, state = query(aggregates=(agg.count().alias("n"), agg.sum("v").alias("total"))).columnar(), MemoryState()
    more.operator.for_group(more, state, 0).restore(saved)
    harness.run(more, [batch(("a", 51, 3))], state)
    header = more.operator.for_group(more, state, 0).header()
    assert header["incomplete"] == sorted(partial["of"] for partial in header["partials"])


def test_processing_time_windows_ignore_allowed_lateness():
    plan = query(TumblingProcessingTimeWindows(10), lateness=100).columnar()
    batches = [harness.MicroBatch([[("a", 0, 1, None, 1)]], 15), harness.MicroBatch([], 20)]
    state = MemoryState()
    first, second = harness.run(plan, batches, state)
    assert (first.metrics.open_windows, second.metrics.open_windows) == ((1, 1), None)
    assert (first.metrics.kept_windows, second.metrics.kept_windows) == (0, 0), "they have numbers"
    assert plan.operator.for_group(plan, state, 0).header()["closed"] == 19


@pytest.mark.parametrize("clock", [19, 20, 21])
def test_sliding_processing_time_windows_are_restored_with_their_panes(clock):
    plan, state, taken_over = query(SlidingProcessingTimeWindows(20, 10)).columnar(), MemoryState(), MemoryState()
    harness.run(plan, [harness.MicroBatch([[("a", 0, 1, None, 1)] * 3], 12), harness.MicroBatch([], clock)], state)
    plan.operator.for_group(plan, taken_over, 0).restore(plan.operator.for_group(plan, state, 0).tables())
    more_rows = harness.MicroBatch([[("a", 0, 1, None, 1)]], 25)
    emitted = harness.run(plan, [more_rows, harness.MicroBatch([], 30), harness.MicroBatch([], 40)], taken_over)
    assert [output.fired for output in emitted[1:]] == [[(("a", 10, 30), (4,))], [(("a", 20, 40), (1,))]]


def test_state_of_another_plan_is_refused_when_a_key_group_opens():
    _, state = saved_of(query().columnar(), batch(("a", 50)))
    other = query(EventTimeSessionWindows(11)).columnar()
    with pytest.raises(PlanMismatchError, match="the checkpoint belongs to another plan"):
        other.operator.for_group(other, state, 0)


def test_watermark_is_restored_with_saved_state():
    plan, state = query().columnar(), MemoryState()
    saved, before = saved_of(plan, batch(("a", 50)), batch(("b", 70)))
    plan.operator.for_group(plan, state, 0).restore(saved)
    header = plan.operator.for_group(plan, state, 0).header()
    assert header == plan.operator.for_group(plan, before, 0).header()
    assert (header["watermarks"]["watermark"], header["closed"]) == (69, 69)
    # A row below the restored watermark is late.
    assert harness.run(plan, [batch(("a", 40))], state)[0].metrics.late_rows == 1
