"""Common behaviour of composed triggers: inner triggers, separate states, cleanup, and serialization."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import pytest

import panestream as pst
from panestream.engine.plan import WindowQuery
from panestream.engine.savepoint.recipes import recipe_json, recipe_of
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.functions import WindowFunctionError
from panestream.windowing.triggers.composition import all_parts
from tests.windowing.driven import Driven

CONTINUE, FIRE, PURGE, BOTH = pst.triggers.TriggerResult
SUM = pst.state.ReducingStateDescriptor("count", lambda a, b: a + b)
"""The name equals that of the count triggers' state."""


@dataclass(frozen=True)
class AtSum(pst.triggers.Trigger):
    """A user trigger that gives a result once the sum of rows is large enough. The cleanup timer alone would make it fire too."""

    enough: int
    says: pst.triggers.TriggerResult = FIRE

    def on_element(self, element, timestamp, window, ctx):
        total = ctx.get_partitioned_state(SUM)
        total.add(element)
        if total.get() < self.enough:
            return CONTINUE
        total.clear()
        return self.says

    def on_event_time(self, time, window, ctx):
        return FIRE

    def on_processing_time(self, time, window, ctx):
        return FIRE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(SUM)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(SUM).clear()


def test_inner_user_trigger_is_called_for_its_own_timers_only():
    driven = Driven(pst.TumblingEventTimeWindows(10), pst.AfterWatermark().early(AtSum(5)), lateness=5)
    assert [driven.element(1, value) for value in (3, 1, 1, 4)] == [[], [], [[3, 1, 1]], []]
    driven.restart()
    assert driven.watermark(9) == [[3, 1, 1, 4]]
    assert driven.watermark(99) == []
    assert driven.left == (0, 0)


@pytest.mark.parametrize(
    ("trigger", "can"),
    [
        (pst.triggers.AfterCount.of(1), True),
        (pst.triggers.AfterProcessingTime(1), True),
        (pst.AfterWatermark(), True),
        (pst.AfterWatermark().late(pst.triggers.AfterCount.of(1)), False),
        (pst.triggers.Repeatedly.of(pst.triggers.AfterCount.of(1)), False),
        (pst.triggers.AfterAny.of(pst.triggers.AfterCount.of(1), pst.CountTrigger.of(2)), True),
        (pst.triggers.AfterAny.of(pst.CountTrigger.of(2), pst.CountTrigger.of(3)), False),
        (pst.triggers.AfterAll.of(pst.triggers.AfterCount.of(1), pst.triggers.AfterCount.of(2)), True),
        (pst.triggers.AfterAll.of(pst.triggers.AfterCount.of(1), pst.CountTrigger.of(2)), False),
        (pst.triggers.AfterEach.of(pst.triggers.AfterCount.of(1), pst.triggers.AfterCount.of(1)), True),
        (pst.triggers.AfterEach.of(pst.triggers.AfterCount.of(1), pst.triggers.AfterCount.of(1), pst.CountTrigger.of(2)), False),
        (pst.triggers.AfterEach.of(pst.CountTrigger.of(2)), False),
        (pst.triggers.OrFinally.of(pst.CountTrigger.of(2), pst.CountTrigger.of(3)), True),
    ],
    ids=repr,
)
def test_triggers_declare_whether_they_can_finish(trigger, can):
    assert trigger.can_finish is can


def test_inner_triggers_have_separate_states_of_one_name():
    trigger = pst.AfterWatermark().early(
        pst.triggers.AfterAny.of(AtSum(100), pst.CountTrigger.of(3), pst.CountTrigger.of(4), AtSum(9))
    )
    driven = Driven(pst.TumblingEventTimeWindows(10), trigger)
    assert [driven.element(1, 2) for _ in range(3)] == [[], [], [[2, 2, 2]]]
    driven.restart()
    assert driven.element(1, 2) == [[2] * 4]
    assert driven.element(1, 2) == [[2] * 5], "the sum of ten"
    assert driven.element(1, 2) == [[2] * 6], "six rows"
    driven.end()
    assert driven.left == (0, 0)


@pytest.mark.parametrize(
    "around", [pst.triggers.AfterAny.of, pst.triggers.AfterAll.of, lambda one: pst.AfterWatermark().early(one)]
)
def test_inner_trigger_that_fires_and_purges_purges_the_window(around):
    driven = Driven(pst.TumblingEventTimeWindows(10), around(AtSum(5, BOTH)))
    assert [driven.element(1, value) for value in (3, 2, 3, 2)] == [[], [[3, 2]], [], [[3, 2]]]


def test_inner_trigger_may_purge_without_firing():
    driven = Driven(pst.TumblingEventTimeWindows(10), pst.AfterWatermark().early(AtSum(5, PURGE)))
    assert [driven.element(1, value) for value in (3, 2, 1)] == [[], [], []]
    assert driven.watermark(9) == [[1]]


