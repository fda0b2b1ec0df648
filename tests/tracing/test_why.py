"""The explanations of `why` agree with Flink's recorded answers, and with runs that try their suggestions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError
from panestream.testing import WindowTestHarness
from panestream.tracing.events import row_facts, window_facts
from panestream.windowing.assigners import MergingWindowAssigner
from panestream.windowing.windows import TimeWindow
from tests.conformance.executors.harness import HarnessExecutor
from tests.conformance.scenario_format import read_scenarios
from tests.tracing.test_flinks_answers import FOLDER, SCENARIOS, traced

MINUTE = 60_000_000


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.spec["function"] == {"type": "list"}], ids=lambda one: one.name
)
def test_why_lists_the_firings_of_a_row_as_flink_does(scenario):
    """Compare, by window bounds and value, the number of occurrences in Flink's lists with the number of firings in the explanation."""
    trace, observed = traced(scenario)
    if trace is None or observed.error is not None:
        return
    flinks = Counter(
        (each["key"], each["start"], each["end"], value)
        for step in scenario.expected.steps
        for each in step
        for value in each["value"]
    )
    told = Counter()
    for element in trace.elements:
        for part in row_facts(trace, element).windows:
            for firing in part.seen_in:
                window = trace.windows[firing.window].window
                bounds = (window.start, window.end) if isinstance(window, TimeWindow) else (None, None)
                told[(element.key, *bounds, element.value.value)] += 1
    assert told == flinks


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_why_reports_each_firing_of_flink_once(scenario):
    """Each firing is reported once, with the final window that it belongs to."""
    trace, observed = traced(scenario)
    if trace is None or observed.error is not None:
        return
    ends = [window for window in trace.windows if window.merged_into is None]
    told = [firing for window in ends for firing in window_facts(trace, window).firings]
    assert sum(len(firing.results) for firing in told) == sum(map(len, scenario.expected.steps))
    assert len({(firing.window, firing.number) for firing in told}) == len(told) == len(trace.firings)


def late_numbers(scenario, more):
    """Return the numbers of the rows that are still late with an allowed lateness that is larger by ``more``."""
    made = []

    def make(plan):
        window = replace(plan.window, allowed_lateness=plan.window.allowed_lateness + more)
        made.append(WindowTestHarness.of_plan(replace(plan, window=window), traced=True))
        return made[0]

    HarnessExecutor(make=make).run(scenario)
    return {element.number for element in made[0].trace().late}


@pytest.mark.full
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_suggested_lateness_is_the_smallest_that_keeps_the_row(scenario):
    trace, observed = traced(scenario)
    if trace is None or observed.error is not None:
        return
    for element in trace.late:
        facts = row_facts(trace, element)
        if facts.missing_lateness is None:
            assert not element.refused
            continue
        assert facts.missing_lateness > 0
        assert facts.closed_at <= element.watermark
        assert element.number not in late_numbers(scenario, facts.missing_lateness)
        if (
            not any(window.merged_into is not None for window in trace.windows)
            and "session" not in scenario.spec["assigner"]["type"]
        ):
            assert element.number in late_numbers(scenario, facts.missing_lateness - 1)


def test_scenarios_have_enough_late_rows():
    late = [
        facts
        for scenario in SCENARIOS
        if (trace := traced(scenario)[0])
        for element in trace.late
        if (facts := row_facts(trace, element)).closed_at
    ]
    assert len(late) > 50


def harness(**options):
    return WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), traced=True, **{"reduce": max, **options})


def test_why_finds_rows_and_windows_by_value_time_and_key():
    one = WindowTestHarness(
        pst.TumblingEventTimeWindows.of("1 minute"), aggregate=pst.agg.sum("price"), columns={"price": "double"}, traced=True
    )
    one.process_element({"price": 2.0}, "10 seconds", key="ann")
    one.process_element({"price": 3.0}, "20 seconds", key="bob")
    assert [facts.element.number for facts in pst.tools.why(one, row={"price": 3.0}).facts] == [1]
    assert [facts.element.number for facts in pst.tools.why(one, at="10 seconds").facts] == [0]
    assert [facts.element.number for facts in pst.tools.why(one, row=lambda row: row.price > 2).facts] == [1]
    assert [facts.window.key for facts in pst.tools.why(one, window="0 seconds").facts] == ["ann", "bob"]
    assert [facts.window.key for facts in pst.tools.why(one, window=(0, MINUTE), key="bob").facts] == ["bob"]
    assert [facts.window.key for facts in pst.tools.why(one, window=pst.windows.TimeWindow(0, MINUTE), key="eve").facts] == []


def test_why_about_a_missing_row_lists_existing_keys():
    one = harness()
    assert str(pst.tools.why(one, key="ann")).startswith("No such row: no row came.")
    one.process_element(1, "10 seconds", key="ann")
    assert str(pst.tools.why(one, key="bob")) == (
        "No such row: 1 row came, of the keys 'ann'.\n"
        "  This excludes rows that were filtered out before the windows, and rows of other keys."
    )
    assert "There were [00:00:00, 00:01:00) of 'ann'." in str(pst.tools.why(one, window="1 minute"))


@pytest.mark.parametrize(
    ("trigger", "told"),
    [
        (None, "It fires when the watermark comes to 00:00:59.999999, at the latest; it is at 00:00:30."),
        (pst.CountTrigger.of(2), "Time does not make it fire: only a further row may."),
    ],
)
def test_why_tells_when_an_open_window_fires(trigger, told):
    one = harness(trigger=trigger)
    one.process_element(1, "10 seconds")
    one.process_watermark("30 seconds")
    assert told in str(pst.tools.why(one, row=1))
    one.process_watermark("1 hour")
    assert told not in str(pst.tools.why(one, row=1))


