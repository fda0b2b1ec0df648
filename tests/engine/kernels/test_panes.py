"""Panes and the windows over them, against the definition: a window contains an instant or it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panestream.engine.kernels.panes import CumulatingWindows, PaneGrid, SlidingWindows

NUMBERS = range(-300, 300)


@st.composite
def kinds(draw):
    if draw(st.booleans()):
        size, slide = draw(st.integers(1, 30)), draw(st.integers(1, 30))
        return SlidingWindows(size, slide, draw(st.integers(1 - slide, slide - 1)))
    step = draw(st.integers(1, 10))
    size = step * draw(st.integers(1, 5))
    return CumulatingWindows(size, step, draw(st.integers(1 - size, size - 1)))


grids = st.lists(kinds(), min_size=1, max_size=3).map(lambda found: PaneGrid.of(*found))


def windows_with(one, time):
    return [n for n in NUMBERS if one.start_of(n) <= time < one.end_of(n)]


def test_cumulating_windows_begin_together_and_end_one_step_after_the_other():
    one = CumulatingWindows(30, 10, 5)
    assert [(one.start_of(n), one.end_of(n)) for n in range(-1, 4)] == [(-25, 5), (5, 15), (5, 25), (5, 35), (35, 45)]


@given(kinds(), st.integers(-60, 60))
def test_the_windows_of_an_instant_are_consecutive(one, time):
    found = windows_with(one, time)
    first, last = one.first_ending_after(time), one.last_starting_by(time)
    assert list(range(first, last + 1)) == found
    assert one.first_ending_after(np.array([time]))[0] == first


@given(grids, st.integers(-100, 100))
def test_a_pane_lies_in_the_windows_of_its_instants(grid, time):
    pane = int(grid.panes_of(np.array([time]))[0])
    assert grid.pane_of(time) == pane
    assert grid.start_of(pane) <= time < grid.start_of(pane + 1)
    assert grid.starts_of(np.array([pane]))[0] == grid.start_of(pane)
    found = [windows_with(one, time) for one in grid.windows]
    assert found == [windows_with(one, grid.start_of(pane)) for one in grid.windows]
    assert bool(grid.in_gap(np.array([pane]))[0]) == (not any(found))


@given(grids, st.integers(-20, 20))
def test_a_window_is_a_whole_number_of_panes(grid, n):
    for one in grid.windows:
        for edge in (one.start_of(n), one.end_of(n)):
            assert grid.start_of(grid.pane_of(edge)) == edge
        assert grid.pane_of(one.end_of(n)) - grid.pane_of(one.start_of(n)) <= grid.panes_in(one) <= grid.longest


@given(grids, st.integers(-100, 100), st.integers(-50, 50))
def test_a_pane_is_taken_while_one_of_its_windows_is(grid, time, watermark):
    live = [one.first_ending_after(watermark + 1) for one in grid.windows]
    expected = any(one.end_of(n) - 1 > watermark for one in grid.windows for n in windows_with(one, time))
    assert bool(grid.taken(grid.panes_of(np.array([time])), live)[0]) == expected


@given(kinds())
def test_panes_overlap_where_an_instant_lies_in_two_windows(one):
    counts = [len(windows_with(one, time)) for time in range(one.offset, one.offset + one.period)]
    assert one.overlap == max(counts)
    assert PaneGrid.of(one).overlaps == (max(counts) > 1)
    assert PaneGrid.of(one).has_gaps == (min(counts) == 0)


@given(kinds(), st.sets(st.integers(-60, 60), max_size=8), st.integers(-30, 30), st.integers(-30, 30))
def test_windows_of_instants_are_those_that_contain_one_of_them(one, times, after, until):
    places = np.array(sorted(times), np.int64)
    expected = sorted({n for time in times for n in windows_with(one, time) if after < n <= until})
    assert one.over(places, places, after, until).tolist() == expected


@given(kinds())
def test_there_are_at_most_two_panes_to_a_slide(one):
    if isinstance(one, SlidingWindows):
        assert len(PaneGrid.of(one).edges) <= 2
    else:
        assert len(PaneGrid.of(one).edges) == 1


def test_several_windows_share_the_panes_of_the_finest():
    minute, hour = 60, 3600
    grid = PaneGrid.of(*(SlidingWindows(hours * hour, minute) for hours in (1, 12, 24)))
    assert (grid.period, grid.edges, grid.longest) == (minute, (0,), 24 * 60)


def test_windows_that_hardly_ever_meet_have_equal_panes():
    grid = PaneGrid.of(SlidingWindows(10_007, 10_007), SlidingWindows(10_009, 10_009))
    assert (grid.period, grid.edges) == (1, (0,))


@pytest.mark.parametrize(
    ("shared", "alone"),
    [
        # Tumbling windows have an edge in each period of theirs; 3 and 4096 meet again after 3 * 4096.
        ((SlidingWindows(3, 3), SlidingWindows(4096, 4096)), (SlidingWindows(3, 3), SlidingWindows(4097, 4097))),
        ((SlidingWindows(4096, 4096), SlidingWindows(3, 3)), (SlidingWindows(4097, 4097), SlidingWindows(3, 3))),
        # Of windows whose slide does not divide their size it is two.
        ((SlidingWindows(4, 3), SlidingWindows(2048, 2048)), (SlidingWindows(4, 3), SlidingWindows(2049 + 1, 2049 + 1))),
    ],
    ids=["one edge each", "the other first", "two edges"],
)
def test_where_edges_are_few_enough_panes_lie_between_them_and_else_are_equal(shared, alone):
    """Of each kind up to 4096 edges are taken: stored panes are numbered by this, so it stays."""
    grid = PaneGrid.of(*shared)
    period = shared[0].period * shared[1].period
    edges = {n * one.period + edge for one in shared for n in range(period // one.period) for edge in one.edges()}
    assert (grid.origin, grid.period, grid.edges) == (0, period, tuple(sorted(edges)))
    assert len(grid.edges) > 4000
    assert (PaneGrid.of(*alone).period, PaneGrid.of(*alone).edges) == (1, (0,))
