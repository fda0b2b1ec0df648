"""Columnar sessions: their results, state, state calls, errors, and the queries that they leave to the row operator."""

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.explain import explain_plan
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.operators.sessions.exchange import pack_rows, unpack_rows
from panestream.engine.operators.sessions.operator import FiredSessions
from panestream.engine.plan import Chunk, WindowQuery
from panestream.engine.planner import plan_aggregates
from panestream.engine.rule import PYTHON
from panestream.engine.storage import keyed_pages as pages
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidWindowError, PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger
from panestream.windowing.windows import TimeWindow
from tests.comparison import harness, savepoints

pytestmark = pytest.mark.usefixtures("values_apart")

COUNT = (agg.count().alias("n"),)


def query(assigner=None, aggregates=COUNT, **more):
    lateness = more.pop("lateness", 0)
    windowing = WindowQuery(assigner or EventTimeSessionWindows(10), allowed_lateness=lateness)
    return harness.Query(windowing, aggregates, **more)


def batch(*rows, end=False):
    """Return a micro-batch of (key, ts) or (key, ts, v, u)."""
    full = [(key, ts, *(rest[:1] or (None,)), None, *(rest[1:] or (1,))) for key, ts, *rest in rows]
    return harness.MicroBatch([full] if full else [], end=end)


def fired_rows(emitted):
    return [(*place, *values) for place, values in emitted.fired]


def test_rows_exactly_one_gap_apart_form_one_session():
    (output,) = harness.run(query().columnar(), [batch(("a", 0), ("a", 10), ("a", 21), end=True)])
    assert fired_rows(output) == [("a", 0, 20, 2), ("a", 21, 31, 1)]


def test_late_row_between_two_sessions_merges_them():
    plan = query(lateness=100).columnar()
    emitted = harness.run(plan, [batch(("a", 0), ("a", 15), ("b", 40)), batch(("a", 8)), batch(end=True)])
    assert [fired_rows(output) for output in emitted] == [
        [("a", 0, 10, 1), ("a", 15, 25, 1)],
        [("a", 0, 25, 3)],
        [("b", 40, 50, 1)],
    ]


def test_late_row_is_taken_only_if_it_touches_an_earlier_session():
    # The watermark is 29. Sessions that end at 30 or before are closed.
    plan = query(late=True).columnar()
    _, second = harness.run(plan, [batch(("b", 30)), batch(("a", 15), ("a", 25), ("a", 14), ("a", 5))])
    assert [row[:2] for row in second.late] == [("a", 15), ("a", 14), ("a", 5)]
    _, second = harness.run(plan, [batch(("b", 30)), batch(("a", 25), ("a", 15), ("a", 14), ("a", 3))])
    assert [row[:2] for row in second.late] == [("a", 3)]
    _, second, third = harness.run(plan, [batch(("b", 30)), batch(("a", 25), ("a", 15), ("a", 14), ("a", 5)), batch(end=True)])
    assert second.late == []
    assert ("a", 5, 35, 4) in fired_rows(third)


@pytest.mark.parametrize(("time", "late"), [(90, 1), (91, 0)])
def test_row_is_late_if_the_watermark_reaches_the_last_instant_of_its_session(time, late):
    first, second = harness.run(query().columnar(), [batch(("a", 100)), batch(("b", time))])
    assert first.metrics.watermark == 99
    assert (second.metrics.late_rows, second.metrics.windowed_rows) == (late, 1 - late)


def test_local_session_is_rebuilt_without_its_late_rows():
    aggregates = (agg.collect_list("v").alias("all"), agg.max("v").alias("top"))
    plan = query(aggregates=aggregates).columnar()
    _, second, third = harness.run(
        plan, [batch(("b", 30)), batch(("a", 15, 9), ("a", 24, 2), ("a", 34, 1), ("a", 20, 5)), batch(end=True)]
    )
    assert second.metrics.late_rows == 1
    assert ("a", 20, 44, [5, 2, 1], 5) in fired_rows(third)


