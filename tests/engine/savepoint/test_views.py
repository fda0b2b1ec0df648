"""Views of user functions: their accumulators, elements, states and timers, without any call of user code."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.plan import WindowQuery
from panestream.engine.planner import plan_aggregates, plan_functions
from panestream.engine.runtime.state_views import share
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import GlobalWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, applied
from panestream.windowing.state import MapStateDescriptor, ValueStateDescriptor
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from tests.comparison import harness
from tests.comparison.savepoints import Query

RESULT = pa.schema([("n", pa.int64())])


def micros(number):
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=number)


def views_of(plan, *batches, groups=1):
    query = Query(plan, groups)
    for clock, rows in enumerate(batches, start=100):
        query.run(harness.MicroBatch([rows], clock=clock))
    saved = query.tables()
    return [plan.operator.views(query.plan, tables, number) for number, tables in enumerate(saved)]


def row(key, time, value):
    return key, time, value, None, value


def plan_of(windowing, function):
    operator = plan_functions(replace(windowing, every_firing=True), function, RESULT, harness.ROWS, function, harness.KEYS)
    return harness.plan_for(operator, windowing, 100)


class StateOfAllKinds(ProcessWindowFunction):
    def process(self, key, context, elements):
        context.window_state().get_state(ValueStateDescriptor("times")).update((len(elements), {"a"}))
        context.global_state().get_map_state(MapStateDescriptor("seen")).put(elements[0].v, None)
        yield len(elements)


def test_views_show_states_by_descriptor_key_and_window():
    windowing = WindowQuery(TumblingEventTimeWindows(10), CountTrigger.of(2))
    (view,) = views_of(plan_of(windowing, KeepRows(StateOfAllKinds())), [row("a", 1, 7), row("a", 2, 8), row("a", 3, 9)])
    bounds = {"window_start": micros(0), "window_end": micros(10), "key_group": 0, "key": {"key": "a"}}
    nowhere = {**bounds, "window_start": None, "window_end": None}
    assert view.user_state.to_pylist() == [
        {**bounds, "of": "trigger", "name": "count", "value": "1"},
        {**bounds, "of": "window", "name": "times", "value": '{"$tuple": [2, {"$set": ["a"]}]}'},
        {**nowhere, "of": "key", "name": "seen", "value": '{"$map": [[7, null]]}'},
    ]


def test_views_show_elements_once_with_their_windows():
    windowing = WindowQuery(TumblingEventTimeWindows(10), CountTrigger.of(5), CountEvictor(3))
    (view,) = views_of(plan_of(windowing, KeepRows(StateOfAllKinds())), [row("a", 1, 7), row("a", 12, 8)])
    assert [(row_["element"]["v"], row_["time"], row_["place"], row_["value"]) for row_ in view.elements.to_pylist()] == [
        (7, micros(1), 0, None),
        (8, micros(12), 1, None),
    ]
    assert [[window["start"] for window in row_["windows"]] for row_ in view.elements.to_pylist()] == [[micros(0)], [micros(10)]]
    assert [row_["rows"] for row_ in view.windows.to_pylist()] == [1, 1]


def test_views_show_timers_and_the_first_as_due():
    trigger = ProcessingTimeoutTrigger(CountTrigger.of(9), 4, False, True)
    (view,) = views_of(plan_of(WindowQuery(GlobalWindows.create(), trigger), KeepRows(StateOfAllKinds())), [row("a", 1, 7)])
    (timer,) = view.timers.to_pylist()
    assert (timer["kind"], timer["time"], timer["window_start"]) == ("processing", micros(104), None)
    (window,) = view.windows.to_pylist()
    assert (window["due"], window["closes"], window["window_end"]) == (micros(104), None, None)


class FailingOnceGone(AggregateFunction):
    """A function whose code fails once ``gone`` is set."""

    gone = False

    def create_accumulator(self):
        return 0, ()

    def add(self, value, accumulator):
        return accumulator[0] + 1, (*accumulator[1], value.v)

    def get_result(self, accumulator):
        assert not FailingOnceGone.gone
        return accumulator[0]

    def merge(self, a, b):
        assert not FailingOnceGone.gone
        return a[0] + b[0], a[1] + b[1]


def test_views_do_not_call_user_code(monkeypatch):
    accumulators = pa.schema([("n", pa.int64()), ("values", pa.list_(pa.int64()))])
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    for phases in (None, accumulators):
        operator = plan_functions(
            windowing, AggregateRows(FailingOnceGone()), RESULT, harness.ROWS, FailingOnceGone(), harness.KEYS, phases
        )
        plan = harness.plan_for(operator, windowing)
        query = Query(plan, 1)
        for value in (7, 8):
            query.run(harness.MicroBatch([[row("a", 1, value)]]))
        with monkeypatch.context() as patch:
            patch.setattr(FailingOnceGone, "gone", True)
            (saved,) = query.tables()
            view = plan.operator.views(query.plan, saved, 0)
        (window,) = view.windows.to_pylist()
        assert window["results"] is None or window["results"]["n"] is None
        assert window["contents"] == (None if phases else '{"$tuple": [2, {"$tuple": [7, 8]}]}')
        assert window["rows"] == (2 if phases else None)
        again = Query(plan, 1)
        again.restore([saved])
        assert again.run(harness.MicroBatch([[row("a", 30, 1)]])).fired == {"a": [((0, 10), (2,))]}


def test_views_show_a_reduced_row_as_contents():
    windowing = WindowQuery(TumblingEventTimeWindows(10))
    rest = pa.schema([field for field in harness.ROWS if field.name != "key"])
    function = ReduceRows(lambda a, b: a if a.v > b.v else b)
    operator = plan_functions(replace(windowing, every_firing=True), function, rest, harness.ROWS, function, harness.KEYS)
    (view,) = views_of(harness.plan_for(operator, windowing), [row("a", 1, 7), row("a", 2, 5)])
    assert [window["contents"] for window in view.windows.to_pylist()] == ['{"$row": ["a", 1, 7, null, 7]}']


def test_views_show_the_number_of_firings_and_the_last_one():
    """A window that never fired has a null as its last firing, which differs from "early", the first kind of firing."""
    early = ContinuousEventTimeTrigger(10)
    query = harness.Query(
        WindowQuery(TumblingEventTimeWindows(40), early, allowed_lateness=100),
        (agg.count().alias("n"),),
        more={"with_firing": True},
    )
    batches = [row("a", 1, 7)], [row("a", 12, 8)], [row("a", 27, 9)], [row("b", 45, 1)], [row("a", 3, 1)]
    windows_seen = []
    for number in range(1, len(batches) + 1):
        (view,) = views_of(query.columnar(), *batches[:number])
        windows_seen.append(
            {
                (window["key"]["key"], window["window_start"]): (
                    window["rows"],
                    window["firings"],
                    window["last_firing"],
                    window["results"]["n"],
                )
                for window in view.windows.to_pylist()
            }
        )
    a, b = ("a", micros(0)), ("b", micros(40))
    assert windows_seen == [
        {a: (1, 0, None, 1)},
        {a: (2, 1, "early", 2)},
        {a: (3, 2, "early", 3)},
        {a: (3, 3, "on_time", 3), b: (1, 0, None, 1)},
        {a: (4, 4, "late", 4), b: (1, 0, None, 1)},
    ]


TEN, SUMS = TumblingEventTimeWindows(10), (agg.count().alias("n"), agg.sum("v").alias("total"))
FIRST, SECOND = ("a", 0), ("a", 10)


def in_micros(time):
    return None if time is None else (time - micros(0)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("windowing", "clock", "rows", "expected", "timers"),
    [
        (
            WindowQuery(TEN, allowed_lateness=5),
            100,
            [row("a", 1, 7), row("a", 2, 1), row("a", 12, 8)],
            # The first window has fired and waits only for its end.
            {FIRST: ((2, 8), 1, None, 14), SECOND: ((1, 8), 0, 19, 24)},
            [(0, "event", 14), (10, "event", 19), (10, "event", 24)],
        ),
        (
            WindowQuery(TEN, PurgingTrigger.of(EventTimeTrigger.create()), allowed_lateness=5),
            100,
            [row("a", 1, 7), row("a", 12, 8)],
            {FIRST: ((0, None), 1, None, 14), SECOND: ((1, 8), 0, 19, 24)},
            [(0, "event", 14), (10, "event", 19), (10, "event", 24)],
        ),
        # Only rows make the window fire, so it is never due.
        (WindowQuery(TEN, CountTrigger.of(3)), 100, [row("a", 1, 7)], {FIRST: ((1, 7), 0, None, 9)}, [(0, "event", 9)]),
        (WindowQuery(TEN), 100, [row("a", 1, 7)], {FIRST: ((1, 7), 0, 9, 9)}, [(0, "event", 9)]),
        (
            WindowQuery(TumblingProcessingTimeWindows(10), allowed_lateness=5),
            105,
            [row("a", 1, 7)],
            {("a", 100): ((1, 7), 0, 109, 109)},
            [(100, "processing", 109)],
        ),
        (
            WindowQuery(GlobalWindows.create(), CountTrigger.of(2)),
            100,
            [row("a", 1, 7)],
            {("a", None): ((1, 7), 0, None, None)},
            [],
        ),
    ],
    ids=["lateness", "purged", "only rows", "event time", "the clock", "without end"],
)
def test_views_of_the_row_operator_show_results_firings_and_timers(windowing, clock, rows, expected, timers):
    plan = harness.Query(windowing, SUMS, more={"with_firing": True}).row()
    query = Query(plan, 1)
    query.run(harness.MicroBatch([rows], clock=clock))
    (saved,) = query.tables()
    view = plan.operator.views(query.plan, saved, 0)
    windows = view.windows.to_pylist()
    actual = {
        (view_row["key"]["key"], in_micros(view_row["window_start"])): (
            tuple(view_row["results"].values()),
            view_row["firings"],
            in_micros(view_row["due"]),
            in_micros(view_row["closes"]),
        )
        for view_row in windows
    }
    assert actual == expected
    timers_shown = [
        (in_micros(view_row["window_start"]), view_row["kind"], in_micros(view_row["time"]))
        for view_row in view.timers.to_pylist()
    ]
    assert timers_shown == timers
    size = sum(table.nbytes for table in saved.tables.values())
    assert [view_row["bytes"] for view_row in windows] == [size // len(windows)] * len(windows)


def test_views_show_no_firings_if_they_are_not_numbered():
    (view,) = views_of(harness.Query(WindowQuery(TEN), SUMS).row(), [row("a", 1, 7)])
    (window,) = view.windows.to_pylist()
    assert (window["firings"], window["results"]) == (None, {"n": 1, "total": 7})


def test_views_show_no_results_of_a_function_after_aggregates():
    windowing = WindowQuery(TEN, every_firing=True)
    operator = plan_aggregates(windowing, SUMS, harness.TYPES, harness.KEYS, applied(lambda key, window, rows: rows), RESULT)
    (view,) = views_of(harness.plan_for(operator, windowing), [row("a", 1, 7)])
    (window,) = view.windows.to_pylist()
    assert (window["results"], window["contents"]) == (None, '{"$tuple": [1, {"$tuple": [7, 1]}]}')


def test_bytes_of_windows_follow_their_number_of_elements_plus_one():
    windowing = WindowQuery(TEN, CountTrigger.of(9))
    query = Query(plan_of(windowing, KeepRows(StateOfAllKinds())), 1)
    query.run(harness.MicroBatch([[row("a", 1, 7), row("a", 2, 8), row("a", 12, 8)]]))
    (saved,) = query.tables()
    bytes_each = sum(table.nbytes for table in saved.tables.values()) // 5
    assert [window["bytes"] for window in query.plan.operator.views(query.plan, saved, 0).windows.to_pylist()] == [
        3 * bytes_each,
        2 * bytes_each,
    ]


@pytest.mark.parametrize(
    ("size", "parts", "shares"),
    [
        (100, [1, 3], [25, 75]),
        (99, [1, 3], [24, 72]),
        (7, [1], [7]),
        (100, [0, 2], [0, 100]),
        (100, [0, 0], [0, 0]),
        (100, [], []),
    ],
)
def test_bytes_are_shared_among_windows_by_their_parts(size, parts, shares):
    assert share(size, np.array(parts, np.int64)).tolist() == shares
