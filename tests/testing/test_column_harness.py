"""The harness of windows that run only on columns: input, output and refusals."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from panestream.testing import ColumnTestHarness

HOUR = 60


def looking_back(size=HOUR, **more):
    return ColumnTestHarness(pst.LookBackWindows(size, **more), aggregate=agg.sum("v").alias("s"), columns={"v": "int64"})


def predicate_harness(**predicates):
    columns = {"v": "int64", "on": "bool", "off": "bool"}
    return ColumnTestHarness(pst.PredicateWindows(**predicates), aggregate=[agg.count().alias("n")], columns=columns)


def results_of(harness):
    return [(result.key, (result.window.start, result.window.end), result.value) for result in harness.extract_output()]


def test_each_row_gets_its_look_back():
    harness = looking_back()
    for time, v, key in [(70, 4, ("a", 1)), (10, 1, ("a", 1)), (10, 2, ("a", 1)), (70, 8, None), (131, 16, ("a", 1))]:
        harness.process_element({"v": v}, time, key)
    harness.process_watermark(70)
    assert results_of(harness) == [
        (("a", 1), (-50, 11), {"v": 1, "s": 3}),
        (("a", 1), (-50, 11), {"v": 2, "s": 3}),
        (("a", 1), (10, 71), {"v": 4, "s": 7}),
        (None, (10, 71), {"v": 8, "s": 8}),
    ]
    harness.end_of_input()
    assert results_of(harness) == [(("a", 1), (71, 132), {"v": 16, "s": 16})]


def test_row_behind_the_watermark_is_late():
    harness = looking_back(following=5)
    harness.process_element({"v": 1}, 10)
    harness.process_watermark(12)
    assert results_of(harness) == []
    harness.process_element({"v": 2}, 12)
    harness.process_element({"v": 4}, 13)
    harness.process_watermark(15)
    assert [(result.timestamp, result.value) for result in harness.extract_output()] == [(10, {"v": 1, "s": 5})]
    assert [(late.timestamp, late.value) for late in harness.extract_late_elements()] == [(12, {"v": 2})]
    assert [element.fate for element in harness.trace().elements] == ["taken", "late", "taken"]


def test_predicate_windows_start_and_end_with_rows_in_time_order():
    harness = predicate_harness(start="on", end="off")
    rows = [(9, "off"), (1, ""), (3, "on"), (5, ""), (12, ""), (20, "on"), (25, "on"), (30, "")]
    for time, what in rows:
        harness.process_element({"on": what == "on", "off": what == "off"}, time, "a")
    harness.process_watermark(10)
    assert results_of(harness) == [("a", (3, 10), {"n": 3})]
    harness.process_watermark(100)
    assert results_of(harness) == [("a", (20, 25), {"n": 1})]
    harness.end_of_input()
    assert results_of(harness) == []
    assert [element.fate for element in harness.trace().elements] == [
        "taken",
        "outside",
        "taken",
        "taken",
        "outside",
        "taken",
        "outside",
        "outside",
    ]


def test_sessions_closed_by_an_event_end_at_once():
    harness = ColumnTestHarness(
        pst.EventTimeSessionWindows(30).closed_by("off"), aggregate=[agg.count().alias("n")], columns={"off": "bool"}
    )
    for time, off in [(0, False), (10, True), (12, False), (42, False), (73, False)]:
        harness.process_element({"off": off}, time)
    harness.process_watermark(10)
    assert results_of(harness) == [(None, (0, 11), {"n": 2})]
    harness.process_watermark(102)
    assert results_of(harness) == [(None, (12, 72), {"n": 2})]
    harness.process_watermark(103)
    assert results_of(harness) == [(None, (73, 103), {"n": 1})]


def test_column_harness_refuses_unsupported_windows_and_columns():
    with pytest.raises(InvalidPlanError, match=r"[Tt]ake a WindowTestHarness"):
        ColumnTestHarness(pst.TumblingEventTimeWindows(5), aggregate=agg.count(), columns={"v": "int64"})
    with pytest.raises(InvalidPlanError, match="no column 'w'"):
        ColumnTestHarness(pst.LookBackWindows(5), aggregate=agg.sum("w"), columns={"v": "int64"})
    with pytest.raises(InvalidPlanError, match="no column 'x'"):
        looking_back().process_element({"x": 1}, 1)
    with pytest.raises(InvalidPlanError, match="needs declared aggregates"):
        ColumnTestHarness(pst.LookBackWindows(5), aggregate=[], columns={"v": "int64"})