def test_late_session_of_a_chunk_leaves_its_open_sessions():
    plan = query(late=True).columnar()
    chunks = [[("a", 5, 1, None, 1), ("b", 100, 2, None, 1)], [("c", 101, 3, None, 1), ("a", 110, 4, None, 1)]]
    _, second, third = harness.run(plan, [batch(("b", 100)), harness.MicroBatch(chunks), batch(end=True)])
    assert ([row[:3] for row in second.late], second.metrics.late_rows, second.metrics.windowed_rows) == ([("a", 5, 1)], 1, 3)
    assert fired_rows(second) == [("b", 100, 110, 2)]
    assert fired_rows(third) == [("c", 101, 111, 1), ("a", 110, 120, 1)]


def test_late_row_joins_only_a_session_on_its_side_of_the_maximum_duration():
    plan = query(EventTimeSessionWindows(10).max_duration("100 us"), late=True).columnar()
    late_rows = batch(("a", 118), ("a", 98))
    _, second, third = harness.run(plan, [batch(("a", 125), ("a", 102), ("b", 130)), late_rows, batch(end=True)])
    assert [row[:2] for row in second.late] == [("a", 98)]
    assert fired_rows(third) == [("a", 118, 135, 2), ("b", 130, 140, 1)]


def test_sessions_fire_in_the_order_of_their_ends():
    rows = batch(("a", 50), ("a", 20), ("b", 0), ("b", 30), ("c", 10), end=True)
    (output,) = harness.run(query().columnar(), [rows])
    assert [row[:2] for row in fired_rows(output)] == [("b", 0), ("c", 10), ("a", 20), ("b", 30), ("a", 50)]


def test_rows_are_not_unpacked_if_none_can_be_late(monkeypatch):
    def fail(*_):
        raise AssertionError("rows were unpacked though none can be late")

    monkeypatch.setattr("panestream.engine.operators.sessions.arrivals.unpack_rows", fail)
    harness.run(query(late=True).columnar(), [batch(("a", 0)), batch(("a", 5)), batch(("a", 50)), batch(("b", 41))])
    with pytest.raises(AssertionError, match="none can be late"):
        harness.run(query(late=True).columnar(), [batch(("a", 50)), batch(("a", 5))])


def test_only_touched_session_pages_are_read(monkeypatch):
    monkeypatch.setattr(pages, "MOST_ROWS", 4)
    plan, state = query(EventTimeSessionWindows(1000)).columnar(), MemoryState()
    harness.run(plan, [batch(*((f"k{number}", number) for number in range(60)))], state)
    # The meta record and its witness are read and written, and one of about twenty pages.
    (output,) = harness.run(plan, [batch(("k7", 60))], state)
    assert output.metrics.blocks > 15
    assert output.metrics.state_calls == 6
    (output,) = harness.run(plan, [batch()], state)
    assert output.metrics.state_calls == 4


def test_sessions_that_open_and_close_in_one_micro_batch_are_not_stored():
    state = MemoryState()
    (output,) = harness.run(query().columnar(), [batch(("a", 0), ("b", 5), ("c", 100))], state)
    assert len(fired_rows(output)) == 2
    assert sorted(state.values) == [("meta", 0), ("meta", 1), ("pages", 0)]
    assert harness.run(query().columnar(), [batch(("z", 200))], state)[0].metrics.blocks == 1


def test_key_group_without_rows_reads_sessions_only_when_they_are_due():
    """All key groups receive the event time. The session ends at 10, and late rows are taken for five more units."""
    counted = []
    for more in ({}, {"with_firing": True}):
        plan, state = query(lateness=5, more=more).columnar(), MemoryState()
        harness.run(plan, [batch(("a", 0))], state)
        for newest in (9, 10, 11, 14, 15, 16):
            group_input = harness.GroupInput(seen={"": newest}, input_rows=1)
            output = plan.operator.for_group(plan, state, 0).process(group_input)
            metrics = output.metrics
            counted.append((newest, metrics.fired_rows, metrics.kept_windows, metrics.state_calls))
    # The meta record and its witness are read and written. The page is read if a session is due, and written if it changed.
    fires, goes = (10, 1, 1, 5), (15, 0, 0, 6)
    waits = [(11, 0, 1, 4), (14, 0, 1, 4)]
    assert counted[:6] == [(9, 0, 1, 4), fires, *waits, goes, (16, 0, 0, 4)]
    assert counted[6:] == [(9, 0, 1, 4), (10, 1, 1, 6), *waits, goes, (16, 0, 0, 4)], "how often it fired is kept"


