"""What all windows of calendars refuse, and how months are counted."""

import pytest

from panestream.errors import InvalidDurationError, InvalidWindowError
from panestream.windowing.assigners import BusinessDays, CalendarDays, CalendarHours, CalendarMonths, CalendarWeeks, CalendarYears
from panestream.windowing.assigners.calendar import first_day_of, month_of

UTC = {"zone": "UTC"}


def test_months_are_counted_from_january_1970():
    assert [month_of(day) for day in (-1, 0, 30, 31, 364, 365, 11_016, 11_017)] == [-1, 0, 0, 1, 11, 12, 361, 362]
    for month in (-23_628, -9_000, -1, 0, 1, 361, 12_000, 96_000):
        first = first_day_of(month)
        assert (month_of(first), month_of(first - 1)) == (month, month - 1)


@pytest.mark.parametrize("kind", [CalendarHours, CalendarDays, CalendarWeeks, CalendarMonths, CalendarYears, BusinessDays])
@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": -1}, {"count": 1.0}, {"count": True}, {"every": 0}, {"count": 10**9}])
def test_numbers_that_make_no_sense_are_refused(kind, wrong):
    with pytest.raises(InvalidWindowError, match="from 1 on"):
        kind.of(**{**UTC, **wrong})


@pytest.mark.parametrize(
    ("kind", "longest"),
    [(CalendarHours, "1 hour"), (CalendarDays, "1 day"), (CalendarWeeks, "7 days"), (CalendarMonths, "28 days")],
)
def test_an_offset_is_shorter_than_a_unit(kind, longest):
    for offset in (longest, f"-{longest}"):
        with pytest.raises(InvalidWindowError, match="offset"):
            kind.of(1, offset=offset, **UTC)
    with pytest.raises(InvalidDurationError):
        kind.of(1, offset="a while", **UTC)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (CalendarDays, {"step": "day"}),
        (CalendarDays, {"step": "minute"}),
        (CalendarDays, {"count": 7, "every": 1, "step": "day"}),
        (CalendarWeeks, {"step": "week"}),
        (CalendarMonths, {"step": "month"}),
        (CalendarYears, {"step": "year"}),
    ],
)
def test_steps_that_make_no_sense_are_refused(kind, wrong):
    with pytest.raises(InvalidWindowError, match="step"):
        kind.of(**{**UTC, **wrong})


def test_a_zone_must_be_given_and_be_one():
    with pytest.raises(TypeError, match="zone"):
        CalendarDays.of(1)
    with pytest.raises(InvalidWindowError, match="did you mean 'America/New_York'"):
        CalendarDays.of(1, zone="America/NewYork")
