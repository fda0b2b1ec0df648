"""Calendar months, quarters and years: both sides of each bound, leap years, steps, before 1970."""

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import CalendarMonths, CalendarQuarters, CalendarYears
from tests.windowing.assigners.test_calendar_days import at, windows_of

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("one", "window"),
    [
        (CalendarMonths.of(1, zone=BERLIN), "2025-02-28T23:00 2025-03-31T22:00"),  # the clock moves forward on the 30th
        (CalendarMonths.of(1, zone=BERLIN), "2024-01-31T23:00 2024-02-29T23:00"),
        (CalendarMonths.of(1, zone=BERLIN), "2025-01-31T23:00 2025-02-28T23:00"),
        (CalendarMonths.of(1, zone="UTC"), "1900-02-01T00:00 1900-03-01T00:00"),  # not a leap year
        (CalendarMonths.of(1, zone="UTC"), "1969-12-01T00:00 1970-01-01T00:00"),
        (CalendarMonths.of(1, zone="UTC", offset="14 days"), "2025-01-15T00:00 2025-02-15T00:00"),
        (CalendarMonths.of(2, zone="UTC", first_month=2), "1969-12-01T00:00 1970-02-01T00:00"),
        (CalendarQuarters.of(1, zone=BERLIN), "2025-03-31T22:00 2025-06-30T22:00"),
        (CalendarQuarters.of(1, zone="UTC", first_month=2), "1969-11-01T00:00 1970-02-01T00:00"),
        (CalendarYears.of(1, zone="Asia/Tokyo", first_month=4), "2024-03-31T15:00 2025-03-31T15:00"),
        (CalendarYears.of(1, zone="Europe/London", first_month=4, offset="5 days"), "2024-04-05T23:00 2025-04-05T23:00"),
        (CalendarYears.of(10, zone="UTC"), "1960-01-01T00:00 1970-01-01T00:00"),
    ],
)
def test_calendar_window_contains_its_first_and_last_instant(one, window):
    start, end = map(at, window.split())
    assert windows_of(one, start) == windows_of(one, end - 1) == [window]
    assert windows_of(one, start - 1)[0].endswith(window.split()[0])
    assert windows_of(one, end)[0].startswith(window.split()[1])


def test_sliding_calendar_months_are_listed_newest_first():
    found = windows_of(CalendarMonths.of(3, zone="UTC", every=1), at("2024-02-29T12:00"))
    assert found == [
        "2024-02-01T00:00 2024-05-01T00:00",
        "2024-01-01T00:00 2024-04-01T00:00",
        "2023-12-01T00:00 2024-03-01T00:00",
    ]


def test_growing_calendar_month_has_a_window_for_each_day():
    found = windows_of(CalendarMonths.of(1, zone=BERLIN, step="day"), at("2025-03-30T12:00"))
    assert found == ["2025-02-28T23:00 2025-03-30T22:00", "2025-02-28T23:00 2025-03-31T22:00"]


def test_skipped_day_is_not_a_step_of_a_growing_month():
    found = windows_of(CalendarMonths.of(1, zone="Pacific/Apia", step="day"), at("2011-12-29T12:00"))
    assert found == [
        "2011-12-01T10:00 2011-12-30T10:00",  # the end is the 30th, which was skipped, so it equals the 31st
        "2011-12-01T10:00 2011-12-31T10:00",
    ]


def test_growing_calendar_year_has_a_window_for_each_month():
    found = windows_of(CalendarYears.of(1, zone="UTC", step="month", first_month=4), at("2025-01-31T23:59"))
    assert found == [f"2024-04-01T00:00 2025-{month:02}-01T00:00" for month in (2, 3, 4)]


@pytest.mark.parametrize("first_month", [0, 13, -1, "april", True])
def test_invalid_first_month_is_refused(first_month):
    with pytest.raises(InvalidWindowError, match="1 to 12"):
        CalendarYears.of(1, zone="UTC", first_month=first_month)
