"""Windows that are put together from tiles are made of whole slices: refused are those that can be seen to be not."""

import pytest

from panestream.engine.operators.panes.rule import pane_grid
from panestream.engine.tiles.windows import check_whole
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import CumulatingEventTimeWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

SLICES = pane_grid(TumblingEventTimeWindows(10, 3))


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(10, 3),
        TumblingEventTimeWindows(30, 3),
        TumblingEventTimeWindows(30, 23),
        SlidingEventTimeWindows(50, 20, 3),
        CumulatingEventTimeWindows(60, 20, 3),
    ],
)
def test_windows_of_whole_slices(assigner):
    check_whole(SLICES, pane_grid(assigner))


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(30),
        TumblingEventTimeWindows(25, 3),
        SlidingEventTimeWindows(55, 20, 3),  # some of its edges are those of slices
        CumulatingEventTimeWindows(60, 15, 3),
    ],
)
def test_windows_that_begin_or_end_within_slices_are_refused(assigner):
    with pytest.raises(InvalidPlanError, match="windows begin or end within slices of 10 microseconds"):
        check_whole(SLICES, pane_grid(assigner))