def test_unchanged_page_is_not_written():
    plan, state = query(lateness=5).columnar(), MemoryState()
    harness.run(plan, [batch(("a", 100))], state)
    (output,) = harness.run(plan, [batch(("b", 0))], state)
    assert (output.metrics.late_rows, output.metrics.kept_windows, output.metrics.state_calls) == (1, 1, 5)


def test_closed_sessions_are_deleted_from_state():
    state = MemoryState()
    harness.run(query(lateness=5).columnar(), [batch(("a", 0), ("b", 5)), batch(("c", 1000)), batch(("c", 3000))], state)
    index = harness.run(query(lateness=5).columnar(), [batch()], state)[0].metrics
    assert index.blocks == 1


def test_same_micro_batch_writes_the_same_session_bytes():
    rows = [(key, time, time) for time in range(50) for key in ("a", None, "b")]
    states = []
    for _ in range(2):
        state = MemoryState()
        harness.run(query(aggregates=(agg.collect_list("v").alias("all"),), late=True).columnar(), [batch(*rows)], state)
        states.append(state.values)
    assert states[0] == states[1]


@pytest.mark.parametrize(("time", "left"), [(9, ["a", "b"]), (10, ["b"]), (11, ["b"])])
def test_sessions_closed_by_a_shorter_lateness_are_not_saved(time, left):
    """The first session ends at 10. The watermark is 8, 9 or 10."""
    state = MemoryState()
    harness.run(query(lateness=100).columnar(), [batch(("a", 0)), batch(("b", time))], state)
    shorter = query().columnar()
    assert sorted(shorter.operator.for_group(shorter, state, 0).tables().tables["sessions"]["key 0"].to_pylist()) == left


@pytest.mark.parametrize(("time", "start", "rows"), [(9, 0, 2), (10, 5, 1), (11, 5, 1)])
def test_sessions_closed_by_a_shorter_lateness_take_no_rows(time, start, rows):
    state = MemoryState()
    harness.run(query(lateness=100).columnar(), [batch(("a", 0), ("b", time))], state)
    _, last = harness.run(query().columnar(), [batch(("a", 5)), batch(("c", 50))], state)
    assert ("a", start, 15, rows) in fired_rows(last)
    assert last.metrics.kept_windows == 1


def test_lateness_of_sessions_may_change_on_restart():
    state = MemoryState()
    harness.run(query(lateness=1000).columnar(), [batch(("a", 0), ("b", 100))], state)
    late = query(lateness=0).columnar()
    (output,) = harness.run(late, [batch(("a", 5))], state)
    assert (fired_rows(output), output.metrics.late_rows) == ([], 1)
    (output,) = harness.run(query(lateness=1000).columnar(), [batch(("a", 5))], state)
    assert (fired_rows(output), output.metrics.late_rows) == ([], 1)  # closed sessions stay closed


def test_state_of_sessions_of_another_gap_or_aggregate_is_refused():
    state = MemoryState()
    harness.run(query().columnar(), [batch(("a", 0))], state)
    for other in (query(EventTimeSessionWindows(11)), query(aggregates=(agg.sum("v").alias("n"),))):
        with pytest.raises(PlanMismatchError, match="another plan"):
            harness.run(other.columnar(), [batch(("a", 1))], state)


# ------------------------------------------------------------------------------------------------ gap columns


class GapInU(GapColumn):
    @property
    def label(self):
        return "u"


def test_each_row_may_have_its_own_session_gap():
    plan = query(EventTimeSessionWindows(GapInU("u", "microseconds"))).columnar()
    (output,) = harness.run(
        plan, [batch(("a", 0, None, 100), ("a", 5, None, 1), ("a", 100, None, 3), ("a", 104, None, 1), end=True)]
    )
    assert fired_rows(output) == [("a", 0, 103, 3), ("a", 104, 105, 1)]


@pytest.mark.parametrize("gap", [0, -1, None, 2**62])
def test_invalid_gap_of_a_row_is_refused(gap):
    plan = query(EventTimeSessionWindows(GapInU("u", "microseconds"))).columnar()
    with pytest.raises(InvalidWindowError, match="1 of 2 rows"):
        harness.run(plan, [batch(("a", 0, None, 5), ("a", 5, None, gap))])


