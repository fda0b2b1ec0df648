"""Panes and their windows, compared with the definition: a window contains an instant or it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panestream.engine.kernels.slicing import CumulatingWindows, PaneGrid, SlidingWindows

NUMBERS = range(-300, 300)


@st.composite
def kinds(draw):
    if draw(st.booleans()):
        size, slide = draw(st.integers(1, 30)), draw(st.integers(1, 30))
        return SlidingWindows(size, slide, draw(st.integers(1 - slide, slide - 1)))
    step = draw(st.integers(1, 10))
    size = step * draw(st.integers(1, 5))
    return CumulatingWindows(size, step, draw(st.integers(1 - size, size - 1)))


grids = st.lists(kinds(), min_size=1, max_size=3).map(lambda windows: PaneGrid.of(*windows))


def numbers_of_windows_with(windows, time):
    return [n for n in NUMBERS if windows.start_of(n) <= time < windows.end_of(n)]


def test_cumulating_windows_share_a_start_and_end_one_step_apart():
    windows = CumulatingWindows(30, 10, 5)
    assert [(windows.start_of(n), windows.end_of(n)) for n in range(-1, 4)] == [(-25, 5), (5, 15), (5, 25), (5, 35), (35, 45)]


@given(kinds(), st.integers(-60, 60))
def test_windows_of_an_instant_have_consecutive_numbers(windows, time):
    numbers = numbers_of_windows_with(windows, time)
    first, last = windows.first_ending_after(time), windows.last_starting_by(time)
    assert list(range(first, last + 1)) == numbers
    assert windows.first_ending_after(np.array([time]))[0] == first


@given(grids, st.integers(-100, 100))
def test_all_instants_of_a_pane_are_in_the_same_windows(grid, time):
    pane = int(grid.panes_of(np.array([time]))[0])
    assert grid.pane_of(time) == pane
    assert grid.start_of(pane) <= time < grid.start_of(pane + 1)
    assert grid.starts_of(np.array([pane]))[0] == grid.start_of(pane)
    numbers = [numbers_of_windows_with(windows, time) for windows in grid.windows]
    assert numbers == [numbers_of_windows_with(windows, grid.start_of(pane)) for windows in grid.windows]
    assert bool(grid.in_gap(np.array([pane]))[0]) == (not any(numbers))


@given(grids, st.integers(-20, 20))
def test_window_consists_of_whole_panes(grid, n):
    for windows in grid.windows:
        for edge in (windows.start_of(n), windows.end_of(n)):
            assert grid.start_of(grid.pane_of(edge)) == edge
        assert grid.pane_of(windows.end_of(n)) - grid.pane_of(windows.start_of(n)) <= grid.panes_in(windows) <= grid.longest


@given(grids, st.integers(-100, 100), st.integers(-50, 50))
def test_pane_is_open_while_one_of_its_windows_is(grid, time, watermark):
    live = [windows.first_ending_after(watermark + 1) for windows in grid.windows]
    expected = any(windows.end_of(n) - 1 > watermark for windows in grid.windows for n in numbers_of_windows_with(windows, time))
    assert bool(grid.taken(grid.panes_of(np.array([time])), live)[0]) == expected


@given(kinds())
def test_overlaps_and_gaps_follow_from_the_windows_per_instant(windows):
    counts = [len(numbers_of_windows_with(windows, time)) for time in range(windows.offset, windows.offset + windows.period)]
    assert windows.overlap == max(counts)
    assert PaneGrid.of(windows).overlaps == (max(counts) > 1)
    assert PaneGrid.of(windows).has_gaps == (min(counts) == 0)


@given(kinds(), st.sets(st.integers(-60, 60), max_size=8), st.integers(-30, 30), st.integers(-30, 30))
def test_windows_of_instants_are_those_that_contain_one_of_them(windows, times, after, until):
    places = np.array(sorted(times), np.int64)
    expected = sorted({n for time in times for n in numbers_of_windows_with(windows, time) if after < n <= until})
    assert windows.over(places, places, after, until).tolist() == expected


@given(kinds())
def test_slide_has_at_most_two_panes(windows):
    if isinstance(windows, SlidingWindows):
        assert len(PaneGrid.of(windows).edges) <= 2
    else:
        assert len(PaneGrid.of(windows).edges) == 1


def test_several_kinds_of_windows_share_the_finest_panes():
    minute, hour = 60, 3600
    grid = PaneGrid.of(*(SlidingWindows(hours * hour, minute) for hours in (1, 12, 24)))
    assert (grid.period, grid.edges, grid.longest) == (minute, (0,), 24 * 60)


def test_windows_with_too_many_edges_have_panes_of_equal_length():
    grid = PaneGrid.of(SlidingWindows(10_007, 10_007), SlidingWindows(10_009, 10_009))
    assert (grid.period, grid.edges) == (1, (0,))


@pytest.mark.parametrize(
    ("shared", "alone"),
    [
        # Tumbling windows have one edge per period. Periods of 3 and 4096 coincide after 3 * 4096.
        ((SlidingWindows(3, 3), SlidingWindows(4096, 4096)), (SlidingWindows(3, 3), SlidingWindows(4097, 4097))),
        ((SlidingWindows(4096, 4096), SlidingWindows(3, 3)), (SlidingWindows(4097, 4097), SlidingWindows(3, 3))),
        # Windows whose slide does not divide their size have two edges per period.
        ((SlidingWindows(4, 3), SlidingWindows(2048, 2048)), (SlidingWindows(4, 3), SlidingWindows(2049 + 1, 2049 + 1))),
    ],
    ids=["one edge each", "the other first", "two edges"],
)
def test_panes_follow_up_to_4096_edges_and_are_of_equal_length_beyond(shared, alone):
    """Up to 4096 edges per kind of windows are used. This limit decides the numbers of stored panes, so it must not change."""
    grid = PaneGrid.of(*shared)
    period = shared[0].period * shared[1].period
    edges = {n * windows.period + edge for windows in shared for n in range(period // windows.period) for edge in windows.edges()}
    assert (grid.origin, grid.period, grid.edges) == (0, period, tuple(sorted(edges)))
    assert len(grid.edges) > 4000
    assert (PaneGrid.of(*alone).period, PaneGrid.of(*alone).edges) == (1, (0,))
