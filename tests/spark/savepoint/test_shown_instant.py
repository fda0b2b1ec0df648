"""The time filter of a question about a row or window: an instant that all relevant windows contain, or none."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from panestream.spark.savepoint.inspectable_state import InspectableState
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.windows import GlobalWindow, TimeWindow

AT = datetime(1970, 1, 1, 0, 0, 7, tzinfo=timezone.utc)
SEVEN = 7_000_000
TEN = TumblingEventTimeWindows(10)


@pytest.mark.parametrize(
    ("assigner", "at", "window", "wanted"),
    [
        (TEN, AT, None, SEVEN),
        (TEN, AT, TimeWindow(3, 13), SEVEN),
        # A row may join sessions that do not contain its time.
        (EventTimeSessionWindows(10), AT, None, None),
        (EventTimeSessionWindows(10), None, TimeWindow(3, 13), 3),
        # Processing-time windows do not depend on the row's time.
        (TumblingProcessingTimeWindows(10), AT, None, None),
        (TumblingProcessingTimeWindows(10), AT, TimeWindow(3, 13), None),
        (TumblingProcessingTimeWindows(10), None, TimeWindow(3, 13), 3),
        (TEN, None, TimeWindow(3, 13), 3),
        (TEN, None, (4, 14), 4),
        (TEN, None, AT, SEVEN),
        (TEN, None, None, None),
        (TEN, None, GlobalWindow(), None),
        (GlobalWindows.create(), AT, None, None),
        (GlobalWindows.create(), None, TimeWindow(3, 13), None),
    ],
)
def test_time_filter_is_an_instant_of_all_relevant_windows(assigner, at, window, wanted):
    state = SimpleNamespace(plan=SimpleNamespace(assigner=assigner))
    assert InspectableState._instant_in(state, at, window) == wanted