def test_null_gap_is_refused_even_if_its_buffer_has_a_value():
    plan = query(EventTimeSessionWindows(GapInU("u", "microseconds"))).columnar()
    gaps = pa.array(np.array([5, 7]), mask=np.array([False, True]))
    chunk = Chunk(np.array([0, 5]), [pa.array(["a", "a"])], [gaps])
    with pytest.raises(InvalidWindowError, match="1 of 2 rows do not have one, the first has 'null'"):
        list(plan.operator.pack(plan, chunk))


def test_null_and_negative_gaps_are_counted_together():
    plan = query(EventTimeSessionWindows(GapInU("u", "microseconds"))).columnar()
    with pytest.raises(InvalidWindowError, match="2 of 3 rows do not have one"):
        harness.run(plan, [batch(("a", 0, None, None), ("a", 5, None, -5), ("a", 9, None, 10))])


def test_gap_column_can_be_called_on_rows():
    gap = GapColumn("gap", "seconds")
    assert gap({"gap": 2}) == 2_000_000
    assert gap({"gap": 1.9999999}) == 1_999_999, "whole microseconds"
    assert gap({"gap": Decimal("0.0000019")}) == 1
    for wrong in (None, 0, -1, 1e-7, math.nan, math.inf, 1e300, 2**62, Decimal(10) ** 30):
        with pytest.raises(
            InvalidWindowError, match=r"session gap 'gap' must be positive \(and less than 140,000 years\): it is"
        ):
            gap({"gap": wrong})
    days = EventTimeSessionWindows.with_dynamic_gap(lambda row: timedelta(days=10**8))
    with pytest.raises(InvalidWindowError, match="less than 140,000 years"):
        days.assign_windows({}, 0, 0)
    with pytest.raises(InvalidWindowError, match="less than 140,000 years"):
        EventTimeSessionWindows.with_gap(timedelta(days=10**8))
    with pytest.raises(InvalidWindowError, match="unknown unit 'hours'"):
        GapColumn("gap", "hours")
    with pytest.raises(InvalidWindowError, match=r"[Nn]ame of a column"):
        GapColumn(" ")


# ------------------------------------------------------------------------------------------------ the longest session


def test_max_duration_cuts_a_long_session():
    plan = query(EventTimeSessionWindows(10).max_duration("100 us")).columnar()
    (output,) = harness.run(plan, [batch(*(("a", time) for time in range(-20, 210, 5)), end=True)])
    assert fired_rows(output) == [("a", -20, 0, 4), ("a", 0, 100, 20), ("a", 100, 200, 20), ("a", 200, 215, 2)]


def test_cut_session_fires_while_rows_continue():
    plan = query(EventTimeSessionWindows(10).max_duration("100 us")).columnar()
    emitted = harness.run(plan, [batch(("a", 90)), batch(("a", 99)), batch(("a", 100)), batch(("a", 105))])
    assert [fired_rows(output) for output in emitted] == [[], [], [("a", 90, 100, 2)], []]


def test_sessions_with_max_duration_have_a_repr_and_check_arguments():
    recipe = EventTimeSessionWindows.with_gap("1 minute").max_duration("1 hour")
    assert eval(repr(recipe)) == recipe
    assert repr(EventTimeSessionWindows.with_gap_column("g", "seconds").max_duration("1 day")) == (
        "EventTimeSessionWindows.with_gap_column('g', 'seconds').max_duration('1 day')"
    )
    assert recipe.longest == 3_600_000_000
    assert EventTimeSessionWindows(1).longest is None
    assert recipe.merge_windows([TimeWindow(0, 3_600_000_000), TimeWindow(3_600_000_000, 3_600_000_005)]) == []
    with pytest.raises(InvalidWindowError, match="must be positive"):
        LimitedEventTimeSessionWindows(10, 0)
    with pytest.raises(InvalidWindowError, match="gap of a session must be positive"):
        LimitedEventTimeSessionWindows(0, 10)


# ------------------------------------------------------------------------------------------------ the choice


def planned_operator(windowing):
    return plan_aggregates(windowing, COUNT, {}, harness.KEYS)


