"""Panes and the windows over them, against the definition: a window contains an instant or it does not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panestream.engine.slicing import PaneGrid


@st.composite
def grids(draw):
    size, slide = draw(st.integers(1, 30)), draw(st.integers(1, 30))
    return PaneGrid.of(size, slide, draw(st.integers(1 - slide, slide - 1)))


def windows_with(grid, time):
    return [n for n in range(-200, 200) if grid.offset + n * grid.slide <= time < grid.offset + n * grid.slide + grid.size]


@given(grids(), st.integers(-100, 100))
def test_a_pane_lies_in_the_windows_of_its_instants(grid, time):
    pane = grid.panes_of(np.array([time]))
    first, last = grid.windows_over(pane)
    assert list(range(first[0], last[0] + 1)) == windows_with(grid, time)
    assert grid.start_of(int(pane[0])) <= time < grid.start_of(int(pane[0]) + 1)
    assert bool(grid.in_gap(pane)[0]) == (not windows_with(grid, time))


@given(grids(), st.integers(-20, 20))
def test_a_window_is_a_whole_number_of_panes(grid, n):
    start = grid.offset + n * grid.slide
    window = np.array([n])
    assert grid.start_of_window(window)[0] == start
    assert grid.start_of(int(grid.first_pane(window)[0])) == start
    assert grid.start_of(int(grid.end_pane(window)[0])) == start + grid.size


@given(grids(), st.integers(-100, 100))
def test_the_watermark_closes_windows_at_their_max_timestamp(grid, watermark):
    closed = [n for n in range(-200, 200) if grid.offset + n * grid.slide + grid.size - 1 <= watermark]
    assert grid.last_closed_window(watermark) == max(closed)
    live = grid.first_live_pane(watermark)
    for pane in range(live - 5, live + 5):
        open_windows = [n for n in windows_with(grid, grid.start_of(pane)) if n > max(closed)]
        if not grid.in_gap(np.array([pane]))[0]:
            assert (pane >= live) == bool(open_windows)


@given(grids(), st.sets(st.integers(-60, 60), max_size=8), st.integers(-30, 30), st.integers(-30, 30))
def test_windows_of_panes_are_those_that_contain_one_of_them(grid, times, after, until):
    panes = np.unique(grid.panes_of(np.array(sorted(times), np.int64)))
    expected = sorted({n for time in times for n in windows_with(grid, time) if after < n <= until})
    assert grid.windows_of(panes, after, until).tolist() == expected


@given(grids())
def test_there_are_at_most_two_panes_to_a_slide(grid):
    assert len(grid.edges) == (1 if grid.size % grid.slide == 0 else 2)
