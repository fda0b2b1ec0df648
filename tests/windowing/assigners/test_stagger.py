"""Window stagger: the permanent shift of a key group's windows."""

from __future__ import annotations

import pytest

from panestream.engine.operators.row.contents import ReduceRows, RowPlan
from panestream.engine.operators.row.window_operator import RowOperator
from panestream.engine.plan import WindowQuery
from panestream.engine.storage.state import MemoryState
from panestream.windowing.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows, WindowStagger
from panestream.windowing.triggers import CountTrigger


def windows_of(stagger, *, group, clock=0, time=TumblingProcessingTimeWindows):
    """Return the start of a group's first window, before and after a restart at another time."""
    plan, state = RowPlan(WindowQuery(time(100, 7, stagger), trigger=CountTrigger(1)), ReduceRows(max)), MemoryState()
    starts = []
    for now in (clock, clock + 1234):
        operator = RowOperator(plan, state, group)
        fired = operator.process([("k", now, 1)], processing_time=now).fired
        starts += [window.start for _, window, _, _ in fired]
        operator.commit()
    return starts


def test_aligned_and_natural_stagger_survive_a_restart():
    assert windows_of(WindowStagger.ALIGNED, group=3, clock=1000) == [907, 2207]
    first, second = windows_of(WindowStagger.NATURAL, group=3, clock=1042)
    assert first == 949, "42 + 7 behind a multiple of 100"
    assert (second - first) % 100 == 0, "a restart does not shift the windows"


def test_stagger_is_shorter_than_the_window():
    shifts = [WindowStagger.NATURAL.get_stagger_offset(clock, 100, 3) for clock in (-1, 0, 99, 100, 1234)]
    assert shifts == [99, 0, 99, 0, 34]
    assert [WindowStagger.ALIGNED.get_stagger_offset(clock, 100, group) for clock in (0, 1234) for group in (0, 3)] == [0] * 4
    assert [each.get_stagger_offset(1234, 1, 5) for each in WindowStagger] == [0, 0, 0]


@pytest.mark.parametrize("time", [TumblingProcessingTimeWindows, TumblingEventTimeWindows])
def test_random_stagger_spreads_the_groups_and_survives_restarts(time):
    shifts = set()
    for group in range(40):
        first, second = windows_of(WindowStagger.RANDOM, group=group, time=time)
        assert (second - first) % 100 == 0
        assert windows_of(WindowStagger.RANDOM, group=group, time=time) == [first, second]
        shifts.add(first % 100)
    assert len(shifts) > 25
    assert all(0 <= WindowStagger.RANDOM.get_stagger_offset(5, 7, group) < 7 for group in range(1000))


def test_random_stagger_of_a_key_group_is_the_same_in_every_version():
    """A micro-batch that a later version runs again must give the same windows."""
    shifts = [WindowStagger.RANDOM.get_stagger_offset(0, 1_000_000, group) for group in range(6)]
    assert shifts == [435182, 166335, 944394, 80112, 115103, 184759]
    assert [WindowStagger.RANDOM.get_stagger_offset(0, 10**12, group) for group in (1, 2)] == [166335864602, 944394915621]
