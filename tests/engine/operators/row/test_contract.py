"""The calls that the row operator makes, their order and number, and the state that is left. Modelled on Flink's
WindowOperatorContractTest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.testing import LateElement, WindowResult, WindowTestHarness
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from panestream.windowing.evictors import Evictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction, WindowFunction, WindowFunctionError
from panestream.windowing.state import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from panestream.windowing.windows import GlobalWindow, TimeWindow

CONTINUE, FIRE, PURGE, BOTH = TriggerResult
SEEN = ReducingStateDescriptor("seen", lambda a, b: a + b)


@dataclass
class ScriptedTrigger(Trigger):
    """A trigger that returns what a test sets and records every call."""

    element: object = CONTINUE
    event: object = CONTINUE
    clock: object = CONTINUE
    merges: bool = True
    on: dict = field(default_factory=dict)  # actions (window, ctx) by name of the callback
    calls: list = field(default_factory=list)
    uses_processing_time = True  # a test may register processing timers

    def _called(self, name, window, ctx, answer, *noted):
        self.calls.append((name, window, *noted))
        if name in self.on:
            self.on[name](window, ctx)
        return answer(window) if callable(answer) else answer

    def on_element(self, element, timestamp, window, ctx):
        return self._called("element", window, ctx, self.element, element, timestamp)

    def on_event_time(self, time, window, ctx):
        return self._called("event", window, ctx, self.event, time)

    def on_processing_time(self, time, window, ctx):
        return self._called("clock", window, ctx, self.clock, time)

    def can_merge(self):
        return self.merges

    def on_merge(self, window, ctx):
        self._called("merge", window, ctx, None)

    def clear(self, window, ctx):
        self._called("clear", window, ctx, None)

    def calls_of(self, name):
        return [call[1:] for call in self.calls if call[0] == name]


@dataclass
class FixedAssigner(WindowAssigner):
    """An assigner that returns fixed windows and records every call."""

    windows: list
    is_event_time: bool = True
    calls: list = field(default_factory=list)

    def assign_windows(self, element, timestamp, processing_time):
        self.calls.append((element, timestamp, processing_time))
        return self.windows


@dataclass
class RecordingFunction(ProcessWindowFunction):
    """A function that emits the elements and records every call."""

    calls: list = field(default_factory=list)
    then: object = None

    def process(self, key, context, elements):
        self.calls.append(("process", key, context.window(), list(elements)))
        if self.then:
            self.then(context)
        return [list(elements)]

    def clear(self, context):
        self.calls.append(("clear", context.window()))


W1, W2 = TimeWindow(0, 10), TimeWindow(5, 15)


@pytest.fixture(params=["reduce", "aggregate", "elements", "evictor"])
def function(request):
    """Return one of the four ways to hold the contents of a window. The protocol around them is the same."""
    holders = {
        "reduce": (ReduceRows(lambda a, b: a + b), None),
        "aggregate": (AggregateRows(Sum()), None),
        "elements": (KeepRows(SumOfElements()), None),
        "evictor": (ReduceRows(lambda a, b: a + b), Evictor()),
    }
    return holders[request.param]


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class SumOfElements(WindowFunction):
    def apply(self, key, window, inputs):
        yield sum(inputs)


def harness_of(assigner, function, trigger, allowed_lateness=0, **options):
    parts, evictor = function
    return WindowTestHarness.of_plan(RowPlan(WindowQuery(assigner, trigger, evictor, allowed_lateness), parts, **options))


def values(harness):
    return [(result.window, result.value) for result in harness.extract_output()]


def test_assigner_is_called_once_per_element(function):
    assigner = FixedAssigner([W1])
    harness = harness_of(assigner, function, ScriptedTrigger())
    harness.set_processing_time(77)
    harness.process_element(5, 3, "k")
    harness.process_element(6, 4, "k")
    assert assigner.calls == [(5, 3, 77), (6, 4, 77)]


def test_windows_of_one_element_do_not_interfere(function):
    trigger = ScriptedTrigger(element=lambda window: FIRE if window == W1 else CONTINUE)
    harness = harness_of(FixedAssigner([W1, W2]), function, trigger)
    harness.process_element(1, 6, "k")
    harness.process_element(2, 7, "k")
    assert values(harness) == [(W1, 1), (W1, 3)]
    trigger.element = FIRE
    harness.process_element(4, 7, "k")
    assert values(harness) == [(W1, 7), (W2, 7)]


def test_element_without_window_leaves_no_state(function):
    harness = harness_of(FixedAssigner([]), function, trigger := ScriptedTrigger())
    harness.process_element(5, 3, "k")
    assert (trigger.calls, harness.num_timers(), harness.num_state_entries(), harness.late_dropped) == ([], 0, 0, 0)


def test_on_element_is_called_once_per_window_after_the_element_is_added(function):
    trigger = ScriptedTrigger(element=FIRE)
    harness = harness_of(FixedAssigner([W2, W1]), function, trigger)
    harness.process_element(1, 6, "k")
    assert trigger.calls_of("element") == [(W2, 1, 6), (W1, 1, 6)]
    assert values(harness) == [(W2, 1), (W1, 1)]


def test_keys_do_not_interfere(function):
    harness = harness_of(FixedAssigner([W1]), function, ScriptedTrigger(event=FIRE))
    harness.process_element(1, 1, "a")
    harness.process_element(2, 1, "b")
    harness.process_element(3, 1, "a")
    harness.process_watermark(9)
    assert sorted(harness.extract_output()) == [WindowResult("a", W1, 4, 9), WindowResult("b", W1, 2, 9)]


RESULTS = {CONTINUE: (0, 1), FIRE: (1, 1), PURGE: (0, 0), BOTH: (1, 0)}


@pytest.mark.parametrize("result", RESULTS)
def test_each_trigger_result_of_on_element(function, result):
    harness = harness_of(FixedAssigner([W1]), function, ScriptedTrigger(element=result))
    harness.process_element(7, 1, "k")
    fired, entries = RESULTS[result]
    assert (len(harness.extract_output()), harness.num_state_entries()) == (fired, entries)
    assert harness.num_timers() == 1, "the cleanup timer stays, whatever the trigger says"


@pytest.mark.parametrize("result", RESULTS)
def test_each_trigger_result_of_an_event_time_timer(function, result):
    trigger = ScriptedTrigger(event=result, on={"element": lambda window, ctx: ctx.register_event_time_timer(4)})
    harness = harness_of(FixedAssigner([W1]), function, trigger)
    harness.process_element(7, 1, "k")
    assert harness.num_timers() == 2
    harness.process_watermark(4)
    fired, entries = RESULTS[result]
    assert (len(harness.extract_output()), harness.num_state_entries(), harness.num_timers()) == (fired, entries, 1)
    assert trigger.calls_of("event") == [(W1, 4)]


@pytest.mark.parametrize("result", RESULTS)
def test_each_trigger_result_of_a_processing_time_timer(function, result):
    trigger = ScriptedTrigger(clock=result, on={"element": lambda window, ctx: ctx.register_processing_time_timer(4)})
    harness = harness_of(FixedAssigner([W1]), function, trigger)
    harness.process_element(7, 1, "k")
    harness.set_processing_time(4)
    assert not trigger.calls_of("clock"), "a timer for 4 runs when the clock is past 4"
    harness.set_processing_time(5)
    fired, entries = RESULTS[result]
    assert (len(harness.extract_output()), harness.num_state_entries(), harness.num_timers()) == (fired, entries, 1)
    assert trigger.calls_of("clock") == [(W1, 4)]


def test_purging_trigger_purges_only_when_it_fires(function):
    trigger = ScriptedTrigger()
    harness = harness_of(FixedAssigner([W1]), function, PurgingTrigger(trigger))
    for result, entries, fired in ((CONTINUE, 1, 0), (PURGE, 0, 0), (FIRE, 0, 1), (CONTINUE, 1, 0), (BOTH, 0, 1)):
        trigger.element = result
        harness.process_element(7, 1, "k")
        assert (harness.num_state_entries(), len(harness.extract_output())) == (entries, fired)


def test_purged_window_fires_only_later_elements(function):
    trigger = ScriptedTrigger(element=PURGE)
    harness = harness_of(FixedAssigner([W1]), function, trigger)
    harness.process_element(7, 1, "k")
    trigger.element = FIRE
    harness.process_element(8, 2, "k")
    assert values(harness) == [(W1, 8)]


def test_empty_window_does_not_fire(function):
    trigger = ScriptedTrigger(element=PURGE, event=FIRE, on={"element": lambda window, ctx: ctx.register_event_time_timer(4)})
    harness = harness_of(FixedAssigner([W1]), function, trigger)
    harness.process_element(7, 1, "k")
    harness.process_watermark(100)
    assert harness.extract_output() == []
    assert trigger.calls_of("event") == [(W1, 4), (W1, 9)]


def test_cleanup_timer_calls_the_trigger_then_clears_it_once(function):
    harness = harness_of(FixedAssigner([W1]), function, trigger := ScriptedTrigger(), allowed_lateness=5)
    harness.process_element(7, 1, "k")
    harness.process_element(7, 2, "k")
    harness.process_watermark(13)
    assert (trigger.calls_of("event"), trigger.calls_of("clear"), harness.num_state_entries()) == ([], [], 1)
    harness.process_watermark(14)
    assert trigger.calls[2:] == [("event", W1, 14), ("clear", W1)]
    assert (harness.num_state_entries(), harness.num_timers()) == (0, 0)


def test_processing_time_window_is_cleaned_up_by_the_clock(function):
    harness = harness_of(
        FixedAssigner([W1], is_event_time=False), function, trigger := ScriptedTrigger(clock=FIRE), allowed_lateness=1000
    )
    harness.process_element(7, -500, "k")
    harness.process_watermark(10_000)
    assert trigger.calls_of("event") == []
    harness.set_processing_time(10)
    assert trigger.calls[1:] == [("clock", W1, 9), ("clear", W1)]
    assert (values(harness), harness.num_state_entries(), harness.num_timers()) == ([(W1, 7)], 0, 0)


def test_timers_run_once_in_order_and_past_ones_at_the_next_watermark(function):
    def register(window, ctx):
        for time in (8, 3, 5, 3, 4):
            ctx.register_event_time_timer(time)
        ctx.delete_event_time_timer(4)

    harness = harness_of(FixedAssigner([W1]), function, trigger := ScriptedTrigger(on={"element": register}))
    harness.process_watermark(4)
    harness.process_element(7, 1, "k")
    assert trigger.calls_of("event") == []
    harness.process_watermark(4)
    assert trigger.calls_of("event") == [], "a watermark that does not advance is none"
    harness.process_watermark(5)
    assert [time for _, time in trigger.calls_of("event")] == [3, 5]
    harness.process_watermark(8)
    assert [time for _, time in trigger.calls_of("event")] == [3, 5, 8]


def test_watermark_and_clock_never_go_back(function):
    harness = harness_of(FixedAssigner([W1]), function, ScriptedTrigger())
    for move, current in (
        (harness.process_watermark, lambda: harness.current_watermark),
        (harness.set_processing_time, lambda: harness.current_processing_time),
    ):
        move(5)
        move(3)
        assert current() == 5


def test_timers_registered_by_a_timer_run_at_the_same_watermark(function):
    def again(window, ctx):
        if len(trigger.calls_of("event")) < 4:
            ctx.register_event_time_timer(trigger.calls_of("event")[-1][1] + 1)

    trigger = ScriptedTrigger(on={"element": lambda window, ctx: ctx.register_event_time_timer(2), "event": again})
    harness = harness_of(FixedAssigner([W1]), function, trigger)
    harness.process_element(7, 1, "k")
    harness.process_watermark(8)
    assert [time for _, time in trigger.calls_of("event")] == [2, 3, 4, 5]


def test_timers_of_different_keys_and_windows_run_in_time_order(function):
    trigger = ScriptedTrigger(on={"element": lambda window, ctx: ctx.register_event_time_timer(window.start + 1)})
    harness = harness_of(TumblingEventTimeWindows(10), function, trigger)
    for ts, key in ((21, "a"), (1, "b"), (11, "c")):
        harness.process_element(1, ts, key)
    harness.process_watermark(25)
    assert [time for _, time in trigger.calls_of("event")] == [1, 9, 11, 19, 21]


def test_past_processing_time_timer_runs_in_the_same_step(function):
    trigger = ScriptedTrigger(clock=FIRE, on={"element": lambda window, ctx: ctx.register_processing_time_timer(4)})
    harness = harness_of(FixedAssigner([W1]), function, trigger)
    harness.set_processing_time(5)
    harness.process_element(7, 1, "k")
    assert values(harness) == [(W1, 7)]


def test_trigger_state_belongs_to_one_window_and_is_deleted_with_it(function):
    counts = []

    def count(window, ctx):
        state = ctx.get_partitioned_state(SEEN)
        state.add(1)
        counts.append((window, state.get()))

    harness = harness_of(FixedAssigner([W1, W2]), function, ScriptedTrigger(element=PURGE, on={"element": count}))
    harness.process_element(7, 6, "k")
    harness.process_element(7, 6, "k")
    assert counts == [(W1, 1), (W2, 1), (W1, 2), (W2, 2)], "a purge leaves it alone"
    assert harness.num_state_entries() == 2
    harness.process_watermark(9)
    assert harness.num_state_entries() == 1
    harness.process_watermark(14)
    assert harness.num_state_entries() == 0, "even though this trigger never clears it"


def test_trigger_sees_watermark_and_clock(function):
    times = []
    look = {"element": lambda window, ctx: times.append((ctx.get_current_watermark(), ctx.get_current_processing_time()))}
    harness = harness_of(FixedAssigner([W1]), function, ScriptedTrigger(on=look))
    harness.process_element(7, 1, "k")
    harness.process_watermark(3)
    harness.set_processing_time(8)
    harness.process_element(7, 1, "k")
    assert times == [(MIN_TIMESTAMP, 0), (3, 8)]


def test_state_is_cleared_though_the_trigger_deletes_the_cleanup_timer(function):
    delete = {
        "event": lambda window, ctx: ctx.delete_event_time_timer(9),
        "element": lambda w, ctx: ctx.register_event_time_timer(4),
    }
    harness = harness_of(FixedAssigner([W1]), function, trigger := ScriptedTrigger(on=delete))
    harness.process_element(7, 1, "k")
    harness.process_watermark(20)
    assert trigger.calls_of("event") == [(W1, 4)]
    assert len(trigger.calls_of("clear")) == 1
    assert (harness.num_state_entries(), harness.num_timers()) == (0, 0)


def test_window_with_lateness_beyond_the_end_of_time_is_cleared_without_firing(function):
    harness = harness_of(FixedAssigner([W1]), function, trigger := ScriptedTrigger(), allowed_lateness=2**63)
    harness.process_element(7, 1, "k")
    harness.process_watermark(2**62)
    assert harness.num_state_entries() == 1
    harness.end_of_input()
    assert (trigger.calls_of("event"), len(trigger.calls_of("clear"))) == ([], 1)
    assert (harness.num_state_entries(), harness.num_timers()) == (0, 0)


# -------------------------------------------------------------------- lateness


def test_lateness_is_checked_for_each_window_of_an_element(function):
    harness = harness_of(SlidingEventTimeWindows(10, 5), function, EventTimeTrigger(), allowed_lateness=2, late_output="late")
    harness.process_watermark(10)  # [0, 10) closes at 11
    harness.process_element(1, 6, "k")
    assert values(harness) == [(TimeWindow(0, 10), 1)]
    harness.process_watermark(11)
    harness.process_element(2, 6, "k")
    harness.process_element(3, 4, "k")
    assert harness.extract_late_elements() == [LateElement("k", 4, 3)]
    assert harness.late_dropped == 0
    harness.process_watermark(14)
    assert values(harness) == [(TimeWindow(5, 15), 3)]


def test_late_elements_without_a_late_output_are_counted(function):
    harness = harness_of(TumblingEventTimeWindows(10), function, EventTimeTrigger())
    harness.process_watermark(9)
    harness.process_element(1, 9, "k")
    harness.process_element(1, 10, "k")
    assert (harness.extract_late_elements(), harness.late_dropped) == ([], 1)
    harness.restore(harness.snapshot())
    assert harness.late_dropped == 1


def test_late_element_does_not_reopen_a_closed_window(function):
    harness = harness_of(FixedAssigner([W1]), function, trigger := ScriptedTrigger(), allowed_lateness=3)
    harness.process_watermark(12)
    harness.process_element(7, 1, "k")
    assert (trigger.calls, harness.num_state_entries(), harness.num_timers(), harness.late_dropped) == ([], 0, 0, 1)


def test_nothing_is_late_without_event_time(function):
    harness = harness_of(GlobalWindows.create(), function, ScriptedTrigger(element=FIRE))
    harness.process_watermark(1000)
    harness.process_element(7, 1, "k")
    assert values(harness) == [(GlobalWindow(), 7)]
    assert harness.num_timers() == 0


# -------------------------------------------------------------------- merging


def test_on_merge_comes_before_on_element_and_the_old_windows_are_cleared(function):
    harness = harness_of(EventTimeSessionWindows(10), function, trigger := ScriptedTrigger(element=FIRE))
    harness.process_element(1, 0, "k")
    harness.process_element(2, 20, "k")
    trigger.calls.clear()
    harness.process_element(4, 10, "k")
    whole = TimeWindow(0, 30)
    assert trigger.calls == [
        ("merge", whole),
        ("clear", TimeWindow(0, 10)),
        ("clear", TimeWindow(20, 30)),
        ("element", whole, 4, 10),
    ]
    assert values(harness)[-1] == (whole, 7)
    assert harness.num_timers() == 1
    assert harness.num_state_entries() == 2, "the contents, and the session's place"


def test_element_inside_a_session_merges_nothing(function):
    harness = harness_of(EventTimeSessionWindows(10), function, trigger := ScriptedTrigger())
    harness.process_element(1, 0, "k")
    harness.process_element(2, 5, "k")
    trigger.calls.clear()
    harness.process_element(4, 3, "k")
    harness.process_element(4, 0, "k")
    assert [call[0] for call in trigger.calls] == ["element", "element"]


def test_trigger_state_of_merged_windows_is_lost_unless_the_trigger_merges_it(function):
    counts = []
    actions = {
        "element": lambda window, ctx: (
            ctx.get_partitioned_state(SEEN).add(1),
            counts.append(ctx.get_partitioned_state(SEEN).get()),
        ),
        "merge": lambda window, ctx: ctx.merge_partitioned_state(SEEN),
    }
    for times, expected in (((0, 20, 10), [1, 1, 3]), ((0, 5, 8), [1, 2, 3])):
        counts.clear()
        harness = harness_of(EventTimeSessionWindows(10), function, ScriptedTrigger(on=actions))
        for ts in times:
            harness.process_element(1, ts, "k")
        assert counts == expected
    del actions["merge"]
    counts.clear()
    harness = harness_of(EventTimeSessionWindows(10), function, ScriptedTrigger(on=actions))
    for ts in (0, 20, 10):
        harness.process_element(1, ts, "k")
    assert counts == [1, 1, 1]


def test_merged_session_keeps_no_timers_of_the_old_windows(function):
    harness = harness_of(EventTimeSessionWindows(10), function, trigger := ScriptedTrigger(event=FIRE))
    for ts in (0, 5, 9):
        harness.process_element(1, ts, "k")
    harness.process_watermark(17)
    assert trigger.calls_of("event") == []
    harness.process_watermark(18)
    assert trigger.calls_of("event") == [(TimeWindow(0, 19), 18)]
    assert (harness.num_state_entries(), harness.num_timers()) == (0, 0)


def test_fast_session_loop_and_general_protocol_can_alternate():
    operator = RowOperator(RowPlan(WindowQuery(EventTimeSessionWindows(10)), ReduceRows(lambda a, b: a + b)), MemoryState())
    operator.elements([("k", 0, 1)])
    operator.element("k", 100, 2)
    operator.elements([("k", 95, 4), ("k", 50, 8)])
    fired = operator.process([], new_watermark=1000).fired
    assert [(window, value) for _, window, value, _ in fired] == [
        (TimeWindow(0, 10), 1),
        (TimeWindow(50, 60), 8),
        (TimeWindow(95, 110), 6),
    ]


@pytest.mark.parametrize("times", [(0, 5, 9), (9, 5, 0), (0, 20, 10)])
def test_growing_session_has_at_most_two_timers(function, times):
    harness = harness_of(EventTimeSessionWindows(10), function, EventTimeTrigger(), allowed_lateness=3)
    for ts in times:
        harness.process_element(1, ts, "k")
    assert harness.num_timers() == 2, "its end and its cleanup"


def test_purged_session_keeps_its_bounds(function):
    trigger = ScriptedTrigger(element=BOTH)
    harness = harness_of(EventTimeSessionWindows(10), function, trigger)
    harness.process_element(1, 0, "k")
    assert harness.num_state_entries() == 1
    harness.restore(harness.snapshot())
    harness.process_element(2, 8, "k")
    assert values(harness) == [(TimeWindow(0, 18), 2)]


@dataclass(frozen=True)
class Blocks(MergingWindowAssigner):
    """Merges all windows within a block of 100 if there are at least three of them."""

    is_event_time = True

    def assign_windows(self, element, timestamp, processing_time):
        return [TimeWindow(timestamp, timestamp + 1)]

    def merge_windows(self, windows):
        blocks = {}
        for window in windows:
            blocks.setdefault(window.start // 100, []).append(window)
        for block, members in blocks.items():
            if len(members) > 2:
                yield TimeWindow(block * 100, block * 100 + 100), members


def test_user_assigner_may_merge_windows(function):
    harness = harness_of(Blocks(), function, EventTimeTrigger())
    for ts in (110, 20, 150, 120, 30):
        harness.process_element(ts, ts, "k")
    harness.process_watermark(1000)
    assert values(harness) == [(TimeWindow(20, 21), 20), (TimeWindow(30, 31), 30), (TimeWindow(100, 200), 380)]
    assert (harness.num_state_entries(), harness.num_timers()) == (0, 0)


def test_wrong_merge_of_a_user_assigner_is_refused(function):
    @dataclass(frozen=True)
    class Wrong(EventTimeSessionWindows):
        answer: object = None

        def merge_windows(self, windows):
            return self.answer(windows)

    for answer, message in (
        (lambda windows: [(TimeWindow(-5, 99), windows), (TimeWindow(-6, 99), windows)], "twice"),
        (lambda windows: [(TimeWindow(-5, 99), [TimeWindow(1, 2)])], "was not given"),
        (lambda windows: [(TimeWindow(3, 4), windows)], "closed at watermark 5"),
    ):
        harness = harness_of(Wrong(10, answer), function, EventTimeTrigger())
        harness.process_watermark(5)
        harness.process_element(1, 0, "k")
        with pytest.raises(InvalidWindowError, match=message):
            harness.process_element(1, 20, "k")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([(0, 10)], r"Assigns\(.*\) assigned \(0, 10\): assign_windows\(\) returns windows"),
        (["day"], "assigned 'day'"),
        ([TimeWindow(0.5, 10)], r"assigned \[0.5, 10\): windows begin and end at integers"),
        ([TimeWindow(0, 10.0)], r"assigned \[0, 10.0\): windows begin and end at integers"),
        (None, "the assigner raised TypeError: 'NoneType' object is not iterable"),
        (TimeWindow(0, 10), "the assigner raised TypeError: 'TimeWindow' object is not iterable"),
    ],
)
def test_assigner_that_returns_other_than_windows_is_refused(function, answer, message):
    @dataclass(frozen=True)
    class Assigns(WindowAssigner):
        answer: object
        is_event_time = True

        def assign_windows(self, element, timestamp, processing_time):
            return self.answer

    harness = harness_of(Assigns(answer), function, EventTimeTrigger())
    with pytest.raises((InvalidWindowError, WindowFunctionError), match=message):
        harness.process_element(1, 0, "k")


@pytest.mark.parametrize("kind", ["event", "processing"])
@pytest.mark.parametrize("time", [4.5, "4 seconds", None])
def test_timer_that_is_not_an_integer_is_refused_when_registered(function, kind, time):
    trigger = ScriptedTrigger(on={"element": lambda window, ctx: getattr(ctx, f"register_{kind}_time_timer")(time)})
    harness = harness_of(TumblingEventTimeWindows(10), function, trigger)
    with pytest.raises(WindowFunctionError, match=r"on_element of the trigger raised TypeError: .* as an integer"):
        harness.process_element(7, 1, "k")


def test_error_of_merge_windows_names_the_key(function):
    class Broken(Blocks):
        def merge_windows(self, windows):
            raise ValueError("of mine")

    harness = harness_of(Broken(), function, EventTimeTrigger())
    harness.process_element(1, 20, "k")
    with pytest.raises(WindowFunctionError, match=r"merge_windows of the assigner raised ValueError: of mine \(at key 'k'\)"):
        harness.process_element(1, 30, "k")


@pytest.mark.parametrize("method", ["evict_before", "evict_after"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda elements: None, "returned None: it returns a list of the elements that stay"),
        (lambda elements: [element.value for element in elements], r"returned \[7\]: it returns a list"),
        (lambda elements: (element for element in elements), "returned <generator"),
        (lambda elements: 1 // 0, r"of the evictor raised ZeroDivisionError: .* \(at key 'k', window TimeWindow"),
    ],
)
def test_error_of_an_evictor_names_its_method(function, method, answer, message):
    evictor = type("Mine", (Evictor,), {method: lambda self, elements, size, window, ctx: answer(elements)})()
    window = WindowQuery(TumblingEventTimeWindows(10), ScriptedTrigger(element=FIRE), evictor)
    harness = WindowTestHarness.of_plan(RowPlan(window, function[0]))
    with pytest.raises((InvalidPlanError, WindowFunctionError), match=f"{method} .*{message}"):
        harness.process_element(7, 1, "k")


# -------------------------------------------------------------------- functions


def test_process_function_is_called_per_firing_and_cleared_only_at_cleanup():
    function = RecordingFunction()
    trigger = ScriptedTrigger(element=BOTH)
    harness = WindowTestHarness.of_plan(RowPlan(WindowQuery(FixedAssigner([W1]), trigger=trigger), KeepRows(function)))
    harness.process_element(7, 1, "k")
    harness.process_element(8, 1, "k")
    assert function.calls == [("process", "k", W1, [7]), ("process", "k", W1, [8])]
    harness.process_watermark(9)
    assert function.calls[2:] == [("clear", W1)]


def test_function_after_reduce_or_aggregate_gets_one_result():
    for part in (
        ReduceRows(lambda a, b: a + b, function := RecordingFunction()),
        AggregateRows(Sum(), function_2 := RecordingFunction()),
    ):
        harness = WindowTestHarness.of_plan(RowPlan(WindowQuery(FixedAssigner([W1])), part))
        harness.process_element(7, 1, "k")
        harness.process_element(8, 1, "k")
        harness.process_watermark(9)
    assert function.calls == function_2.calls == [("process", "k", W1, [15]), ("clear", W1)]


def test_process_function_has_window_and_global_state_side_outputs_and_time():
    count, log = ValueStateDescriptor("count"), ListStateDescriptor("log")

    def then(context):
        state = context.window_state().get_state(count)
        state.update((state.value() or 0) + 1)
        context.global_state().get_list_state(log).add(context.window().start)
        states = (state.value(), context.global_state().get_list_state(log).get())
        context.output("side", (*states, context.current_watermark(), context.current_processing_time()))

    trigger = ScriptedTrigger(element=FIRE)
    harness = WindowTestHarness.of_plan(
        RowPlan(WindowQuery(TumblingEventTimeWindows(10), trigger=trigger), KeepRows(RecordingFunction(then=then)))
    )
    harness.set_processing_time(77)
    harness.process_element(7, 1, "k")
    harness.restore(harness.snapshot())
    harness.process_element(7, 1, "k")
    harness.process_watermark(9)
    harness.process_element(7, 11, "k")
    assert harness.extract_side_output("side") == [
        WindowResult("k", W1, (2, [0, 0], MIN_TIMESTAMP, 77), 9),
        WindowResult("k", TimeWindow(10, 20), (1, [0, 0, 10], 9, 77), 19),
    ]
    assert harness.extract_side_output("side") == harness.extract_side_output("other") == []
    harness.end_of_input()
    assert (harness.num_state_entries(), harness.num_key_state_entries()) == (0, 1)


def test_sessions_have_no_window_state():
    plan = RowPlan(
        WindowQuery(EventTimeSessionWindows(5)), KeepRows(RecordingFunction(then=lambda context: context.window_state()))
    )
    harness = WindowTestHarness.of_plan(plan)
    harness.process_element(7, 1, "k")
    with pytest.raises(InvalidPlanError, match="global_state"):
        harness.process_watermark(100)


def test_error_of_a_function_names_key_window_and_number_of_elements():
    def fail(context):
        raise KeyError("price")

    harness = WindowTestHarness.of_plan(
        RowPlan(WindowQuery(TumblingEventTimeWindows(10)), KeepRows(RecordingFunction(then=fail)))
    )
    harness.process_element(7, 1, "shop")
    harness.process_element(7, 2, "shop")
    with pytest.raises(
        WindowFunctionError, match=r"key 'shop', window TimeWindow\(start=0, end=10\), which holds 2 elements"
    ) as raised:
        harness.process_watermark(9)
    assert isinstance(raised.value.__cause__, KeyError)
    assert (raised.value.key, raised.value.window, raised.value.elements) == ("shop", W1, 2)


@pytest.mark.parametrize("trigger", [None, ScriptedTrigger()], ids=["fast loop", "general"])
def test_error_of_a_reduce_function_names_key_and_window(trigger):
    harness = WindowTestHarness.of_plan(
        RowPlan(WindowQuery(TumblingEventTimeWindows(10), trigger=trigger), ReduceRows(lambda a, b: a / b))
    )
    harness.process_element(7, 1, "shop")
    with pytest.raises(WindowFunctionError, match=r"ZeroDivisionError.*key 'shop', window"):
        harness.process_element(0, 2, "shop")


def test_trigger_that_returns_none_is_refused(function):
    harness = harness_of(FixedAssigner([W1]), function, ScriptedTrigger(element=None))
    with pytest.raises(InvalidPlanError, match="return a TriggerResult"):
        harness.process_element(7, 1, "k")


# -------------------------------------------------------------------- evictors


@dataclass
class RecordingEvictor(Evictor):
    calls: list = field(default_factory=list)

    def evict_before(self, elements, size, window, ctx):
        self.calls.append(("before", [tuple(element) for element in elements], size, window, ctx.get_current_watermark()))
        return [element for element in elements if element.value > 0]

    def evict_after(self, elements, size, window, ctx):
        self.calls.append(("after", [tuple(element) for element in elements], size))
        return [element for element in elements if element.value % 2]


def test_evictor_runs_before_and_after_the_function_and_deletes_elements():
    function, evictor = RecordingFunction(), RecordingEvictor()
    trigger = ScriptedTrigger()
    harness = WindowTestHarness.of_plan(
        RowPlan(WindowQuery(FixedAssigner([W1]), trigger=trigger, evictor=evictor), KeepRows(function))
    )
    for value in (1, -2, 4, 5):
        harness.process_element(value, value, "k")
    trigger.element = FIRE
    harness.process_element(6, 9, "k")
    assert evictor.calls[0] == ("before", [(1, 1), (-2, -2), (4, 4), (5, 5), (6, 9)], 5, W1, MIN_TIMESTAMP)
    assert evictor.calls[1] == ("after", [(1, 1), (4, 4), (5, 5), (6, 9)], 4)
    assert function.calls == [("process", "k", W1, [1, 4, 5, 6])]
    harness.restore(harness.snapshot())
    harness.process_element(7, 9, "k")
    assert function.calls[1:] == [("process", "k", W1, [1, 5, 7])]


def test_function_gets_an_empty_list_once_if_all_elements_were_evicted():
    function = RecordingFunction()

    class Nothing(Evictor):
        def evict_before(self, elements, size, window, ctx):
            return []

    trigger = ScriptedTrigger(element=FIRE, event=FIRE)
    harness = WindowTestHarness.of_plan(
        RowPlan(WindowQuery(FixedAssigner([W1]), trigger=trigger, evictor=Nothing()), KeepRows(function))
    )
    harness.process_element(1, 1, "k")
    assert function.calls == [("process", "k", W1, [])]
    assert harness.num_state_entries() == 0
    harness.process_watermark(9)
    assert function.calls[1:] == [("clear", W1)]


# -------------------------------------------------------------------- plans


def test_invalid_plan_is_refused_when_it_is_built():
    class NoMerge(Sum):
        merge = AggregateFunction.merge

    for build, message in (
        (lambda: RowPlan(WindowQuery(EventTimeSessionWindows(5), trigger=ScriptedTrigger(merges=False)), Sum()), "merge"),
        (lambda: RowPlan(WindowQuery(EventTimeSessionWindows(5)), NoMerge()), "needs merge"),
        (lambda: RowPlan(WindowQuery(TumblingEventTimeWindows(5), trigger=EventTimeTrigger), Sum()), "not the class itself"),
        (lambda: RowPlan(WindowQuery(TumblingEventTimeWindows(5)), max), "Reduce"),
        (lambda: RowPlan(WindowQuery(TumblingEventTimeWindows(5)), Sum(), late_output=""), "needs a name"),
        (lambda: RowPlan(WindowQuery("tumbling"), Sum()), "of the kind WindowAssigner"),
        (lambda: RowPlan(WindowQuery(TumblingEventTimeWindows(5), evictor=3), Sum()), "of the kind Evictor"),
    ):
        with pytest.raises(InvalidPlanError, match=message):
            build()
    with pytest.raises(InvalidWindowError, match="lateness"):
        RowPlan(WindowQuery(TumblingEventTimeWindows(5), allowed_lateness=-1), Sum())


def test_continuous_trigger_on_a_global_window_is_refused_at_the_end_of_time(function):
    harness = harness_of(GlobalWindows.create(), function, ContinuousEventTimeTrigger(5))
    harness.process_element(7, 1, "k")
    harness.process_watermark(11)
    assert [value for _, value in values(harness)] == [7, 7]
    with pytest.raises(InvalidPlanError, match="end of time"):
        harness.end_of_input()


def test_open_processing_time_window_does_not_fire_at_the_end_of_input(function):
    harness = harness_of(TumblingProcessingTimeWindows(10), function, None)
    harness.process_element(7, 1, "k")
    harness.end_of_input()
    assert harness.extract_output() == []
    assert harness.next_processing_time_timer() == 9
    harness.set_processing_time(10)
    assert values(harness) == [(W1, 7)]
    assert harness.next_processing_time_timer() is None


class UserPurgingTrigger(PurgingTrigger):
    """A user subclass of the purging trigger."""


def test_subclass_of_the_purging_trigger_purges(function):
    harness = harness_of(TumblingEventTimeWindows(10), function, UserPurgingTrigger(EventTimeTrigger()), allowed_lateness=10)
    harness.process_element(1, 1, "k")
    harness.process_watermark(9)
    harness.process_element(2, 2, "k")
    assert [value for _, value in values(harness)] == [1, 2], "the inner loops are for panestream's own triggers"


@pytest.mark.parametrize("returned", [7, 1.5, True, "seven", {"a": 7}, object()])
@pytest.mark.parametrize("shape", ["apply", "process"])
def test_function_that_does_not_return_a_list_is_refused(shape, returned):
    harness = WindowTestHarness(TumblingEventTimeWindows(10), **{shape: lambda key, context, elements: returned})
    harness.process_element(1, 1)
    with pytest.raises(InvalidPlanError, match=r"returned .*: return a list of results, or yield them"):
        harness.end_of_input()


def test_deleted_window_leaves_no_reference_cycle():
    """A purged window without any state left is deleted when its page is written."""
    trigger = PurgingTrigger(CountTrigger(1))
    operator = RowOperator(RowPlan(WindowQuery(GlobalWindows.create(), trigger), ReduceRows(max)), MemoryState())
    operator.process([("k", 1, 1)])
    (window_state,) = operator.store.all_window_states()
    operator.commit()
    assert (window_state.alive, window_state.event_timers.owner) == (False, None)
