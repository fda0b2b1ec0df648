"""Business days and hours: both sides of each bound, weekends and holidays, before 1970, refusals."""

from datetime import date

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import BusinessDays, BusinessHours
from panestream.windowing.zones import DAY
from tests.windowing.assigners.test_calendar_days import at, windows_of

NEW_YORK = "America/New_York"


def test_rows_of_days_off_belong_to_no_window():
    one = BusinessDays.of(1, zone=NEW_YORK, holidays=[date(2025, 11, 4)])
    assert windows_of(one, at("2025-11-01T03:59")) == ["2025-10-31T04:00 2025-11-01T04:00"]  # Friday
    assert windows_of(one, at("2025-11-01T04:00")) == windows_of(one, at("2025-11-03T04:59")) == []
    assert (
        windows_of(one, at("2025-11-03T05:00"))
        == windows_of(one, at("2025-11-04T04:59"))
        == ["2025-11-03T05:00 2025-11-04T05:00"]
    )
    assert windows_of(one, at("2025-11-04T05:00")) == windows_of(one, at("2025-11-05T04:59")) == []
    assert windows_of(one, at("2025-11-05T05:00")) == ["2025-11-05T05:00 2025-11-06T05:00"]


def test_window_of_several_business_days_spans_days_off():
    one = BusinessDays.of(3, zone="UTC", every=1)
    saturday = windows_of(one, at("2025-11-01T12:00"))
    assert saturday == ["2025-10-31T00:00 2025-11-05T00:00", "2025-10-30T00:00 2025-11-04T00:00"]
    assert windows_of(one, at("2025-11-03T00:00"))[0] == "2025-11-03T00:00 2025-11-06T00:00"
    whole = BusinessDays.of(5, zone="UTC")
    # Thursday 1 January 1970 is the first business day. The fifth is the next Wednesday.
    assert windows_of(whole, 0) == windows_of(whole, at("1970-01-07T23:59")) == ["1970-01-01T00:00 1970-01-08T00:00"]
    assert windows_of(whole, at("1969-12-31T23:59")) == ["1969-12-25T00:00 1970-01-01T00:00"]
    assert windows_of(BusinessDays.of(5, zone="UTC", holidays=["1969-12-31"]), at("1969-12-31T12:00")) == []


def test_weekend_can_be_chosen_or_empty():
    assert windows_of(BusinessDays.of(1, zone="UTC", weekend=("friday", "saturday")), at("2025-10-31T12:00")) == []
    assert windows_of(BusinessDays.of(1, zone="UTC", weekend="friday"), at("2025-11-01T12:00")) != []
    assert windows_of(BusinessDays.of(1, zone="UTC", weekend=()), at("2025-11-01T12:00")) == ["2025-11-01T00:00 2025-11-02T00:00"]


def test_business_days_start_at_the_offset():
    one = BusinessDays.of(1, zone="UTC", offset="6 hours")
    assert windows_of(one, at("2025-11-01T05:59")) == ["2025-10-31T06:00 2025-11-01T06:00"]  # the window of Friday
    assert windows_of(one, at("2025-11-01T06:00")) == windows_of(one, at("2025-11-03T05:59")) == []
    assert windows_of(one, at("2025-11-03T06:00")) == ["2025-11-03T06:00 2025-11-04T06:00"]


def test_business_days_are_counted_from_1970():
    one = BusinessDays.of(1, zone="UTC", holidays=["1970-01-01", "1969-12-31"])
    assert [one.business_days_before(day) for day in range(-3, 7)] == [-2, -1, 0, 0, 0, 1, 1, 1, 2, 3]


def test_weekend_days_are_sorted_and_unique():
    one = BusinessDays.of(1, zone="UTC", weekend=("sunday", "friday"))
    assert one == BusinessDays.of(1, zone="UTC", weekend=["friday", "sunday", "sunday"])
    assert repr(one) == "BusinessDays.of(1, zone='UTC', weekend=('friday', 'sunday'))"


def test_business_hours_contain_rows_up_to_their_bounds():
    one = BusinessHours.of("09:00", "17:30", zone=NEW_YORK, holidays=["2025-03-11"])
    assert windows_of(one, at("2025-03-10T12:59")) == []
    assert (
        windows_of(one, at("2025-03-10T13:00"))
        == windows_of(one, at("2025-03-10T21:29"))
        == ["2025-03-10T13:00 2025-03-10T21:30"]
    )
    assert (
        windows_of(one, at("2025-03-10T21:30"))
        == windows_of(one, at("2025-03-11T15:00"))
        == windows_of(one, at("2025-03-09T15:00"))
        == []
    )
    assert windows_of(one, at("2025-03-07T14:00")) == ["2025-03-07T14:00 2025-03-07T22:30"]
    assert windows_of(one, at("1969-12-31T14:00")) == ["1969-12-31T14:00 1969-12-31T22:30"]


