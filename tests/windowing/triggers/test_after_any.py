"""AfterAny: the first of several."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import AfterAny, AfterCount, AfterProcessingTime, AfterWatermark, CountTrigger, Repeatedly
from tests.windowing.driven import Driven

FIRST = AfterAny.of(AfterCount.of(3), AfterProcessingTime(10))


def test_it_fires_once_with_the_first():
    driven = Driven(GlobalWindows.create(), FIRST)
    assert [driven.element(0, value) for value in (1, 2)] == [[], []]
    driven.restart()
    assert driven.clock(10) == [[1, 2]]
    assert [driven.element(0, 3), driven.clock(99)] == [[], []]


def test_repeated_all_of_them_begin_anew():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(FIRST))
    driven.element(0, 1)
    driven.element(0, 2)
    assert driven.clock(10) == [[1, 2]]
    driven.restart()
    assert [driven.element(0, value) for value in (3, 4, 5)] == [[], [], [[1, 2, 3, 4, 5]]]
    assert driven.clock(99) == [], "the clock was not waited for any more"
    assert driven.left == (0, 1)


def test_a_trigger_of_flinks_does_not_end_it():
    driven = Driven(TumblingEventTimeWindows(10), AfterAny.of(CountTrigger.of(2), AfterWatermark()), lateness=5)
    assert [driven.element(1, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    driven.restart()
    assert driven.watermark(9) == [[1, 2, 3]]
    assert driven.element(1, 4) == [], "but the end of the window did"


def test_sessions_merge():
    driven = Driven(EventTimeSessionWindows(10), Repeatedly.of(FIRST))
    driven.element(0, 1)
    driven.element(15, 2)
    driven.restart()
    assert driven.element(8, 3) == [[1, 2, 3]]


@pytest.mark.parametrize("given", [(), (CountTrigger,), (None, AfterCount(1))])
def test_what_are_no_triggers_is_refused(given):
    with pytest.raises(InvalidWindowError, match="AfterAny wants"):
        AfterAny.of(*given)
    with pytest.raises(InvalidWindowError, match="AfterAny wants"):
        AfterAny(AfterCount(1))
