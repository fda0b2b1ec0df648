"""Columnar sessions: what they keep, what they touch, what they say, and what they refuse."""

import math
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.explain import explain_plan
from panestream.engine.operators.row.spec import RowSpec
from panestream.engine.operators.sessions.exchange import pack_rows, unpack_rows
from panestream.engine.plan import Chunk
from panestream.engine.planner import aggregating
from panestream.engine.storage import keyed_pages as pages
from panestream.engine.storage.state import MemoryState
from panestream.engine.window_spec import WindowSpec
from panestream.errors import InvalidWindowError, PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.session import GapColumn, LimitedEventTimeSessionWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger
from panestream.windowing.windows import TimeWindow
from tests.comparison import harness

COUNT = (agg.count().alias("n"),)


def query(assigner=None, aggregates=COUNT, **more):
    lateness = more.pop("lateness", 0)
    windowing = WindowSpec(assigner or EventTimeSessionWindows(10), allowed_lateness=lateness)
    return harness.Query(windowing, aggregates, **more)


def batch(*rows, end=False):
    """A micro-batch of (key, ts) or (key, ts, v, u)."""
    full = [(key, ts, *(rest[:1] or (None,)), None, *(rest[1:] or (1,))) for key, ts, *rest in rows]
    return harness.MicroBatch([full] if full else [], end=end)


def fired(emitted):
    return [(*place, *values) for place, values in emitted.fired]


def test_neighbours_at_exactly_the_gap_are_one_session():
    (one,) = harness.run(query().columnar(), [batch(("a", 0), ("a", 10), ("a", 21), end=True)])
    assert fired(one) == [("a", 0, 20, 2), ("a", 21, 31, 1)]


def test_a_late_row_between_two_sessions_makes_them_one():
    plan = query(lateness=100).columnar()
    emitted = harness.run(plan, [batch(("a", 0), ("a", 15), ("b", 40)), batch(("a", 8)), batch(end=True)])
    assert [fired(one) for one in emitted] == [
        [("a", 0, 10, 1), ("a", 15, 25, 1)],
        [("a", 0, 25, 3)],
        [("b", 40, 50, 1)],
    ]


def test_a_late_row_is_taken_only_if_the_session_it_touches_was_there_before_it():
    # The watermark is 29: what ends at 30 or before is closed.
    plan = query(late=True).columnar()
    _, second = harness.run(plan, [batch(("b", 30)), batch(("a", 15), ("a", 25), ("a", 14), ("a", 5))])
    assert [row[:2] for row in second.late] == [("a", 15), ("a", 14), ("a", 5)]
    _, second = harness.run(plan, [batch(("b", 30)), batch(("a", 25), ("a", 15), ("a", 14), ("a", 3))])
    assert [row[:2] for row in second.late] == [("a", 3)]
    _, second, third = harness.run(plan, [batch(("b", 30)), batch(("a", 25), ("a", 15), ("a", 14), ("a", 5)), batch(end=True)])
    assert second.late == []
    assert ("a", 5, 35, 4) in fired(third)


@pytest.mark.parametrize(("time", "late"), [(90, 1), (91, 0)])
def test_a_row_is_late_from_the_last_instant_of_its_own_session_on(time, late):
    first, second = harness.run(query().columnar(), [batch(("a", 100)), batch(("b", time))])
    assert first.metrics.watermark == 99
    assert (second.metrics.late_rows, second.metrics.windowed_rows) == (late, 1 - late)


def test_a_local_session_that_loses_rows_is_built_anew():
    aggregates = (agg.collect_list("v").alias("all"), agg.max("v").alias("top"))
    plan = query(aggregates=aggregates).columnar()
    _, second, third = harness.run(
        plan, [batch(("b", 30)), batch(("a", 15, 9), ("a", 24, 2), ("a", 34, 1), ("a", 20, 5)), batch(end=True)]
    )
    assert second.metrics.late_rows == 1
    assert ("a", 20, 44, [5, 2, 1], 5) in fired(third)


def test_rows_in_time_are_never_unpacked(monkeypatch):
    def unpacked(*_):
        raise AssertionError("rows were unpacked though none can be late")

    monkeypatch.setattr("panestream.engine.operators.sessions.arrivals.unpack_rows", unpacked)
    harness.run(query(late=True).columnar(), [batch(("a", 0)), batch(("a", 5)), batch(("a", 50)), batch(("b", 41))])
    with pytest.raises(AssertionError, match="none can be late"):
        harness.run(query(late=True).columnar(), [batch(("a", 50)), batch(("a", 5))])


def test_nothing_due_and_nothing_touched_reads_nothing(monkeypatch):
    monkeypatch.setattr(pages, "MOST_ROWS", 4)
    plan, state = query(EventTimeSessionWindows(1000)).columnar(), MemoryState()
    harness.run(plan, [batch(*((f"k{number}", number) for number in range(60)))], state)
    # The meta record and its witness are read and written; of some twenty pages one is.
    (one,) = harness.run(plan, [batch(("k7", 60))], state)
    assert one.metrics.blocks > 15
    assert one.metrics.state_calls == 6
    (one,) = harness.run(plan, [batch()], state)
    assert one.metrics.state_calls == 4


