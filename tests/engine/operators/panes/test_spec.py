"""What crosses the shuffle for aligned panes, and what explain() says of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.panes.operator import GAPS, PARTIALS, ROWS
from panestream.engine.plan import Chunk
from panestream.engine.query import WindowSpec
from panestream.engine.rule import AT_EVERY_ROW
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    CalendarDays,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.triggers import ContinuousEventTimeTrigger, PurgingTrigger
from tests.comparison import harness

TUMBLING, BY_CLOCK, SLIDING = TumblingEventTimeWindows(10), TumblingProcessingTimeWindows(10), SlidingEventTimeWindows(64, 1)
EARLY = ContinuousEventTimeTrigger(3)
AT_END = "a window fires when the watermark reaches its end"
BLOCKS = "one block of partials per micro-batch and key group, appended, only for panes that stay open; merged by eights"


def plan_of(assigner, trigger=None, lateness=0, late=False, **more):
    windowing = WindowSpec(assigner, trigger, allowed_lateness=lateness)
    return harness.Query(windowing, (agg.sum("v").alias("total"),), late=late, more=more).columnar()


@pytest.mark.parametrize(
    ("plan", "firing"),
    [
        (plan_of(TUMBLING), [AT_END]),
        (plan_of(BY_CLOCK), ["a window fires when the clock reaches its end"]),
        (plan_of(TUMBLING, EARLY), [AT_END, "and at every 3 microseconds before it, once a micro-batch"]),
        (
            plan_of(TUMBLING, PurgingTrigger(EARLY)),
            [AT_END, "and at every 3 microseconds before it, once a micro-batch; what has fired is dropped"],
        ),
        (
            plan_of(TUMBLING, AT_EVERY_ROW, 5),
            [
                AT_END,
                "and before it, for the keys concerned, in each micro-batch that brings rows for it",
                "and again, for the keys concerned, in each micro-batch that brings rows for it after its end",
            ],
        ),
    ],
)
def test_explain_says_when_windows_fire(plan, firing):
    assert plan.operator.explain(plan, streaming=True)["firing"] == firing


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        (plan_of(TUMBLING), []),
        (
            plan_of(SLIDING),
            ["panes that time has passed are kept merged, 1, 4, 16 at a time; a window reads at most eight of each"],
        ),
        (
            plan_of(TUMBLING, EARLY, with_firing=True),
            ["what was emitted for windows that may fire again"],
        ),
        (plan_of(TUMBLING, EARLY, changelog=True), ["what was emitted for windows that may fire again, with its values"]),
        (plan_of(TUMBLING, with_firing=True), []),
    ],
)
def test_explain_says_what_is_kept(plan, state):
    assert plan.operator.explain(plan, streaming=True)["state"] == [BLOCKS, *state]
    assert plan.operator.explain(plan, streaming=False)["state"] == ["none: a batch fires every window at the end of input"]


@pytest.mark.parametrize(
    ("plan", "rows"),
    [(plan_of(TUMBLING), False), (plan_of(TUMBLING, late=True), True), (plan_of(BY_CLOCK, late=True), False)],
)
def test_explain_says_what_crosses_the_shuffle(plan, rows):
    whole = ["whole rows cross the shuffle too, for the late output"] if rows else []
    assert plan.operator.explain(plan, streaming=True)["exchange"] == [
        "pre-aggregated per (key, pane) before the shuffle",
        *whole,
    ]


@pytest.mark.parametrize(
    ("assigners", "said"),
    [
        (
            (TUMBLING, TumblingEventTimeWindows(10, 3)),
            "two every 10 microseconds, 3 microseconds and 7 microseconds: one between any two edges of windows",
        ),
        (
            (CalendarDays.of(1, zone="Europe/Berlin"), CalendarDays.of(1, zone="Europe/Berlin", offset="6 hours")),
            "one between any two edges of windows on the zone's clock, at most 2 to a window",
        ),
        (
            (CalendarDays.of(1, zone="Europe/Berlin"), CalendarDays.of(1, zone="Asia/Tokyo")),
            "one between any two edges of windows, at most ",
        ),
    ],
)
def test_explain_says_which_panes_several_windows_have(assigners, said):
    plan = plan_of(SeveralWindows.of(dict(zip("ab", assigners, strict=True))))
    (found,) = plan.operator.explain(plan, streaming=True)["panes"]
    assert found.startswith(said)


def packed(plan, *times):
    keys = pa.array(["a"] * len(times), pa.string())
    rows = pa.table([keys, pa.array(times, pa.int64())], names=["key", "ts"]) if plan.late_tag else None
    chunk = Chunk(np.array(times, np.int64), [keys], [pa.array(range(len(times)), pa.int64())], rows)
    return [(kind, table.to_pydict()) for kind, table in plan.operator.pack(plan, chunk)]


def partials(panes, rows, sums):
    return PARTIALS, (panes, rows, sums)


def shown(parts):
    return [
        (kind, tuple(found[name] for name in ("pane", "rows", "#0.sum")) if kind == PARTIALS else found) for kind, found in parts
    ]


def test_rows_cross_as_partials_of_panes():
    assert shown(packed(plan_of(TUMBLING), 5, 12, 7, 19)) == [partials([0, 1], [2, 2], [2, 4])]
    assert packed(plan_of(TUMBLING)) == []


def test_partials_have_the_time_where_an_aggregate_looks_at_it():
    plan = harness.Query(WindowSpec(TUMBLING), (agg.first("v").alias("first"),)).columnar()
    ((_, found),) = packed(plan, 7, 12, 5)
    assert (found["#0.value"], found["#0.by"]) == ([2, 1], [5, 12])


def test_for_a_continuous_trigger_partials_have_the_row_that_comes_first():
    """Its time, and its number within the chunk; both are asked of no column."""
    plan = plan_of(TUMBLING, EARLY)
    ((_, found),) = packed(plan, 7, 12, 5)
    assert (found["#2.value"], found["#2.by"], found["#3.min"]) == ([7, 12], [0, 1], [0, 1])
    assert plan.operator.inputs == plan_of(TUMBLING).operator.inputs == ("v",)


def test_of_rows_between_windows_the_times_cross_and_nothing_else():
    plan = plan_of(SlidingEventTimeWindows(2, 5))
    (gaps, inside) = shown(packed(plan, 4, 0, 1, 3, 5))
    assert gaps == (GAPS, {"time": [3, 4]})
    assert (inside[0], inside[1][1:]) == (PARTIALS, ([2, 1], [3, 4]))
    assert packed(plan, 3, 2) == [(GAPS, {"time": [2, 3]})]
    assert [kind for kind, _ in packed(plan, 5, 6)] == [PARTIALS]


def test_where_late_rows_are_wanted_whole_rows_cross_with_pane_and_time():
    parts = packed(plan_of(TUMBLING, late=True), 5, 12)
    assert parts[0] == (ROWS, {"key": ["a", "a"], "ts": [5, 12], "__pane": [0, 1], "__time": [5, 12]})
    assert [kind for kind, _ in parts] == [ROWS, PARTIALS]


def test_for_the_clock_all_rows_are_of_one_pane():
    """Which it is the operator knows, and so no row is late."""
    assert shown(packed(plan_of(BY_CLOCK, late=True), 5, 12)) == [partials([0], [2], [1])]
    assert packed(plan_of(BY_CLOCK)) == []


def test_what_each_part_looks_like():
    plan, times = plan_of(TUMBLING, late=True), pa.schema([("time", pa.int64())])
    assert plan.operator.part_schema(plan, PARTIALS) == plan.operator.aggregation.partial_schema
    assert plan.operator.part_schema(plan, GAPS) == times
    assert plan.operator.part_schema(plan, ROWS) == pa.schema(
        [*plan.row_schema, pa.field("__pane", pa.int64()), pa.field("__time", pa.int64())]
    )


def test_what_may_change_between_two_runs_and_what_a_changelog_is_refused_for():
    spec = plan_of(TUMBLING).operator
    assert spec.changeable == {"aggregates", "partials", "panes", "windows"}
    assert (spec.capabilities.no_firings, spec.capabilities.no_changelog) == (None, None)
    purging = plan_of(TUMBLING, PurgingTrigger(EARLY)).operator
    assert (
        purging.capabilities.no_changelog == "a purging trigger fires parts of a window, none of which takes the place of another"
    )
