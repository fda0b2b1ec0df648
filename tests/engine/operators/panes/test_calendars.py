"""Calendar windows as aligned windows, tested by dates. They equal the windows of the assigner, and their numbers grow with time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from panestream.engine.operators.panes.calendars import CALENDAR, calendar_windows
from panestream.engine.runtime.watermarks import BEYOND_ALL
from panestream.windowing.assigners import (
    BusinessDays,
    BusinessHours,
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarYears,
)

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(microseconds=1)
UTC = {"zone": "UTC"}


def micros(text):
    """Return the microseconds of an instant. The year defaults to 2026."""
    return (datetime.fromisoformat(f"{text if len(text) > 11 else '2026-' + text}+00:00") - EPOCH) // MICROSECOND


# 18 March 2026 is a Wednesday.
@pytest.mark.parametrize(
    ("assigner", "at", "expected"),
    [
        (CalendarHours.of(6, **UTC), "03-18T14:30", ["03-18T12:00/03-18T18:00"]),
        (CalendarHours.of(6, offset="30 minutes", **UTC), "03-18T12:29", ["03-18T06:30/03-18T12:30"]),
        (CalendarHours.of(6, every=3, **UTC), "03-18T14:30", ["03-18T09:00/03-18T15:00", "03-18T12:00/03-18T18:00"]),
        (CalendarDays.of(1, offset="6 hours", **UTC), "03-18T05:59", ["03-17T06:00/03-18T06:00"]),
        (CalendarDays.of(1, zone="Europe/Berlin"), "03-29T14:30", ["03-28T23:00/03-29T22:00"]),
        (CalendarDays.of(2, every=1, **UTC), "03-18T14:30", ["03-17T00:00/03-19T00:00", "03-18T00:00/03-20T00:00"]),
        (CalendarDays.of(1, step="hour", **UTC), "03-18T22:30", ["03-18T00:00/03-18T23:00", "03-18T00:00/03-19T00:00"]),
        (
            CalendarDays.of(1, step="hour", offset="90 minutes", **UTC),
            "03-18T23:00",
            ["03-18T01:30/03-18T23:30", "03-18T01:30/03-19T00:30", "03-18T01:30/03-19T01:30"],
        ),
        (
            CalendarDays.of(3, step="day", offset="6 hours", **UTC),
            "03-18T14:30",
            ["03-17T06:00/03-19T06:00", "03-17T06:00/03-20T06:00"],
        ),
        (CalendarWeeks.of(1, **UTC), "03-18T14:30", ["03-16T00:00/03-23T00:00"]),
        (CalendarWeeks.of(1, first_day="sunday", offset="6 hours", **UTC), "03-15T05:00", ["03-08T06:00/03-15T06:00"]),
        (CalendarWeeks.of(2, every=1, **UTC), "03-18T14:30", ["03-09T00:00/03-23T00:00", "03-16T00:00/03-30T00:00"]),
        (
            CalendarWeeks.of(1, step="day", first_day="sunday", **UTC),
            "03-20T14:30",
            ["03-15T00:00/03-21T00:00", "03-15T00:00/03-22T00:00"],
        ),
        (CalendarMonths.of(1, **UTC), "03-18T14:30", ["03-01T00:00/04-01T00:00"]),
        (CalendarMonths.of(1, offset="14 days", **UTC), "03-14T14:30", ["02-15T00:00/03-15T00:00"]),
        (CalendarMonths.of(2, every=1, **UTC), "03-18T14:30", ["02-01T00:00/04-01T00:00", "03-01T00:00/05-01T00:00"]),
        (CalendarMonths.of(2, **UTC), "04-18T14:30", ["03-01T00:00/05-01T00:00"]),
        (CalendarMonths.of(2, first_month=2, **UTC), "03-18T14:30", ["02-01T00:00/04-01T00:00"]),
        (
            CalendarMonths.of(1, step="day", offset="6 hours", **UTC),
            "03-31T05:00",
            ["03-01T06:00/03-31T06:00", "03-01T06:00/04-01T06:00"],
        ),
        (CalendarMonths.of(2, step="month", **UTC), "03-18T14:30", ["03-01T00:00/04-01T00:00", "03-01T00:00/05-01T00:00"]),
        (CalendarQuarters.of(2, **UTC), "03-18T14:30", ["01-01T00:00/07-01T00:00"]),
        (
            CalendarQuarters.of(1, step="month", first_month=2, offset="1 day", **UTC),
            "03-18T14:30",
            ["02-02T00:00/04-02T00:00", "02-02T00:00/05-02T00:00"],
        ),
        (CalendarQuarters.of(2, step="month", **UTC), "05-18T14:30", ["01-01T00:00/06-01T00:00", "01-01T00:00/07-01T00:00"]),
        (CalendarYears.of(1, step="month", **UTC), "11-18T14:30", ["01-01T00:00/12-01T00:00", "01-01T00:00/2027-01-01T00:00"]),
        (BusinessDays.of(1, offset="6 hours", **UTC), "03-20T14:30", ["03-20T06:00/03-21T06:00"]),
        (BusinessDays.of(2, every=1, **UTC), "03-16T14:30", ["03-13T00:00/03-17T00:00", "03-16T00:00/03-18T00:00"]),
        (BusinessDays.of(1, **UTC), "03-21T14:30", []),
        (BusinessDays.of(1, weekend=("friday",), holidays=["2026-03-19"], **UTC), "03-19T14:30", []),
        (BusinessDays.of(1, weekend=("friday",), holidays=["2026-03-19"], **UTC), "03-21T14:30", ["03-21T00:00/03-22T00:00"]),
        (BusinessHours.of("09:00", "17:00", **UTC), "03-18T09:00", ["03-18T09:00/03-18T17:00"]),
        (BusinessHours.of("09:00", "17:00", **UTC), "03-18T16:59", ["03-18T09:00/03-18T17:00"]),
        (BusinessHours.of("09:00", "17:00", **UTC), "03-18T08:59", []),
        (BusinessHours.of("09:00", "17:00", **UTC), "03-18T17:00", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_calendar_windows_of_an_instant_equal_those_of_the_assigner(assigner, at, expected):
    time = micros(at)
    windows, instant = calendar_windows(assigner), np.array([time])
    numbers = windows.over(instant, instant, -BEYOND_ALL, BEYOND_ALL)
    assert (np.diff(numbers) > 0).all()
    spans = list(zip(windows.start_of(numbers).tolist(), windows.end_of(numbers).tolist(), strict=True))
    assert sorted(spans) == sorted((window.start, window.end) for window in assigner.assign_windows(None, time, time))
    if expected is not None:
        assert spans == [tuple(map(micros, span.split("/"))) for span in expected]


@pytest.mark.parametrize(
    ("assigner", "gaps"),
    [
        (CalendarDays.of(1, **UTC), False),
        (CalendarDays.of(1, step="hour", **UTC), False),
        (CalendarMonths.of(2, **UTC), False),
        (BusinessDays.of(1, **UTC), True),
        (BusinessHours.of("09:00", "17:00", **UTC), True),
    ],
    ids=repr,
)
def test_only_business_days_and_hours_have_gaps(assigner, gaps):
    assert isinstance(assigner, CALENDAR)
    assert calendar_windows(assigner).has_gaps == gaps


@pytest.mark.parametrize(
    ("assigner", "numbers"),
    [
        (CalendarDays.of(1, **UTC), [20530]),
        (CalendarMonths.of(1, **UTC), [56 * 12 + 2]),
        (BusinessDays.of(1, **UTC), [2932 * 5 + 4]),
        # Windows that grow in steps are numbered by their steps.
        (CalendarDays.of(1, step="hour", offset="90 minutes", **UTC), [20530 * 24 + 22, 20530 * 24 + 23, 20530 * 24 + 24]),
        (CalendarMonths.of(2, step="month", **UTC), [56 * 12 + 2, 56 * 12 + 3]),
    ],
    ids=lambda value: "" if isinstance(value, list) else repr(value),
)
def test_calendar_windows_are_numbered_from_the_epoch(assigner, numbers):
    """Checkpoints contain these numbers, so they must not change between versions."""
    instant = np.array([micros("03-18T23:00")])
    assert calendar_windows(assigner).over(instant, instant, -BEYOND_ALL, BEYOND_ALL).tolist() == numbers
