"""The aligned-pane operator compared with the definition of windows: which rows a window takes, and when it fires.

The definition replays all rows one by one. Streams are random, with disorder, late rows, and random micro-batches and chunks.
State is encoded and decoded after each micro-batch.
"""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panestream.engine.explain import explain_plan
from panestream.engine.plan import MAIN, Chunk, Top, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.runtime.group_io import GroupInput
from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    CalendarDays,
    CalendarMonths,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import harness
from tests.costs import random_cases

pytestmark = pytest.mark.usefixtures("values_apart")

AGGREGATES = (agg.count().alias("n"), agg.sum("v").alias("total"), agg.max("v").alias("top"), agg.collect_list("v").alias("all"))
ROWS = pa.schema([("key", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])


def plan_of(assigner, delay=0, late=None, aggregates=AGGREGATES, lateness=0, **more):
    keys = pa.schema([("key", pa.string())])
    return WindowPlan(
        keys=("key",),
        key_schema=keys,
        assigner=assigner,
        operator=plan_aggregates(WindowQuery(assigner, allowed_lateness=lateness), aggregates, {"v": pa.int64()}, keys),
        watermark=WatermarkStrategy(delay),
        event_time="ts",
        groups=1,
        allowed_lateness=lateness,
        late_tag=late,
        row_schema=ROWS if late else None,
        **more,
    )


def batch_of(plan, chunks):
    """Return the batch that pack makes of the rows (key, ts, v) of a micro-batch in these chunks."""
    batch = GroupInput(input_rows=sum(map(len, chunks)))
    for rows in chunks:
        if not rows:
            continue
        table = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in rows], schema=ROWS)
        chunk = Chunk(table["ts"].to_numpy(), [table["key"].chunk(0)], [table["v"].chunk(0)], table if plan.late_tag else None)
        for kind, part in plan.operator.pack(plan, chunk):
            batch.parts.setdefault(kind, []).append(part)
    times = [row[1] for rows in chunks for row in rows]
    batch.seen = {"": max(times)} if times else {}
    return batch


@dataclass
class Definition:
    """Windows by definition: each row goes into all its windows. A window fires once, when the watermark reaches its end."""

    plan: WindowPlan

    def __post_init__(self):
        self.watermark = MIN_TIMESTAMP
        self.contents = defaultdict(list)

    def process(self, rows):
        late = []
        for row in rows:
            windows = self.plan.assigner.assign_windows(None, row[1], 0)
            open_windows = [window for window in windows if window.max_timestamp() > self.watermark]
            for window in open_windows:
                self.contents[window, row[0]].append(row)
            if not open_windows and row[1] <= self.watermark:
                late.append(row)
        if rows:
            self.watermark = max(self.watermark, max(row[1] for row in rows) - self.plan.watermark.delay - 1)
        return self._fire(self.watermark), late

    def end(self):
        return self._fire(2**63 - 1)

    def _fire(self, watermark):
        due = [place for place in self.contents if place[0].max_timestamp() <= watermark]
        return {(key, window.start, window.end): self._value(self.contents.pop((window, key))) for window, key in due}

    @staticmethod
    def _value(rows):
        values = [row[2] for row in rows if row[2] is not None]
        in_time_order = [row[2] for row in sorted(rows, key=lambda row: row[1]) if row[2] is not None]
        return len(rows), sum(values) if values else None, max(values, default=None), in_time_order


def results_by_place(output):
    results = {}
    for tag, table in output.tables:
        if tag == MAIN:
            for row in table.to_pylist():
                start, end = (
                    int(row[name].timestamp() * 1_000_000 + 0.5 * (1 if row[name].timestamp() >= 0 else -1))
                    for name in ("window_start", "window_end")
                )
                place = row["key"], start, end
                assert place not in results, "a window fired twice for one key"
                results[place] = row["n"], row["total"], row["top"], row["all"]
    return results


