"""The spec of windows by predicates: identity, what crosses the shuffle, ``explain()``, state tables and views."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from panestream.engine.operators.predicates import label_of, predicates_rule
from panestream.engine.plan import Chunk, WindowQuery
from panestream.engine.rule import DeclaredAggregates
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import PredicateWindows, TumblingEventTimeWindows
from tests.comparison import harness, predicates

SUM = (agg.sum("u").alias("s"),)
BOTH = PredicateWindows("v > 0", "u % 4 = 1")
"""In the tests below, a row with ``v`` = 1 begins a window, and a row with ``u`` = 5 ends one."""


def explain_sections(plan, *, streaming=True):
    return plan.operator.explain(plan, streaming=streaming)


def test_identity_of_predicate_windows():
    operator = predicates.plan_of(BOTH, (agg.mean("x").alias("m"),)).operator
    assert operator.name == "predicates"
    assert operator.identity() == {
        "aggregates": "agg.mean('x').alias('m')",
        "partials": "pane int64, rows int64, #0.sum double, #1.n int64",
    }
    assert operator.changeable == {"aggregates", "partials"}
    assert operator.capabilities.no_firings == "each of these windows fires once"
    assert operator.capabilities.no_changelog == "each of these windows fires once, and no later result takes its place"


@pytest.mark.parametrize(
    ("assigner", "aggregates", "by_time", "follows"),
    [
        (BOTH, SUM, False, False),
        (PredicateWindows("v > 0", gap=3), SUM, True, False),
        (BOTH, (agg.first("v").alias("f"),), False, True),
    ],
)
def test_predicate_windows_fire_by_time_with_a_gap_and_are_order_sensitive_if_an_aggregate_is(
    assigner, aggregates, by_time, follows
):
    operator = predicates.plan_of(assigner, aggregates).operator
    assert (operator.capabilities.fires_by_time, operator.capabilities.order_sensitive) == (by_time, follows)


@pytest.mark.parametrize("late", [False, True])
def test_values_cross_with_the_predicates_of_their_rows(late):
    plan = predicates.plan_of(BOTH, (*SUM, agg.max("x").alias("m")), late=late)
    operator = plan.operator
    assert label_of("v > 0") == "whether v > 0"
    assert operator.inputs == ("u", "x", "whether v > 0", "whether u % 4 = 1")
    assert operator.result_schema == pa.schema([("s", pa.int64()), ("m", pa.float64())])
    whole = [*harness.ROWS.types] if late else []
    types = [pa.string(), pa.timestamp("us"), pa.int64(), pa.float64(), pa.bool_(), pa.bool_(), *whole]
    assert operator.part_schema(plan, "rows").types == types
    row = pa.table([["a"], [5], [1], [0.5], [7]], schema=harness.ROWS)
    values = [harness.input_of(row, text) for text in operator.inputs]
    chunk = Chunk(row["ts"].to_numpy(), [row["key"].chunk(0)], values, row if plan.carries_rows else None)
    ((kind, part),) = operator.pack(plan, chunk)
    assert (kind, part.schema) == ("rows", operator.part_schema(plan, "rows"))
    (values_sent,) = zip(*(column.to_pylist() for column in part.set_column(1, "1", [[5]]).columns), strict=True)
    assert values_sent == ("a", 5, 7, 0.5, True, None, *(("a", 5, 1, 0.5, 7) if late else ()))


@pytest.mark.parametrize(
    ("assigner", "words"),
    [
        (PredicateWindows("on"), "a row where on, and ends before the next start"),
        (PredicateWindows("on", "off"), "a row where on, and ends behind a row where off or before the next start"),
        (PredicateWindows(end="off"), "a row that is in none yet, and ends behind a row where off"),
        (
            PredicateWindows(end="off", gap=2),
            "a row that is in none yet, and ends behind a row where off or 2 microseconds after the last row",
        ),
    ],
)
def test_explain_shows_where_predicate_windows_begin_and_end(assigner, words):
    assert explain_sections(predicates.plan_of(assigner, SUM))["predicates"] == [
        "rows of each key in the order of their times, when the watermark has passed them; older rows are late",
        f"a window begins with {words}",
    ]


def test_explain_shows_exchange_and_state_of_predicate_windows():
    crosses = "values cross the shuffle, marked if their row begins or ends a window"
    plan = predicates.plan_of(BOTH, SUM, late=True)
    sections = explain_sections(plan)
    assert sections["aggregates"] == [f"agg.sum('u').alias('s'); {SUM[0].merge_rule}"]
    assert sections["exchange"] == [crosses, "whole rows cross too, for the late output"]
    assert sections["state"] == [
        "open windows, and partials of each key and instant that waits for the watermark, in pages by hash of the key"
    ]
    sections = explain_sections(predicates.plan_of(BOTH, SUM), streaming=False)
    assert sections["exchange"] == [crosses]
    assert sections["state"] == ["none: a batch computes all windows at once, and does not emit windows without an end"]


def test_predicates_rule_ignores_other_windows_and_refuses_allowed_lateness():
    request = DeclaredAggregates(SUM, harness.TYPES, harness.KEYS)
    assert predicates_rule(WindowQuery(TumblingEventTimeWindows(10)), request) is None
    assert predicates_rule(WindowQuery(BOTH), request).operator.windows == BOTH
    with pytest.raises(InvalidPlanError, match="windows by predicates run as columns only"):
        predicates_rule(WindowQuery(BOTH, allowed_lateness=5), request)


def at(number):
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=number)


def tables_after(plan, *rows):
    """Return the state tables after a micro-batch of (key, time, v, u)."""
    state = MemoryState()
    harness.run(plan, [harness.MicroBatch([[(key, time, v, None, u) for key, time, v, u in rows]])], state)
    return plan.operator.for_group(plan, state, 0).tables()


ROWS = (("a", 10, 1, 2), ("a", 12, 0, 4), ("b", 11, 1, 7), ("a", 20, 1, 9), ("b", 20, 0, 1), ("b", 20, 0, 3))
"""The watermark is 19. Each key has an open window and an instant that waits."""


@pytest.mark.parametrize(("gap", "ends"), [(None, (13, 12)), (30, (42, 41))])
def test_views_show_open_windows_and_waiting_instants(gap, ends):
    """The end of an open window is unknown. It is due a gap after its last row, or at no time without a gap."""
    plan = predicates.plan_of(PredicateWindows("v > 0", "u % 4 = 1", gap), SUM)
    saved = tables_after(plan, *ROWS)
    views = plan.operator.views(plan, saved, 4)
    size = saved.table("steps").nbytes // 6
    due = [None if gap is None else at(end) for end in ends]
    nothing = dict.fromkeys(("window", "contents", "firings", "last_firing"))
    expected = [
        ("a", 10, ends[0], 2, 6, due[0]),
        ("a", 20, 21, 1, 9, at(20)),
        ("b", 11, ends[1], 1, 7, due[1]),
        ("b", 20, 21, 2, 4, at(20)),
    ]
    assert sorted(views.windows.to_pylist(), key=lambda row: (row["key"]["key"], row["window_start"])) == [
        {
            **nothing,
            "key": {"key": key},
            "window_start": at(start),
            "window_end": at(end),
            "operator": "predicates",
            "key_group": 4,
            "rows": rows,
            "results": {"s": total},
            "due": when,
            "closes": when,
            "bytes": rows * size,
        }
        for key, start, end, rows, total, when in expected
    ]
    assert sorted((row["key"]["key"], row["time"]) for row in views.timers.to_pylist()) == sorted(
        (key, when) for key, *_, when in expected if when is not None
    )
    assert (views.elements.num_rows, views.user_state.num_rows) == (0, 0)


@pytest.mark.parametrize(("gap", "until", "fired"), [(None, 41, False), (30, 41, False), (30, 42, True)])
def test_restored_window_ends_at_the_same_time_in_any_order_of_saved_rows(gap, until, fired):
    plan = predicates.plan_of(PredicateWindows("v > 0", gap=gap), SUM)
    saved = tables_after(plan, ("a", 10, 1, 2), ("a", 11, 0, 4), ("b", 15, 0, 3), ("c", 20, 1, 3))
    assert saved.header["counters"] == {}
    steps = saved.table("steps")
    state = MemoryState()
    backwards = steps.take(pa.array(range(steps.num_rows - 1, -1, -1)))
    plan.operator.for_group(plan, state, 0).restore(StateTables(saved.header, {"steps": backwards}))
    again = plan.operator.for_group(plan, state, 0).tables().table("steps")
    assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, steps.to_pylist()))
    (output,) = harness.run(plan, [harness.MicroBatch([[("b", until, 0, None, 3)]])], state)
    assert output.fired == ([(("a", 10, 41), (6,))] if fired else [])


def test_row_at_the_watermark_is_late_and_row_after_it_is_not():
    plan = predicates.plan_of(BOTH, SUM, late=True)
    rows = [[("a", 10, 1, None, 2)], [("a", 9, 0, None, 4), ("a", 10, 0, None, 6), ("b", 9, 1, None, 2)], [("a", 12, 0, None, 5)]]
    emitted = harness.run(
        plan, [*(harness.MicroBatch([batch_rows]) for batch_rows in rows), harness.MicroBatch([[("b", 40, 0, None, 0)]])]
    )
    assert [output.late for output in emitted] == [[], [("a", 9, 0, None, 4), ("b", 9, 1, None, 2)], [], []]
    assert [output.metrics.windowed_rows for output in emitted] == [1, 1, 1, 1]
    assert [output.fired for output in emitted] == [[], [], [], [(("a", 10, 13), (13,))]]


def test_windows_that_fire_together_are_emitted_in_order_of_their_ends():
    plan = predicates.plan_of(BOTH, (*SUM, agg.last("u").alias("l")))
    rows = [("a", 3, 1, None, 2), ("a", 20, 0, None, 5), ("b", 5, 1, None, 5), ("c", 1, 1, None, 4), ("c", 9, 0, None, 1)]
    (output,) = harness.run(plan, [harness.MicroBatch([rows[::2], rows[1::2]], end=True)])
    assert output.fired == [(("b", 5, 6), (5, 5)), (("c", 1, 10), (5, 1)), (("a", 3, 21), (7, 5))]
    assert output.metrics.firings == {"on_time": 3}
