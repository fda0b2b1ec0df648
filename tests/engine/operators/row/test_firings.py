"""Firing information of the row operator's results: kind, number and whether it is the last, across restarts and merges."""

from __future__ import annotations

import pytest

from panestream.engine.operators.row.contents import KeepRows, RowPlan
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.functions import applied
from panestream.windowing.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger, TriggerResult

TWICE = KeepRows(applied(lambda key, window, rows: [len(rows), -len(rows)] if len(rows) != 3 else []))
"""Emits two results for a firing, or none if there are three rows."""


COUNT = CountTrigger.of(2)


class EarlyAndAtEndTrigger(EventTimeTrigger):
    """Fires at every second element and at the end."""

    def on_element(self, element, timestamp, window, ctx):
        at_end = super().on_element(element, timestamp, window, ctx)
        return max(at_end, COUNT.on_element(element, timestamp, window, ctx), key=lambda result: result.value)

    def clear(self, window, ctx):
        super().clear(window, ctx)
        COUNT.clear(window, ctx)


def firings(plan: RowPlan, *steps) -> list[list[tuple]]:
    """Return (value, *firing) for each step (rows, watermark, clock). Each step has a new operator."""
    state, firings_by_step = MemoryState(), []
    for rows, watermark, clock in steps:
        operator = RowOperator(plan, state)
        output = operator.process([("k", time, time) for time in rows], watermark, clock)
        operator.commit()
        assert len(output.fired) == len(output.firings)
        firings_by_step.append([(result[2], *firing) for result, firing in zip(output.fired, output.firings, strict=True)])
    return firings_by_step


def test_firings_are_early_on_time_or_late():
    plan = RowPlan(
        WindowQuery(TumblingEventTimeWindows(10), trigger=EarlyAndAtEndTrigger(), allowed_lateness=5), TWICE, numbers_firings=True
    )
    first, second, third, fourth = firings(plan, ([1, 2], 3, None), ([4, 5], 9, None), ([6], 12, None), ([], 14, None))
    assert first == [(2, "early", 0, False), (-2, "early", 0, False)]
    assert second == [(value, word, number, False) for word, number in (("early", 1), ("on_time", 2)) for value in (4, -4)]
    assert third == [(5, "late", 3, False), (-5, "late", 3, False)]
    assert fourth == []


def test_firing_without_results_is_not_numbered():
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10), allowed_lateness=5), TWICE, numbers_firings=True)
    assert firings(plan, ([1, 2, 3], 9, None), ([4], None, None)) == [[], [(4, "late", 0, False), (-4, "late", 0, False)]]


@pytest.mark.parametrize("trigger", [None, PurgingTrigger.of(EventTimeTrigger.create())])
def test_last_firing_is_marked_when_the_window_closes(trigger):
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10), trigger=trigger, allowed_lateness=5), TWICE, numbers_firings=True)
    assert [firing[1:] for firing in firings(plan, ([1], 20, None))[0]] == [("on_time", 0, True)] * 2
    plan = RowPlan(WindowQuery(TumblingEventTimeWindows(10), trigger=trigger), TWICE, numbers_firings=True)
    assert [firing[1:] for firing in firings(plan, ([1], 9, None))[0]] == [("on_time", 0, True)] * 2


def test_firing_numbers_restart_when_a_session_grows():
    plan = RowPlan(WindowQuery(EventTimeSessionWindows(10), trigger=CountTrigger.of(1)), TWICE, numbers_firings=True)
    assert [[firing[1:] for firing in step[::2]] for step in firings(plan, ([1], None, None), ([1], None, None), ([3], None, None))] == [
        [("early", 0, False)], [("early", 1, False)], [],
    ]  # fmt: skip


def test_firings_of_processing_time_windows():
    plan = RowPlan(WindowQuery(TumblingProcessingTimeWindows(10)), TWICE, numbers_firings=True)
    assert [firing[1:] for firing in firings(plan, ([1], None, 5), ([], None, 10))[1]] == [("on_time", 0, True)] * 2


def test_firings_of_a_global_window_are_early_and_numbered_across_purges():
    plan = RowPlan(
        WindowQuery(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(2)), evictor=CountEvictor(5)),
        TWICE,
        numbers_firings=True,
    )
    steps = firings(plan, ([1, 2], 100, None), ([3], 200, None), ([4], 300, None))
    assert steps == [[(2, "early", 0, False), (-2, "early", 0, False)], [], [(2, "early", 1, False), (-2, "early", 1, False)]]


def test_firing_numbers_continue_if_the_operator_is_reused():
    operator = RowOperator(
        RowPlan(WindowQuery(TumblingEventTimeWindows(10), allowed_lateness=5), TWICE, numbers_firings=True), MemoryState()
    )
    assert operator.process([("k", 1, 1)], 9).firings == [("on_time", 0, False)] * 2
    assert operator.process([("k", 2, 2)]).firings == [("late", 1, False)] * 2


class ClockTrigger(Trigger):
    """Fires an event-time window by the clock, one tick after each element."""

    uses_processing_time = True

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_processing_time_timer(ctx.get_current_processing_time() + 1)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def clear(self, window, ctx):
        pass


def test_event_time_decides_whether_a_clock_timer_fires_early_or_late():
    plan = RowPlan(
        WindowQuery(TumblingEventTimeWindows(10), trigger=ClockTrigger(), allowed_lateness=100), TWICE, numbers_firings=True
    )
    steps = firings(plan, ([1], 3, 2), ([], None, 5), ([2], 20, 6), ([], None, 9))
    assert [[firing[1:] for firing in step[:1]] for step in steps] == [[], [("early", 0, False)], [], [("late", 1, False)]]
