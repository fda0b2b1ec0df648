"""OrFinally runs a trigger until another one fires."""

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


def test_or_finally_ends_with_the_firing_of_the_second_trigger():
    driven = Driven(TumblingEventTimeWindows(10), OrFinally.of(Repeatedly.of(AfterCount.of(2)), AfterWatermark()), lateness=9)
    assert [driven.element(1, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    driven.restart()
    assert driven.watermark(9) == [[1, 2, 3]]
    driven.restart()
    assert [driven.element(1, value) for value in (4, 5)] == [[], []]
    driven.watermark(99)
    assert driven.left == (0, 0)


def test_flink_trigger_can_finish_or_finally():
    driven = Driven(GlobalWindows.create(), OrFinally.of(CountTrigger.of(2), CountTrigger.of(3)))
    assert [driven.element(0, value) for value in (1, 2, 3, 4)] == [[], [[1, 2]], [[1, 2, 3]], []]


def test_or_finally_ends_if_the_first_trigger_has_finished():
    driven = Driven(GlobalWindows.create(), OrFinally.of(AfterCount.of(2), AfterWatermark()))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    assert driven.end() == []


def test_or_finally_of_merged_sessions_combines_their_counts():
    driven = Driven(EventTimeSessionWindows(10), OrFinally.of(Repeatedly.of(AfterCount.of(3)), AfterCount.of(5)))
    driven.element(0, 1)
    driven.element(15, 2)
    driven.restart()
    assert driven.element(8, 3) == [[1, 2, 3]]
    assert driven.element(9, 4) == []
    assert driven.element(9, 5) == [[1, 2, 3, 4, 5]]
    assert driven.element(9, 6) == []


@pytest.mark.parametrize("given", [(None, AfterCount(1)), (AfterCount(1), AfterCount)])
def test_or_finally_refuses_anything_but_triggers(given):
    with pytest.raises(InvalidWindowError, match="OrFinally needs a trigger"):
        OrFinally.of(*given)


def test_restarted_trigger_does_not_satisfy_or_finally():
    until = AfterAll.of(AfterProcessingTime(10), AfterCount.of(3))
    driven = Driven(GlobalWindows.create(), OrFinally.of(Repeatedly.of(AfterCount.of(1)), until))
    assert driven.element(0, 1) == [[1]]
    assert driven.clock(10) == []
    assert [driven.element(0, value) for value in (2, 3, 4)] == [[[1, 2]], [[1, 2, 3]], []]
