"""Predicate windows, and sessions closed by a predicate: their definition and refusals."""

from __future__ import annotations

import pytest

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.testing import WindowTestHarness
from panestream.windowing.assigners import EventTimeSessionWindows, PredicateWindows, ProcessingTimeSessionWindows


@pytest.mark.parametrize(
    "windows",
    [
        PredicateWindows.of(start="state = 'on'"),
        PredicateWindows.of(end="state = 'off'", gap="30 minutes"),
        PredicateWindows.of(start="a", end="b", gap="1 us"),
    ],
    ids=repr,
)
def test_repr_rebuilds_predicate_windows(windows):
    assert eval(repr(windows)) == windows
    assert windows.is_event_time
    assert windows.predicates == tuple(each for each in (windows.start, windows.end) if each is not None)


@pytest.mark.parametrize(
    ("start", "end", "gap"),
    [(None, None, 5), ("", None, None), (None, 7, None), ("a", None, 0), ("a", None, 2**61), ("a", None, "1 s")],
)
def test_invalid_predicate_windows_are_refused(start, end, gap):
    with pytest.raises(InvalidWindowError):
        PredicateWindows(start, end, gap)


def test_sessions_closed_by_a_predicate_become_predicate_windows():
    assert EventTimeSessionWindows.with_gap("1 s").closed_by("off") == PredicateWindows(end="off", gap=1_000_000)
    assert not hasattr(ProcessingTimeSessionWindows(5), "closed_by")
    for wrong in (EventTimeSessionWindows(5).max_duration("1 s"), EventTimeSessionWindows.with_gap_column("g", "seconds")):
        with pytest.raises(InvalidWindowError, match="sessions of one gap"):
            wrong.closed_by("off")


def test_row_operator_refuses_predicate_windows():
    with pytest.raises(InvalidPlanError, match="runs on columns only"):
        WindowTestHarness(PredicateWindows("a"), reduce=max)
    with pytest.raises(InvalidPlanError, match="depends on earlier rows"):
        PredicateWindows("a").assign_windows(None, 0, 0)
