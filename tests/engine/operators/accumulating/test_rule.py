"""The reasons why functions over rows cannot run on panes of whole rows."""

from __future__ import annotations

import pytest

from panestream.engine.operators.accumulating.operator import why_not_rows
from panestream.engine.plan import WindowQuery
from panestream.windowing.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.triggers import ContinuousEventTimeTrigger

MINUTES = TumblingEventTimeWindows(10)


@pytest.mark.parametrize(
    ("window", "reasons"),
    [
        (WindowQuery(MINUTES), []),
        (WindowQuery(SeveralWindows.of({"a": MINUTES, "b": MINUTES})), ["several windows in one query need declared aggregates"]),
        (WindowQuery(TumblingProcessingTimeWindows(10)), ["panes of whole rows know event time only"]),
        (
            WindowQuery(MINUTES, ContinuousEventTimeTrigger(5)),
            [f"panes of whole rows fire at the end of the window, not as {ContinuousEventTimeTrigger(5)!r} says"],
        ),
    ],
)
def test_reasons_why_windows_cannot_run_on_panes_of_rows(window, reasons):
    assert why_not_rows(window) == reasons