def test_why_names_the_firing_that_evicted_a_row():
    one = harness(evictor=pst.evictors.CountEvictor.of(1))
    one.process_element(1, "10 seconds")
    one.process_element(2, "20 seconds")
    one.process_watermark("1 minute")
    first, second = pst.tools.why(one).facts
    assert first.windows[0].seen_in == ()
    assert first.windows[0].evicted_in.number == 0
    assert [firing.results for firing in second.windows[0].seen_in] == [(2,)]
    assert "The evictor took it out before the function was called for firing 1." in str(pst.tools.why(one, row=1))


def test_why_explains_a_purged_row():
    one = harness(trigger=pst.PurgingTrigger.of(pst.CountTrigger.of(2)))
    for price in (1, 2, 3):
        one.process_element(price, "10 seconds")
    one.process_watermark("1 minute")
    assert [(firing.which, firing.purged, firing.cause.element) for firing in one.trace().firings] == [("early", True, 1)]
    assert "never fired again before it went: the row is in no result." in str(pst.tools.why(one, row=3))


def test_html_of_why_escapes_user_values():
    one = harness()
    one.process_element("<b>", "10 seconds", key="<script>")
    shown = pst.tools.why(one)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_why_refuses_wrong_arguments():
    one = harness()
    with pytest.raises(InvalidPlanError, match="not for both at once"):
        pst.tools.why(one, row=1, window=0)
    with pytest.raises(InvalidPlanError, match=r"does not have a trace. Give a WindowTestHarness"):
        pst.tools.why([1, 2])
    with pytest.raises(InvalidPlanError, match="traced=True"):
        pst.tools.why(WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max))
    with pytest.raises(InvalidPlanError, match="a traced harness does not support snapshots"):
        one.snapshot()


def test_text_of_why_is_shortened_but_facts_are_complete():
    one = harness()
    for price in range(50):
        one.process_element(price, "10 seconds")
    answer = pst.tools.why(one)
    assert len(answer.facts) == 50
    assert "… and 30 rows more: .facts has all." in str(answer)


def test_why_follows_merged_sessions_to_the_final_one():
    scenario = next(each for path in [FOLDER / "session.json"] for each in read_scenarios(path))
    assert isinstance(pst.EventTimeSessionWindows.with_gap("1 minute"), MergingWindowAssigner)
    trace, _ = traced(scenario)
    chains = [part.windows for element in trace.elements for part in row_facts(trace, element).windows]
    assert all(chain[-1].merged_into is None for chain in chains)


def test_description_of_a_trace_has_no_memory_addresses():
    class Own(pst.CountTrigger):
        __repr__ = object.__repr__

    harness = pst.testing.WindowTestHarness(
        pst.TumblingEventTimeWindows.of("1 minute"), trigger=Own(2), reduce=lambda a, b: a, traced=True
    )
    assert harness.trace().description == "TumblingEventTimeWindows.of('1 minute'), Own()"


def whole(assigner, **options):
    return WindowTestHarness(assigner, apply=lambda key, window, rows: [len(rows)], traced=True, **options)


def test_row_is_late_only_for_closed_cumulating_windows():
    one = whole(pst.CumulatingEventTimeWindows(10, 5))
    one.process_watermark(5)
    one.process_element("a", 3)  # [0, 5) is within [0, 10), which takes the row
    one.end_of_input()
    (window,) = pst.tools.why(one, window=(0, 10)).facts
    assert window.window.elements == (0,)
    assert window.late == ()
    assert "It came too late for [0, 5): closed when it came." in str(pst.tools.why(one, row="a"))


def test_why_about_a_session_lists_only_late_rows_after_it_opened():
    one = whole(pst.EventTimeSessionWindows(10))
    one.process_element("first", 0)
    one.process_watermark(20)
    one.process_element("late", 5)  # alone it would be the session [5, 15)
    one.process_element("next", 15)  # opens [15, 25), which would have met [5, 15) if it had existed
    one.end_of_input()
    (window,) = pst.tools.why(one, window=(0, 10)).facts
    assert [row.value for row in window.late] == ["late"]
    (window,) = pst.tools.why(one, window=(15, 25)).facts
    assert window.late == ()


def test_why_finds_rows_with_a_nan_key():
    one = whole(pst.TumblingEventTimeWindows(10))
    one.process_element("a", 1, key=(float("nan"), 1))
    one.process_element("b", 2, key=(float("nan"), 2))
    one.end_of_input()
    asked = (float("nan"), 1)
    assert [row.element.value for row in pst.tools.why(one, key=asked).facts] == ["a"]
    assert [window.window.elements for window in pst.tools.why(one, key=asked, window=(0, 10)).facts] == [(0,)]
    (drawn,) = pst.tools.timeline(one, key=asked).layouts
    assert drawn.rows == len(drawn.bars) == 1


def test_why_finds_rows_by_some_columns_and_reports_unknown_columns():
    one = WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max, traced=True)
    one.process_element({"order": 4711, "price": 5}, 1, key="shop")
    assert len(pst.tools.why(one, row={"order": 4711}).facts) == 1
    assert len(pst.tools.why(one, row={"order": 4712}).facts) == 0
    with pytest.raises(InvalidPlanError, match=r"no row has a column 'orderid'; a row looks like this: .*4711"):
        pst.tools.why(one, row={"orderid": 4711})
