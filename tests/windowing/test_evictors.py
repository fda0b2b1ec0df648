"""Evictors remove elements before or after the function."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from panestream.windowing.windows import GlobalWindow


def elements(*values):
    return [TimestampedValue(value, value) for value in values]


def elements_left(evictor, *values, after=False):
    found = elements(*values)
    call = evictor.evict_after if after else evictor.evict_before
    return [each.value for each in call(found, len(found), GlobalWindow(), None)]


def test_count_evictor_keeps_the_last_elements():
    assert elements_left(CountEvictor(2), 5, 1, 3) == [1, 3]
    assert elements_left(CountEvictor(3), 5, 1, 3) == [5, 1, 3]
    assert elements_left(CountEvictor(0), 5, 1, 3) == []
    assert elements_left(CountEvictor(2), 5, 1, 3, after=True) == [5, 1, 3]
    assert elements_left(CountEvictor(2, do_evict_after=True), 5, 1, 3) == [5, 1, 3]
    assert elements_left(CountEvictor(2, do_evict_after=True), 5, 1, 3, after=True) == [1, 3]


def test_time_evictor_keeps_elements_near_the_newest():
    assert elements_left(TimeEvictor(4), 9, 5, 6, 1) == [9, 6]
    assert elements_left(TimeEvictor(0), 9, 9) == []
    assert elements_left(TimeEvictor(4)) == []


def test_delta_evictor_keeps_elements_near_the_last():
    assert elements_left(DeltaEvictor(3.0, lambda element, last: last - element), 1, 7, 4, 5, 7) == [7, 5, 7]
    assert elements_left(DeltaEvictor(0.0, lambda element, last: last - element), 7) == []


@pytest.mark.parametrize(
    "make", [TimeEvictor, lambda size, after: DeltaEvictor(size, lambda element, last: last - element, after)]
)
def test_evictor_after_the_function_leaves_its_input_complete(make):
    assert elements_left(make(4, True), 9, 1, 9) == [9, 1, 9]
    assert elements_left(make(4, True), 9, 1, 9, after=True) == [9, 9]
    assert elements_left(make(4, True), after=True) == []
    assert elements_left(make(4, False), 9, 1, 9) == [9, 9]
    assert elements_left(make(4, False), 9, 1, 9, after=True) == [9, 1, 9]


def test_base_evictor_evicts_nothing():
    assert elements_left(Evictor(), 1, 2) == elements_left(Evictor(), 1, 2, after=True) == [1, 2]


@pytest.mark.parametrize("build", [lambda: CountEvictor(-1), lambda: TimeEvictor(-1), lambda: TimeEvictor("5 seconds")])
def test_invalid_evictors_are_refused(build):
    with pytest.raises(InvalidWindowError):
        build()
