"""The repr of a recipe rebuilds it, and its constructor suggests a correction. Other files test the behaviour of each recipe."""

from __future__ import annotations

import pytest

from panestream.engine.operators.row.contents import ReduceRows, RowPlan
from panestream.engine.plan import WindowQuery
from panestream.errors import InvalidWindowError
from panestream.windowing import assigners, evictors, triggers
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.evictors import DeltaEvictor
from panestream.windowing.triggers import DeltaTrigger


def gap(row):
    return row


def distance(old, new):
    return abs(new - old)


NAMES = {**vars(assigners), **vars(triggers), **vars(evictors), "distance": distance}
RECIPES = [
    "TumblingEventTimeWindows.of('1 minute')",
    "TumblingEventTimeWindows.of('1 minute', offset='-5 seconds')",
    "TumblingEventTimeWindows.of('1 minute', stagger=WindowStagger.NATURAL)",
    "TumblingProcessingTimeWindows.of('1 minute', offset='1 second', stagger=WindowStagger.RANDOM)",
    "SlidingEventTimeWindows.of('1 minute', '10 seconds')",
    "SlidingProcessingTimeWindows.of('1 minute', '10 seconds', offset='1 second')",
    "CalendarHours.of(6, zone='Asia/Kolkata', every=1, offset='30 minutes')",
    "CalendarDays.of(1, zone='America/New_York', offset='6 hours')",
    "CalendarDays.of(7, zone='America/New_York', every=1, by_processing_time=True)",
    "CalendarWeeks.of(1, zone='UTC', step='day', first_day='sunday')",
    "CalendarMonths.of(3, zone='Europe/Berlin', every=1, first_month=2)",
    "CalendarQuarters.of(1, zone='Europe/Berlin', first_month=4)",
    "CalendarYears.of(1, zone='Europe/London', step='month', offset='5 days', first_month=4)",
    "BusinessDays.of(5, zone='Asia/Dubai', every=1, weekend=('friday', 'saturday'), holidays=('2026-12-02',))",
    "BusinessHours.of('22:00', '06:00', zone='Europe/Berlin', holidays=('2026-12-25', '2026-12-26'))",
    "EventTimeSessionWindows.with_gap('30 minutes')",
    "ProcessingTimeSessionWindows.with_gap('30 minutes')",
    "GlobalWindows.create()",
    "GlobalWindows.create_with_end_of_stream_trigger()",
    "GlobalWindows(CountTrigger.of(3))",
    "EventTimeTrigger.create()",
    "ProcessingTimeTrigger.create()",
    "CountTrigger.of(3)",
    "ContinuousEventTimeTrigger.of('5 minutes')",
    "ContinuousProcessingTimeTrigger.of('5 minutes')",
    "PurgingTrigger.of(CountTrigger.of(3))",
    "ProcessingTimeoutTrigger.of(CountTrigger.of(3), '1 second')",
    "ProcessingTimeoutTrigger.of(CountTrigger.of(3), '1 second', reset_timer_on_new_record=True, should_clear_on_timeout=False)",
    "NeverTrigger()",
    "EndOfStreamTrigger()",
    "CountEvictor.of(3)",
    "TimeEvictor.of('1 second', do_evict_after=True)",
]


@pytest.mark.parametrize("text", RECIPES)
def test_repr_rebuilds_each_recipe(text):
    made = eval(text, NAMES)
    assert repr(made) == text
    assert eval(repr(made), NAMES) == made
    assert hash(made) == hash(eval(text, NAMES))
    with pytest.raises((AttributeError, TypeError)):
        made.anything = 1


def test_recipes_with_functions_show_them():
    assert repr(DeltaTrigger.of(2.0, distance)).startswith("DeltaTrigger.of(2.0, <function distance")
    assert repr(DeltaEvictor.of(2.0, distance, do_evict_after=True)).endswith(", do_evict_after=True)")
    assert repr(EventTimeSessionWindows.with_dynamic_gap(gap)).startswith("EventTimeSessionWindows.with_dynamic_gap(<function")
    assert repr(EventTimeSessionWindows(gap)).startswith("EventTimeSessionWindows(<function")


def test_plan_without_pages_is_refused():
    with pytest.raises(InvalidWindowError):
        RowPlan(WindowQuery(TumblingEventTimeWindows(1)), ReduceRows(max), pages=0)


@pytest.mark.parametrize(
    ("make", "write"),
    [
        (lambda: TumblingEventTimeWindows("1 hour"), "TumblingEventTimeWindows.of('1 hour')"),
        (lambda: TumblingProcessingTimeWindows(None), "TumblingProcessingTimeWindows.of('1 hour')"),
        (lambda: SlidingEventTimeWindows(60, "5 minutes"), "SlidingEventTimeWindows.of('1 hour', '5 minutes')"),
        (lambda: CumulatingEventTimeWindows(86_400.0, 60), "CumulatingEventTimeWindows.of('1 day', '5 minutes')"),
        (lambda: EventTimeSessionWindows("30 minutes"), "EventTimeSessionWindows.with_gap('30 minutes')"),
    ],
)
def test_constructor_with_a_duration_suggests_the_factory_method(make, write):
    with pytest.raises(InvalidWindowError) as error:
        make()
    assert str(error.value).endswith(f"write {write}")
