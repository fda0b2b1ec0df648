"""The last instant of all windows of a row, and the windows for which it is known in advance."""

from __future__ import annotations

import pytest

from panestream.engine.runtime.group_operator import check_closable, last_instant
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import (
    CalendarDays,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    LookBackWindows,
    PredicateWindows,
    ProcessingTimeSessionWindows,
    RollingWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import MAX_TIMESTAMP

END = MAX_TIMESTAMP


@pytest.mark.parametrize(
    ("assigner", "newest", "last"),
    [
        (TumblingEventTimeWindows(60), 119, 119),
        (TumblingEventTimeWindows(60), 120, 179),
        (TumblingEventTimeWindows(60, 5), 124, 124),
        (TumblingEventTimeWindows(60, 0, WindowStagger.RANDOM), 130, 189),
        (TumblingEventTimeWindows(60, 0, WindowStagger.NATURAL), END - 60, END - 1),
        (TumblingEventTimeWindows(60, 0, WindowStagger.NATURAL), END - 58, END),
        (SlidingEventTimeWindows(60, 20), 130, 179),
        (SlidingEventTimeWindows(10, 15), 9, 9),
        (SlidingEventTimeWindows(10, 15), 10, 10),
        (CumulatingEventTimeWindows(60, 20), 130, 179),
        (EventTimeSessionWindows(30), 130, 159),
        (LookBackWindows(60), 130, 130),
        (RollingWindows((("h", 60), ("ever", None)), 20), 130, 199),
        (RollingWindows((("h", 60),), 20), END - 6, END),
        (LookBackWindows(60, 7), 130, 137),
        (LookBackWindows(60, 7), END - 6, END),
        (PredicateWindows("s", gap=5), 130, 135),
        (PredicateWindows("s", gap=5), END - 4, END),
        (PredicateWindows("s", "e"), 130, 130),
        (SeveralWindows.of({"a": TumblingEventTimeWindows(7), "b": TumblingEventTimeWindows(60)}), 130, 179),
    ],
)
def test_last_instant_of_all_windows_of_the_newest_row(assigner, newest, last):
    assert last_instant(assigner, newest) == last


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(60),
        SlidingEventTimeWindows(60, 20),
        CumulatingEventTimeWindows(60, 20),
        EventTimeSessionWindows(30),
        EventTimeSessionWindows(30).max_duration("1 hour"),
        LookBackWindows(60),
        PredicateWindows("s", gap=5),
        SeveralWindows.of({"a": TumblingEventTimeWindows(7), "b": TumblingEventTimeWindows(60)}),
    ],
)
def test_windows_whose_end_follows_from_a_row_can_close_on_silence(assigner):
    check_closable(assigner)


@pytest.mark.parametrize(
    ("assigner", "message"),
    [
        (EventTimeSessionWindows.with_gap_column("wait", "seconds"), "their rows alone say"),
        (ProcessingTimeSessionWindows(5), "sessions of one gap"),
        (TumblingProcessingTimeWindows(5), "tumbling, sliding and cumulating ones"),
        (PredicateWindows("s", "e"), "windows by predicates with a gap, not PredicateWindows"),
        (CalendarDays.of(1, zone="UTC"), "not CalendarDays"),
        (GlobalWindows.create(), "leave it out"),
        (SeveralWindows.of({"a": PredicateWindows("s", gap=5), "b": CalendarDays.of(1, zone="UTC")}), "not CalendarDays"),
    ],
)
def test_windows_whose_end_does_not_follow_from_a_row_cannot_close_on_silence(assigner, message):
    with pytest.raises(InvalidPlanError) as error:
        check_closable(assigner)
    assert message in str(error.value)