@pytest.mark.parametrize(
    ("windowing", "reason"),
    [
        (WindowQuery(EventTimeSessionWindows(lambda row: 5)), "the gap is a function in Python"),
        (WindowQuery(EventTimeSessionWindows(5), CountTrigger.of(3)), "the trigger CountTrigger.of(3) is not the default one"),
        (WindowQuery(EventTimeSessionWindows(5), evictor=CountEvictor.of(3)), "an evictor needs all elements"),
        (WindowQuery(EventTimeSessionWindows(5), every_firing=True), "every firing was asked for"),
        (WindowQuery(type("Own", (EventTimeSessionWindows,), {})(5)), "Own is a user-defined assigner"),
    ],
)
def test_sessions_that_need_the_row_operator(windowing, reason):
    operator = planned_operator(windowing)
    assert isinstance(operator, RowSpec)
    assert any(reason in other for other in operator.reasons)


def test_function_after_sessions_needs_the_row_operator():
    then = applied(lambda key, window, rows: rows)
    operator = plan_aggregates(query().windowing, COUNT, {}, harness.KEYS, then, harness.KEYS)
    assert isinstance(operator, RowSpec)
    assert operator.reasons == (PYTHON,)


def test_sessions_accept_an_explicit_default_trigger():
    assert planned_operator(WindowQuery(EventTimeSessionWindows(5), EventTimeTrigger.create())).name == "sessions"


def test_explain_describes_sessions():
    windows_in_view = explain_plan(query(late=True).columnar(), streaming=True, chosen=None)
    for words in (
        "sessions",
        "of event time, gap 10 microseconds",
        "local sessions are built before the shuffle",
        "by hash of the key",
    ):
        assert words in windows_in_view
    before = "local sessions are built before the shuffle: one row for each key and session of a chunk"
    packed_rows = "cross the shuffle too, packed; they are unpacked if one may be late"
    for query_, lines in (
        (query(late=True), [f"whole rows, for the late output {packed_rows}"]),
        (query(), [f"rows {packed_rows}"]),
        (query(ProcessingTimeSessionWindows(10), late=True), []),
    ):
        plan = query_.columnar()
        assert plan.operator.explain(plan, streaming=True)["exchange"] == [before, *lines]
    gap = EventTimeSessionWindows.with_gap_column("wait", "seconds").max_duration("1 day")
    operator = plan_aggregates(WindowQuery(gap), COUNT, {}, harness.KEYS)
    assert operator.inputs == ("session gap wait in seconds",)
    windows_in_view = "\n".join(operator.explain(query().columnar(), streaming=False)["sessions"])
    assert windows_in_view == "of event time, a gap for each row, wait; cut at every multiple of 1 day"
    by_processing_time = query(ProcessingTimeSessionWindows(10)).columnar().operator
    assert by_processing_time.capabilities.uses_processing_time
    assert "of the clock" in by_processing_time.explain(query().columnar(), streaming=True)["sessions"][0]


# ------------------------------------------------------------------------------------------------ the clock


def test_processing_time_session_ends_before_rows_at_its_end():
    plan = query(ProcessingTimeSessionWindows(10)).columnar()
    clocked = [
        harness.MicroBatch([[(key, 3, None, None, 1) for key in keys]] if keys else [], clock)
        for keys, clock in (("ab", 100), ("a", 109), ("b", 110), ("", 118), ("", 119), ("", 120))
    ]
    emitted = harness.run(plan, clocked)
    assert [fired_rows(output) for output in emitted] == [
        [],
        [],
        [("b", 100, 110, 1)],
        [],
        [("a", 100, 119, 2)],
        [("b", 110, 120, 1)],
    ]
    assert [output.wake_up for output in emitted] == [109, 109, 118, 118, 119, None]
    assert [output.metrics.windowed_rows for output in emitted] == [2, 1, 1, 0, 0, 0]
    assert [output.metrics.kept_windows for output in emitted] == [2, 2, 2, 2, 1, 0]
    assert [output.metrics.firings.get("on_time", 0) for output in emitted] == [0, 0, 1, 0, 1, 1]


def test_earliest_session_of_all_pages_wakes_the_key_group(monkeypatch):
    monkeypatch.setattr(pages, "MOST_ROWS", 1)
    plan, state = query(ProcessingTimeSessionWindows(10)).columnar(), MemoryState()
    batches = [replace(batch((key, 3)), clock=clock) for key, clock in (("a", 100), ("b", 103), ("c", 106))]
    assert [output.wake_up for output in harness.run(plan, batches, state)] == [109, 109, 109]
    (output,) = harness.run(plan, [harness.MicroBatch([], 110)], state)
    assert (fired_rows(output), output.wake_up) == ([("a", 100, 110, 1)], 112)