assigners = st.one_of(
    st.builds(lambda size, offset: TumblingEventTimeWindows(size, offset % size), st.integers(1, 20), st.integers(0, 20)),
    st.builds(
        lambda size, slide, offset: SlidingEventTimeWindows(size, slide, offset % slide),
        st.integers(1, 20),
        st.integers(1, 20),
        st.integers(0, 20),
    ),
)
rows_ = st.tuples(st.sampled_from(["a", "b", None]), st.integers(-40, 60), st.one_of(st.none(), st.integers(-5, 5)))
streams = st.lists(st.lists(st.lists(rows_, max_size=6), min_size=1, max_size=3), min_size=1, max_size=25)


@settings(max_examples=random_cases(400), deadline=None, print_blob=True)
@given(assigners, st.integers(0, 15), st.booleans(), streams)
def test_aligned_panes_equal_the_definition_on_random_streams(assigner, delay, with_late, stream):
    plan = plan_of(assigner, delay, "late" if with_late else None)
    definition, state = Definition(plan), MemoryState()
    for chunks in stream:
        expected, late = definition.process([row for rows in chunks for row in rows])
        output = plan.operator.for_group(plan, state, 0).process(batch_of(plan, chunks))
        assert results_by_place(output) == expected
        assert output.metrics.late_rows == len(late)
        assert output.metrics.fired_rows == len(expected)
        assert len(output.metrics.fired_windows) == len({place[1] for place in expected})
        if with_late:
            emitted = [tuple(row.values()) for tag, table in output.tables if tag == "late" for row in table.to_pylist()]
            assert emitted == late
    assert_only_open_panes_are_kept(plan, state, definition)


@settings(max_examples=random_cases(100), deadline=None, print_blob=True)
@given(assigners, streams)
def test_batch_fires_all_windows(assigner, stream):
    plan = plan_of(assigner)
    definition = Definition(replace(plan, watermark=WatermarkStrategy.no_watermarks()))
    chunks = [rows for chunks in stream for rows in chunks]
    for row in (row for rows in chunks for row in rows):
        for window in assigner.assign_windows(None, row[1], 0):
            definition.contents[window, row[0]].append(row)
    batch = batch_of(plan, chunks)
    batch.end_of_input = True
    state = MemoryState()
    output = plan.operator.for_group(plan, state, 0).process(batch)
    assert results_by_place(output) == definition.end()
    assert not state.values


def assert_only_open_panes_are_kept(plan, state, definition):
    grid = plan.operator.grid
    (windows,) = grid.windows
    live = -(2**62)
    if definition.watermark != MIN_TIMESTAMP:
        live = grid.pane_of(windows.start_of(windows.first_ending_after(definition.watermark + 1)))
    stores = plan.operator.for_group(plan, state, 0)._storage.stores
    expected_places = {("meta", 0), ("meta", 1)} | {(store.space, block.key) for store in stores for block in store.index}
    assert set(state.values) == expected_places, "state and index disagree"
    assert all(block.high >= live for store in stores if store.space in ("panes", "settled 0") for block in store.index)


def run(plan, state, rows):
    return plan.operator.for_group(plan, state, 0).process(batch_of(plan, [rows]))


def test_panes_that_open_and_close_in_one_micro_batch_are_not_written():
    plan = plan_of(TumblingEventTimeWindows(10))
    state = MemoryState()
    output = run(plan, state, [("a", 1, 1), ("a", 11, 2), ("a", 20, 3)])
    assert set(results_by_place(output)) == {("a", 0, 10), ("a", 10, 20)}
    assert sorted(state.values) == [("meta", 0), ("meta", 1), ("panes", 0)]
    assert (
        output.metrics.state_calls == 5
    )  # read the meta record and its witness, append the open pane, write meta record and witness


def test_no_pane_is_read_if_no_window_is_due():
    plan = plan_of(SlidingEventTimeWindows(100, 10), delay=0)
    state = MemoryState()
    for time in range(5):
        output = run(plan, state, [("a", time, 1)])
    assert output.metrics.state_calls == 5
    assert output.metrics.bytes_read == len(state.values["meta", 0]) or output.metrics.bytes_read < 3000


