"""What a recipe of windows says of itself."""

from __future__ import annotations

import pytest

from panestream.engine.window_spec import WindowSpec
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.triggers import ContinuousProcessingTimeTrigger, CountTrigger


@pytest.mark.parametrize(
    ("spec", "clock", "merges"),
    [
        (WindowSpec(TumblingEventTimeWindows(10)), False, False),
        (WindowSpec(TumblingProcessingTimeWindows(10)), True, False),
        (WindowSpec(EventTimeSessionWindows(10)), False, True),
        (WindowSpec(ProcessingTimeSessionWindows(10)), True, True),
        (WindowSpec(GlobalWindows.create(), CountTrigger.of(2)), False, False),
        (WindowSpec(GlobalWindows.create(), ContinuousProcessingTimeTrigger(5)), True, False),
        (WindowSpec(TumblingEventTimeWindows(10), ContinuousProcessingTimeTrigger(5)), True, False),
    ],
)
def test_whether_the_clock_matters_and_windows_grow_together(spec, clock, merges):
    assert (spec.uses_processing_time, spec.merges) == (clock, merges)