def test_sessions_that_open_and_close_in_one_micro_batch_never_touch_the_state():
    state = MemoryState()
    (one,) = harness.run(query().columnar(), [batch(("a", 0), ("b", 5), ("c", 100))], state)
    assert len(fired(one)) == 2
    assert sorted(state.values) == [("meta", 0), ("meta", 1), ("pages", 0)]
    assert harness.run(query().columnar(), [batch(("z", 200))], state)[0].metrics.blocks == 1


def test_nothing_is_left_when_all_sessions_are_closed():
    state = MemoryState()
    harness.run(query(lateness=5).columnar(), [batch(("a", 0), ("b", 5)), batch(("c", 1000)), batch(("c", 3000))], state)
    index = harness.run(query(lateness=5).columnar(), [batch()], state)[0].metrics
    assert index.blocks == 1


def test_a_rerun_gives_the_same_bytes():
    rows = [(key, time, time) for time in range(50) for key in ("a", None, "b")]
    states = []
    for _ in range(2):
        state = MemoryState()
        harness.run(query(aggregates=(agg.collect_list("v").alias("all"),), late=True).columnar(), [batch(*rows)], state)
        states.append(state.values)
    assert states[0] == states[1]


def test_the_lateness_may_change():
    state = MemoryState()
    harness.run(query(lateness=1000).columnar(), [batch(("a", 0), ("b", 100))], state)
    late = query(lateness=0).columnar()
    (one,) = harness.run(late, [batch(("a", 5))], state)
    assert (fired(one), one.metrics.late_rows) == ([], 1)
    (one,) = harness.run(query(lateness=1000).columnar(), [batch(("a", 5))], state)
    assert (fired(one), one.metrics.late_rows) == ([], 1)  # what was closed stays closed


def test_state_of_another_plan_is_refused():
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


def test_a_gap_of_each_row():
    plan = query(EventTimeSessionWindows(GapInU("u", "microseconds"))).columnar()
    (one,) = harness.run(
        plan, [batch(("a", 0, None, 100), ("a", 5, None, 1), ("a", 100, None, 3), ("a", 104, None, 1), end=True)]
    )
    assert fired(one) == [("a", 0, 103, 3), ("a", 104, 105, 1)]


@pytest.mark.parametrize("gap", [0, -1, None, 2**62])
def test_a_gap_that_is_none_is_refused(gap):
    plan = query(EventTimeSessionWindows(GapInU("u", "microseconds"))).columnar()
    with pytest.raises(InvalidWindowError, match="1 of 2 rows"):
        harness.run(plan, [batch(("a", 0, None, 5), ("a", 5, None, gap))])


def test_a_negative_gap_is_refused_beside_a_missing_one():
    plan = query(EventTimeSessionWindows(GapInU("u", "microseconds"))).columnar()
    with pytest.raises(InvalidWindowError, match="2 of 3 rows have none such"):
        harness.run(plan, [batch(("a", 0, None, None), ("a", 5, None, -5), ("a", 9, None, 10))])


def test_a_gap_column_on_rows_of_any_kind():
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
    with pytest.raises(InvalidWindowError, match="name of a column"):
        GapColumn(" ")


# ------------------------------------------------------------------------------------------------ the longest session


def test_the_longest_session():
    plan = query(EventTimeSessionWindows(10).max_duration("100 us")).columnar()
    (one,) = harness.run(plan, [batch(*(("a", time) for time in range(-20, 210, 5)), end=True)])
    assert fired(one) == [("a", -20, 0, 4), ("a", 0, 100, 20), ("a", 100, 200, 20), ("a", 200, 215, 2)]


def test_a_session_fires_at_its_cut_though_rows_go_on():
    plan = query(EventTimeSessionWindows(10).max_duration("100 us")).columnar()
    emitted = harness.run(plan, [batch(("a", 90)), batch(("a", 99)), batch(("a", 100)), batch(("a", 105))])
    assert [fired(one) for one in emitted] == [[], [], [("a", 90, 100, 2)], []]


def test_the_recipe_of_the_longest_session():
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


def chosen(windowing):
    return aggregating(windowing, COUNT, {}, harness.KEYS)


@pytest.mark.parametrize(
    ("windowing", "reason"),
    [
        (WindowSpec(EventTimeSessionWindows(lambda row: 5)), "the gap is a function in Python"),
        (WindowSpec(EventTimeSessionWindows(5), CountTrigger.of(3)), "the trigger CountTrigger.of(3) is not the default one"),
        (WindowSpec(EventTimeSessionWindows(5), evictor=CountEvictor.of(3)), "an evictor needs all elements"),
        (WindowSpec(EventTimeSessionWindows(5), exact_firings=True), "exact firings were asked for"),
        (WindowSpec(type("Own", (EventTimeSessionWindows,), {})(5)), "Own is an assigner of the user's own"),
    ],
)
def test_what_needs_the_row_operator(windowing, reason):
    operator = chosen(windowing)
    assert isinstance(operator, RowSpec)
    assert any(reason in given for given in operator.reasons)


