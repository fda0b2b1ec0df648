"""The harness accepts the windows, triggers, evictors and functions of users, without names of the engine."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.testing import LateElement, WindowResult, WindowTestHarness

MINUTE = pst.TumblingEventTimeWindows.of("1 minute")


class Average(pst.AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class LoudSum(pst.ProcessWindowFunction):
    def process(self, key, context, elements):
        firings = context.window_state().get_state(pst.state.ValueStateDescriptor("firings"))
        firings.update((firings.value() or 0) + 1)
        if sum(elements) > 10:
            context.output("large", (key, sum(elements)))
        yield firings.value(), sum(elements)


def values(harness):
    return [result.value for result in harness.extract_output()]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"reduce": lambda a, b: a + b}, [9]),
        ({"reduce": lambda a, b: a + b, "then": lambda key, context, results: [(key, results[0])]}, [("k", 9)]),
        ({"aggregate": Average()}, [3.0]),
        ({"aggregate": Average(), "then": lambda key, context, results: [context.window().end, results[0]]}, [60_000_000, 3.0]),
        ({"apply": lambda key, window, rows: [(key, window.start, *rows)]}, [("k", 0, 2, 3, 4)]),
        ({"process": lambda key, context, rows: [context.current_watermark(), len(rows)]}, [60_000_000, 3]),
        ({"process": LoudSum()}, [(1, 9)]),
    ],
)
def test_harness_runs_each_kind_of_function(function, expected):
    harness = WindowTestHarness(MINUTE, **function)
    for second, value in ((1, 2), (30, 3), (59, 4)):
        harness.process_element(value, f"{second} seconds", key="k")
    assert values(harness) == []
    harness.process_watermark("1 minute")
    assert values(harness) == expected
    assert values(harness) == []
    assert (harness.num_timers(), harness.num_state_entries()) == (0, 0)


def test_harness_runs_trigger_evictor_and_lateness():
    windows = {"trigger": pst.CountTrigger.of(2), "evictor": pst.evictors.CountEvictor.of(3), "allowed_lateness": "10 seconds"}
    harness = WindowTestHarness(MINUTE, **windows, apply=lambda key, window, rows: [list(rows)], side_output_late_data=True)
    for value in range(4):
        harness.process_element(value, value)
    assert values(harness) == [[0, 1], [1, 2, 3]]
    harness.process_watermark("1 minute 9 seconds")
    harness.process_element(4, "59 seconds")
    harness.process_element(5, "59 seconds")
    assert values(harness) == [[3, 4, 5]]
    harness.process_watermark(timedelta(seconds=70))
    harness.process_element(6, "59 seconds", "k")
    assert harness.extract_late_elements() == [LateElement("k", 59_000_000, 6)]
    assert harness.late_dropped == 0


def test_late_elements_are_counted_without_a_late_output():
    harness = WindowTestHarness(MINUTE, reduce=max)
    harness.process_watermark("1 hour")
    harness.process_element(1, "1 second")
    assert (harness.late_dropped, harness.extract_late_elements()) == (1, [])


def test_side_outputs_and_snapshot_of_a_process_function():
    harness = WindowTestHarness(MINUTE, process=LoudSum(), trigger=pst.CountTrigger.of(1))
    harness.process_element(7, "1 second", "ann")
    snapshot = harness.snapshot()
    harness.process_element(8, "2 seconds", "ann")
    assert values(harness) == [(1, 7), (2, 15)]
    assert [result.value for result in harness.extract_side_output("large")] == [("ann", 15)]
    other = WindowTestHarness(MINUTE, process=LoudSum(), trigger=pst.CountTrigger.of(1))
    other.restore(snapshot)
    other.process_element(1, "3 seconds", "ann")
    assert values(other) == [(2, 8)]
    assert other.extract_side_output("large") == []


def test_harness_accepts_integers_durations_and_datetimes_as_times():
    for instant in (60_000_000, "1 minute", timedelta(minutes=1), datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc)):
        harness = WindowTestHarness(MINUTE, reduce=max)
        harness.process_element(3, instant)
        harness.set_processing_time(instant)
        harness.process_watermark(instant)
        assert harness.current_watermark == harness.current_processing_time == 60_000_000
        harness.end_of_input()
        assert harness.extract_output() == [WindowResult(None, pst.windows.TimeWindow(60_000_000, 120_000_000), 3, 119_999_999)]


def test_processing_time_windows_need_no_event_times():
    harness = WindowTestHarness(pst.ProcessingTimeSessionWindows.with_gap("10 seconds"), reduce=lambda a, b: a + b)
    harness.set_processing_time("100 seconds")
    harness.process_element(1)
    harness.set_processing_time("105 seconds")
    harness.process_element(2)
    assert harness.next_processing_time_timer() is not None
    harness.set_processing_time("115 seconds")
    assert [(result.value, result.window.end) for result in harness.extract_output()] == [(3, 115_000_000)]


class TestDeclaredAggregates:
    COLUMNS = {"price": "double", "user": "string"}  # noqa: RUF012 - not changed
    AGGREGATES = (pst.agg.count().alias("n"), pst.agg.sum("price"), pst.agg.max_by("user", "price"), pst.agg.last("user"))

    def test_aggregate_results_have_names(self):
        harness = WindowTestHarness(MINUTE, aggregate=self.AGGREGATES, columns=self.COLUMNS)
        harness.process_element({"price": 2.5, "user": "ann"}, "30 seconds")
        harness.process_element((1.5, "bob"), "1 second")
        harness.restore(harness.snapshot())
        harness.process_watermark("1 minute")
        (result,) = values(harness)
        assert result["n"] == 2
        assert result["sum(price)"] == 4.0
        assert [value for name, value in result.items() if name.startswith("last")] == ["ann"], "by time, not by arrival"

    def test_then_function_gets_context_and_results_as_on_spark(self):
        def then(key, context, results):
            return [(context.window().start, results[0])]

        harness = WindowTestHarness(MINUTE, aggregate=pst.agg.count(), then=then)
        harness.process_element({}, "70 seconds")
        harness.end_of_input()
        assert values(harness) == [(60_000_000, (1,))]

    def test_triggers_gaps_and_late_outputs_get_rows(self):
        sessions = pst.EventTimeSessionWindows.with_dynamic_gap(lambda row: timedelta(seconds=row.price))
        harness = WindowTestHarness(
            sessions, aggregate=pst.agg.last("user").alias("user"), columns=self.COLUMNS, side_output_late_data=True
        )
        harness.process_element({"price": 5.0, "user": "ann"}, "0 seconds")
        harness.process_element({"price": 5.0, "user": "bob"}, "5 seconds")
        harness.process_watermark("10 seconds")
        assert values(harness) == [{"user": "bob"}]
        harness.process_element({"price": 5.0, "user": "eve"}, "0 seconds")
        ((key, time, row),) = harness.extract_late_elements()
        assert (key, time, row.user, row["price"]) == (None, 0, "eve", 5.0)

    def test_unknown_input_column_is_named_in_the_error(self):
        with pytest.raises(
            InvalidPlanError, match=r"sum\('cost'\).* takes 'cost', which is none of the columns \['price', 'user'\]"
        ):
            WindowTestHarness(MINUTE, aggregate=pst.agg.sum("cost"), columns=self.COLUMNS)


def test_functions_get_rows_as_on_spark():
    harness = WindowTestHarness(
        MINUTE, reduce=lambda a, b: a.replace(price=a.price + b["price"]), columns={"user": "string", "price": "int64"}
    )
    harness.process_element({"price": 1, "user": "ann"}, 0)
    harness.process_element({"price": 2}, 1)
    harness.end_of_input()
    (row,) = values(harness)
    assert (row.user, row.price) == ("ann", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give one of reduce=, aggregate=, apply=, process=, got none"),
        ({"reduce": max, "process": lambda key, context, rows: []}, "got reduce= and process="),
        ({"apply": lambda key, window, rows: [], "then": lambda key, context, rows: []}, "then= is for reduce= and aggregate="),
        ({"reduce": lambda a: a}, "reduce: the function"),
        ({"aggregate": Average}, r"not the class itself: Average\(\)"),
        ({"aggregate": "count"}, "one or several of pst.agg"),
        ({"aggregate": []}, "one or several of pst.agg"),
        ({"reduce": max, "trigger": pst.CountTrigger}, "not the class itself"),
        ({"reduce": max, "columns": {"price": "bigint"}}, "columns needs types of Arrow's.* its BIGINT int64"),
        ({"reduce": max, "columns": "price double"}, "columns needs names and types"),
        ({"reduce": max, "columns": ["price"]}, "columns needs names and types"),
        ({"reduce": max, "allowed_lateness": True}, "allowed lateness is True"),
    ],
)
def test_contradictory_options_are_refused(options, message):
    with pytest.raises(InvalidPlanError, match=message):
        WindowTestHarness(MINUTE, **options)


def test_datetime_as_allowed_lateness_is_refused():
    with pytest.raises(InvalidWindowError, match="the allowed lateness is how long"):
        WindowTestHarness(MINUTE, reduce=max, allowed_lateness=datetime(2026, 1, 1, tzinfo=timezone.utc))


@pytest.mark.parametrize("at_once", [True, False])
def test_undeclared_processing_time_timer_fails_as_on_spark(at_once):
    class Patient(pst.triggers.Trigger):
        def on_element(self, element, timestamp, window, ctx):
            if at_once:
                ctx.register_processing_time_timer(5)
            return pst.triggers.TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            ctx.register_processing_time_timer(5)
            return pst.triggers.TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return pst.triggers.TriggerResult.FIRE

        def clear(self, window, ctx): ...

    class Honest(Patient):
        uses_processing_time = True

    def run(trigger):
        harness = WindowTestHarness(MINUTE, trigger=trigger, reduce=max, allowed_lateness="1 hour")
        harness.process_element(1, "1 second")
        harness.process_watermark("1 minute")
        harness.process_watermark("2 hours")
        harness.set_processing_time("1 second")
        return harness.extract_output()

    run(Honest())
    with pytest.raises(InvalidPlanError, match="registered a processing-time timer: give it the property uses_processing_time"):
        run(Patient())


def test_minimum_and_maximum_timestamps_are_public():
    harness = WindowTestHarness(MINUTE, reduce=max)
    assert harness.current_watermark == pst.windows.MIN_TIMESTAMP
    harness.end_of_input()
    assert harness.current_watermark == pst.windows.MAX_TIMESTAMP == pst.windows.GlobalWindow().max_timestamp()


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (({"price": 1},), "need the event time of each element"),
        (({"cost": 1}, 0), "has a value for 'cost'"),
        (((1, 2), 0), "a row is a dict, or 1 values"),
        (({"price": 1}, datetime(2026, 1, 1)), "without a time zone"),
        (({"price": 1}, 2**63), "which no time can be"),
        (({"price": 1}, True), "the timestamp is True"),
    ],
)
def test_element_that_does_not_match_the_columns_is_refused(element, message):
    harness = WindowTestHarness(MINUTE, reduce=lambda a, b: a, columns={"price": "int64"})
    with pytest.raises(InvalidPlanError, match=message):
        harness.process_element(*element)


def closing(**more):
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps().closing_after("30 seconds")
    return WindowTestHarness(MINUTE, reduce=lambda a, b: a + b, watermark_strategy=strategy, **more)


def test_watermark_strategy_advances_time_and_closes_windows_on_silence():
    harness = closing(side_output_late_data=True)
    harness.process_element(1, "50 seconds")
    harness.end_micro_batch("55 seconds", run="first")
    assert harness.current_watermark == 49_999_999
    harness.end_micro_batch("75 seconds", run="first")
    assert values(harness) == []
    snapshot = harness.snapshot()
    # The query was down for an hour, which is not silence.
    harness.restore(snapshot)
    harness.end_micro_batch("4000 seconds", run="second")
    assert values(harness) == []
    harness.end_micro_batch("4030 seconds", run="second")
    assert values(harness) == [1]
    harness.process_element(2, "51 seconds")
    assert [late.value for late in harness.extract_late_elements()] == [2]


def test_watermark_strategy_per_partition_needs_the_partition_column():
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps().per_partition("shop")
    harness = WindowTestHarness(
        MINUTE, aggregate=[pst.agg.count().alias("n")], columns={"shop": "string"}, watermark_strategy=strategy
    )
    harness.process_element({"shop": "a"}, "90 seconds")
    harness.process_element({"shop": "b"}, "10 seconds")
    harness.end_micro_batch("100 seconds")
    assert harness.current_watermark == 9_999_999
    with pytest.raises(InvalidPlanError, match=r"[Gg]ive rows as dicts"):
        harness.process_element(("a",), "90 seconds")


def test_end_of_micro_batch_needs_a_watermark_strategy():
    with pytest.raises(InvalidPlanError, match="lacks a strategy that moves the watermark"):
        WindowTestHarness(MINUTE, reduce=max).end_micro_batch("1 second")
    generated = pst.WatermarkStrategy.for_generator(lambda: None)
    with pytest.raises(InvalidPlanError, match="without a user-defined generator"):
        WindowTestHarness(MINUTE, reduce=max, watermark_strategy=generated)


def timed_harness(**more):
    return WindowTestHarness(pst.TumblingEventTimeWindows.of("5 minutes"), reduce=max, side_output_late_data=True, **more)


def test_repr_of_results_shows_times_but_fields_are_integers():
    harness = timed_harness()
    harness.process_element(7, "10 hours", key="ann")
    harness.process_watermark(datetime(1970, 1, 1, 10, 5, tzinfo=timezone.utc))
    harness.process_element(8, "10 hours", key="ann")
    (result,), (late,) = harness.extract_output(), harness.extract_late_elements()
    assert repr(result) == "WindowResult(key='ann', window=[10:00:00, 10:05:00), value=7, timestamp=10:04:59.999999)"
    assert repr(late) == "LateElement(key='ann', timestamp=10:00:00, value=8)"
    start, end = 36_000_000_000, 36_300_000_000
    assert result == WindowResult("ann", pst.windows.TimeWindow(start, end), 7, end - 1)
    assert late == LateElement("ann", start, 8)
    assert hash(result) == hash(tuple(result))
    assert repr(result._replace(key="bob")).startswith("WindowResult(key='bob', window=[10:00:00, 10:05:00)")
    assert [type(pickle.loads(pickle.dumps(each))) for each in (result, late)] == [type(result), type(late)]


def test_repr_of_results_shows_integers_for_integer_times():
    harness = WindowTestHarness(pst.TumblingEventTimeWindows(10), reduce=max)
    harness.process_element(7, 3)
    harness.end_of_input()
    assert repr(harness.extract_output()) == "[WindowResult(key=None, window=TimeWindow(start=0, end=10), value=7, timestamp=9)]"


def test_repr_of_a_harness_shows_watermark_and_clock():
    harness = timed_harness()
    harness.process_watermark("1 minute")
    assert repr(harness).startswith(
        "<WindowTestHarness: windows TumblingEventTimeWindows.of('5 minutes') | watermark 00:01:00 | clock 00:00:00 | timers 0"
    )
    columns = pst.testing.ColumnTestHarness(pst.LookBackWindows.of("1 hour"), aggregate=agg.count(), columns={"n": "int64"})
    columns.process_element({"n": 1}, "59 minutes")
    columns.process_watermark("1 hour")
    assert repr(columns) == "<ColumnTestHarness: windows LookBackWindows.of('1 hour') | watermark 01:00:00>"
    (result,) = columns.extract_output()
    assert "timestamp=00:59:00" in repr(result)


TIMERS_AT_THE_END_OF_A_WAIT = [
    pst.triggers.ProcessingTimeoutTrigger.of(pst.CountTrigger.of(100), "30 seconds"),
    pst.triggers.ContinuousProcessingTimeTrigger.of("30 seconds"),
]


@pytest.mark.parametrize("trigger", TIMERS_AT_THE_END_OF_A_WAIT, ids=lambda trigger: type(trigger).__name__)
def test_processing_time_timer_fires_once_the_clock_is_past_it(trigger):
    harness = WindowTestHarness(pst.GlobalWindows.create(), trigger=trigger, reduce=max)
    harness.process_element(1, "0 seconds")
    harness.set_processing_time("30 seconds")
    assert harness.extract_output() == []
    harness.set_processing_time(30_000_001)
    assert values(harness) == [1]


@pytest.mark.parametrize(
    ("windows", "trigger"),
    [
        (pst.TumblingProcessingTimeWindows.of("30 seconds"), None),
        (pst.ProcessingTimeSessionWindows.with_gap("30 seconds"), None),
        (pst.GlobalWindows.create(), pst.triggers.AfterProcessingTime.of("30 seconds")),
    ],
    ids=["tumbling", "session", "after processing time"],
)
def test_processing_time_windows_fire_when_the_clock_reaches_their_end(windows, trigger):
    harness = WindowTestHarness(windows, trigger=trigger, reduce=max)
    harness.process_element(1, "0 seconds")
    harness.set_processing_time("30 seconds")
    assert values(harness) == [1]


def test_snapshot_fails_again_while_a_value_cannot_be_stored():
    """Otherwise the next one would pass over the pages that the first had written before it failed."""
    harness = WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=lambda former, latter: latter)
    for number in range(40):
        harness.process_element(number, "1 second", key=f"key {number}")
    kept = harness.snapshot()
    for number in range(40):
        harness.process_element(object() if number == 20 else -number, "2 seconds", key=f"key {number}")
    for _ in range(3):
        with pytest.raises(InvalidPlanError, match="object"):
            harness.snapshot()
    harness.restore(kept)
    harness.process_watermark("5 minutes")
    assert sorted(result.value for result in harness.extract_output()) == list(range(40))
