"""The syntax of durations, including signs."""

import pytest

from panestream.errors import InvalidDurationError
from panestream.windowing.time import format_duration, to_micros

MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("1 hour 30 minutes", 90),
        ("-1 hour -30 minutes", -90),
        ("-1 hour +30 minutes", -30),
        ("-1 hour, +30 minutes 5 minutes", -25),
        ("1 hour -30 minutes", 30),
        ("-0.5 hours", -30),
    ],
)
def test_duration_parts_have_separate_signs(text, minutes):
    assert to_micros(text) == minutes * MINUTE
    assert to_micros(format_duration(minutes * MINUTE)) == minutes * MINUTE


@pytest.mark.parametrize("text", ["-1 hour 30 minutes", "-1 hour, 30 minutes", "5 days -1 hour 30 minutes", "-1h30 minutes"])
def test_unsigned_part_after_a_negative_one_is_refused(text):
    with pytest.raises(InvalidDurationError, match=r"lower bound .* whether the minus is for '30 minutes', too.* '-30 minutes'"):
        to_micros(text, "lower bound")


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        (5, r"slide must be a timedelta or a string such as '90 seconds', not 5 \(int\)"),
        (None, r"must be a timedelta or a string .* not None \(NoneType\)"),
        ("soon", "slide 'soon' cannot be read at 'soon': write a number and a unit"),
        ("1 hour and 5 minutes", "cannot be read at 'and 5 minutes'"),
        ("", "slide is empty: write a number and a unit"),
        (" ", "cannot be read at ' '"),
        ("1 month", "slide '1 month': a month does not have a fixed length. Give days or hours"),
        ("2 Years", "a year does not have a fixed length"),
        ("1 quarter", "a quarter does not have a fixed length"),
        ("3 secondz", "unknown unit 'secondz'; did you mean 'second'"),
        ("5 s s", "cannot be read at 's'"),
        ("1.5 us", "slide '1.5 us' is finer than a microsecond"),
        ("0.0000001 s", "is finer than a microsecond"),
        (f"{2**62} us", f"slide '{2**62} us' is too long"),
        (f"-{2**62} us", "is too long"),
    ],
)
def test_invalid_duration_is_refused_with_the_reason(duration, said):
    with pytest.raises(InvalidDurationError, match=said):
        to_micros(duration, "slide")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        (f"{2**62 - 1} us", 2**62 - 1),
        (f"-{2**62 - 1} us", 1 - 2**62),
        ("1 us", 1),
        ("-1 us", -1),
        ("0.000001 s", 1),
        ("-0.000001 s", -1),
        ("1.25 ms", 1250),
        ("-1.25 ms", -1250),
        ("1 MS 2 s 3 Sec 4 min 5 m", 9 * MINUTE + 5_001_000),
        ("1 week 1 d 1 h", (8 * 24 + 1) * 60 * MINUTE),
        ("0 seconds", 0),
    ],
)
def test_durations_are_exact_to_the_microsecond(text, micros):
    assert to_micros(text) == micros


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0 seconds"),
        (1, "1 microsecond"),
        (-1, "-1 microsecond"),
        (2_001, "2 milliseconds 1 microsecond"),
        (7 * 24 * 60 * MINUTE, "7 days"),
        (-90_000_000, "-1 minute -30 seconds"),
    ],
)
def test_durations_are_written_in_the_largest_units(micros, text):
    assert format_duration(micros) == text
    assert to_micros(text) == micros
