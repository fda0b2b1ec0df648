"""The longest time that units of a calendar can take."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from panestream.engine.kernels.calendar_lines import DAY, BusinessLine, EvenLine, MonthLine

WORKDAYS = [days for count in (1, 2, 3, 5, 6, 7) for days in combinations(range(7), count)]


@pytest.mark.parametrize("holidays", [0, 1, 4, 9])
def test_span_bounds_the_length_of_business_days_with_many_holidays(holidays):
    for workdays in WORKDAYS:
        # Consecutive holidays on workdays make the longest gap.
        off = [day for day in range(100) if (day + 3) % 7 in workdays][:holidays]
        line = BusinessLine(workdays, tuple(off), 0)
        points = np.arange(-40, 40)
        for count in (1, 2, 5, 6):
            longest = int((line.at(points + count) - line.at(points)).max())
            assert longest <= line.span(count) <= longest + 10 * DAY, (workdays, count)


def test_span_bounds_the_length_of_even_units_and_months():
    assert EvenLine(10, 3).span(4) == 40
    line, points = MonthLine(2, 1, 0), np.arange(-40, 40)
    assert line.span(3) == 6 * 31 * DAY >= int((line.at(points + 3) - line.at(points)).max())
