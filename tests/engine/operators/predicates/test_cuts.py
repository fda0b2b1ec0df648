"""Where predicates cut the steps of keys: each way to begin and to end, and which of two counts."""

from __future__ import annotations

import numpy as np
import pytest

from panestream.engine.operators.predicates.cuts import ENDS, OPEN, STARTS, Runs
from panestream.windowing.assigners import PredicateWindows

BOTH = STARTS | ENDS


def windows(assigner, steps, reached=1000):
    """(first time, end or None while it is open) of each window."""
    codes, times, flags = (np.array(column, np.int64) for column in zip(*steps, strict=True))
    runs = Runs.of(assigner, codes, times, flags, reached)
    ends = [int(end) if closed else None for end, closed in zip(runs.ends, runs.closed, strict=True)]
    return [(int(times[first]), end) for first, end, inside in zip(runs.first, ends, runs.in_window, strict=True) if inside]


@pytest.mark.parametrize(
    ("assigner", "steps", "found"),
    [
        (PredicateWindows("s", "e"), [(0, 1, 0), (0, 4, STARTS), (0, 5, 0), (0, 7, ENDS), (0, 9, 0)], [(4, 8)]),
        (PredicateWindows("s", "e"), [(0, 4, STARTS), (0, 7, BOTH), (0, 9, ENDS)], [(4, 7), (7, 8)]),
        (PredicateWindows("s"), [(0, 4, STARTS), (0, 7, 0), (0, 9, STARTS), (1, 10, 0)], [(4, 9), (9, None)]),
        (PredicateWindows("s", gap=3), [(0, 4, STARTS), (0, 7, 0), (0, 11, 0), (0, 12, STARTS)], [(4, 10), (12, 15)]),
        (PredicateWindows("s", gap=3), [(0, 4, STARTS), (0, 9, STARTS)], [(4, 7), (9, 12)]),
        (PredicateWindows(end="e"), [(0, 4, 0), (0, 7, ENDS), (0, 9, 0), (1, 1, ENDS)], [(4, 8), (9, None), (1, 2)]),
        (PredicateWindows(end="e", gap=2), [(0, 4, 0), (0, 6, 0), (0, 9, ENDS)], [(4, 8), (9, 10)]),
        (PredicateWindows("s", "e"), [(0, 4, OPEN), (0, 7, ENDS), (1, 4, OPEN), (1, 7, STARTS)], [(4, 8), (4, 7), (7, None)]),
    ],
)
def test_windows(assigner, steps, found):
    assert windows(assigner, steps) == found


def test_a_gap_is_over_when_nothing_can_come_that_would_fill_it():
    steps = [(0, 10, STARTS)]
    assert windows(PredicateWindows("s", gap=5), steps, reached=14) == [(10, None)]
    assert windows(PredicateWindows("s", gap=5), steps, reached=15) == [(10, 15)]
