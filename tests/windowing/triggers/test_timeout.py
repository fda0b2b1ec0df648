"""ProcessingTimeoutTrigger: another trigger, but not for ever."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows
from panestream.windowing.triggers import CountTrigger, ProcessingTimeoutTrigger, PurgingTrigger
from tests.windowing.driven import Driven

THREE = CountTrigger.of(3)


def test_it_fires_when_the_other_one_does_and_the_timeout_is_over():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [], [[1, 2, 3]]]
    assert driven.clock(1000) == []


def test_it_fires_when_the_other_one_has_not_for_so_long():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10))
    driven.element(0, 1)
    driven.restart()
    driven.clock(5)
    driven.element(0, 2)
    assert [driven.clock(10), driven.clock(11), driven.clock(100)] == [[], [[1, 2]], []]
    # The count was cleared with the timeout.
    assert [driven.element(0, value) for value in (3, 4, 5)] == [[], [], [[1, 2, 3, 4, 5]]]


def test_every_row_may_set_it_anew():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10, reset_timer_on_new_record=True))
    driven.element(0, 1)
    driven.clock(5)
    driven.element(0, 2)
    assert [driven.clock(11), driven.clock(15), driven.clock(16)] == [[], [], [[1, 2]]]


def test_what_is_not_cleared_counts_on():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10, should_clear_on_timeout=False))
    driven.element(0, 1)
    assert driven.clock(11) == [[1]]
    assert driven.element(0, 2) == []
    assert driven.clock(100) == [], "no new timeout before the other trigger has fired"
    assert driven.element(0, 3) == [[1, 2, 3]]


def test_it_purges_where_the_other_one_would():
    driven = Driven(GlobalWindows.create(), PurgingTrigger.of(ProcessingTimeoutTrigger(THREE, 10)))
    driven.element(0, 1)
    assert driven.clock(11) == [[1]]
    assert [driven.element(0, value) for value in (2, 3, 4)] == [[], [], [[2, 3, 4]]]


def test_it_cannot_serve_sessions_and_needs_the_clock():
    assert ProcessingTimeoutTrigger(THREE, 10).uses_processing_time
    with pytest.raises(InvalidPlanError, match="ProcessingTimeoutTrigger"):
        Driven(EventTimeSessionWindows(10), ProcessingTimeoutTrigger(THREE, 10))


@pytest.mark.parametrize(("inner", "timeout"), [(THREE, -1), (CountTrigger, 10), (None, 10), (THREE, "1 minute")])
def test_what_makes_no_sense_is_refused(inner, timeout):
    with pytest.raises(InvalidWindowError, match="ProcessingTimeoutTrigger"):
        ProcessingTimeoutTrigger(inner, timeout)


def test_no_time_at_all_is_a_timeout_too():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 0))
    driven.element(0, 1)
    assert driven.clock(1) == [[1]]
