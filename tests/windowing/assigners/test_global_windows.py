"""Global windows and count windows: all rows of a key are in one window, and triggers divide them."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor
from panestream.windowing.triggers import CountTrigger, EndOfStreamTrigger, NeverTrigger, PurgingTrigger
from panestream.windowing.windows import GlobalWindow
from tests.windowing.driven import Driven


def test_global_window_contains_all_rows_of_a_key():
    windows = GlobalWindows.create()
    assert windows.assign_windows(None, 5, 0) == windows.assign_windows(None, 10**15, 7) == (GlobalWindow(),)
    driven = Driven(windows, CountTrigger.of(2))
    assert driven.element(0, 1) + driven.element(10**15, 2) == [[1, 2]]
    assert driven.element(0, 3, key="other") == []


def test_global_window_has_no_late_rows():
    driven = Driven(GlobalWindows.create(), CountTrigger.of(1))
    driven.watermark(1000)
    assert driven.element(0, 1) == [[1]]
    assert driven.harness.late_dropped == 0


def test_global_windows_have_their_default_trigger():
    assert GlobalWindows.create().get_default_trigger() == NeverTrigger()
    assert GlobalWindows.create_with_end_of_stream_trigger().get_default_trigger() == EndOfStreamTrigger()
    assert GlobalWindows.create().is_event_time is False


def test_count_windows_are_global_windows_with_a_trigger_and_an_evictor():
    assert CountWindows(3).parts == (GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)), None)
    assert CountWindows(3, 2).parts == (GlobalWindows.create(), CountTrigger.of(2), CountEvictor.of(3))
    driven = Driven(*CountWindows(2).parts[:2])
    assert [driven.element(0, value) for value in (1, 2, 3, 4, 5)] == [[], [[1, 2]], [], [[3, 4]], []]
    assert driven.end() == [], "an incomplete rest is never emitted"


@pytest.mark.parametrize(
    "build", [lambda: CountWindows(-1).parts, lambda: CountWindows(2, "3").parts, lambda: CountWindows(True).parts]
)
def test_invalid_size_of_a_count_window_is_refused(build):
    with pytest.raises(InvalidWindowError, match="of a count window is a number of elements"):
        build()
