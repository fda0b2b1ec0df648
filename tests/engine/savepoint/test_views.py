"""What is shown of users' functions: their accumulators, elements, states and timers; and none of their code is called for it."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows
from panestream.engine.planner import plan_aggregates, plan_functions
from panestream.engine.query import WindowSpec
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
    return [plan.operator.views(query.plan, one, number) for number, one in enumerate(saved)]


def row(key, time, value):
    return key, time, value, None, value


def plan_of(windowing, function):
    operator = plan_functions(replace(windowing, every_firing=True), function, RESULT, harness.ROWS, function, harness.KEYS)
    return harness.plan_for(operator, windowing, 100)


class Remembers(ProcessWindowFunction):
    def process(self, key, context, elements):
        context.window_state().get_state(ValueStateDescriptor("times")).update((len(elements), {"a"}))
        context.global_state().get_map_state(MapStateDescriptor("seen")).put(elements[0].v, None)
        yield len(elements)


def test_states_are_shown_by_descriptor_key_and_window():
    windowing = WindowSpec(TumblingEventTimeWindows(10), CountTrigger.of(2))
    (view,) = views_of(plan_of(windowing, KeepRows(Remembers())), [row("a", 1, 7), row("a", 2, 8), row("a", 3, 9)])
    bounds = {"window_start": micros(0), "window_end": micros(10), "key_group": 0, "key": {"key": "a"}}
    nowhere = {**bounds, "window_start": None, "window_end": None}
    assert view.user_state.to_pylist() == [
        {**bounds, "of": "trigger", "name": "count", "value": "1"},
        {**bounds, "of": "window", "name": "times", "value": '{"$tuple": [2, {"$set": ["a"]}]}'},
        {**nowhere, "of": "key", "name": "seen", "value": '{"$map": [[7, null]]}'},
    ]


def test_elements_are_shown_once_with_the_windows_that_hold_them():
    windowing = WindowSpec(TumblingEventTimeWindows(10), CountTrigger.of(5), CountEvictor(3))
    (view,) = views_of(plan_of(windowing, KeepRows(Remembers())), [row("a", 1, 7), row("a", 12, 8)])
    assert [(one["element"]["v"], one["time"], one["place"], one["value"]) for one in view.elements.to_pylist()] == [
        (7, micros(1), 0, None),
        (8, micros(12), 1, None),
    ]
    assert [[held["start"] for held in one["windows"]] for one in view.elements.to_pylist()] == [[micros(0)], [micros(10)]]
    assert [one["rows"] for one in view.windows.to_pylist()] == [1, 1]


def test_timers_of_both_kinds_are_shown_and_the_first_is_due():
    trigger = ProcessingTimeoutTrigger(CountTrigger.of(9), 4, False, True)
    (view,) = views_of(plan_of(WindowSpec(GlobalWindows.create(), trigger), KeepRows(Remembers())), [row("a", 1, 7)])
    (timer,) = view.timers.to_pylist()
    assert (timer["kind"], timer["time"], timer["window_start"]) == ("processing", micros(104), None)
    (window,) = view.windows.to_pylist()
    assert (window["due"], window["closes"], window["window_end"]) == (micros(104), None, None)


class Refusing(AggregateFunction):
    """Its code works while rows come; then it is gone."""

    gone = False

    def create_accumulator(self):
        return 0, ()

    def add(self, value, accumulator):
        return accumulator[0] + 1, (*accumulator[1], value.v)

    def get_result(self, accumulator):
        assert not Refusing.gone
        return accumulator[0]

    def merge(self, a, b):
        assert not Refusing.gone
        return a[0] + b[0], a[1] + b[1]


def test_no_code_of_the_users_is_called_where_state_is_looked_at(monkeypatch):
    accumulators = pa.schema([("n", pa.int64()), ("values", pa.list_(pa.int64()))])
    windowing = WindowSpec(TumblingEventTimeWindows(10))
    for phases in (None, accumulators):
        operator = plan_functions(windowing, AggregateRows(Refusing()), RESULT, harness.ROWS, Refusing(), harness.KEYS, phases)
        plan = harness.plan_for(operator, windowing)
        query = Query(plan, 1)
        for value in (7, 8):
            query.run(harness.MicroBatch([[row("a", 1, value)]]))
        with monkeypatch.context() as patch:
            patch.setattr(Refusing, "gone", True)
            (saved,) = query.tables()
            view = plan.operator.views(query.plan, saved, 0)
        (window,) = view.windows.to_pylist()
        assert window["results"] is None or window["results"]["n"] is None
        assert window["contents"] == (None if phases else '{"$tuple": [2, {"$tuple": [7, 8]}]}')
        assert window["rows"] == (2 if phases else None)
        again = Query(plan, 1)
        again.restore([saved])
        assert again.run(harness.MicroBatch([[row("a", 30, 1)]])).fired == {"a": [((0, 10), (2,))]}


def test_a_reduced_row_is_contents():
    windowing = WindowSpec(TumblingEventTimeWindows(10))
    rest = pa.schema([field for field in harness.ROWS if field.name != "key"])
    function = ReduceRows(lambda a, b: a if a.v > b.v else b)
    operator = plan_functions(replace(windowing, every_firing=True), function, rest, harness.ROWS, function, harness.KEYS)
    (view,) = views_of(harness.plan_for(operator, windowing), [row("a", 1, 7), row("a", 2, 5)])
    assert [one["contents"] for one in view.windows.to_pylist()] == ['{"$row": ["a", 1, 7, null, 7]}']


def test_how_often_a_window_fired_and_how_it_did_last():
    """The first word is a word, too: a window that never fired has none."""
    early = ContinuousEventTimeTrigger(10)
    query = harness.Query(
        WindowSpec(TumblingEventTimeWindows(40), early, allowed_lateness=100),
        (agg.count().alias("n"),),
        more={"with_firing": True},
    )
    batches = [row("a", 1, 7)], [row("a", 12, 8)], [row("a", 27, 9)], [row("b", 45, 1)], [row("a", 3, 1)]
    told = []
    for number in range(1, len(batches) + 1):
        (view,) = views_of(query.columnar(), *batches[:number])
        told.append(
            {
                (one["key"]["key"], one["window_start"]): (one["rows"], one["firings"], one["last_firing"], one["results"]["n"])
                for one in view.windows.to_pylist()
            }
        )
    a, b = ("a", micros(0)), ("b", micros(40))
    assert told == [
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
    ("windowing", "clock", "rows", "shown", "timers"),
    [
        (
            WindowSpec(TEN, allowed_lateness=5),
            100,
            [row("a", 1, 7), row("a", 2, 1), row("a", 12, 8)],
            # The first has fired, and waits for nothing but its end.
            {FIRST: ((2, 8), 1, None, 14), SECOND: ((1, 8), 0, 19, 24)},
            [(0, "event", 14), (10, "event", 19), (10, "event", 24)],
        ),
        (
            WindowSpec(TEN, PurgingTrigger.of(EventTimeTrigger.create()), allowed_lateness=5),
            100,
            [row("a", 1, 7), row("a", 12, 8)],
            {FIRST: ((0, None), 1, None, 14), SECOND: ((1, 8), 0, 19, 24)},
            [(0, "event", 14), (10, "event", 19), (10, "event", 24)],
        ),
        # Only rows make it fire, so that nothing is due.
        (WindowSpec(TEN, CountTrigger.of(3)), 100, [row("a", 1, 7)], {FIRST: ((1, 7), 0, None, 9)}, [(0, "event", 9)]),
        (WindowSpec(TEN), 100, [row("a", 1, 7)], {FIRST: ((1, 7), 0, 9, 9)}, [(0, "event", 9)]),
        (
            WindowSpec(TumblingProcessingTimeWindows(10), allowed_lateness=5),
            105,
            [row("a", 1, 7)],
            {("a", 100): ((1, 7), 0, 109, 109)},
            [(100, "processing", 109)],
        ),
        (
            WindowSpec(GlobalWindows.create(), CountTrigger.of(2)),
            100,
            [row("a", 1, 7)],
            {("a", None): ((1, 7), 0, None, None)},
            [],
        ),
    ],
    ids=["lateness", "purged", "only rows", "event time", "the clock", "without end"],
)
def test_windows_row_by_row_with_what_they_come_to_and_when(windowing, clock, rows, shown, timers):
    plan = harness.Query(windowing, SUMS, more={"with_firing": True}).row()
    query = Query(plan, 1)
    query.run(harness.MicroBatch([rows], clock=clock))
    (saved,) = query.tables()
    view = plan.operator.views(query.plan, saved, 0)
    windows = view.windows.to_pylist()
    found = {
        (one["key"]["key"], in_micros(one["window_start"])): (
            tuple(one["results"].values()),
            one["firings"],
            in_micros(one["due"]),
            in_micros(one["closes"]),
        )
        for one in windows
    }
    assert found == shown
    told = [(in_micros(one["window_start"]), one["kind"], in_micros(one["time"])) for one in view.timers.to_pylist()]
    assert told == timers
    size = sum(table.nbytes for table in saved.tables.values())
    assert [one["bytes"] for one in windows] == [size // len(windows)] * len(windows)


def test_windows_that_do_not_number_their_firings_do_not_tell_of_them():
    (view,) = views_of(harness.Query(WindowSpec(TEN), SUMS).row(), [row("a", 1, 7)])
    (window,) = view.windows.to_pylist()
    assert (window["firings"], window["results"]) == (None, {"n": 1, "total": 7})


def test_of_a_function_behind_the_aggregates_no_results_are_shown():
    windowing = WindowSpec(TEN, every_firing=True)
    operator = plan_aggregates(windowing, SUMS, harness.TYPES, harness.KEYS, applied(lambda key, window, rows: rows), RESULT)
    (view,) = views_of(harness.plan_for(operator, windowing), [row("a", 1, 7)])
    (window,) = view.windows.to_pylist()
    assert (window["results"], window["contents"]) == (None, '{"$tuple": [1, {"$tuple": [7, 1]}]}')


def test_windows_with_elements_take_bytes_by_how_many_these_are_and_one_for_themselves():
    windowing = WindowSpec(TEN, CountTrigger.of(9))
    query = Query(plan_of(windowing, KeepRows(Remembers())), 1)
    query.run(harness.MicroBatch([[row("a", 1, 7), row("a", 2, 8), row("a", 12, 8)]]))
    (saved,) = query.tables()
    each = sum(table.nbytes for table in saved.tables.values()) // 5
    assert [one["bytes"] for one in query.plan.operator.views(query.plan, saved, 0).windows.to_pylist()] == [3 * each, 2 * each]


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
def test_bytes_are_shared_among_windows_by_what_they_are_made_of(size, parts, shares):
    assert share(size, np.array(parts, np.int64)).tolist() == shares
