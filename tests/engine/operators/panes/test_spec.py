"""The spec of aligned panes: what crosses the shuffle, and ``explain()``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.panes.arriving import GAPS, PARTIALS, ROWS
from panestream.engine.plan import Chunk, WindowQuery
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
    windowing = WindowQuery(assigner, trigger, allowed_lateness=lateness)
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
def test_explain_shows_when_windows_fire(plan, firing):
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
def test_explain_shows_the_state_of_panes(plan, state):
    assert plan.operator.explain(plan, streaming=True)["state"] == [BLOCKS, *state]
    assert plan.operator.explain(plan, streaming=False)["state"] == ["none: a batch fires every window at the end of input"]


@pytest.mark.parametrize(
    ("plan", "rows"),
    [(plan_of(TUMBLING), False), (plan_of(TUMBLING, late=True), True), (plan_of(BY_CLOCK, late=True), False)],
)
def test_explain_shows_what_crosses_the_shuffle(plan, rows):
    whole = ["whole rows cross the shuffle too, for the late output"] if rows else []
    assert plan.operator.explain(plan, streaming=True)["exchange"] == [
        "pre-aggregated per (key, pane) before the shuffle",
        *whole,
    ]


@pytest.mark.parametrize(
    ("assigners", "beginning"),
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
def test_explain_describes_the_panes_of_several_windows(assigners, beginning):
    plan = plan_of(SeveralWindows.of(dict(zip("ab", assigners, strict=True))))
    (line,) = plan.operator.explain(plan, streaming=True)["panes"]
    assert line.startswith(beginning)


def pack_times(plan, *times):
    keys = pa.array(["a"] * len(times), pa.string())
    rows = pa.table([keys, pa.array(times, pa.int64())], names=["key", "ts"]) if plan.late_tag else None
    chunk = Chunk(np.array(times, np.int64), [keys], [pa.array(range(len(times)), pa.int64())], rows)
    return [(kind, table.to_pydict()) for kind, table in plan.operator.pack(plan, chunk)]


def partials(panes, rows, sums):
    return PARTIALS, (panes, rows, sums)


def with_shown_columns(parts):
    return [
        (kind, tuple(columns[name] for name in ("pane", "rows", "#0.sum")) if kind == PARTIALS else columns)
        for kind, columns in parts
    ]


def test_rows_cross_as_partials_of_panes():
    assert with_shown_columns(pack_times(plan_of(TUMBLING), 5, 12, 7, 19)) == [partials([0, 1], [2, 2], [2, 4])]
    assert pack_times(plan_of(TUMBLING)) == []


def test_partials_include_the_time_if_an_aggregate_needs_it():
    plan = harness.Query(WindowQuery(TUMBLING), (agg.first("v").alias("first"),)).columnar()
    ((_, columns),) = pack_times(plan, 7, 12, 5)
    assert (columns["#0.value"], columns["#0.by"]) == ([2, 1], [5, 12])


def test_partials_include_the_first_row_for_a_continuous_trigger():
    """Partials store its time and its number within the chunk. Neither needs an input column."""
    plan = plan_of(TUMBLING, EARLY)
    ((_, columns),) = pack_times(plan, 7, 12, 5)
    assert (columns["#2.value"], columns["#2.by"], columns["#3.min"]) == ([7, 12], [0, 1], [0, 1])
    assert plan.operator.inputs == plan_of(TUMBLING).operator.inputs == ("v",)


def test_only_times_cross_for_rows_between_windows():
    plan = plan_of(SlidingEventTimeWindows(2, 5))
    (gaps, inside) = with_shown_columns(pack_times(plan, 4, 0, 1, 3, 5))
    assert gaps == (GAPS, {"time": [3, 4]})
    assert (inside[0], inside[1][1:]) == (PARTIALS, ([2, 1], [3, 4]))
    assert pack_times(plan, 3, 2) == [(GAPS, {"time": [2, 3]})]
    assert [kind for kind, _ in pack_times(plan, 5, 6)] == [PARTIALS]


def test_whole_rows_cross_with_pane_and_time_for_a_late_output():
    parts = pack_times(plan_of(TUMBLING, late=True), 5, 12)
    assert parts[0] == (ROWS, {"key": ["a", "a"], "ts": [5, 12], "__pane": [0, 1], "__time": [5, 12]})
    assert [kind for kind, _ in parts] == [ROWS, PARTIALS]


def test_rows_of_processing_time_windows_cross_as_one_pane():
    """The operator knows which pane it is, so no row is late."""
    assert with_shown_columns(pack_times(plan_of(BY_CLOCK, late=True), 5, 12)) == [partials([0], [2], [1])]
    assert pack_times(plan_of(BY_CLOCK)) == []


def test_schemas_of_the_parts_of_aligned_panes():
    plan, times = plan_of(TUMBLING, late=True), pa.schema([("time", pa.int64())])
    assert plan.operator.part_schema(plan, PARTIALS) == plan.operator.aggregation.partial_schema
    assert plan.operator.part_schema(plan, GAPS) == times
    assert plan.operator.part_schema(plan, ROWS) == pa.schema(
        [*plan.row_schema, pa.field("__pane", pa.int64()), pa.field("__time", pa.int64())]
    )


def test_changeable_parts_of_the_plan_and_changelog_of_a_purging_trigger():
    spec = plan_of(TUMBLING).operator
    assert spec.changeable == {"aggregates", "partials", "panes", "windows", "fill", "listed keys"}
    assert (spec.capabilities.no_firings, spec.capabilities.no_changelog) == (None, None)
    purging = plan_of(TUMBLING, PurgingTrigger(EARLY)).operator
    assert (
        purging.capabilities.no_changelog == "a purging trigger fires parts of a window, none of which takes the place of another"
    )