def test_the_default_trigger_may_be_named():
    assert chosen(WindowSpec(EventTimeSessionWindows(5), EventTimeTrigger.create())).name == "sessions"


def test_explain_says_what_runs():
    shown = explain_plan(query(late=True).columnar(), streaming=True, chosen=None)
    for words in (
        "sessions",
        "of event time, gap 10 microseconds",
        "local sessions are built before the shuffle",
        "by hash of the key",
    ):
        assert words in shown
    gap = EventTimeSessionWindows.with_gap_column("wait", "seconds").max_duration("1 day")
    operator = aggregating(WindowSpec(gap), COUNT, {}, harness.KEYS)
    assert operator.inputs == ("session gap wait in seconds",)
    shown = "\n".join(operator.explain(query().columnar(), streaming=False)["sessions"])
    assert shown == "of event time, a gap for each row, wait; cut at every multiple of 1 day"
    by_processing_time = query(ProcessingTimeSessionWindows(10)).columnar().operator
    assert by_processing_time.uses_processing_time
    assert "of the clock" in by_processing_time.explain(query().columnar(), streaming=True)["sessions"][0]


def test_sessions_over_all_rows_have_no_key():
    plan = harness.plan_for(aggregating(query().windowing, COUNT, {}, pa.schema([])), query().windowing)
    plan = replace(plan, keys=(), key_schema=pa.schema([]))
    state = MemoryState()
    given = harness.GroupInput(seen={"": 5})
    for kind, part in plan.operator.pack(plan, Chunk(pa.array([0, 5, 30]).to_numpy(), [], [])):
        given.parts.setdefault(kind, []).append(part)
    plan.operator.for_group(plan, state, 0).process(given)
    output = plan.operator.for_group(plan, state, 0).process(harness.GroupInput(end_of_input=True))
    assert output.tables[0][1]["n"].to_pylist() == [2, 1]


# ------------------------------------------------------------------------------------------------ rows that travel beside


WHOLE = (["a", "b", None], [1, 2, 3], [4, None, 6], [0.5, None, 1.5], [7, 8, 9])


@pytest.mark.parametrize("whole", [None, harness.ROWS], ids=["inputs only", "whole rows too"])
def test_packed_rows_come_back_with_their_inputs_in_order(whole):
    numbers, texts = pa.array([7, None, 9]), pa.array(["x", "y", None])
    rows = pa.table(
        [pa.array(column, type_) for column, type_ in zip(WHOLE, harness.ROWS.types, strict=True)], schema=harness.ROWS
    )
    stamps, ends = np.array([5, 1, 30]), np.array([15, 11, 41])
    local = SimpleNamespace(ids=np.array([1, 0, 2]))
    packed = pack_rows(local, stamps, ends, [numbers, texts], None if whole is None else rows)
    found = unpack_rows(packed, [pa.int64(), pa.string()], whole)
    assert [found.sessions.tolist(), found.stamps.tolist(), found.ends.tolist()] == [[1, 0, 2], [5, 1, 30], [15, 11, 41]]
    assert [value.to_pylist() for value in found.values] == [numbers.to_pylist(), texts.to_pylist()]
    assert found.whole.to_pylist() == ([] if whole is None else rows.to_pylist())


def test_what_a_session_takes_back_comes_right_before_what_takes_its_place():
    plan = query(lateness=100, more={"changelog": True, "with_firing": True}).columnar()
    state, keys = MemoryState(), "abcdefgh"
    rows = [(key, time) for key in keys for time in (0, 5)]
    _, again = harness.run(plan, [batch(*rows, ("z", 50)), batch(*((key, 3) for key in keys))], state)
    told = [(place[0], dict(zip(plan.main_schema.names[3:], values, strict=True))) for place, values in again.fired]
    told = [(key, row["op"], row["firing_number"]) for key, row in told]
    assert {key for key, *_ in told} == set(keys)
    assert list(zip(told[::2], told[1::2], strict=True)) == [
        ((key, "update_before", 0), (key, "update_after", 1)) for key, *_ in told[::2]
    ]


def test_how_often_a_session_fired_is_kept_where_results_carry_it():
    plan = query(lateness=100, more={"with_firing": True}).columnar()
    state = MemoryState()
    emitted = harness.run(plan, [batch(("a", 0), ("b", 40)), batch(("a", 5)), batch(("a", 3))], state)
    emitted_as = [table_row for one in emitted for _, table_row in one.fired]
    names = [name for name in plan.main_schema.names if name not in ("key", "window_start", "window_end")]
    told = [tuple(dict(zip(names, row, strict=True))[name] for name in ("n", "firing", "firing_number")) for row in emitted_as]
    # The second row makes the session longer, which begins to count anew; the third one does not.
    assert told == [(1, "on_time", 0), (2, "late", 0), (3, "late", 1)]