def test_end_of_input_closes_processing_time_sessions():
    (output,) = harness.run(query(ProcessingTimeSessionWindows(10)).columnar(), [replace(batch(("a", 3), end=True), clock=100)])
    assert (fired_rows(output), output.wake_up) == ([("a", 100, 110, 1)], None)


def test_sessions_without_keys():
    plan = harness.plan_for(plan_aggregates(query().windowing, COUNT, {}, pa.schema([])), query().windowing)
    plan = replace(plan, keys=(), key_schema=pa.schema([]))
    state = MemoryState()
    group_input = harness.GroupInput(seen={"": 5})
    for kind, part in plan.operator.pack(plan, Chunk(pa.array([0, 5, 30]).to_numpy(), [], [])):
        group_input.parts.setdefault(kind, []).append(part)
    plan.operator.for_group(plan, state, 0).process(group_input)
    output = plan.operator.for_group(plan, state, 0).process(harness.GroupInput(end_of_input=True))
    assert output.tables[0][1]["n"].to_pylist() == [2, 1]


# ------------------------------------------------------------------------------------------------ rows that cross with their
# sessions


WHOLE = (["a", "b", None], [1, 2, 3], [4, None, 6], [0.5, None, 1.5], [7, 8, 9])


@pytest.mark.parametrize("whole", [None, harness.ROWS], ids=["inputs only", "whole rows too"])
def test_packed_rows_are_unpacked_with_their_inputs_in_order(whole):
    numbers, texts = pa.array([7, None, 9]), pa.array(["x", "y", None])
    rows = pa.table(
        [pa.array(column, type_) for column, type_ in zip(WHOLE, harness.ROWS.types, strict=True)], schema=harness.ROWS
    )
    stamps, ends = np.array([5, 1, 30]), np.array([15, 11, 41])
    local = SimpleNamespace(ids=np.array([1, 0, 2]))
    packed = pack_rows(local, stamps, ends, [numbers, texts], None if whole is None else rows)
    unpacked = unpack_rows(packed, [pa.int64(), pa.string()], whole)
    assert [unpacked.sessions.tolist(), unpacked.stamps.tolist(), unpacked.ends.tolist()] == [[1, 0, 2], [5, 1, 30], [15, 11, 41]]
    assert [value.to_pylist() for value in unpacked.values] == [numbers.to_pylist(), texts.to_pylist()]
    assert unpacked.whole.to_pylist() == ([] if whole is None else rows.to_pylist())


def test_changelog_delete_comes_right_before_its_replacement():
    plan = query(lateness=100, more={"changelog": True, "with_firing": True}).columnar()
    state, keys = MemoryState(), "abcdefgh"
    rows = [(key, time) for key in keys for time in (0, 5)]
    _, again = harness.run(plan, [batch(*rows, ("z", 50)), batch(*((key, 3) for key in keys))], state)
    changes = [(place[0], dict(zip(plan.main_schema.names[3:], values, strict=True))) for place, values in again.fired]
    changes = [(key, row["op"], row["firing_number"]) for key, row in changes]
    assert {key for key, *_ in changes} == set(keys)
    assert list(zip(changes[::2], changes[1::2], strict=True)) == [
        ((key, "update_before", 0), (key, "update_after", 1)) for key, *_ in changes[::2]
    ]


def test_changelog_of_merged_sessions_takes_back_only_what_fired():
    plan = query(lateness=100, more={"changelog": True, "with_firing": True}).columnar()
    batches = [
        batch(("a", 0), ("b", 0), ("b", 12), ("c", 60)),
        batch(("a", 0), ("b", 6), ("c", 62)),
        batch(("a", 0), ("c", 70)),
        batch(("d", 200)),
    ]
    assert [fired_rows(output) for output in harness.run(plan, batches)] == [
        [
            ("a", 0, 10, 1, "on_time", 0, False, "insert"),
            ("b", 0, 10, 1, "on_time", 0, False, "insert"),
            ("b", 12, 22, 1, "on_time", 0, False, "insert"),
        ],
        [
            # Two sessions have merged into one. The third one had not fired, so nothing of it is taken back.
            ("b", 0, 10, 1, "on_time", 0, True, "delete"),
            ("b", 12, 22, 1, "on_time", 0, True, "delete"),
            ("a", 0, 10, 1, "on_time", 0, False, "update_before"),
            ("a", 0, 10, 2, "late", 1, False, "update_after"),
            ("b", 0, 22, 3, "late", 0, False, "insert"),
        ],
        [("a", 0, 10, 2, "late", 1, False, "update_before"), ("a", 0, 10, 3, "late", 2, False, "update_after")],
        [("c", 60, 80, 3, "on_time", 0, True, "insert")],
    ]


