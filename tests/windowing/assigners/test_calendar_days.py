"""Calendar hours, days and weeks: both sides of each bound, clock changes, before 1970."""

from datetime import datetime, timedelta, timezone

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import CalendarDays, CalendarHours, CalendarWeeks
from tests.windowing.driven import Driven

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEW_YORK, APIA = "America/New_York", "Pacific/Apia"


def at(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def windows_of(one, instant: int) -> list[str]:
    """Return the windows of an instant in UTC."""
    found = one.assign_windows(None, instant, instant)
    return [" ".join(f"{EPOCH + timedelta(microseconds=bound):%Y-%m-%dT%H:%M}" for bound in (w.start, w.end)) for w in found]


@pytest.mark.parametrize(
    ("zone", "first", "second"),
    [
        (NEW_YORK, "2025-03-09T05:00 2025-03-10T04:00", "2025-03-10T04:00 2025-03-11T04:00"),  # 23 hours
        (NEW_YORK, "2025-11-02T04:00 2025-11-03T05:00", "2025-11-03T05:00 2025-11-04T05:00"),  # 25 hours
        ("America/Sao_Paulo", "2018-11-03T03:00 2018-11-04T03:00", "2018-11-04T03:00 2018-11-05T02:00"),  # no midnight
        ("America/Sao_Paulo", "2018-02-17T02:00 2018-02-18T03:00", "2018-02-18T03:00 2018-02-19T03:00"),
        ("Asia/Beirut", "2022-03-25T22:00 2022-03-26T22:00", "2022-03-26T22:00 2022-03-27T21:00"),
        ("America/Havana", "2024-11-02T04:00 2024-11-03T04:00", "2024-11-03T04:00 2024-11-04T05:00"),  # midnight twice
        ("Australia/Lord_Howe", "2024-10-04T13:30 2024-10-05T13:30", "2024-10-05T13:30 2024-10-06T13:00"),  # 23.5 hours
        (APIA, "2011-12-29T10:00 2011-12-30T10:00", "2011-12-30T10:00 2011-12-31T10:00"),  # a day is skipped between the two
        ("UTC", "1969-12-31T00:00 1970-01-01T00:00", "1970-01-01T00:00 1970-01-02T00:00"),
        (NEW_YORK, "1969-12-30T05:00 1969-12-31T05:00", "1969-12-31T05:00 1970-01-01T05:00"),
        ("Europe/London", "2024-02-28T00:00 2024-02-29T00:00", "2024-02-29T00:00 2024-03-01T00:00"),
    ],
)
def test_calendar_day_ends_where_the_next_starts(zone, first, second):
    one = CalendarDays.of(1, zone=zone)
    border = at(second.split()[0])
    assert windows_of(one, at(first.split()[0])) == windows_of(one, border - 1) == [first]
    assert windows_of(one, border) == windows_of(one, at(second.split()[1]) - 1) == [second]


def test_calendar_day_can_start_at_an_offset():
    one = CalendarDays.of(1, zone=NEW_YORK, offset="6 hours")
    assert windows_of(one, at("2025-03-09T09:59")) == ["2025-03-08T11:00 2025-03-09T10:00"]
    assert windows_of(one, at("2025-03-09T10:00")) == ["2025-03-09T10:00 2025-03-10T10:00"]
    assert windows_of(CalendarDays.of(1, zone=NEW_YORK, offset="-1 hour"), at("2025-03-09T04:00")) == [
        "2025-03-09T04:00 2025-03-10T03:00"
    ]


def test_sliding_calendar_days_are_listed_newest_first():
    found = windows_of(CalendarDays.of(7, zone=NEW_YORK, every=1), at("2025-03-09T12:00"))
    assert found[0] == "2025-03-09T05:00 2025-03-16T04:00"
    assert found[-1] == "2025-03-03T05:00 2025-03-10T04:00"
    assert len(found) == 7


def test_window_of_seven_days_counts_a_skipped_day():
    found = windows_of(CalendarDays.of(7, zone=APIA, every=1), at("2011-12-30T10:00"))
    assert found[0] == "2011-12-30T10:00 2012-01-06T10:00"
    assert "2011-12-25T10:00 2011-12-31T10:00" in found


def test_calendar_slide_longer_than_the_window_leaves_gaps():
    one = CalendarDays.of(1, zone="UTC", every=2)
    assert (windows_of(one, at("1970-01-01T12:00")), windows_of(one, at("1970-01-02T12:00"))) == (
        ["1970-01-01T00:00 1970-01-02T00:00"],
        [],
    )
    assert windows_of(one, at("1969-12-30T12:00")) == ["1969-12-30T00:00 1969-12-31T00:00"]


def test_growing_calendar_day_has_a_window_for_each_hour():
    found = windows_of(CalendarDays.of(1, zone=NEW_YORK, step="hour"), at("2025-03-09T05:00"))
    assert found[:2] == ["2025-03-09T05:00 2025-03-09T06:00", "2025-03-09T05:00 2025-03-09T07:00"]
    assert (len(found), found[-1]) == (23, "2025-03-09T05:00 2025-03-10T04:00")
    assert len(windows_of(CalendarDays.of(1, zone=NEW_YORK, step="hour"), at("2025-11-02T04:00"))) == 24


def test_calendar_hours_follow_the_wall_clock():
    one = CalendarHours.of(1, zone=NEW_YORK)
    assert (
        windows_of(one, at("2025-11-02T06:59"))
        == windows_of(one, at("2025-11-02T05:00"))
        == ["2025-11-02T05:00 2025-11-02T07:00"]
    )
    assert windows_of(one, at("2025-03-09T06:59")) == ["2025-03-09T06:00 2025-03-09T07:00"]
    assert windows_of(one, at("2025-03-09T07:00")) == ["2025-03-09T07:00 2025-03-09T08:00"]
    assert windows_of(CalendarHours.of(1, zone="Asia/Kolkata"), at("1969-12-31T23:29")) == ["1969-12-31T22:30 1969-12-31T23:30"]
    assert windows_of(CalendarHours.of(6, zone=NEW_YORK), at("2025-11-02T05:00")) == ["2025-11-02T04:00 2025-11-02T11:00"]


@pytest.mark.parametrize(
    ("first_day", "window"),
    [
        ("monday", "2025-10-27T04:00 2025-11-03T05:00"),
        ("sunday", "2025-11-02T04:00 2025-11-09T05:00"),
        ("saturday", "2025-11-01T04:00 2025-11-08T05:00"),
    ],
)
def test_calendar_week_can_start_on_any_day(first_day, window):
    one = CalendarWeeks.of(1, zone=NEW_YORK, first_day=first_day)
    start, end = map(at, window.split())
    assert windows_of(one, at("2025-11-02T12:00")) == windows_of(one, start) == windows_of(one, end - 1) == [window]
    assert windows_of(one, start - 1) != windows_of(one, start)
    assert windows_of(one, end) != [window]


def test_weeks_before_1970_and_several_weeks():
    assert windows_of(CalendarWeeks.of(1, zone="UTC"), at("1969-12-28T23:59")) == ["1969-12-22T00:00 1969-12-29T00:00"]
    assert windows_of(CalendarWeeks.of(2, zone="UTC"), at("1970-01-08T00:00")) == ["1969-12-29T00:00 1970-01-12T00:00"]
    assert len(windows_of(CalendarWeeks.of(1, zone="UTC", step="day"), at("1970-01-01T00:00"))) == 4
    assert len(windows_of(CalendarWeeks.of(4, zone="UTC", every=1), 0)) == 4


def test_calendar_days_by_processing_time_use_the_clock():
    one = CalendarDays.of(1, zone="UTC", by_processing_time=True)
    assert not one.is_event_time
    assert one.assign_windows(None, 0, at("2025-03-09T12:00"))[0].start == at("2025-03-09T00:00")


def test_rows_on_both_sides_of_a_skipped_midnight_are_in_different_days():
    first, second = at("2018-11-04T02:59"), at("2018-11-04T03:00")
    windows = Driven(CalendarDays.of(1, zone="America/Sao_Paulo")).windows(first, second)
    assert sorted(windows.values()) == [[first], [second]]


def test_unknown_day_of_the_week_is_refused():
    with pytest.raises(InvalidWindowError, match="did you mean 'sunday'"):
        CalendarWeeks.of(1, zone="UTC", first_day="sonday")
