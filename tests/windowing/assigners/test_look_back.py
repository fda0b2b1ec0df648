"""Look-back windows: their definition, and the options that they do not support."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.testing import WindowTestHarness
from panestream.windowing.assigners import LookBackWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.look_back import look_backs_of


def test_look_back_windows_have_durations_and_a_repr():
    assert LookBackWindows.of("1 hour") == LookBackWindows(3_600_000_000)
    assert LookBackWindows.of("1 hour", "5 minutes") == LookBackWindows(3_600_000_000, 300_000_000)
    assert eval(repr(LookBackWindows.of("1 hour", "5 minutes"))) == LookBackWindows.of("1 hour", "5 minutes")
    assert LookBackWindows.of("0 seconds").size == 0
    assert LookBackWindows(1).is_event_time


@pytest.mark.parametrize(("size", "following"), [(-1, 0), (1, -1), (2**61, 0), (0, 2**61), ("1 hour", 0), (True, 0)])
def test_invalid_look_back_windows_are_refused(size, following):
    with pytest.raises(InvalidWindowError):
        LookBackWindows(size, following)


def test_look_backs_can_be_combined_with_look_backs_only():
    hour, day = LookBackWindows.of("1 hour"), LookBackWindows.of("1 day")
    assert look_backs_of(SeveralWindows.of({"1h": hour, "1d": day})) == {"1h": hour, "1d": day}
    assert look_backs_of(TumblingEventTimeWindows(5)) is None
    assert look_backs_of(SeveralWindows.of({"a": TumblingEventTimeWindows(5)})) is None
    with pytest.raises(
        InvalidPlanError, match=r"a result for each row, TumblingEventTimeWindows\.of\('5 microseconds'\) gives one"
    ):
        look_backs_of(SeveralWindows.of({"1h": hour, "5": TumblingEventTimeWindows(5)}))


def test_row_operator_refuses_look_backs():
    with pytest.raises(InvalidPlanError, match="runs on columns only"):
        WindowTestHarness(LookBackWindows(5), reduce=max)
    with pytest.raises(InvalidPlanError, match="depend on later rows"):
        LookBackWindows(5).assign_windows(None, 0, 0)
