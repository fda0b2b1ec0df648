"""Columns, outputs, capabilities and identity of a plan."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.plan import MAIN, Split, WindowPlan, WindowQuery
from panestream.engine.planner import plan_aggregates, plan_table_function
from panestream.engine.storage import payload
from panestream.engine.storage.sealed_state import SealedState
from panestream.engine.storage.state import MemoryState
from panestream.errors import PlanMismatchError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import ContinuousProcessingTimeTrigger, CountTrigger, PurgingTrigger
from panestream.windowing.watermarks import WatermarkGenerator, WatermarkStrategy
from tests.comparison import harness, intervals, joins, look_backs, predicates

COUNT = (agg.count().alias("n"),)
SEVERAL = SeveralWindows.of({"a": TumblingEventTimeWindows(5), "b": TumblingEventTimeWindows(10)})
INSTANT = pa.timestamp("us", tz="UTC")


def plan_of(assigner, trigger=None, **more):
    query = harness.Query(WindowQuery(assigner, trigger), COUNT, **more)
    return query.columnar() if isinstance(assigner, SeveralWindows) else query.row()


@pytest.mark.parametrize(
    ("assigner", "names"),
    [(TumblingEventTimeWindows(5), ("window_start", "window_end")), (SEVERAL, ("window", "window_start", "window_end"))],
    ids=["one kind", "several"],
)
def test_plan_of_several_windows_has_a_label_column(assigner, names):
    plan = plan_of(assigner)
    assert plan.window_names == names
    assert plan.main_schema.names == ["key", *names, "n"]
    assert not any(plan.main_schema.field(name).nullable for name in names)
    assert plan.key_names == ("key",)


@pytest.mark.parametrize(
    ("assigner", "trigger", "nullable"),
    [
        (TumblingEventTimeWindows(5), None, False),
        (SlidingEventTimeWindows(10, 5), None, False),
        (EventTimeSessionWindows(5), None, False),
        (CumulatingEventTimeWindows.of("1 day", "1 hour"), None, False),
        (SEVERAL, None, False),
        (GlobalWindows(), CountTrigger(3), True),
    ],
    ids=["tumbling", "sliding", "sessions", "cumulating", "several", "global"],
)
def test_only_global_windows_have_nullable_bounds(assigner, trigger, nullable):
    schema = plan_of(assigner, trigger).main_schema
    assert [(schema.field(name).nullable, schema.field(name).type) for name in ("window_start", "window_end")] == [
        (nullable, INSTANT)
    ] * 2


def test_schemas_of_side_outputs_and_late_rows():
    plan = plan_of(TumblingEventTimeWindows(5), late=True, more={"side_outputs": {"seen": pa.schema([("x", pa.int64())])}})
    assert plan.output_schema("seen").names == ["key", "window_start", "window_end", "x"]
    assert plan.output_schema(harness.LATE) == harness.ROWS
    assert plan.output_schema(MAIN) == plan.main_schema


def test_output_without_a_schema_is_an_error():
    with pytest.raises(RuntimeError, match="an output 'late' but no schema for it"):
        plan_of(TumblingEventTimeWindows(5)).output_schema("late")


@pytest.mark.parametrize(
    ("plan", "by_clock"),
    [
        (intervals.Interval(0, 1, "inner", (0, 0)).plan(), False),
        (look_backs.plan_of(LookBackWindows(10), COUNT), False),
        (predicates.plan_of(PredicateWindows(end="u > 0"), COUNT), False),
        (harness.Query(WindowQuery(*CountWindows(3).parts), COUNT).columnar(), False),
        (harness.Query(WindowQuery(TumblingEventTimeWindows(5)), COUNT).columnar(), False),
        (harness.Query(WindowQuery(TumblingProcessingTimeWindows(5)), COUNT).columnar(), True),
        (harness.Query(WindowQuery(ProcessingTimeSessionWindows(5)), COUNT).columnar(), True),
        (plan_of(TumblingEventTimeWindows(5)), False),
        (plan_of(TumblingProcessingTimeWindows(5)), True),
    ],
    ids=lambda value: value.operator.name if isinstance(value, WindowPlan) else value,
)
def test_plan_wakes_up_only_if_its_windows_or_trigger_use_the_clock(plan, by_clock):
    """The description of state shows it as true or false."""
    assert plan.operator.capabilities.uses_processing_time is by_clock
    assert plan.wakes_up is by_clock
    own = replace(plan, processing_time="arrived")
    assert own.wakes_up is False
    closing = replace(plan, watermark=plan.watermark.closing_after("1 minute"))
    assert (closing.wakes_up, replace(closing, ends=True).wakes_up) == (True, by_clock)
    assert replace(closing, processing_time="arrived").wakes_up is False


FIVE = TumblingEventTimeWindows(5)
INTERVALS = intervals.Interval(-5, 5, "inner", (0, 0)).plan().operator


def operator_of(assigner, *aggregates, **more):
    return plan_aggregates(WindowQuery(assigner, **more), [*COUNT, *aggregates], harness.TYPES, harness.KEYS)


@pytest.mark.parametrize(
    ("operator", "true"),
    [
        (operator_of(FIVE), "windows fires_once by_time"),
        (operator_of(FIVE, agg.first("v")), "windows follows_arrival fires_once by_time"),
        (operator_of(FIVE, allowed_lateness=5), "windows by_time"),
        (operator_of(TumblingProcessingTimeWindows(5)), "windows fires_once by_time uses_clock shows_clock"),
        (operator_of(EventTimeSessionWindows(5)), "windows by_time"),
        (operator_of(ProcessingTimeSessionWindows(5), agg.last("v")), "windows follows_arrival by_time uses_clock shows_clock"),
        (operator_of(GlobalWindows(), trigger=PurgingTrigger(CountTrigger(3))), "windows follows_arrival"),
        (operator_of(LookBackWindows(5)), "of_rows by_time windows"),
        (operator_of(PredicateWindows("v > 0", None, None)), "windows"),
        (INTERVALS, "by_time"),
        (
            plan_table_function(
                WindowQuery(FIVE), TablePerWindow(lambda key, window, table: table), harness.ROWS, harness.ROWS, harness.KEYS
            ),
            "rows windows follows_arrival by_time",
        ),
        (operator_of(FIVE, every_firing=True), "windows follows_arrival by_time shows_clock"),
        (operator_of(FIVE, evictor=CountEvictor(3)), "windows follows_arrival by_time evicts shows_clock"),
        (operator_of(FIVE, trigger=CountTrigger(3)), "windows follows_arrival shows_clock"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else value.name,
)
def test_capabilities_of_each_operator(operator, true):
    actual = {
        "rows": operator.capabilities.takes_rows,
        "windows": operator.capabilities.has_windows,
        "of_rows": operator.capabilities.per_row,
        "follows_arrival": operator.capabilities.order_sensitive,
        "fires_once": operator.capabilities.fires_once,
        "by_time": operator.capabilities.fires_by_time,
        "evicts": operator.capabilities.evicts,
        "uses_clock": operator.capabilities.uses_processing_time,
        "shows_clock": operator.capabilities.shows_processing_time,
    }
    assert actual == {name: name in true.split() for name in actual}


def test_clock_trigger_on_event_time_windows_may_or_may_not_fire_by_time():
    assert operator_of(FIVE, trigger=ContinuousProcessingTimeTrigger(3)).capabilities.fires_by_time is None


# -- outputs and columns -------------------------------------------------------------------------------------------------------


def test_outputs_are_main_late_invalid_then_side_outputs():
    plan = plan_of(FIVE, more={"side_outputs": {"seen": pa.schema([])}})
    assert plan.tags == (MAIN, "seen")
    assert (plan.late_tags, plan.invalid_tags) == ((), (None,))
    assert replace(plan, late_tag="late", invalid_tag="bad").tags == (MAIN, "late", "bad", "seen")


def test_outputs_of_two_streams_have_the_columns_of_their_side():
    plan = joins.Join(WindowQuery(FIVE), "inner", (0, 0)).plan()
    plan = replace(plan, sides=replace(plan.sides, invalid=("bad", None)))
    assert plan.tags == (MAIN, "late_left", "late_right", "bad")
    assert replace(plan, late_tag=None).tags == (MAIN, "bad")
    plan = replace(plan, sides=replace(plan.sides, invalid=("bad", "worse")))
    of = {"late_left": "left", "late_right": "right", "bad": "left", "worse": "right"}
    assert {tag: plan.output_schema(tag) for tag in of} == {tag: joins.SIDE[side] for tag, side in of.items()}
    without_late = replace(plan, late_tag=None)
    assert [without_late.output_schema(tag) for tag in ("bad", "worse")] == [joins.SIDE["left"], joins.SIDE["right"]]


def test_join_operator_emits_lists_and_the_main_output_has_pairs():
    plan = joins.Join(WindowQuery(FIVE), "inner", (0, 0)).plan()
    around = ["key", "window_start", "window_end"]
    assert plan.emitted_schema(MAIN).names == [*around, "left", "right"]
    assert plan.output_schema(MAIN).names == [*around, "n", "name", "m"]
    plan = replace(plan, side_outputs={"seen": pa.schema([("x", pa.int64())])})
    assert plan.output_schema("seen").names == [*around, "x"]


@pytest.mark.parametrize(
    ("with_firing", "changelog", "added"),
    [
        (False, False, []),
        (True, False, ["firing", "firing_number", "is_last"]),
        (False, True, ["op"]),
        (True, True, ["firing", "firing_number", "is_last", "op"]),
    ],
)
def test_firing_columns_come_last_and_are_stored_if_windows_fire_again(with_firing, changelog, added):
    plan = harness.Query(WindowQuery(FIVE), COUNT, more={"with_firing": with_firing, "changelog": changelog}).columnar()
    again = harness.Query(WindowQuery(FIVE, allowed_lateness=1), COUNT, more={"with_firing": with_firing, "changelog": changelog})
    assert plan.main_schema.names == ["key", "window_start", "window_end", "n", *added]
    assert plan.added_names == frozenset(added)
    assert (plan.keeps_emitted, again.columnar().keeps_emitted) == (False, bool(added))
    emitted = {} if not added else {"emitted": "values" if changelog else "numbers"}
    assert {name: value for name, value in plan.identity().items() if name == "emitted"} == emitted


def test_look_backs_and_interval_joins_have_no_window_bounds():
    labels = SeveralWindows.of({"a": LookBackWindows(5), "b": LookBackWindows(10)})
    of_rows = look_backs.plan_of(labels, COUNT)
    assert (of_rows.labels, of_rows.with_bounds(harness.ROWS).names) == ((), ["key", *harness.ROWS.names])
    pairs = intervals.Interval(0, 1, "inner", (0, 0)).plan()
    assert pairs.with_bounds(pa.schema([("x", pa.int64())])).names == [*pairs.key_schema.names, "x"]


class Marks(WatermarkGenerator):
    def on_event(self, element, timestamp, output):
        raise AssertionError


@pytest.mark.parametrize(
    ("plan", "carries"),
    [
        (harness.Query(WindowQuery(FIVE), COUNT).columnar(), False),
        (harness.Query(WindowQuery(FIVE), COUNT, late=True).columnar(), True),
        (replace(harness.Query(WindowQuery(FIVE), COUNT).columnar(), watermark=WatermarkStrategy.for_generator(Marks)), True),
        (harness.Query(WindowQuery(FIVE), COUNT).row(), False),
    ],
)
def test_whole_rows_cross_only_if_an_output_or_generator_needs_them(plan, carries):
    assert plan.carries_rows is carries


# -- identity ------------------------------------------------------------------------------------------------------------------


def test_identity_of_a_plan():
    plan = harness.Query(WindowQuery(FIVE), COUNT).columnar()
    own = dict(plan.operator.identity())
    common = {
        "state format": "2",
        "key": "key (string)",
        "windows": "TumblingEventTimeWindows.of('5 microseconds')",
        "event time": "ts",
        "key groups": "1",
        "operator": "aligned panes",
    }
    assert plan.identity() == common | own
    assert plan.identity() is plan.identity(), "it is made once"
    two = pa.schema([("a", pa.string()), ("b", pa.int64())])
    more = replace(plan, keys=("lower(x)", "b"), key_schema=two, event_time=None, groups=8, split=Split(4, "v", {"n": "sum"}))
    assert more.identity() == common | own | {
        "key": "lower(x) (string), b (int64)",
        "event time": "None",
        "key groups": "8",
        "split": "4 parts by v",
    }
    assert replace(plan, keys=(), key_schema=pa.schema([])).identity()["key"] == "none"


def test_state_of_another_operator_is_refused():
    """Even if its meta record has another form."""
    state, panes = MemoryState(), harness.Query(WindowQuery(FIVE), COUNT).columnar()
    batch = harness.MicroBatch([[("a", 1, 1, None, 1)]])
    harness.run(panes, [batch], state)
    with pytest.raises(PlanMismatchError, match="operator: aligned panes  ->  row operator"):
        harness.run(harness.Query(WindowQuery(FIVE), COUNT).row(), [batch], state)


def test_unreadable_meta_record_of_the_same_plan_is_an_error():
    plan, state = harness.Query(WindowQuery(EventTimeSessionWindows(5)), COUNT).columnar(), MemoryState()
    record = payload.encode_numbers(("low", "key", "due", "rows", "size"), [], {"identity": plan.identity(), "next_page": 0})
    SealedState(state, 0, "sessions").put("meta", 0, record)
    with pytest.raises(KeyError, match="watermarks"):
        plan.operator.for_group(plan, state, 0)


def test_capabilities_give_reasons_against_firing_numbers_and_changelogs():
    operator = operator_of(GlobalWindows(), trigger=PurgingTrigger(CountTrigger(3)))
    assert operator.capabilities.no_firings == (
        "counts do not number firings: the row operator does, .options(every_firing=True) makes it run the query"
    )
    assert operator.capabilities.no_changelog == (
        "counts do not keep results that a later result could replace: aligned windows and sessions of declared aggregates do"
    )
    assert (operator.capabilities.takes_rows, operator.capabilities.evicts, operator.changeable) == (
        False,
        False,
        {"aggregates", "partials"},
    )
    assert (operator_of(LookBackWindows(5)).changeable, INTERVALS.changeable) == (frozenset(), frozenset())
    over_rows = plan_table_function(WindowQuery(FIVE), TablePerWindow(len), harness.ROWS, harness.ROWS, harness.KEYS)
    assert over_rows.inputs == ()
    sessions = operator_of(EventTimeSessionWindows(5))
    assert (sessions.capabilities.no_firings, sessions.capabilities.no_changelog) == (None, None)
