"""Durations as users write them: what each sign is for."""

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
def test_each_part_has_its_sign(text, minutes):
    assert to_micros(text) == minutes * MINUTE
    assert to_micros(format_duration(minutes * MINUTE)) == minutes * MINUTE


@pytest.mark.parametrize("text", ["-1 hour 30 minutes", "-1 hour, 30 minutes", "5 days -1 hour 30 minutes", "-1h30 minutes"])
def test_a_part_behind_a_minus_says_its_sign(text):
    with pytest.raises(
        InvalidDurationError, match=r"lower bound .* whether the minus is for '30 minutes', too: .* '-30 minutes'"
    ):
        to_micros(text, "lower bound")
