"""Common refusals of calendar windows, and the count of months."""

import pytest

from panestream.errors import InvalidDurationError, InvalidWindowError
from panestream.windowing.assigners import BusinessDays, CalendarDays, CalendarHours, CalendarMonths, CalendarWeeks, CalendarYears
from panestream.windowing.assigners.calendar import first_day_of, month_of
from tests.windowing.assigners.test_calendar_days import at, windows_of

UTC = {"zone": "UTC"}


def test_months_are_counted_from_january_1970():
    assert [month_of(day) for day in (-1, 0, 30, 31, 364, 365, 11_016, 11_017)] == [-1, 0, 0, 1, 11, 12, 361, 362]
    for month in (-23_628, -9_000, -1, 0, 1, 361, 12_000, 96_000):
        first = first_day_of(month)
        assert (month_of(first), month_of(first - 1)) == (month, month - 1)


@pytest.mark.parametrize("kind", [CalendarHours, CalendarDays, CalendarWeeks, CalendarMonths, CalendarYears, BusinessDays])
@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": -1}, {"count": 1.0}, {"count": True}, {"every": 0}, {"count": 10**9}])
def test_invalid_numbers_of_calendar_units_are_refused(kind, wrong):
    with pytest.raises(InvalidWindowError, match="from 1 on"):
        kind.of(**{**UTC, **wrong})


@pytest.mark.parametrize(
    ("kind", "longest"),
    [(CalendarHours, "1 hour"), (CalendarDays, "1 day"), (CalendarWeeks, "7 days"), (CalendarMonths, "28 days")],
)
def test_offset_of_a_whole_unit_is_refused(kind, longest):
    for offset in (longest, f"-{longest}"):
        with pytest.raises(InvalidWindowError, match=rf"the offset of {kind.__name__} must be shorter than .*, got '{offset}'"):
            kind.of(1, offset=offset, **UTC)
    with pytest.raises(InvalidWindowError, match="got 'a while'"):
        kind(1, "UTC", offset="a while")
    with pytest.raises(InvalidDurationError):
        kind.of(1, offset="a while", **UTC)


@pytest.mark.parametrize(
    ("kind", "wrong", "told_"),
    [
        (CalendarDays, {"step": "day"}, "the step of CalendarDays must be 'hour', got 'day'"),
        (CalendarDays, {"count": 2, "step": "minute"}, "must be 'hour' or 'day', got 'minute'"),
        (CalendarDays, {"count": 7, "every": 1, "step": "day"}, "leave out every or step"),
        (CalendarWeeks, {"step": "week"}, "must be 'hour' or 'day', got 'week'"),
        (CalendarMonths, {"step": "month"}, "must be 'hour' or 'day', got 'month'"),
        (CalendarMonths, {"count": 2, "step": "year"}, "must be 'hour' or 'day' or 'month', got 'year'"),
        (CalendarYears, {"step": "year"}, "must be 'hour' or 'day' or 'month', got 'year'"),
    ],
)
def test_invalid_steps_of_calendar_windows_are_refused(kind, wrong, told_):
    with pytest.raises(InvalidWindowError, match=told_):
        kind.of(**{**UTC, **wrong})


def test_growing_windows_of_several_units_start_with_the_first_unit():
    assert windows_of(CalendarDays.of(2, zone="UTC", step="day"), at("1970-01-04T12:00")) == ["1970-01-03T00:00 1970-01-05T00:00"]


def test_monthly_steps_start_at_the_offset():
    one = CalendarYears.of(1, zone="UTC", step="month", offset="6 hours")
    assert windows_of(one, at("2025-11-01T05:59")) == [
        f"2025-01-01T06:00 {end}T06:00" for end in ("2025-11-01", "2025-12-01", "2026-01-01")
    ]
    assert windows_of(one, at("2025-11-01T06:00")) == [f"2025-01-01T06:00 {end}T06:00" for end in ("2025-12-01", "2026-01-01")]


def test_calendar_windows_last_at_most_a_thousand_years():
    assert CalendarDays.of(366_000, **UTC).count == 366_000
    with pytest.raises(InvalidWindowError, match="up to 1,000 years"):
        CalendarDays.of(366_001, **UTC)


def test_missing_or_unknown_zone_is_refused():
    with pytest.raises(TypeError, match="zone"):
        CalendarDays.of(1)
    with pytest.raises(InvalidWindowError, match="did you mean 'America/New_York'"):
        CalendarDays.of(1, zone="America/NewYork")
