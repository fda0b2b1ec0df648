"""What a plan says of its columns."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.operators.accumulating.windowed_rows import TablePerWindow
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.planner import aggregating, over_tables
from panestream.engine.window_spec import WindowSpec
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
from panestream.windowing.assigners.global_windows import count_window
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import ContinuousProcessingTimeTrigger, CountTrigger, PurgingTrigger
from tests.comparison import harness, intervals, look_backs, predicates

COUNT = (agg.count().alias("n"),)
SEVERAL = SeveralWindows.of({"a": TumblingEventTimeWindows(5), "b": TumblingEventTimeWindows(10)})
INSTANT = pa.timestamp("us", tz="UTC")


def plan_of(assigner, trigger=None, **more):
    query = harness.Query(WindowSpec(assigner, trigger), COUNT, **more)
    return query.columnar() if isinstance(assigner, SeveralWindows) else query.row()


@pytest.mark.parametrize(
    ("assigner", "names"),
    [(TumblingEventTimeWindows(5), ("window_start", "window_end")), (SEVERAL, ("window", "window_start", "window_end"))],
    ids=["one kind", "several"],
)
def test_several_kinds_of_windows_have_a_label(assigner, names):
    plan = plan_of(assigner)
    assert plan.window_names == names
    assert plan.main_schema.names == ["key", *names, "n"]
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
def test_only_the_window_without_end_has_no_bounds(assigner, trigger, nullable):
    schema = plan_of(assigner, trigger).main_schema
    assert [(schema.field(name).nullable, schema.field(name).type) for name in ("window_start", "window_end")] == [
        (nullable, INSTANT)
    ] * 2


def test_side_outputs_have_the_window_and_late_rows_are_as_they_came():
    plan = plan_of(TumblingEventTimeWindows(5), late=True, more={"side_outputs": {"seen": pa.schema([("x", pa.int64())])}})
    assert plan.output_schema("seen").names == ["key", "window_start", "window_end", "x"]
    assert plan.output_schema(harness.LATE) == harness.ROWS
    assert plan.output_schema(MAIN) == plan.main_schema


def test_an_output_of_rows_without_their_columns_is_an_error():
    with pytest.raises(RuntimeError, match="an output 'late' but no schema for it"):
        plan_of(TumblingEventTimeWindows(5)).output_schema("late")


@pytest.mark.parametrize(
    ("plan", "by_clock"),
    [
        (intervals.Interval(0, 1, "inner", (0, 0)).plan(), False),
        (look_backs.plan_of(LookBackWindows(10), COUNT), False),
        (predicates.plan_of(PredicateWindows(end="u > 0"), COUNT), False),
        (harness.Query(WindowSpec(*count_window(3)), COUNT).columnar(), False),
        (harness.Query(WindowSpec(TumblingEventTimeWindows(5)), COUNT).columnar(), False),
        (harness.Query(WindowSpec(TumblingProcessingTimeWindows(5)), COUNT).columnar(), True),
        (harness.Query(WindowSpec(ProcessingTimeSessionWindows(5)), COUNT).columnar(), True),
        (plan_of(TumblingEventTimeWindows(5)), False),
        (plan_of(TumblingProcessingTimeWindows(5)), True),
    ],
    ids=lambda one: one.operator.name if isinstance(one, WindowPlan) else one,
)
def test_who_looks_at_the_clock(plan, by_clock):
    """A document about state says it as true or false."""
    assert plan.operator.uses_processing_time is by_clock
    assert plan.wakes_up is by_clock
    own = replace(plan, processing_time="arrived")
    assert own.wakes_up is False
    closing = replace(plan, watermark=plan.watermark.closing_after("1 minute"))
    assert (closing.wakes_up, replace(closing, ends=True).wakes_up) == (True, by_clock)
    assert replace(closing, processing_time="arrived").wakes_up is False


FIVE = TumblingEventTimeWindows(5)
INTERVALS = intervals.Interval(-5, 5, "inner", (0, 0)).plan().operator


def operator_of(assigner, *aggregates, **more):
    return aggregating(WindowSpec(assigner, **more), [*COUNT, *aggregates], harness.TYPES, harness.KEYS)


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
            over_tables(
                WindowSpec(FIVE), TablePerWindow(lambda key, window, table: table), harness.ROWS, harness.ROWS, harness.KEYS
            ),
            "rows windows follows_arrival by_time",
        ),
        (operator_of(FIVE, exact_firings=True), "windows follows_arrival by_time shows_clock"),
        (operator_of(FIVE, evictor=CountEvictor(3)), "windows follows_arrival by_time evicts shows_clock"),
        (operator_of(FIVE, trigger=CountTrigger(3)), "windows follows_arrival shows_clock"),
    ],
    ids=lambda one: one.replace(" ", "-") if isinstance(one, str) else one.name,
)
def test_what_operators_say_of_themselves(operator, true):
    said = {
        "rows": operator.takes_rows,
        "windows": operator.has_windows,
        "of_rows": operator.of_rows,
        "follows_arrival": operator.follows_arrival,
        "fires_once": operator.fires_once,
        "by_time": operator.fires_by_time,
        "evicts": operator.evicts,
        "uses_clock": operator.uses_processing_time,
        "shows_clock": operator.shows_processing_time,
    }
    assert said == {name: name in true.split() for name in said}


def test_whose_code_decides_when_windows_fire_is_not_known():
    assert operator_of(FIVE, trigger=ContinuousProcessingTimeTrigger(3)).fires_by_time is None
