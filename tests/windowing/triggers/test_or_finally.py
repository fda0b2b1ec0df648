"""OrFinally: until another one fires."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import (
    AfterAll,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    CountTrigger,
    OrFinally,
    Repeatedly,
)
from tests.windowing.driven import Driven


def test_the_other_one_is_the_last_firing():
    driven = Driven(TumblingEventTimeWindows(10), OrFinally.of(Repeatedly.of(AfterCount.of(2)), AfterWatermark()), lateness=9)
    assert [driven.element(1, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    driven.restart()
    assert driven.watermark(9) == [[1, 2, 3]]
    driven.restart()
    assert [driven.element(1, value) for value in (4, 5)] == [[], []]
    driven.watermark(99)
    assert driven.left == (0, 0)


def test_a_trigger_of_flinks_may_end_it():
    driven = Driven(GlobalWindows.create(), OrFinally.of(CountTrigger.of(2), CountTrigger.of(3)))
    assert [driven.element(0, value) for value in (1, 2, 3, 4)] == [[], [[1, 2]], [[1, 2, 3]], []]


def test_it_also_ends_when_the_first_has_finished():
    driven = Driven(GlobalWindows.create(), OrFinally.of(AfterCount.of(2), AfterWatermark()))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    assert driven.end() == []


def test_sessions_merge():
    driven = Driven(EventTimeSessionWindows(10), OrFinally.of(Repeatedly.of(AfterCount.of(3)), AfterCount.of(5)))
    driven.element(0, 1)
    driven.element(15, 2)
    driven.restart()
    assert driven.element(8, 3) == [[1, 2, 3]]
    assert driven.element(9, 4) == []
    assert driven.element(9, 5) == [[1, 2, 3, 4, 5]]
    assert driven.element(9, 6) == []


@pytest.mark.parametrize("given", [(None, AfterCount(1)), (AfterCount(1), AfterCount)])
def test_what_is_no_trigger_is_refused(given):
    with pytest.raises(InvalidWindowError, match="OrFinally wants a trigger"):
        OrFinally.of(*given)


def test_what_has_begun_anew_is_not_ready_by_itself():
    until = AfterAll.of(AfterProcessingTime(10), AfterCount.of(3))
    driven = Driven(GlobalWindows.create(), OrFinally.of(Repeatedly.of(AfterCount.of(1)), until))
    assert driven.element(0, 1) == [[1]]
    assert driven.clock(10) == []
    assert [driven.element(0, value) for value in (2, 3, 4)] == [[[1, 2]], [[1, 2, 3]], []]
