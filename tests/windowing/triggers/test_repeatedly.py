"""Repeatedly restarts its trigger each time it has finished."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners import GlobalWindows, TumblingEventTimeWindows
from panestream.windowing.triggers import AfterAny, AfterCount, AfterWatermark, CountTrigger, Repeatedly
from tests.windowing.driven import Driven


def test_repeatedly_fires_again_after_its_trigger_has_finished():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterCount.of(2)))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [[1, 2]], []]
    driven.restart()
    assert driven.element(0, 4) == [[1, 2, 3, 4]]
    assert driven.left == (0, 1), "the contents: nothing is left of the trigger"


def test_restarted_trigger_still_fires_at_the_end_of_the_window():
    driven = Driven(TumblingEventTimeWindows(10), Repeatedly.of(AfterAny.of(AfterCount.of(2), AfterWatermark())), lateness=9)
    driven.element(1, 1)
    assert driven.element(2, 2) == [[1, 2]]
    driven.restart()
    assert driven.watermark(9) == [[1, 2]]
    assert driven.watermark(15) == [], "once"
    assert driven.element(3, 3) == [[1, 2, 3]], "and again for every row that is late"
    assert driven.watermark(99) == []
    assert driven.left == (0, 0)


def test_repeated_flink_trigger_behaves_as_without_repeatedly():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(CountTrigger.of(2)))
    assert [driven.element(0, value) for value in (1, 2, 3, 4)] == [[], [[1, 2]], [], [[1, 2, 3, 4]]]


def test_repeatedly_refuses_anything_but_triggers():
    with pytest.raises(InvalidWindowError, match="Repeatedly needs a trigger"):
        Repeatedly.of(AfterCount)


def test_repeatedly_restarts_inner_flink_triggers():
    driven = Driven(GlobalWindows.create(), Repeatedly.of(AfterAny.of(CountTrigger.of(3), AfterCount.of(2))))
    assert [bool(driven.element(0, value)) for value in range(6)] == [False, True] * 3
