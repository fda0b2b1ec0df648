"""Rolling windows: their definition, and lengths that they refuse."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import RollingWindows

HOUR, MINUTE = 3_600_000_000, 60_000_000


def test_rolling_windows_have_lengths_by_label_and_a_repr():
    windows = RollingWindows.of({"1h": "1 hour", "ever": None}, every="1 minute")
    assert windows == RollingWindows((("1h", HOUR), ("ever", None)), MINUTE)
    assert eval(repr(windows), {"RollingWindows": RollingWindows}) == windows
    assert windows.is_event_time


@pytest.mark.parametrize(
    ("windows", "every"),
    [((), 1), ((("a", 5),), 0), ((("a", 0),), 1), ((("", 5),), 1), ((("a", 2**61),), 1), ((("a", 5),), 2)],
)
def test_invalid_rolling_windows_are_refused(windows, every):
    with pytest.raises(InvalidWindowError):
        RollingWindows(windows, every)
