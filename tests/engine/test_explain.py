"""The whole text of ``explain()``, line by line."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from panestream.engine.explain import explain_plan
from panestream.engine.plan import Top, WindowQuery
from panestream.engine.planner import split_of
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    PredicateWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.watermarks import WatermarkStrategy
from tests.comparison import broadcast, harness, intervals, joins, predicates

COUNT = (agg.count().alias("n"),)
SECOND = 1_000_000
SLIDING = harness.Query(WindowQuery(SlidingEventTimeWindows(10, 5), allowed_lateness=2), COUNT, delay=3)
BLOCKS = "one block of partials per micro-batch and key group, appended, only for panes that stay open; merged by eights"
IN_ORDER = pa.schema([("file", pa.string()), ("place", pa.int64())])


def sections_of(plan, *, streaming=True, chosen=None, **more):
    """Return the lines of each section."""
    sections = {}
    for line in explain_plan(plan, streaming=streaming, chosen=chosen, **more).splitlines():
        title, body = line[:12].strip(), line[12:].strip()
        sections.setdefault(title or list(sections)[-1], []).append(body)
    return sections


def plan_of(assigner, **more):
    return harness.Query(WindowQuery(assigner), COUNT, **more).columnar()


def test_explain_prints_sections_one_below_the_other():
    assert explain_plan(plan_of(TumblingEventTimeWindows(60)), streaming=True, chosen=None) == (
        "windows     TumblingEventTimeWindows.of('60 microseconds')\n"
        "operator    aligned panes\n"
        "panes       60 microseconds each, 1 to a window\n"
        "firing      a window fires when the watermark reaches its end\n"
        "aggregates  agg.count().alias('n'): invertible; counts of parts are added\n"
        "event time  ts, WatermarkStrategy.for_monotonous_timestamps()\n"
        "            late rows are counted and dropped\n"
        "            rows without event time fail the query\n"
        "exchange    pre-aggregated per (key, pane) before the shuffle\n"
        "            1 key group, one per state partition\n"
        "state       one block of partials per micro-batch and key group, appended, only for panes that stay open; merged by eights\n"
        "outputs     main"
    )


@pytest.mark.parametrize(
    ("size", "slide", "lies"),
    [
        (60, 20, "each row is in 3 windows"),
        (60, 60, "each row is in 1 window"),
        (60, 59, "each row is in 1 or 2 windows"),
        (60, 7, "each row is in 8 or 9 windows"),
        (60, 61, "the slide is longer than the size, so rows between two windows belong to none"),
    ],
)
def test_explain_shows_the_number_of_windows_of_a_row(size, slide, lies):
    assigner = SlidingEventTimeWindows(size, slide)
    assert sections_of(plan_of(assigner))["windows"] == [f"{assigner!r}: {lies}"]
    numbers = {len(assigner.assign_windows(None, time, 0)) for time in range(slide)}
    assert 0 in numbers or " or ".join(map(str, sorted(numbers))) in lies


def test_explain_names_windows_with_gaps_among_several():
    several = SeveralWindows.of({"a": SlidingEventTimeWindows(60, 20), "b": SlidingEventTimeWindows(10, 20)})
    first, *gaps = sections_of(plan_of(several))["windows"]
    assert first == repr(several)
    assert gaps == [f"{several.assigners[1]!r}: the slide is longer than the size, so rows between two windows belong to none"]


@pytest.mark.parametrize(
    ("groups", "chosen", "tasks", "exchange", "state"),
    [
        (1, None, None, "1 key group, one per state partition", None),
        (2, None, None, "2 key groups, one per state partition", "the default, 200"),
        (2, 3, 1, "2 key groups, one per state partition; 1 task takes them in turns", "3"),
        (3, 3, 2, "3 key groups, one per state partition; 2 tasks take them in turns", None),
    ],
)
def test_explain_shows_key_groups_and_the_shuffle_setting(groups, chosen, tasks, exchange, state):
    plan = replace(plan_of(TumblingEventTimeWindows(60)), groups=groups)
    sections = sections_of(plan, chosen=chosen, tasks=tasks)
    assert sections["exchange"][1:] == [exchange]
    setting = (
        f"result.start() sets spark.sql.shuffle.partitions={groups} for its query; for .main set it yourself (now {state}), and "
        "the RocksDB state store"
    )
    assert sections["state"][1:] == ([] if state is None else [setting])
    assert sections_of(plan, streaming=False, chosen=chosen)["state"] == ["none: a batch fires every window at the end of input"]


def test_explain_shows_where_late_and_invalid_rows_go():
    late = harness.Query(WindowQuery(TumblingEventTimeWindows(60), allowed_lateness=5 * SECOND), COUNT, late=True)
    strategy = "WatermarkStrategy.for_monotonous_timestamps()"
    assert sections_of(replace(late.columnar(), invalid_tag="bad"))["event time"] == [
        f"ts, {strategy}",
        "late rows go to the output 'late'; windows take rows for 5 seconds more",
        "rows without event time go to the output 'bad'",
    ]
    plan = plan_of(TumblingEventTimeWindows(60))
    assert sections_of(replace(plan, event_time=None))["event time"] == ["none: windows use the clock of the micro-batch"]
    # The source is checked in ten steps. No step is shorter than a millisecond, the resolution of Spark's clock.
    for closes_after, often in (
        ("1 minute", "6 seconds"),
        ("10 milliseconds", "1 millisecond"),
        ("9 milliseconds", "1 millisecond"),
    ):
        closing = WatermarkStrategy(0).closing_after(closes_after)
        assert sections_of(replace(plan, watermark=closing, ticks=1000))["event time"] == [
            f"ts, {closing!r}",
            (
                f"when all input has been silent for {closes_after}, the watermark follows the clock: while no rows come, it wakes all key "
                f"groups every {often} (not if the query ends by itself)"
            ),
            "late rows are counted and dropped",
            "rows without event time fail the query",
        ]


def test_explain_shows_sinks_session_and_trigger():
    plan = plan_of(TumblingEventTimeWindows(60), late=True)
    assert sections_of(plan, sinks={"main": "to a table", "late": "nowhere"})["outputs"] == [
        "main, late",
        "main: to a table",
        "late: nowhere",
    ]
    assert sections_of(replace(plan, top=Top(3, "n")))["outputs"] == ["main, late; main: the top 3 of each window by n"]
    assert sections_of(plan, session="it lacks something")["session"] == ["it lacks something"]
    assert sections_of(plan, trigger=["this", "that"])["trigger"] == ["this", "that"]


@pytest.mark.parametrize(("rows", "number"), [(1, "about 1 row"), (1_000, "about 1,000 rows"), (9_999, "more than 1,000 rows")])
def test_explain_shows_the_sample_of_a_batch(rows, number):
    line = f"by a sample of the files, a key has {number} in a pane; .options(rows_per_pane=...) replaces the sample"
    exchange = sections_of(plan_of(EventTimeSessionWindows(5)), streaming=False, reduced_by_spark=True, sampled=rows)["exchange"]
    assert exchange[:2] == ["rows are reduced per (key, pane) by Spark's own aggregation", line]


def test_explain_shows_the_exchange_and_its_order():
    plan = plan_of(EventTimeSessionWindows(5))
    groups = "1 key group, one per state partition"
    assert sections_of(plan, reduced_by_spark=True)["exchange"] == [
        "rows are reduced per (key, pane) by Spark's own aggregation",
        "if a key has few rows in a pane, say so with .options(rows_per_pane=...), which is faster",
        groups,
    ]
    known = sections_of(replace(plan, rows_per_pane=20), reduced_by_spark=True)["exchange"]
    assert known == ["rows are reduced per (key, pane) by Spark's own aggregation", groups]
    ordered = replace(plan, arrival=pa.schema([("part", pa.int32()), ("u", pa.int64())]))
    assert sections_of(ordered)["exchange"] == [
        "in the order of part, u: rows cross unreduced, and are put in order in their key group",
        groups,
    ]
    assert sections_of(ordered, streaming=False)["exchange"][-2:] == [
        "in the order of part, u: Spark puts the rows in order first",
        groups,
    ]
    lists = harness.Query(WindowQuery(TumblingEventTimeWindows(60)), (agg.collect_list("v"),)).columnar()
    assert sections_of(lists)["exchange"][-2:] == ["results depend on the order of arrival, which is Spark's", groups]
    distinct = (agg.count_distinct("v"),)
    plan = harness.Query(WindowQuery(TumblingEventTimeWindows(60)), distinct).columnar()
    for parts, key_groups, shown_groups in ((3, 8, 3), (8, 3, 3)):
        split = replace(plan, groups=key_groups, split=split_of(parts, distinct, plan.operator))
        assert sections_of(split)["exchange"][-2:] == [
            f"the rows of a key go to up to {shown_groups} key groups, by v; a window is combined when it fires",
            f"{key_groups} key groups, one per state partition",
        ]


def test_explain_of_a_stream_with_all_options():
    plan = replace(SLIDING.columnar(), groups=4, arrival=IN_ORDER)
    sections_of = explain_plan(
        plan,
        streaming=True,
        chosen=8,
        tasks=2,
        sinks={"main": "a table"},
        session="lacks a store",
        trigger=("by time", "or rows"),
    )
    assert sections_of.splitlines() == [
        "windows     SlidingEventTimeWindows.of('10 microseconds', '5 microseconds'): each row is in 2 windows",
        "operator    aligned panes",
        "panes       5 microseconds each, 2 to a window",
        "firing      a window fires when the watermark reaches its end",
        "            and again, for the keys concerned, in each micro-batch that brings rows for it after its end",
        "aggregates  agg.count().alias('n'): invertible; counts of parts are added",
        "trigger     by time",
        "            or rows",
        "event time  ts, WatermarkStrategy.for_bounded_out_of_orderness('3 microseconds')",
        "            late rows are counted and dropped; windows take rows for 2 microseconds more",
        "            rows without event time fail the query",
        "exchange    in the order of file, place: rows cross unreduced, and are put in order in their key group",
        "            4 key groups, one per state partition; 2 tasks take them in turns",
        f"state       {BLOCKS}",
        "            panes that time has passed are kept merged, 1 at a time; a window reads at most eight of each",
        "            result.start() sets spark.sql.shuffle.partitions=4 for its query; for .main set it yourself (now 8), and the RocksDB state store",
        "outputs     main",
        "            main: a table",
        "session     lacks a store",
    ]


def test_explain_of_a_batch_in_order_and_one_reduced_by_spark():
    plan = SLIDING.columnar()
    in_order = explain_plan(replace(plan, arrival=IN_ORDER, groups=2), streaming=False, chosen=8).splitlines()
    reduced = explain_plan(plan, streaming=False, chosen=8, tasks=1, reduced_by_spark=True).splitlines()
    assert in_order[:9] == reduced[:9]
    assert in_order[9:] == [
        "exchange    pre-aggregated per (key, pane) before the shuffle",
        "            in the order of file, place: Spark puts the rows in order first",
        "            2 key groups, one per state partition",
        "state       none: a batch fires every window at the end of input",
        "outputs     main",
    ]
    assert reduced[9:] == [
        "exchange    rows are reduced per (key, pane) by Spark's own aggregation",
        "            if a key has few rows in a pane, say so with .options(rows_per_pane=...), which is faster",
        "            1 key group, one per state partition; 1 task takes them in turns",
        "state       none: a batch fires every window at the end of input",
        "outputs     main",
    ]


# -- of operators ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", joins.HOWS)
def test_explain_of_window_joins(how):
    plan = joins.Join(WindowQuery(TumblingEventTimeWindows(60)), how, (0, 0), late=False).plan()
    assert sections_of(plan)["streams"] == [
        "two, left and right, each row with the side that it is of; the smaller of their watermarks counts",
        f"{how} join: a window keeps the rows of each side once, and outputs build the pairs",
    ]
    assert sections_of(plan)["exchange"][-2:] == [
        "which pairs there are does not depend on the order of arrival; how they are ordered does, and that is Spark's",
        "1 key group, one per state partition",
    ]
    # With allowed lateness, a window emits its current pairs, so the order of arrival matters.
    again = joins.Join(WindowQuery(TumblingEventTimeWindows(60), allowed_lateness=5), how, (0, 0), late=False).plan()
    assert sections_of(again)["exchange"][-2] == "results depend on the order of arrival, which is Spark's"


@pytest.mark.parametrize(
    ("lower", "upper", "how", "between", "left", "right"),
    [
        (-5 * SECOND, 7 * SECOND, "inner", "-5 seconds to 7 seconds", "7 seconds", "5 seconds"),
        # A row of the right is needed once more: when a left row expires that may have matched it.
        (-5 * SECOND, 7 * SECOND, "left", "-5 seconds to 7 seconds", "7 seconds", "12 seconds"),
        # A row of the right has met all matching left rows before the watermark reaches it.
        (2 * SECOND, 3 * SECOND, "inner", "2 seconds to 3 seconds", "3 seconds", "0 seconds"),
        (-3 * SECOND, -2 * SECOND, "full", "-3 seconds to -2 seconds", "1 second", "3 seconds"),
    ],
)
def test_explain_of_interval_joins(lower, upper, how, between, left, right):
    plan = intervals.Interval(lower, upper, how, (0, 3)).plan(3)
    sections = sections_of(plan, chosen=3)
    assert sections == {
        "streams": ["two, left and right, each row with the side that it is of; the smaller of their watermarks counts"],
        "operator": ["interval join"],
        "interval": [f"{how} join: a row of the right from {between} after the time of one of the left, both included"],
        "event time": [
            (
                "ts, left: WatermarkStrategy.for_monotonous_timestamps(); "
                "right: WatermarkStrategy.for_bounded_out_of_orderness('3 microseconds')"
            ),
            "late rows go to the output 'late_left' (left), 'late_right' (right)",
            "rows without event time fail the query",
        ],
        "exchange": [
            "rows of both sides cross the shuffle, with the columns of the results",
            "3 key groups, one per state partition",
        ],
        "state": [f"rows of the left until the watermark is {left} past them, of the right {right}"],
        "outputs": ["main, late_left, late_right"],
    }
    assert sections_of(plan, streaming=False) == {**sections, "state": ["none: a batch emits all at the end of input"]}


@pytest.mark.parametrize(
    ("follows", "whose", "strategy"),
    [
        (False, "the smaller of their watermarks", "for_bounded_out_of_orderness('2 microseconds')"),
        (True, "the watermark of the rows", "no_watermarks()"),
    ],
)
def test_explain_calls_the_streams_of_a_broadcast_function_rows_and_rules(follows, whose, strategy):
    plan = broadcast.engine(3, 2, follows=follows).plan
    plan = replace(plan, arrival=pa.schema([("__order_0", pa.int64())]), sides=replace(plan.sides, invalid=("odd", None)))
    sections = sections_of(replace(plan, invalid_tag="odd"))
    assert sections["streams"] == [f"two, rows and rules, each row with the side that it is of; {whose} counts"]
    assert sections["rules"] == [
        "each crosses the shuffle to all 3 key groups",
        "a micro-batch is processed in the order of event time, rules first at the same time",
    ]
    assert sections["event time"] == [
        f"__time, rows: WatermarkStrategy.for_bounded_out_of_orderness('2 microseconds'); rules: WatermarkStrategy.{strategy}",
        "no row is late",
        "rows without event time go to the output 'odd' (rows), none (rules: fail the query)",
    ]
    assert "in the order of arrival that the streams give: rows cross unreduced" in sections["exchange"][-2]
    assert sections["state"][-2] == "what the rules wrote, in every key group"


def test_explain_names_no_watermark_of_streams_without_event_time():
    plan = joins.Join(WindowQuery(TumblingEventTimeWindows(60)), "inner", (0, 0), late=False).plan()
    plan = replace(plan, event_time=None, watermark=WatermarkStrategy.no_watermarks())
    assert sections_of(plan)["streams"][0] == "two, left and right, each row with the side that it is of"


@pytest.mark.parametrize(
    ("assigner", "begins_and_ends"),
    [
        (PredicateWindows("s"), "a row where s, and ends before the next start"),
        (PredicateWindows(end="e"), "a row that is in none yet, and ends behind a row where e"),
        (PredicateWindows("s", "e"), "a row where s, and ends behind a row where e or before the next start"),
        (PredicateWindows("s", gap=5), "a row where s, and ends before the next start or 5 microseconds after the last row"),
        (
            PredicateWindows("s", "e", 5),
            "a row where s, and ends behind a row where e or before the next start or 5 microseconds after the last row",
        ),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_explain_of_predicate_windows(assigner, begins_and_ends, late):
    plan = predicates.plan_of(assigner, COUNT, late=late)
    sections = sections_of(plan)
    assert sections == {
        "windows": [repr(assigner)],
        "operator": ["predicates"],
        "predicates": [
            "rows of each key in the order of their times, when the watermark has passed them; older rows are late",
            f"a window begins with {begins_and_ends}",
        ],
        "aggregates": ["agg.count().alias('n'); counts of parts are added"],
        "event time": [
            "ts, WatermarkStrategy.for_monotonous_timestamps()",
            "late rows go to the output 'late'" if late else "late rows are counted and dropped",
            "rows without event time fail the query",
        ],
        "exchange": [
            "values cross the shuffle, marked if their row begins or ends a window",
            *(["whole rows cross too, for the late output"] if late else []),
            "1 key group, one per state partition",
        ],
        "state": ["open windows, and partials of each key and instant that waits for the watermark, in pages by hash of the key"],
        "outputs": ["main, late" if late else "main"],
    }
    batch = ["none: a batch computes all windows at once, and does not emit windows without an end"]
    assert sections_of(plan, streaming=False) == {**sections, "state": batch}
