"""Recipes: their repr rebuilds them, they refuse what Flink refuses, and one test per rule that the scenarios do not show."""

from __future__ import annotations

from datetime import timedelta

import pytest

from panestream.engine.operators.row.row_plan import Reduce, RowPlan
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.storage.state import MemoryState
from panestream.engine.window_spec import WindowSpec
from panestream.errors import InvalidDurationError, InvalidPlanError, InvalidWindowError
from panestream.windowing import assigners, evictors, triggers
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
    count_window,
    merge_touching,
)
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from panestream.windowing.time import MAX_TIMESTAMP
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TriggerResult,
)
from panestream.windowing.windows import GlobalWindow, TimeWindow


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
def test_the_repr_rebuilds_the_recipe(text):
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


@pytest.mark.parametrize(
    "build",
    [
        lambda: TumblingEventTimeWindows(0),
        lambda: TumblingProcessingTimeWindows(-1),
        lambda: TumblingEventTimeWindows(10, 10),
        lambda: TumblingEventTimeWindows(10, -10),
        lambda: SlidingEventTimeWindows(10, 0),
        lambda: SlidingEventTimeWindows(0, 10),
        lambda: SlidingProcessingTimeWindows(10, 5, 5),
        lambda: EventTimeSessionWindows(0),
        lambda: ProcessingTimeSessionWindows.with_gap("-1 second"),
        lambda: EventTimeSessionWindows("5 minutes"),
        lambda: CountTrigger(-1),
        lambda: CountTrigger(True),
        lambda: CountTrigger(1.5),
        lambda: ContinuousEventTimeTrigger(0),
        lambda: ContinuousProcessingTimeTrigger.of(timedelta(0)),
        lambda: ProcessingTimeoutTrigger(CountTrigger(1), -1),
        lambda: CountEvictor(-1),
        lambda: TimeEvictor(-1),
        lambda: count_window(-1),
        lambda: count_window(2, "3"),
        lambda: RowPlan(WindowSpec(TumblingEventTimeWindows(1)), Reduce(max), pages=0),
    ],
)
def test_what_makes_no_sense_is_refused(build):
    with pytest.raises(InvalidWindowError):
        build()


def test_durations_that_cannot_be_read_are_refused():
    with pytest.raises(InvalidDurationError, match="gap"):
        EventTimeSessionWindows.with_gap("soon")


def test_dynamic_gaps_are_durations_or_engine_units():
    windows = EventTimeSessionWindows.with_dynamic_gap(lambda element: element["gap"])
    assert windows.assign_windows({"gap": "2 seconds"}, 5, 0) == (TimeWindow(5, 2_000_005),)
    assert EventTimeSessionWindows(lambda element: element).assign_windows(7, 5, 0) == (TimeWindow(5, 12),)
    with pytest.raises(InvalidWindowError, match=r"must be positive .*, got '0 seconds' for 0"):
        EventTimeSessionWindows(lambda element: element).assign_windows(0, 5, 0)


def test_default_triggers():
    assert TumblingEventTimeWindows(5).get_default_trigger() == EventTimeTrigger.create()
    assert SlidingProcessingTimeWindows(5, 1).get_default_trigger() == ProcessingTimeTrigger.create()
    assert GlobalWindows.create().get_default_trigger() == NeverTrigger()
    assert count_window(5)[1:] == (PurgingTrigger(CountTrigger(5)), None)


def test_merge_touching():
    a, b, c = TimeWindow(0, 10), TimeWindow(10, 20), TimeWindow(21, 30)
    assert merge_touching([c, b, a]) == [(TimeWindow(0, 20), [a, b])]
    assert merge_touching([]) == []


def test_results_of_triggers():
    assert [(one.is_fire(), one.is_purge()) for one in TriggerResult] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]


def test_a_trigger_that_can_merge_but_does_not_say_how():
    class Half(NeverTrigger):
        def can_merge(self):
            return True

    with pytest.raises(InvalidPlanError, match="on_merge"):
        Half().on_merge(TimeWindow(0, 1), None)


# -------------------------------------------------------------------- stagger


def windows_of(stagger, *, group, clock=0, time=TumblingProcessingTimeWindows):
    """The start of the first window of a group, before and after a restart at another time."""
    plan, state = RowPlan(WindowSpec(time(100, 7, stagger), trigger=CountTrigger(1)), Reduce(max)), MemoryState()
    starts = []
    for now in (clock, clock + 1234):
        operator = RowOperator(plan, state, group)
        fired = operator.process([("k", now, 1)], processing_time=now).fired
        starts += [window.start for _, window, _, _ in fired]
        operator.commit()
    return starts


def test_aligned_and_natural_stagger():
    assert windows_of(WindowStagger.ALIGNED, group=3, clock=1000) == [907, 2207]
    first, second = windows_of(WindowStagger.NATURAL, group=3, clock=1042)
    assert first == 949, "42 + 7 behind a multiple of 100"
    assert (second - first) % 100 == 0, "a restart does not shift the windows"


@pytest.mark.parametrize("time", [TumblingProcessingTimeWindows, TumblingEventTimeWindows])
def test_random_stagger_spreads_the_groups_and_survives_restarts(time):
    shifts = set()
    for group in range(40):
        first, second = windows_of(WindowStagger.RANDOM, group=group, time=time)
        assert (second - first) % 100 == 0
        assert windows_of(WindowStagger.RANDOM, group=group, time=time) == [first, second]
        shifts.add(first % 100)
    assert len(shifts) > 25
    assert all(0 <= WindowStagger.RANDOM.get_stagger_offset(5, 7, group) < 7 for group in range(1000))


# -------------------------------------------------------------------- evictors


def elements(*values):
    return [TimestampedValue(value, value) for value in values]


def kept(evictor, *values, after=False):
    found = elements(*values)
    call = evictor.evict_after if after else evictor.evict_before
    return [one.value for one in call(found, len(found), GlobalWindow(), None)]


def test_count_evictor():
    assert kept(CountEvictor(2), 5, 1, 3) == [1, 3]
    assert kept(CountEvictor(3), 5, 1, 3) == [5, 1, 3]
    assert kept(CountEvictor(0), 5, 1, 3) == []
    assert kept(CountEvictor(2), 5, 1, 3, after=True) == [5, 1, 3]
    assert kept(CountEvictor(2, do_evict_after=True), 5, 1, 3) == [5, 1, 3]
    assert kept(CountEvictor(2, do_evict_after=True), 5, 1, 3, after=True) == [1, 3]


def test_time_evictor():
    assert kept(TimeEvictor(4), 9, 5, 6, 1) == [9, 6]
    assert kept(TimeEvictor(0), 9, 9) == []
    assert kept(TimeEvictor(4)) == []


def test_delta_evictor():
    assert kept(DeltaEvictor(3.0, lambda element, last: last - element), 1, 7, 4, 5, 7) == [7, 5, 7]
    assert kept(DeltaEvictor(0.0, lambda element, last: last - element), 7) == []


def test_an_evictor_that_evicts_nothing():
    assert kept(Evictor(), 1, 2) == kept(Evictor(), 1, 2, after=True) == [1, 2]


def test_the_end_of_time():
    assert GlobalWindow().max_timestamp() == MAX_TIMESTAMP


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
def test_a_constructor_given_a_duration_says_what_to_write(make, write):
    with pytest.raises(InvalidWindowError) as error:
        make()
    assert str(error.value).endswith(f"write {write}")
