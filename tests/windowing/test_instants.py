"""The syntax of times: integers, durations since the epoch, datetimes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from panestream.errors import InvalidDurationError, InvalidPlanError
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, instant

LATER = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("time", "micros"),
    [
        (MIN_TIMESTAMP, MIN_TIMESTAMP),
        (MAX_TIMESTAMP, MAX_TIMESTAMP),
        (0, 0),
        ("1 second", 1_000_000),
        ("1970-01-01 00:01", 60_000_000),
        ("1970-01-01T02:00:01+02:00", 1_000_000),
        (" 1970-01-02Z", 86_400_000_000),
        (timedelta(seconds=-1), -1_000_000),
        (datetime(1970, 1, 1, 2, 0, 0, 1, tzinfo=LATER), 1),
    ],
)
def test_time_is_read_from_integers_durations_and_datetimes(time, micros):
    assert instant(time, "the watermark") == micros


@pytest.mark.parametrize(
    ("time", "error", "said"),
    [
        (True, InvalidPlanError, "the watermark is True: give an integer, a duration"),
        (MAX_TIMESTAMP + 1, InvalidPlanError, "which no time can be: times are integers of 64 bits"),
        (MIN_TIMESTAMP - 1, InvalidPlanError, "which no time can be: times are integers of 64 bits"),
        (datetime(1970, 1, 1), InvalidPlanError, "without a time zone. Give it one"),
        ("soon", InvalidDurationError, "the watermark 'soon' cannot be read"),
        (
            "2026-02-30 10:04",
            InvalidPlanError,
            r"the watermark is '2026-02-30 10:04', which is not a time: write '2026-01-31 10:04'",
        ),
        ("10:04", InvalidDurationError, r"for a time write '2026-01-31 10:04' \(UTC, or with its zone\)"),
        (None, InvalidDurationError, "the watermark must be a timedelta or a string"),
    ],
)
def test_invalid_time_is_refused(time, error, said):
    with pytest.raises(error, match=said):
        instant(time, "the watermark")
