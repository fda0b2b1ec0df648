"""Cutting the steps of keys by predicates: all ways to begin and to end a window, and the order of two cuts."""

from __future__ import annotations

import numpy as np
import pytest

from panestream.engine.operators.predicates.cuts import ENDS, OPEN, STARTS, Runs
from panestream.windowing.assigners import PredicateWindows

BOTH = STARTS | ENDS


def windows(assigner, steps, reached=1000):
    """Return (first time, end, or None while it is open) of each window."""
    codes, times, flags = (np.array(column, np.int64) for column in zip(*steps, strict=True))
    runs = Runs.of(assigner, codes, times, flags, reached)
    ends = [int(end) if closed else None for end, closed in zip(runs.ends, runs.closed, strict=True)]
    return [(int(times[first]), end) for first, end, inside in zip(runs.first, ends, runs.in_window, strict=True) if inside]


@pytest.mark.parametrize(
    ("assigner", "steps", "expected"),
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
def test_predicates_cut_steps_into_windows(assigner, steps, expected):
    assert windows(assigner, steps) == expected


def test_gap_ends_a_window_once_no_row_can_extend_it():
    steps = [(0, 10, STARTS)]
    assert windows(PredicateWindows("s", gap=5), steps, reached=14) == [(10, None)]
    assert windows(PredicateWindows("s", gap=5), steps, reached=15) == [(10, 15)]


@pytest.mark.parametrize(
    ("assigner", "steps", "reached", "expected"),
    [
        # A row exactly one gap after the last one is still in the window. A row one unit later is in no window.
        (PredicateWindows("s", gap=3), [(0, 4, STARTS), (0, 7, 0)], 9, [(4, None)]),
        (PredicateWindows("s", gap=3), [(0, 4, STARTS), (0, 8, 0)], 9, [(4, 7)]),
        # If each row begins a window, the row after the gap begins the next one.
        (PredicateWindows(end="e", gap=3), [(0, 4, 0), (0, 8, 0)], 10, [(4, 7), (8, None)]),
        # A row with the end flag ends the window there, whatever the gap after it. Steps of another key do not end it.
        (PredicateWindows(end="e", gap=3), [(0, 4, ENDS), (0, 20, 0), (1, 9, 0)], 20, [(4, 5), (20, None), (9, 12)]),
        (PredicateWindows("s", gap=3), [(0, 4, STARTS), (1, 6, STARTS)], 8, [(4, 7), (6, None)]),
        (PredicateWindows("s", gap=3), [(0, 1, STARTS), (1, 90, STARTS)], 91, [(1, 4), (90, None)]),
        # The second key has the earlier times.
        (PredicateWindows("s", "e"), [(0, 50, STARTS), (1, 3, 0), (1, 5, STARTS)], 99, [(50, None), (5, None)]),
        (PredicateWindows("s", "e"), [(0, 4, 0), (0, 5, ENDS)], 99, []),
        # Flags without a predicate are ignored.
        (PredicateWindows(end="e"), [(0, 4, 0), (0, 6, STARTS), (0, 7, OPEN), (0, 8, ENDS)], 99, [(4, 9)]),
        (PredicateWindows("s", "e"), [(0, 4, OPEN | ENDS), (0, 6, OPEN)], 99, [(4, 5), (6, None)]),
    ],
)
def test_predicate_windows_at_exact_bounds(assigner, steps, reached, expected):
    assert windows(assigner, steps, reached) == expected


def test_runs_know_their_first_and_last_steps():
    steps = [(0, 1, 0), (0, 4, STARTS), (0, 5, 0), (0, 7, ENDS), (0, 9, 0), (0, 30, 0), (1, 2, STARTS)]
    codes, times, flags = (np.array(column, np.int64) for column in zip(*steps, strict=True))
    runs = Runs.of(PredicateWindows("s", "e", 10), codes, times, flags, 100)
    assert runs.first.tolist() == [0, 1, 4, 5, 6]
    assert runs.last.tolist() == [0, 3, 4, 5, 6]
    assert runs.in_window.tolist() == [False, True, False, False, True]
    assert runs.closed.tolist() == [True, True, True, True, True]
    assert runs.ends[runs.in_window].tolist() == [8, 12]
