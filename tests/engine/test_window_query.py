"""Properties of the description of a window query."""

from __future__ import annotations

import pytest

from panestream.engine.plan import WindowQuery
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from panestream.windowing.triggers import (
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)


@pytest.mark.parametrize(
    ("spec", "clock", "merges"),
    [
        (WindowQuery(TumblingEventTimeWindows(10)), False, False),
        (WindowQuery(TumblingProcessingTimeWindows(10)), True, False),
        (WindowQuery(EventTimeSessionWindows(10)), False, True),
        (WindowQuery(ProcessingTimeSessionWindows(10)), True, True),
        (WindowQuery(GlobalWindows.create(), CountTrigger.of(2)), False, False),
        (WindowQuery(GlobalWindows.create(), ContinuousProcessingTimeTrigger(5)), True, False),
        (WindowQuery(TumblingEventTimeWindows(10), ContinuousProcessingTimeTrigger(5)), True, False),
    ],
)
def test_spec_knows_whether_it_uses_the_clock_and_merges_windows(spec, clock, merges):
    assert (spec.uses_processing_time, spec.merges) == (clock, merges)


def user_subclass(base, *arguments):
    """Return an instance of a user subclass."""
    return type("Own", (base,), {})(*arguments)


TEN, DELTA = TumblingEventTimeWindows(10), DeltaTrigger.of(3, lambda a, b: 0)


@pytest.mark.parametrize(
    ("spec", "sees"),
    [
        (WindowQuery(TEN), False),
        (WindowQuery(TEN, CountTrigger.of(2), CountEvictor.of(2)), False),
        (WindowQuery(TEN, None, TimeEvictor(2)), False),
        (WindowQuery(EventTimeSessionWindows(10)), False),
        (WindowQuery(EventTimeSessionWindows.with_gap_column("wait", "seconds")), False),
        (WindowQuery(EventTimeSessionWindows.with_dynamic_gap(len)), True),
        (WindowQuery(TEN, DELTA), True),
        (WindowQuery(TEN, PurgingTrigger.of(DELTA)), True),
        (WindowQuery(TEN, None, DeltaEvictor.of(3, lambda a, b: 0)), True),
        (WindowQuery(user_subclass(TumblingEventTimeWindows, 10)), True),
        (WindowQuery(TEN, user_subclass(CountTrigger, 2)), True),
        (WindowQuery(TEN, PurgingTrigger.of(user_subclass(CountTrigger, 2))), True),
        (WindowQuery(TEN, None, user_subclass(CountEvictor, 2)), True),
    ],
)
def test_spec_knows_whether_triggers_or_evictors_read_elements(spec, sees):
    assert spec.sees_elements is sees


def test_default_trigger_is_used_if_none_is_set():
    assert WindowQuery(TEN).firing_trigger == EventTimeTrigger.create()
    assert WindowQuery(TEN, CountTrigger.of(2)).firing_trigger == CountTrigger.of(2)