@pytest.mark.parametrize(("time", "windows", "last"), [(13, 2, False), (14, 2, False), (15, 1, True), (16, 1, True)])
def test_session_is_kept_until_the_lateness_is_over(time, windows, last):
    """The session ends at 10, so its last instant is 9. The watermark is the newest time minus one."""
    (output,) = harness.run(query(lateness=5, more={"with_firing": True}).columnar(), [batch(("a", 0), ("b", time))])
    assert fired_rows(output) == [("a", 0, 10, 1, "on_time", 0, last)]
    assert output.metrics.kept_windows == windows


@pytest.mark.parametrize(("time", "first", "second"), [(9, [], "on_time"), (10, [1], "late"), (11, [1], "late")])
def test_firing_is_late_if_the_watermark_had_reached_the_last_instant_before(time, first, second):
    plan = query(lateness=100, more={"with_firing": True}).columnar()
    *_, untouched = harness.run(plan, [batch(("a", 0), ("b", time)), batch(("b", 12))])
    assert len(untouched.fired) == 1 - len(first)
    emitted = harness.run(plan, [batch(("a", 0), ("b", time)), batch(("a", 0), ("b", 12)), batch(("b", 13))])
    assert [values[0] for _, values in emitted[0].fired] == first
    assert fired_rows(emitted[1]) == [("a", 0, 10, 2, second, len(first), False)]
    assert emitted[1].metrics.firings == {"late": int(second == "late"), "on_time": int(second == "on_time")}
    assert fired_rows(emitted[2]) == [], "no row came to it"


def test_firing_numbers_of_sessions_are_stored():
    plan = query(lateness=100, more={"with_firing": True}).columnar()
    state = MemoryState()
    emitted = harness.run(plan, [batch(("a", 0), ("b", 40)), batch(("a", 5)), batch(("a", 3))], state)
    emitted_as = [table_row for output in emitted for _, table_row in output.fired]
    names = [name for name in plan.main_schema.names if name not in ("key", "window_start", "window_end")]
    firings = [tuple(dict(zip(names, row, strict=True))[name] for name in ("n", "firing", "firing_number")) for row in emitted_as]
    # The second row extends the session, which restarts its firing numbers. The third row does not extend it.
    assert firings == [(1, "on_time", 0), (2, "late", 0), (3, "late", 1)]


# ------------------------------------------------------------------------------------------------ as tables

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(microseconds=1)
SUMS = (agg.count().alias("n"), agg.sum("v").alias("total"))


def saved_after(plan, *batches):
    query_ = savepoints.Query(plan, 1)
    for batch_ in batches:
        query_.run(batch_)
    (saved,) = query_.tables()
    return saved


