"""Taxi rides by New York's calendar day, moved to the days around a clock change."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

import panestream as pst
from panestream import agg
from tests.data.test_real_data import rides

pytestmark = pytest.mark.spark

NEW_YORK = ZoneInfo("America/New_York")


def test_calendar_days_of_taxi_rides_are_right_across_a_clock_change(spark, event_data):
    # Every third ride is on one of three days. On 2 November 2025 the clocks went back.
    shift = datetime(2025, 11, 1) - datetime(2013, 1, 1)
    starts = [
        (
            int(row[0]),
            datetime.fromisoformat(row[3]).replace(tzinfo=timezone.utc) + shift + timedelta(days=int(row[0]) % 3),
            "New York",
        )
        for row in rides(event_data)
    ]
    result = (
        pst.stream(spark.createDataFrame(starts, "ride bigint, start timestamp, city string"))
        .assign_timestamps("start", pst.WatermarkStrategy.for_monotonous_timestamps())
        .key_by("city")
        .windows({"day": pst.CalendarDays.of(1, zone=str(NEW_YORK)), "hours": pst.CalendarHours.of(6, zone=str(NEW_YORK))})
        .aggregate(agg.count().alias("rides"))
    )
    found = {(row.window, row.window_start.astimezone(NEW_YORK).replace(tzinfo=None)): row for row in result.main.collect()}
    local = [start.astimezone(NEW_YORK).replace(tzinfo=None) for _, start, _ in starts]
    expected = Counter(("day", time.replace(hour=0, minute=0, second=0)) for time in local)
    expected += Counter(("hours", time.replace(hour=time.hour // 6 * 6, minute=0, second=0)) for time in local)
    assert {place: row.rides for place, row in found.items()} == expected
    second = found["day", datetime(2025, 11, 2)]
    assert second.window_end - second.window_start == timedelta(hours=25)
    assert second.rides > len(starts) / 5