def test_many_small_micro_batches_leave_few_blocks():
    plan = plan_of(TumblingEventTimeWindows(10_000))
    state = MemoryState()
    for time in range(150):
        output = run(plan, state, [("a", time, 1)])
    assert output.metrics.blocks <= 16  # at most seven of each level, and two of the highest
    assert results_by_place(run(plan, state, [("a", 10_001, 0)]))["a", 0, 10_000][:2] == (150, 150)


def test_gap_of_years_between_rows_is_skipped():
    plan = plan_of(SlidingEventTimeWindows(60, 1), delay=0)
    state = MemoryState()
    run(plan, state, [("a", 0, 1)])
    output = run(plan, state, [("a", 2**55, 1)])
    assert output.metrics.fired_rows == 60


def test_top_emits_the_largest_rows_of_each_window():
    plan = plan_of(
        TumblingEventTimeWindows(10), aggregates=(agg.count().alias("n"), agg.sum("v").alias("total")), top=Top(2, "total")
    )
    rows = [(key, time, value) for time in (1, 11) for key, value in [("b", 5), ("a", 5), ("c", 9), ("d", None), (None, 1)]]
    output = run(plan, MemoryState(), [*rows, ("z", 30, 0)])
    table = pa.concat_tables([table for tag, table in output.tables if tag == MAIN])
    assert [(row["key"], row["total"]) for row in table.to_pylist()] == [("c", 9), ("a", 5)] * 2


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"assigner": TumblingEventTimeWindows(20)}, "windows: TumblingEventTimeWindows.of"),
        ({"aggregates": (agg.count().alias("n"),)}, "aggregates"),
    ],
)
def test_state_of_other_panes_is_refused(changes, named):
    state = MemoryState()
    run(plan_of(TumblingEventTimeWindows(10)), state, [("a", 1, 1)])
    other = plan_of(**{"assigner": TumblingEventTimeWindows(10), **changes})
    with pytest.raises(PlanMismatchError, match=named):
        other.operator.for_group(other, state, 0)


def test_watermark_strategy_may_change_on_restart():
    state = MemoryState()
    run(plan_of(TumblingEventTimeWindows(10)), state, [("a", 5, 1)])
    output = run(plan_of(TumblingEventTimeWindows(10), delay=3), state, [("a", 12, 1)])
    assert results_by_place(output) == {}
    assert np.array(output.metrics.watermark) == 8


