"""Explanations from stored state agree with the fate of rows in a run, without Spark."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pyarrow as pa
import pytest

import panestream as pst
from panestream import agg
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.plan import Capabilities, WindowQuery
from panestream.errors import InvalidPlanError
from panestream.testing import ColumnTestHarness, WindowTestHarness
from panestream.testing.column_query import column_operator
from panestream.tracing.of_state import KnownRow, KnownState, KnownWindow, time_facts, trace_of_state, windows_now
from panestream.tracing.why_state import explain_state
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.windows import TimeWindow

MINUTE = 60_000_000


def state(assigner, *, watermark=0, lateness=0, windows=(), rows=(), late_tag=None, **more):
    usual = {"evicts": False, "fires_by_time": True, "late_by_time": None, "has_windows": True}
    operator = SimpleNamespace(capabilities=Capabilities(**{name: more.pop(name, value) for name, value in usual.items()}))
    late_tags = () if late_tag is None else (late_tag,)
    plan = SimpleNamespace(
        assigner=assigner, operator=operator, allowed_lateness=lateness, late_tags=late_tags, key_names=("user",)
    )
    given = {"window_count": len(windows), "row_count": len(rows), **more}
    return KnownState(plan, "the checkpoint c", tuple(windows), tuple(rows), watermark=watermark, **given)


ASSIGNERS = [
    pst.TumblingEventTimeWindows.of("1 minute"),
    pst.SlidingEventTimeWindows.of("3 minutes", "1 minute"),
    pst.EventTimeSessionWindows.with_gap("30 seconds"),
]


def fate_of(assigner, lateness, before, watermark, time):
    """Return the fate of a row, and the windows that were open when it arrived."""
    harness = WindowTestHarness(assigner, reduce=max, allowed_lateness=lateness, traced=True)
    harness.process_element(1, before)
    harness.process_watermark(watermark)
    open_now = [window.window for window in harness.trace().windows if window.cleared is None and window.merged_into is None]
    harness.process_element(2, time)
    return harness.trace().elements[1].fate, open_now


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@pytest.mark.parametrize("lateness", [0, MINUTE])
def test_explanation_is_right_about_late_rows_and_the_lateness_that_keeps_them(assigner, lateness):
    """Run a row in a harness at the watermark of the state, and again with the suggested lateness."""
    rng = random.Random(7)
    for _ in range(60):
        times = [rng.randrange(0, 10 * MINUTE, 1_000) for _ in range(3)]
        _, watermark, time = times
        found, open_now = fate_of(assigner, lateness, *times)
        known = [KnownWindow(None, window) for window in open_now]
        facts = time_facts(state(assigner, watermark=watermark, lateness=lateness, windows=known), time)
        assert facts.is_late == (found == "late")
        if facts.is_late:
            enough = lateness + facts.missing_lateness
            assert fate_of(assigner, enough, *times)[0] == "taken"
            # With more lateness, an earlier session may still exist and take the row.
            assert fate_of(assigner, enough - 1, *times)[0] == "late" or assigner is ASSIGNERS[2]


def test_window_closed_under_a_smaller_lateness_stays_closed():
    known = state(ASSIGNERS[0], watermark=5 * MINUTE, lateness=10 * MINUTE, closed=4 * MINUTE)
    facts = time_facts(known, 3 * MINUTE)
    assert facts.is_late
    assert facts.missing_lateness is None
    assert "what was closed stays closed" in str(explain_state(known, at=3 * MINUTE))


def test_explanation_of_an_evicted_window_covers_remaining_rows_only():
    window = KnownWindow("ann", TimeWindow(0, MINUTE), rows=2)
    known = state(ASSIGNERS[0], lateness=MINUTE, windows=[window], evicts=True)
    said = str(explain_state(known, key="ann", at="10 seconds"))
    assert "2 rows are in it, of those that came and were not evicted" in said
    assert "If the evictor removed such a row: evicted rows leave no trace." in said


def test_explanation_shows_rows_results_and_firings_of_a_window():
    window = KnownWindow("ann", TimeWindow(0, MINUTE), rows=2, results={"n": 2}, firings=2, last_firing="on_time")
    known = state(ASSIGNERS[0], watermark=MINUTE, lateness=MINUTE, windows=[window])
    assert str(explain_state(known, key="ann", window="10 seconds")) == (
        "Windows of key 'ann', by the checkpoint c:\n"
        "  The watermark is at 00:01:00.\n\n"
        "Window [00:00:00, 00:01:00) is open: it takes rows until the watermark has come to 00:01:59.999999, 1 minute after its end.\n"
        "  2 rows went in; results so far: n=2.\n"
        "  It has fired twice, the last time on time. Nothing is due: the watermark has passed its end; only a further row makes "
        "it fire.\n\n"
        "Not in the state:\n"
        "  The content of closed windows, and the reasons and times of firings: trace the same query over the rows as a batch."
    )


def test_explanation_names_the_slowest_source_partition():
    window = KnownWindow("ann", TimeWindow(0, MINUTE), rows=2, due=MINUTE - 1)
    known = state(ASSIGNERS[0], watermark=0, windows=[window], slowest=("clicks-3", 0))
    assert (
        "It fires when the watermark comes to 00:00:59.999999. Source partition 'clicks-3' is the furthest behind, at 00:00:00."
    ) in str(explain_state(known, at=0))


@pytest.mark.parametrize(
    ("operator", "told"),
    [
        ({}, "it was in the results when it fired."),
        ({"evicts": True}, "it was given to the evictor when the window fired, and evicted rows were not in a result."),
        ({"fires_by_time": False}, "rows that came after its last firing were in no result, since only rows make it fire."),
        ({"fires_by_time": None}, "it was in the results when it fired, if its trigger had it fire."),
    ],
)
def test_explanation_claims_results_of_a_closed_window_only_if_certain(operator, told):
    assert told in str(explain_state(state(ASSIGNERS[0], watermark=9 * MINUTE, **operator), at=0))


def test_explanation_leaves_firing_to_a_user_trigger():
    window = KnownWindow("ann", TimeWindow(0, MINUTE), rows=2, due=MINUTE - 1)
    told = str(explain_state(state(ASSIGNERS[0], watermark=0, windows=[window], fires_by_time=None), at=0))
    assert "Its trigger is called when the watermark comes to 00:00:59.999999, and says whether it fires then." in told


def test_explanation_shows_where_late_rows_go():
    for tag, where in ((None, "Late rows are dropped and counted (3 of all keys)"), ("late", "go to the output 'late'")):
        assert where in str(explain_state(state(ASSIGNERS[0], watermark=9 * MINUTE, late_tag=tag, late_dropped=3), at=0))


def test_explanation_reports_a_window_that_does_not_exist():
    tumbling = state(ASSIGNERS[0], watermark=0)
    assert [each.is_open for each in windows_now(tumbling, (0, MINUTE))] == [True]
    assert windows_now(tumbling, (1, MINUTE)) == ()
    assert "the plan does not have one there" in str(explain_state(tumbling, window=(1, MINUTE)))
    assert windows_now(state(ASSIGNERS[2]), 0) == ()


def test_explanation_without_the_gap_column_knows_no_session():
    known = state(pst.EventTimeSessionWindows.with_gap_column("gap", "seconds"))
    assert time_facts(known, 0).windows is None
    assert "which are not in the state" in str(explain_state(known, at=0))


LOOK_BACKS = pst.LookBackWindows.of("1 minute", following="5 seconds")
PREDICATES = pst.PredicateWindows.of(start="on", gap="1 minute")


def is_late_in_engine(assigner, watermark, time):
    """Return whether the operator drops a second row at this watermark. Each accepted row has a result."""
    harness = ColumnTestHarness(assigner, aggregate=agg.count(), columns={"on": "bool"})
    harness.process_element({"on": True}, 0)
    harness.process_watermark(watermark)
    harness.process_element({"on": True}, time)
    harness.end_of_input()
    return len(harness.extract_output()) == 1


@pytest.mark.parametrize("assigner", [LOOK_BACKS, PREDICATES], ids=["look-back", "predicate"])
@pytest.mark.parametrize("ahead", [-MINUTE, -1, 0, 1, MINUTE])
def test_watermark_alone_decides_whether_a_row_of_look_backs_and_predicates_is_late(assigner, ahead):
    watermark = 10 * MINUTE
    spec = column_operator(WindowQuery(assigner), [agg.count()], pa.schema([("on", pa.bool_())]), pa.schema([]), "time")
    known = state(assigner, watermark=watermark, late_by_time=spec.capabilities.late_by_time)
    facts = time_facts(known, watermark + ahead)
    assert facts.is_late == (ahead <= 0) == is_late_in_engine(assigner, watermark, watermark + ahead)
    assert facts.missing_lateness == (1 - ahead if ahead <= 0 else None)
    if facts.is_late:
        earlier = state(assigner, watermark=watermark - facts.missing_lateness, late_by_time=spec.capabilities.late_by_time)
        assert not time_facts(earlier, watermark + ahead).is_late


def test_late_row_of_a_look_back_is_explained_with_its_window():
    told = str(explain_state(state(LOOK_BACKS, watermark=10 * MINUTE - 1, late_by_time=0, late_tag="late"), at="9 minutes"))
    assert "Window [00:08:00, 00:09:05.000001) is closed since the watermark came to 00:09:05." in told
    assert "Such a row is late, if it comes now: the watermark has come to 00:09:00." in told
    assert "With a watermark that waits 1 minute longer, it would have been taken even now." in told
    assert "Late rows go to the output 'late': look for it there." in told
    taken = str(explain_state(state(LOOK_BACKS, watermark=10 * MINUTE - 1, late_by_time=0), at="10 minutes"))
    assert "Such a row is taken, if it comes now. It is late once the watermark has come to 00:10:00." in taken
    ended = str(explain_state(state(LOOK_BACKS, watermark=MAX_TIMESTAMP, late_by_time=0), at="10 minutes"))
    assert "The input was at its end." in ended


def test_row_of_a_predicate_window_is_explained_without_its_window():
    told = str(explain_state(state(PREDICATES, watermark=MINUTE, late_by_time=0), at=MINUTE))
    assert "The rows around it decide which window it would be in." in told
    assert "Such a row is late, if it comes now: the watermark has come to 00:01:00." in told


def test_row_exactly_at_the_watermark_is_late_unless_it_is_of_an_interval_join():
    join = {"late_by_time": IntervalSpec(0, 1, "inner", pa.struct([]), pa.struct([]), pa.schema([])).capabilities.late_by_time}
    known = state(pst.GlobalWindows.create(), watermark=MINUTE, has_windows=False, **join)
    assert [time_facts(known, MINUTE + ahead).is_late for ahead in (-1, 0, 1)] == [True, False, False]
    told = str(explain_state(known, at=MINUTE - 1))
    assert "This query does not have windows: a row joins the rows of the other stream in the interval around it." in told
    assert "Such a row is late, if it comes now: the watermark has come to 00:01:00." in told
    assert "never late" not in told


def test_explanation_of_processing_time_and_global_windows_has_no_late_rows():
    for assigner, words in (
        (pst.TumblingProcessingTimeWindows.of("1 minute"), "Windows follow the clock"),
        (pst.GlobalWindows.create(), "of no time"),
    ):
        assert words in str(explain_state(state(assigner, clock=MINUTE), at=0))


def test_explanation_needs_exactly_one_of_time_and_window():
    known = state(ASSIGNERS[0])
    for asked in ({}, {"at": 0, "window": 0}):
        with pytest.raises(InvalidPlanError, match="Give either an event time"):
            explain_state(known, **asked)
    with pytest.raises(InvalidPlanError, match="Query the state"):
        pst.tools.why(trace_of_state(known), at=0)


def test_state_can_be_drawn_as_a_timeline():
    windows = [KnownWindow("ann", TimeWindow(0, MINUTE)), KnownWindow("bob", TimeWindow(0, MINUTE))]
    rows = [KnownRow("bob", 5, 7, (TimeWindow(0, MINUTE),)), KnownRow("bob", 6, 8, (TimeWindow(0, MINUTE),))]
    trace = trace_of_state(state(ASSIGNERS[0], watermark=MINUTE // 2, windows=windows, rows=rows))
    (layout,) = pst.tools.timeline(trace).layouts
    assert [bar.is_open for bar in layout.bars] == [True, True]
    assert [(point.x, point.text) for point in layout.points] == [(5, "7"), (6, "8")]
    assert layout.watermarks == ((0, MINUTE // 2),)
    assert trace.windows[1].elements == (0, 1)


def test_explanation_does_not_round_event_times_up():
    found = str(explain_state(state(pst.TumblingEventTimeWindows.of("1 minute")), at=60_000_000 - 1))
    assert "A row with event time 00:00:59.999999, by" in found