def test_night_shift_belongs_to_the_day_on_which_it_starts():
    one = BusinessHours.of("22:00", "06:00", zone="UTC")
    assert windows_of(one, at("2025-11-01T05:59")) == ["2025-10-31T22:00 2025-11-01T06:00"]  # started on Friday
    assert windows_of(one, at("2025-11-01T06:00")) == windows_of(one, at("2025-11-01T23:00")) == []
    assert windows_of(one, at("2025-11-03T05:59")) == []


def test_business_hours_skipped_by_the_clock_have_no_window():
    one = BusinessHours.of("02:15", "02:45", zone=NEW_YORK, weekend=())
    assert windows_of(one, at("2025-03-09T07:00")) == windows_of(one, at("2025-03-09T06:59")) == []
    assert windows_of(one, at("2025-03-10T06:15")) == ["2025-03-10T06:15 2025-03-10T06:45"]


def test_business_hours_that_close_when_they_open_last_a_day():
    one = BusinessHours.of("09:00", "09:00", zone="UTC", weekend=())
    assert windows_of(one, at("2025-11-03T08:59")) == ["2025-11-02T09:00 2025-11-03T09:00"]
    assert windows_of(one, at("2025-11-03T09:00")) == ["2025-11-03T09:00 2025-11-04T09:00"]
    assert one.count == 1


def test_business_hours_can_be_whole_days_or_have_seconds():
    for closes in ("00:00", "24:00"):
        assert windows_of(BusinessHours.of("00:00", closes, zone="UTC"), at("2025-11-03T00:00")) == [
            "2025-11-03T00:00 2025-11-04T00:00"
        ]
    one, second = BusinessHours.of("09:00:30", "17:30:15", zone="UTC"), 1_000_000
    assert (one.opens, one.closes) == ((9 * 3600 + 30) * second, (17 * 3600 + 30 * 60 + 15) * second)


@pytest.mark.parametrize(("opens", "closes"), [(0, 1), (0, DAY), (DAY - 1, 2 * DAY - 1)])
def test_business_hours_accept_extreme_times(opens, closes):
    one = BusinessHours(1, "UTC", opens=opens, closes=closes)
    assert (one.opens, one.closes) == (opens, closes)


@pytest.mark.parametrize(("opens", "closes"), [(-1, 5), (5, 5), (5, 4), (5, DAY + 6), (DAY, DAY + 5)])
def test_business_hours_outside_their_limits_are_refused(opens, closes):
    with pytest.raises(InvalidWindowError, match="business hours open within a day and close within 24 hours"):
        BusinessHours(1, "UTC", opens=opens, closes=closes)


@pytest.mark.parametrize(
    ("opens", "closes"),
    [("24:00:01", "17:00"), ("9", "17:00"), ("09:00", "25:00"), ("09:60", "17:00"), (9, 17), ("24:30", "17:00"), ("", "17:00")],
)
def test_invalid_times_of_business_hours_are_refused(opens, closes):
    with pytest.raises(InvalidWindowError, match="time of the clock"):
        BusinessHours.of(opens, closes, zone="UTC")


@pytest.mark.parametrize("holiday", ["2024-12-25", date(2024, 12, 25)])
def test_single_holiday_counts_as_a_list_of_one(holiday):
    assert BusinessDays.of(1, zone="UTC", holidays=holiday) == BusinessDays.of(1, zone="UTC", holidays=["2024-12-25"])
    hours = BusinessHours.of("09:00", "17:00", zone="UTC", holidays=holiday)
    assert hours.holidays == ("2024-12-25",)


@pytest.mark.parametrize(
    ("wrong", "told_"),
    [
        ({"weekend": ("funday",)}, "monday"),
        (
            {"weekend": tuple(f"{name}day" for name in ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun"))},
            "Leave at least one business day",
        ),
        ({"holidays": ["25.12.2026"]}, "2026-12-25"),
        ({"holidays": [20261225]}, "2026-12-25"),
    ],
)
def test_invalid_options_of_business_windows_are_refused(wrong, told_):
    for make in (BusinessDays.of, lambda **more: BusinessHours.of("09:00", "17:00", **more)):
        with pytest.raises(InvalidWindowError, match=told_):
            make(zone="UTC", **wrong)