def test_purging_trigger_around_a_composition_discards_fired_rows():
    trigger = pst.PurgingTrigger.of(pst.AfterWatermark().early(pst.triggers.AfterCount.of(2)))
    driven = Driven(pst.TumblingEventTimeWindows(10), trigger)
    assert [driven.element(1, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    driven.restart()
    assert driven.watermark(9) == [[3]]


@pytest.mark.parametrize(
    "around", [pst.triggers.Repeatedly.of, pst.triggers.AfterAll.of, pst.triggers.AfterAny.of, pst.triggers.AfterEach.of]
)
def test_purging_trigger_inside_a_composition_is_refused(around):
    with pytest.raises(InvalidWindowError, match=r"[Ll]eave it out inside: CountTrigger.of\(2\)"):
        around(pst.PurgingTrigger.of(pst.CountTrigger.of(2)))


def test_inner_triggers_with_timers_of_one_instant_are_all_called():
    trigger = pst.triggers.AfterAll.of(
        pst.triggers.EventTimeTrigger.create(), pst.triggers.EventTimeTrigger.create(), pst.AfterWatermark()
    )
    driven = Driven(pst.TumblingEventTimeWindows(10), trigger)
    driven.element(1, 1)
    driven.restart()
    assert driven.watermark(9) == [[1]]


def test_timer_stays_until_no_inner_trigger_needs_it():
    """The count trigger fires the first one, and both start again. The clear of the event-time trigger deletes its timer."""
    first = pst.triggers.Repeatedly.of(
        pst.triggers.AfterAny.of(pst.triggers.EventTimeTrigger.create(), pst.triggers.AfterCount.of(2))
    )
    driven = Driven(pst.TumblingEventTimeWindows(10), pst.triggers.AfterAny.of(first, pst.AfterWatermark()))
    driven.element(1, 1)
    assert driven.element(1, 2) == [[1, 2]]
    driven.restart()
    assert driven.watermark(9) == [[1, 2]]


def test_timeout_restarts_its_inner_trigger():
    trigger = pst.triggers.ProcessingTimeoutTrigger(pst.triggers.AfterCount.of(2), 10)
    driven = Driven(pst.GlobalWindows.create(), trigger)
    driven.element(0, 1)
    assert driven.clock(11) == [[1]]
    assert driven.element(0, 2) == []
    assert driven.left[0] == 1


def test_sessions_are_refused_if_an_inner_trigger_cannot_merge():
    part = pst.triggers.DeltaTrigger.of(1, lambda old, new: new - old)
    with pytest.raises(InvalidPlanError, match="whose windows merge"):
        Driven(pst.EventTimeSessionWindows(10), pst.AfterWatermark().early(part))
    Driven(pst.EventTimeSessionWindows(10), pst.AfterWatermark().early(AtSum(3)))


def test_inner_trigger_of_a_session_merges():
    driven = Driven(pst.EventTimeSessionWindows(10), pst.AfterWatermark().early(AtSum(5)))
    driven.element(0, 2)
    driven.element(15, 2)
    driven.restart()
    assert driven.element(8, 1) == [[2, 2, 1]]
    assert driven.watermark(24) == [[2, 2, 1]]
    assert driven.left == (0, 0)


def test_inner_trigger_without_a_result_is_an_error():
    class Wrong(AtSum):
        def on_element(self, element, timestamp, window, ctx):
            return None

    driven = Driven(pst.GlobalWindows.create(), pst.triggers.AfterAny.of(Wrong(1)))
    with pytest.raises((InvalidPlanError, WindowFunctionError), match="callbacks return a TriggerResult"):
        driven.element(0, 1)


ALL = [
    pst.AfterWatermark(),
    pst.AfterWatermark().early(pst.triggers.AfterCount.of(2)).late(pst.triggers.AfterProcessingTime.of("1 minute")),
    pst.triggers.AfterAll.of(pst.triggers.AfterCount.of(2), pst.triggers.Repeatedly.of(pst.CountTrigger.of(4))),
    pst.triggers.AfterEach.of(pst.triggers.AfterCount.of(2), pst.triggers.AfterAny.of(pst.AfterWatermark())),
    pst.triggers.OrFinally.of(pst.ContinuousEventTimeTrigger.of("1 minute"), pst.triggers.AfterCount.of(4)),
]


@pytest.mark.parametrize("trigger", ALL, ids=repr)
def test_composition_survives_pickle_json_and_repr(trigger):
    assert pickle.loads(pickle.dumps(trigger)) == trigger == copy.deepcopy(trigger)
    assert hash(pickle.loads(pickle.dumps(trigger))) == hash(trigger)
    assert recipe_of(recipe_json(trigger)) == trigger
    assert eval(repr(trigger), {name: getattr(pst.triggers, name) for name in pst.triggers.__all__}) == trigger


def test_inner_triggers_are_listed():
    trigger = pst.PurgingTrigger.of(pst.AfterWatermark().early(pst.triggers.ProcessingTimeoutTrigger(AtSum(2), 5)))
    assert [type(part).__name__ for part in all_parts(trigger)] == [
        "PurgingTrigger", "AfterWatermark", "ProcessingTimeoutTrigger", "AtSum"
    ]  # fmt: skip
    windows = pst.TumblingEventTimeWindows(10)
    assert WindowQuery(windows, trigger).sees_elements
    assert not WindowQuery(windows, ALL[1]).sees_elements
    delta = pst.triggers.DeltaTrigger.of(1, lambda old, new: new - old)
    assert WindowQuery(windows, pst.AfterWatermark().early(delta)).sees_elements