@pytest.mark.full
def test_window_with_eight_times_the_panes_reads_less_than_three_times_as_much():
    def read_in_a_firing(size):
        plan = plan_of(SlidingEventTimeWindows(size, 1), aggregates=(agg.max("v").alias("top"), agg.count().alias("n")))
        state, read = MemoryState(), []
        for number in range(size // 15 + 30):
            rows = [(f"k{key}", 15 * number + time, key) for time in range(15) for key in range(40)]
            metrics = run(plan, state, rows).metrics
            read.append(metrics.bytes_read - len(state.values["meta", 0]))
        assert metrics.fired_rows == 15 * 40
        assert metrics.blocks < 100
        return np.mean(read[-16:])

    assert read_in_a_firing(1200) < 3 * read_in_a_firing(150)


def test_raising_the_lateness_does_not_reopen_closed_windows():
    state = MemoryState()
    strict = plan_of(TumblingEventTimeWindows(10))
    patient = plan_of(TumblingEventTimeWindows(10), lateness=100)
    run(strict, state, [("a", 1, 1), ("a", 25, 2)])
    late = run(patient, state, [("a", 2, 9)])
    assert results_by_place(late) == {}
    assert late.metrics.late_rows == 1
    assert results_by_place(run(patient, state, [("a", 41, 1)])) == {("a", 20, 30): (1, 2, 2, [2])}
    again = run(patient, state, [("a", 22, 5)])
    assert results_by_place(again) == {("a", 20, 30): (2, 7, 5, [5, 2])}


def test_lowering_the_lateness_closes_open_windows():
    state = MemoryState()
    run(plan_of(TumblingEventTimeWindows(10), lateness=100), state, [("a", 1, 1), ("a", 25, 2)])
    late = run(plan_of(TumblingEventTimeWindows(10)), state, [("a", 2, 9)])
    assert (results_by_place(late), late.metrics.late_rows) == ({}, 1)


def test_only_keys_with_late_rows_fire_again():
    plan, state = plan_of(SlidingEventTimeWindows(20, 10), lateness=50), MemoryState()
    run(plan, state, [("a", 1, 1), ("b", 1, 1), ("a", 12, 1), ("b", 12, 2), ("a", 45, 1)])
    assert set(results_by_place(run(plan, state, [("b", 13, 4)]))) == {("b", 0, 20), ("b", 10, 30)}


def test_repeated_micro_batch_writes_the_same_bytes():
    plan, state = plan_of(SlidingEventTimeWindows(64, 1), lateness=20, with_firing=True), MemoryState()
    rng = np.random.default_rng(0)
    for number in range(30):
        rows = [(key, int(4 * number - rng.integers(0, 30)), int(rng.integers(0, 9))) for key in ("a", "b", None)]
        other = MemoryState(dict(state.values))
        outputs = [run(plan, store, rows).tables for store in (state, other)]
        assert state.values == other.values
        assert [tag for tag, _ in outputs[0]] == [tag for tag, _ in outputs[1]]
        assert all(first.equals(second) for (_, first), (_, second) in zip(*outputs, strict=True))


def test_processing_time_window_wakes_the_query_at_its_last_instant():
    windowing = WindowQuery(TumblingProcessingTimeWindows(10))
    plan = harness.Query(windowing, (agg.count().alias("n"),)).columnar()
    rows = [[("a", 0, None, None, 1)]]
    emitted = harness.run(
        plan, [harness.MicroBatch(rows, clock=15), harness.MicroBatch([], clock=19), harness.MicroBatch([], clock=20)]
    )
    assert [output.wake_up for output in emitted] == [19, 19, None]
    assert plan.wakes_up
    assert [len(output.fired) for output in emitted] == [0, 0, 1]


def test_first_arrival_wins_among_equal_event_times_in_long_processing_time_windows():
    """A long window is read in pieces of several sizes, which are not in time order."""
    windowing = WindowQuery(SlidingProcessingTimeWindows(64, 2))
    recipes = (agg.first("v").alias("first"), agg.last("v").alias("last"), agg.max_by("v", "x").alias("at_max"))
    plan = harness.Query(windowing, recipes).columnar()
    assert plan.operator.levels > 1
    # All rows have the same event time and equal values to compare, so only the order of arrival distinguishes them.
    batches = [harness.MicroBatch([[(key, 5, clock, 1.0, clock) for key in "ab"]], clock=clock) for clock in range(120)]
    actual = [row for output in harness.run(plan, batches) for row in output.fired]
    assert actual == [
        ((key, end - 64, end), (max(end - 64, 0), end - 1, max(end - 64, 0))) for end in range(2, 120, 2) for key in "ab"
    ]


@pytest.mark.parametrize(
    ("assigner", "description"),
    [
        (TumblingEventTimeWindows(10), "10 microseconds each, 1 to a window"),
        (SlidingEventTimeWindows(2, 5), "a pane for each window (2 microseconds)"),
        (SlidingEventTimeWindows(9, 3), "3 microseconds each, 3 to a window"),
        (
            SlidingEventTimeWindows(10, 3),
            "two to a slide, 1 microsecond and 2 microseconds, since the slide does not divide the size",
        ),
        (
            SeveralWindows.of({"a": TumblingEventTimeWindows(6), "b": TumblingEventTimeWindows(10)}),
            "7 of unequal length every 30 microseconds: one between any two edges of windows",
        ),
        (
            SeveralWindows.of({"a": TumblingEventTimeWindows(5), "b": TumblingEventTimeWindows(10)}),
            "5 microseconds each, 1 and 2 to a window, shared",
        ),
    ],
)
def test_explain_describes_the_panes(assigner, description):
    plan = harness.Query(WindowQuery(assigner), (agg.count().alias("n"),)).columnar()
    assert plan.operator.explain(plan, streaming=True)["panes"] == [description]


@pytest.mark.parametrize(("clock", "wakes"), [(15, 19), (65, 69), (110, 119)])
def test_earliest_end_of_several_processing_time_windows_wakes_the_query(clock, wakes):
    several = SeveralWindows.of({"short": TumblingProcessingTimeWindows(10), "long": TumblingProcessingTimeWindows(60)})
    plan = harness.Query(WindowQuery(several), (agg.count().alias("n"),)).columnar()
    (output,) = harness.run(plan, [harness.MicroBatch([[("a", 0, None, None, 1)]], clock=clock)])
    assert output.wake_up == wakes


def test_ended_processing_time_window_does_not_wake_the_query_again():
    """The rows are in the panes [10, 15) and [25, 30). Windows that end with the first pane are over when the clock shows 15."""
    windowing = WindowQuery(SlidingProcessingTimeWindows(20, 5))
    plan, rows = harness.Query(windowing, (agg.count().alias("n"),)).columnar(), [[("a", 0, None, None, 1)]]
    clocks = [(11, rows), (14, []), (15, []), (26, rows), (29, []), (30, []), (44, []), (45, [])]
    emitted = harness.run(plan, [harness.MicroBatch(rows_at_clock, clock=clock) for clock, rows_at_clock in clocks])
    assert [output.wake_up for output in emitted] == [14, 14, 19, 29, 29, 34, 44, None]
    assert [[place[1:] for place, _ in output.fired] for output in emitted] == [
        [],
        [],
        [(-5, 15)],
        [(0, 20), (5, 25)],
        [],
        [(10, 30)],
        [(15, 35), (20, 40)],
        [(25, 45)],
    ]
    # The window [0, 20) has number 0.
    spans = [(-1, 2), (-1, 2), (0, 2), (2, 5), (2, 5), (3, 5), (5, 5), None]
    assert [output.metrics.open_windows for output in emitted] == spans


def test_query_is_not_woken_for_event_time_windows_or_at_the_end_of_input():
    rows, counted = [[("a", 5, None, None, 1)]], (agg.count().alias("n"),)
    plan = harness.Query(WindowQuery(TumblingEventTimeWindows(10)), counted, delay=100).columnar()
    for more, spans in (([], (0, 0)), ([("a", 45, None, None, 1)], (0, 4))):
        (output,) = harness.run(plan, [harness.MicroBatch([[*rows[0], *more]], clock=15)])
        assert (output.wake_up, output.metrics.open_windows, output.fired) == (None, spans, [])
    plan = harness.Query(WindowQuery(TumblingProcessingTimeWindows(10)), counted).columnar()
    first, last = harness.run(plan, [harness.MicroBatch(rows, clock=15), harness.MicroBatch(rows, clock=16, end=True)])
    assert (first.wake_up, last.wake_up, last.fired) == (19, None, [(("a", 10, 20), (2,))])


def test_continuous_trigger_wakes_the_query_before_the_window_ends():
    windowing = WindowQuery(TumblingProcessingTimeWindows(100), ContinuousProcessingTimeTrigger(30))
    plan = harness.Query(windowing, (agg.count().alias("n"),)).columnar()
    rows = [[("a", 0, None, None, 1)]]
    emitted = harness.run(plan, [harness.MicroBatch(rows, clock=15), harness.MicroBatch([], clock=31)])
    assert [output.wake_up for output in emitted] == [30, 60]
    assert [output.fired for output in emitted] == [[], [(("a", 0, 100), (1,))]]


def test_overdue_window_that_has_fired_does_not_fire_again_after_a_restore():
    """Each window stores the number of the row that opened it. Rows since the last step of time have numbers from 0."""
    windowing = WindowQuery(TumblingEventTimeWindows(40), ContinuousEventTimeTrigger(10))
    plan, state = harness.Query(windowing, (agg.count().alias("n"),)).columnar(), MemoryState()
    rows = [("a", 23), ("b", 3), ("a", 25), ("d", 4)]
    emitted = harness.run(plan, [harness.MicroBatch([[(key, ts, None, None, 1)]]) for key, ts in rows], state)
    # The windows of b and d are overdue since 10. They fire with the next step of time, which for b is the second row of a.
    assert [output.fired for output in emitted] == [[], [], [(("b", 0, 40), (1,))], []]
    saved = plan.operator.for_group(plan, state, 0).tables()
    panes = saved.tables["panes"]
    opened_by = dict(zip(panes["key 0"].to_pylist(), panes["#1.min"].to_pylist(), strict=True))
    assert opened_by == {"a": -3, "b": -2, "d": 0}
    again = MemoryState()
    plan.operator.for_group(plan, again, 0).restore(saved)
    for store in (state, again):
        (next_,) = harness.run(plan, [harness.MicroBatch([[("c", 27, None, None, 1)]])], store)
        assert next_.fired == [(("d", 0, 40), (1,))]


@pytest.mark.parametrize(
    ("assigner", "lateness", "merged"),
    [
        (SlidingEventTimeWindows(20, 10), 0, True),
        (TumblingEventTimeWindows(10), 5, True),
        (TumblingEventTimeWindows(10), 0, False),
    ],
    ids=["overlapping", "late rows may come", "neither"],
)
def test_explain_shows_whether_passed_panes_are_kept_merged(assigner, lateness, merged):
    plan = plan_of(assigner, lateness=lateness)
    words = plan.operator.explain(plan, streaming=True)["state"]
    assert any("panes that time has passed are kept merged" in line for line in words) == merged


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        (CalendarDays.of(1, zone="Europe/Berlin"), "1 day of the zone's clock each, at most 1 to a window"),
        (CalendarMonths.of(2, every=1, zone="Europe/Berlin"), "1 month of the zone's calendar each, at most 3 to a window"),
    ],
)
def test_explain_describes_the_panes_of_calendar_windows(windows, words):
    assert words in explain_plan(plan_of(windows), streaming=True, chosen=None)


