"""ProcessingTimeoutTrigger adds a time limit to another trigger."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.assigners import EventTimeSessionWindows, GlobalWindows
from panestream.windowing.triggers import CountTrigger, ProcessingTimeoutTrigger, PurgingTrigger
from tests.windowing.driven import Driven

THREE = CountTrigger.of(3)


def test_firing_of_the_inner_trigger_ends_the_timeout():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10))
    assert [driven.element(0, value) for value in (1, 2, 3)] == [[], [], [[1, 2, 3]]]
    assert driven.clock(1000) == []


def test_timeout_fires_if_the_inner_trigger_has_not():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10))
    driven.element(0, 1)
    driven.restart()
    driven.clock(5)
    driven.element(0, 2)
    assert [driven.clock(10), driven.clock(11), driven.clock(100)] == [[], [[1, 2]], []]
    # The timeout also cleared the count.
    assert [driven.element(0, value) for value in (3, 4, 5)] == [[], [], [[1, 2, 3, 4, 5]]]


def test_timeout_can_restart_with_every_row():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10, reset_timer_on_new_record=True))
    driven.element(0, 1)
    driven.clock(5)
    driven.element(0, 2)
    assert [driven.clock(11), driven.clock(15), driven.clock(16)] == [[], [], [[1, 2]]]


def test_inner_trigger_keeps_its_count_if_the_timeout_does_not_clear_it():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 10, should_clear_on_timeout=False))
    driven.element(0, 1)
    assert driven.clock(11) == [[1]]
    assert driven.element(0, 2) == []
    assert driven.clock(100) == [], "no new timeout before the other trigger has fired"
    assert driven.element(0, 3) == [[1, 2, 3]]


def test_purging_timeout_trigger_discards_fired_rows():
    driven = Driven(GlobalWindows.create(), PurgingTrigger.of(ProcessingTimeoutTrigger(THREE, 10)))
    driven.element(0, 1)
    assert driven.clock(11) == [[1]]
    assert [driven.element(0, value) for value in (2, 3, 4)] == [[], [], [[2, 3, 4]]]


def test_timeout_trigger_refuses_sessions_and_uses_the_clock():
    assert ProcessingTimeoutTrigger(THREE, 10).uses_processing_time
    with pytest.raises(InvalidPlanError, match="ProcessingTimeoutTrigger"):
        Driven(EventTimeSessionWindows(10), ProcessingTimeoutTrigger(THREE, 10))


@pytest.mark.parametrize(("inner", "timeout"), [(THREE, -1), (CountTrigger, 10), (None, 10), (THREE, "1 minute")])
def test_invalid_timeout_triggers_are_refused(inner, timeout):
    with pytest.raises(InvalidWindowError, match="ProcessingTimeoutTrigger"):
        ProcessingTimeoutTrigger(inner, timeout)


def test_timeout_of_zero_fires_at_the_next_instant():
    driven = Driven(GlobalWindows.create(), ProcessingTimeoutTrigger(THREE, 0))
    driven.element(0, 1)
    assert driven.clock(1) == [[1]]
