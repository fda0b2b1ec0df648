"""A trigger leaves neither state nor timers when its window is removed, or when an outer trigger clears it."""

from __future__ import annotations

import random

import pytest

from panestream.engine.plan import stable_repr
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    OrFinally,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Repeatedly,
)
from panestream.windowing.windows import TimeWindow

WINDOW = TimeWindow(0, 100)


class Context:
    """The engine's context for a trigger of one window, open to inspection. It clears nothing by itself."""

    def __init__(self):
        self.values, self.event_timers, self.clock_timers = {}, set(), set()
        self.watermark, self.clock = MIN_TIMESTAMP, 0

    def get_current_watermark(self):
        return self.watermark

    def get_current_processing_time(self):
        return self.clock

    def register_event_time_timer(self, time):
        self.event_timers.add(time)

    def register_processing_time_timer(self, time):
        self.clock_timers.add(time)

    def delete_event_time_timer(self, time):
        self.event_timers.discard(time)

    def delete_processing_time_timer(self, time):
        self.clock_timers.discard(time)

    def get_partitioned_state(self, descriptor):
        return descriptor.bind(self.values)

    def advance(self, trigger, *, watermark, clock):
        """Advance time, and call the trigger for timers that are due."""
        self.watermark, self.clock = max(watermark, self.watermark), max(clock, self.clock)
        while due := [time for time in self.event_timers if time <= self.watermark]:
            self.event_timers.remove(min(due))
            trigger.on_event_time(min(due), WINDOW, self)
        while due := [time for time in self.clock_timers if time < self.clock]:
            self.clock_timers.remove(min(due))
            trigger.on_processing_time(min(due), WINDOW, self)


FIRST = AfterAny.of(AfterCount.of(3), AfterProcessingTime(10))
TRIGGERS = [
    EventTimeTrigger.create(),
    ProcessingTimeTrigger.create(),
    CountTrigger.of(3),
    DeltaTrigger.of(10, lambda a, b: b - a),
    ContinuousProcessingTimeTrigger(7),
    PurgingTrigger.of(CountTrigger.of(3)),
    PurgingTrigger.of(AfterWatermark().early(FIRST)),
    ProcessingTimeoutTrigger(CountTrigger.of(3), 10),
    ProcessingTimeoutTrigger(EventTimeTrigger.create(), 10, should_clear_on_timeout=False),
    AfterCount.of(3),
    AfterProcessingTime(10),
    FIRST,
    AfterWatermark(),
    AfterWatermark().early(FIRST).late(Repeatedly.of(FIRST)),
    AfterAll.of(AfterCount.of(2), FIRST),
    AfterAll.of(AfterCount.of(2), Repeatedly.of(AfterCount.of(3)), AfterWatermark()),
    AfterEach.of(AfterCount.of(1), FIRST, AfterWatermark()),
    OrFinally.of(Repeatedly.of(FIRST), AfterWatermark()),
    OrFinally.of(EventTimeTrigger.create(), AfterCount.of(4)),
    Repeatedly.of(AfterEach.of(AfterAll.of(AfterCount.of(2), FIRST), AfterAny.of(AfterWatermark(), CountTrigger.of(3)))),
    AfterAny.of(ContinuousProcessingTimeTrigger(7), DeltaTrigger.of(10, lambda a, b: b - a)),
]


def driven(trigger, seed):
    """Return the context of a window with some rows at some time, after this trigger processed them."""
    rng, context = random.Random(seed), Context()
    for _ in range(rng.randint(1, 8)):
        trigger.on_element(rng.randint(0, 99), rng.randint(0, 99), WINDOW, context)
        watermark = rng.choice([context.watermark, rng.randint(0, 98), rng.randint(0, 120)])
        context.advance(trigger, watermark=watermark, clock=context.clock + rng.choice([0, 0, 4, 12]))
    return context


@pytest.mark.parametrize("trigger", TRIGGERS, ids=stable_repr)  # no addresses, so that all workers use the same names
def test_cleared_trigger_leaves_neither_state_nor_timers(trigger):
    left = 0
    for seed in range(40):
        context = driven(trigger, seed)
        left += len(context.values) + len(context.event_timers) + len(context.clock_timers)
        trigger.clear(WINDOW, context)
        assert (context.values, context.event_timers, context.clock_timers) == ({}, set(), set()), f"seed {seed}"
    assert left, "there was something to clear"


def test_continuous_event_time_trigger_leaves_only_the_timer_of_the_end():
    trigger = ContinuousEventTimeTrigger(7)
    for seed in range(40):
        context = driven(trigger, seed)
        trigger.clear(WINDOW, context)
        assert context.values == {}
        assert context.event_timers <= {WINDOW.max_timestamp()}