EARLY = ContinuousEventTimeTrigger(3)
OPENED = ", #0.value int64, #0.by int64, #0.time int64, #1.min int64"
"""Columns for the row that opened a window. A continuous trigger counts from it."""


@pytest.mark.parametrize(
    ("trigger", "opened", "more"),
    [
        (None, "", {}),
        (EARLY, OPENED, {}),
        (PurgingTrigger(EARLY), OPENED, {"purges": "true"}),
        (PurgingTrigger(EventTimeTrigger()), "", {}),
    ],
    ids=["at the end", "early, too", "early, then purged", "at the end, then purged"],
)
def test_identity_of_aligned_panes_does_not_change(trigger, opened, more):
    """Checkpoints contain this identity, so it must not change."""
    operator = harness.Query(WindowQuery(TumblingEventTimeWindows(10), trigger), (agg.count().alias("n"),)).columnar().operator
    assert operator.identity() == {
        "aggregates": "agg.count().alias('n')",
        "partials": f"pane int64, rows int64{opened}",
        "panes": "second layout, 1 resolutions",
        **more,
    }


def test_state_of_a_purging_trigger_is_refused_without_purging_and_vice_versa():
    batch = harness.MicroBatch([[("a", 0, 1, None, 1)]])
    plans = [
        harness.Query(WindowQuery(TumblingEventTimeWindows(10), trigger), (agg.count().alias("n"),)).columnar()
        for trigger in (EARLY, PurgingTrigger(EARLY))
    ]
    for plan, other in (plans, plans[::-1]):
        state = MemoryState()
        harness.run(plan, [batch], state)
        harness.run(plan, [batch], state)
        with pytest.raises(PlanMismatchError, match="purges: "):
            harness.run(other, [batch], state)
