"""Filled windows: what is refused, what the state keeps, and how time ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panestream.engine.operators.panes.filling import KNOWN
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import choose, plan_aggregates, split_of
from panestream.engine.rule import DeclaredAggregates
from panestream.engine.savepoint.plans import plan_json, plan_of
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, MemoryLimitError
from panestream.spark.catalyst import reducible
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.fill import Fill
from panestream.windowing.functions import applied
from panestream.windowing.triggers import ContinuousEventTimeTrigger
from tests.comparison import harness
from tests.comparison.fills import listed
from tests.comparison.harness import MicroBatch

TEN = TumblingEventTimeWindows(10)
LAST = WindowQuery(TEN, fill=Fill("last"))
COUNT = (agg.count().alias("n"), agg.mean("x").alias("m"))


def row(key: str, time: int, value: int = 1) -> harness.Row:
    return key, time, value, float(value), time


def fired(window: WindowQuery, *times: list[harness.Row], end: bool = False, **more) -> list[list]:
    batches = [MicroBatch([rows]) for rows in times] + ([MicroBatch([], end=True)] if end else [])
    return [one.fired for one in harness.run(harness.Query(window, COUNT, more=more).columnar(), batches)]


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (WindowQuery(EventTimeSessionWindows(10)), "not aligned windows"),
        (WindowQuery(TumblingProcessingTimeWindows(10)), "take windows of event time"),
        (WindowQuery(TEN, ContinuousEventTimeTrigger(5)), "leave out the trigger"),
        (WindowQuery(TEN, evictor=CountEvictor(3)), "an evictor needs all elements"),
        (WindowQuery(TEN, every_firing=True), "every firing was asked for"),
        (WindowQuery(TEN, per_key=True), "filled windows have one watermark for all keys: leave out per_key or fill"),
        (WindowQuery(SeveralWindows.of({"a": TEN, "b": TumblingEventTimeWindows(20)})), "several kinds of windows"),
        (WindowQuery(TEN, allowed_lateness=5, fill=Fill("null", (("m", "linear"),))), "let the watermark wait longer"),
        (WindowQuery(TEN, allowed_lateness=5, listed_keys=listed(["z"])), "leave out keys or allowed_lateness"),
    ],
)
def test_windows_that_cannot_be_filled_are_refused_with_the_way_out(window, reason):
    with pytest.raises(InvalidPlanError, match=reason):
        plan_aggregates(replace(window, fill=window.fill or Fill("null")), COUNT, harness.TYPES, harness.KEYS)


def test_listed_key_is_filled_from_the_earliest_row_of_any_key_for_at_most_max_gap():
    window = WindowQuery(TEN, fill=Fill("zero", max_gap=30), listed_keys=listed(["z"]))
    moved, *later = fired(window, [row("a", 35), row("a", 21)], [row("a", 75)])
    assert [place for place, _ in moved] == [("a", 20, 30), ("z", 20, 30)]
    assert [place for place, _ in later[0] if place[0] == "z"] == [("z", 30, 40), ("z", 40, 50)]
    assert dict(moved)["z", 20, 30] == (0, None)


def test_listed_keys_need_a_row_and_are_shown_in_explain():
    window = WindowQuery(TEN, fill=Fill("zero"), listed_keys=listed(["y", "z"]))
    assert fired(window, end=True) == [[]]
    plan = harness.Query(window, COUNT).columnar()
    sections = plan.operator.explain(plan, streaming=True)
    assert "2 listed keys are filled from the first window of the query on" in sections["firing"]
    assert "the listed keys" in sections["state"]


def test_functions_and_split_values_are_refused():
    then = DeclaredAggregates(COUNT, harness.TYPES, harness.KEYS, applied(lambda key, window, rows: rows), harness.KEYS)
    with pytest.raises(InvalidPlanError, match="a user function in Python"):
        choose(LAST, then)
    distinct = (agg.count_distinct("v"),)
    with pytest.raises(InvalidPlanError, match="split_distinct and fill"):
        split_of(2, distinct, plan_aggregates(LAST, distinct, harness.TYPES, harness.KEYS))


def test_window_is_filled_when_time_passes_it_and_not_before():
    steps = fired(LAST, [row("a", 5)], [row("b", 19)], [row("b", 20)], [row("b", 31)])
    assert [[place for place, _ in step] for step in steps] == [
        [],
        [("a", 0, 10)],
        [("b", 10, 20), ("a", 10, 20)],
        [("b", 20, 30), ("a", 20, 30)],
    ]


def test_late_row_replaces_a_filled_window_and_corrects_those_that_repeat_it():
    window = WindowQuery(TEN, allowed_lateness=100, fill=Fill("last", (("n", "zero"),)))
    steps = fired(window, [row("a", 5, 3)], [row("b", 45)], [row("a", 25, 8)])
    assert steps[-1] == [(("a", 20, 30), (1, 8.0)), (("a", 30, 40), (0, 8.0))]


def test_late_row_does_not_repeat_zeros_that_stay():
    window = WindowQuery(TEN, allowed_lateness=100, fill=Fill("zero"))
    assert fired(window, [row("a", 5)], [row("b", 45)], [row("a", 25)])[-1] == [(("a", 20, 30), (1, 1.0))]


def test_end_of_input_fills_up_to_the_last_window_of_the_newest_row():
    steps = fired(WindowQuery(TEN, fill=Fill("zero")), [row("a", 5), row("b", 35)], end=True)
    assert [place for step in steps for place, _ in step if place[0] == "a"] == [
        ("a", 0, 10),
        ("a", 10, 20),
        ("a", 20, 30),
        ("a", 30, 40),
    ]
    assert fired(WindowQuery(TEN, fill=Fill("zero")), end=True) == [[]]


def known(window: WindowQuery, *times: list[harness.Row]) -> list[dict]:
    plan, state = harness.Query(window, COUNT).columnar(), MemoryState()
    harness.run(plan, [MicroBatch([rows]) for rows in times], state)
    return plan.operator.for_group(plan, state, 0).tables().tables[KNOWN].to_pylist()


def test_state_keeps_the_last_window_of_each_key_and_only_values_that_are_repeated():
    rows = [row("a", 5, 3), row("a", 15, 4), row("b", 7)], [row("c", 41)]
    assert known(WindowQuery(TEN, fill=Fill("zero", (("m", "last"),))), *rows) == [
        {"key 0": "b", "start": 0, "end": 10, "value m": 1.0},
        {"key 0": "a", "start": 10, "end": 20, "value m": 4.0},
    ]
    assert list(known(WindowQuery(TEN, fill=Fill("zero")), *rows)[0]) == ["key 0", "start", "end"]


def test_key_is_forgotten_after_its_longest_gap():
    for fill in (Fill("last", max_gap=20), Fill("null", (("m", "linear"),), max_gap=20)):
        assert [one["key 0"] for one in known(WindowQuery(TEN, fill=fill), [row("a", 5), row("b", 25)], [row("c", 42)])] == ["b"]


def test_huge_gap_is_refused_before_it_fills_the_memory():
    window = WindowQuery(TEN, fill=Fill("zero"))
    with pytest.raises(MemoryLimitError, match=r"windows without rows .* max_gap='1 day'"):
        fired(window, [row("a", 5)], [row("b", 10**9)], most_bytes=1_000_000)
    limited = WindowQuery(TEN, fill=Fill("zero", max_gap=20))
    assert len(fired(limited, [row("a", 5)], [row("b", 10**9)], most_bytes=1_000_000)[-1]) == 3


def test_plan_is_saved_explained_and_tied_to_the_checkpoint():
    plan = harness.Query(LAST, COUNT).columnar()
    assert plan_of(plan_json(plan)).operator == plan.operator
    assert plan.identity()["fill"] == "Fill(method='last', results=(), max_gap=None)"
    sections = plan.operator.explain(plan, streaming=True)
    assert "windows without rows are filled by last" in sections["firing"]
    assert not reducible(plan)