def windows_in_view(plan, saved):
    views = plan.operator.views(plan, saved, 0)
    times = ("window_start", "window_end", "due", "closes")
    windows = [
        {name: value if value is None or name not in times else (value - EPOCH) // MICROSECOND for name, value in row.items()}
        for row in views.windows.to_pylist()
    ]
    return {(row.pop("key")["key"], row.pop("window_start")): row for row in windows}, views.timers.num_rows


def test_open_sessions_are_saved_shown_and_restored():
    plan = query(aggregates=SUMS, lateness=100, more={"with_firing": True}).columnar()
    saved = saved_after(plan, batch(("b", 12, 4), ("a", 0, 1), ("a", 5, 2), ("a", 50, 3)), batch(("b", 13, 5)))
    sessions_stored = saved.table("sessions").sort_by([("key 0", "ascending"), ("start", "ascending")])
    assert [tuple(row.values()) for row in sessions_stored.select(range(7)).to_pylist()] == [
        ("a", 0, 15, 1, 0, 2, 3),
        ("a", 50, 60, 0, 0, 1, 3),
        ("b", 12, 23, 1, 1, 2, 9),
    ]
    assert (saved.header["closed"], saved.header["counters"], len(saved.header["partials"])) == (-51, {}, 2)
    windows, timers = windows_in_view(plan, saved)
    columns = ("window_end", "rows", "firings", "last_firing", "due", "closes")
    assert {place: tuple(row[name] for name in columns) for place, row in windows.items()} == {
        ("a", 0): (15, 2, 1, "on_time", None, 114),
        ("a", 50): (60, 1, 0, None, 59, 159),
        ("b", 12): (23, 2, 1, "late", None, 122),
    }
    assert [tuple(windows[place]["results"].values()) for place in sorted(windows)] == [(2, 3), (1, 3), (2, 9)]
    bytes_each = saved.table("sessions").nbytes // 5
    assert [windows[place]["bytes"] for place in sorted(windows)] == [2 * bytes_each, bytes_each, 2 * bytes_each]
    assert timers == 1
    started = savepoints.Query(plan, 1)
    started.restore([saved])
    assert started.tables()[0].table("sessions").sort_by([("key 0", "ascending"), ("start", "ascending")]).equals(sessions_stored)
    # A late row makes its session fire again, a row in time does not. The third session fires at its end.
    emitted = [harness.run(plan, [rows], started.states[0])[0] for rows in (batch(("a", 3, 7), ("b", 49, 1)), batch(("z", 60)))]
    names = ("n", "total", "firing", "firing_number")
    rows = [
        [(key, start, *(dict(zip(plan.main_schema.names[3:], values, strict=True))[name] for name in names))
         for (key, start, _), values in output.fired]
        for output in emitted
    ]  # fmt: skip
    assert rows == [[("a", 0, 3, 10, "late", 1)], [("b", 49, 1, 1, "on_time", 0), ("a", 50, 1, 3, "on_time", 0)]]


@pytest.mark.parametrize("watermark", [13, 14, 15])
def test_session_is_due_until_the_watermark_reaches_its_last_instant(watermark):
    plan = query(lateness=100).columnar()
    windows, timers = windows_in_view(plan, saved_after(plan, batch(("a", 5), ("b", watermark + 1))))
    due = 14 if watermark < 14 else None
    assert (windows["a", 5]["due"], windows["b", watermark + 1]["due"]) == (due, watermark + 10)
    assert {(row["firings"], row["last_firing"]) for row in windows.values()} == {(None, None)}, "nothing is counted"
    assert timers == 2 - (due is None)


def test_views_show_when_processing_time_sessions_close():
    plan = query(ProcessingTimeSessionWindows(10), SUMS, lateness=100).columnar()
    clocked = [replace(batch(("a", 3, 7)), clock=100), replace(batch(("b", 3, 8), ("a", 4, 1)), clock=105)]
    saved = saved_after(plan, *clocked)
    windows, timers = windows_in_view(plan, saved)
    assert {place: (row["window_end"], row["rows"], row["due"], row["closes"]) for place, row in windows.items()} == {
        ("a", 100): (115, 2, 114, 114),
        ("b", 105): (115, 1, 114, 114),
    }
    assert timers == 2
    started = savepoints.Query(plan, 1)
    started.restore([saved])
    assert started.wake_ups == [114]
    output = started.run(harness.MicroBatch([], clock=115))
    assert output.fired == {"a": [((100, 115), (2, 8))], "b": [((105, 115), (1, 8))]}
    assert output.wake_up is None


def test_sessions_may_change_aggregates_on_restore():
    assert query().columnar().operator.changeable == {"aggregates", "partials"}


@pytest.mark.parametrize(("aggregates", "follows"), [((agg.count(), agg.sum("v")), False), ((agg.count(), agg.first("v")), True)])
def test_sessions_are_order_sensitive_if_an_aggregate_is(aggregates, follows):
    plan = harness.Query(WindowQuery(EventTimeSessionWindows(5)), aggregates).columnar()
    assert plan.operator.capabilities.order_sensitive is follows


def test_session_whose_last_instant_is_the_watermark_cannot_fire_again():
    sessions = SimpleNamespace(ends=np.array([11, 10, 12]))
    fired = FiredSessions.of(SimpleNamespace(sessions=sessions), np.array([True, True, True]), before=9, closed=10)
    assert fired.places.tolist() == [1, 0, 2]
    assert fired.late.tolist() == [True, False, False]
    assert fired.last.tolist() == [True, True, False]
