"""Each short name of windows makes the right assigner."""

from __future__ import annotations

from datetime import timedelta

import pytest

import panestream as pst
from panestream.errors import InvalidWindowError


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (pst.tumbling("1 hour"), pst.TumblingEventTimeWindows.of("1 hour")),
        (pst.tumbling(timedelta(hours=1)), pst.TumblingEventTimeWindows.of("1 hour")),
        (pst.tumbling("1 day", offset="-8 hours"), pst.TumblingEventTimeWindows.of("1 day", "-8 hours")),
        (pst.tumbling("1 hour", processing_time=True), pst.TumblingProcessingTimeWindows.of("1 hour")),
        (pst.sliding("1 hour", "5 minutes"), pst.SlidingEventTimeWindows.of("1 hour", "5 minutes")),
        (
            pst.sliding("1 hour", "5 minutes", offset="1 minute", processing_time=True),
            pst.SlidingProcessingTimeWindows.of("1 hour", "5 minutes", "1 minute"),
        ),
        (pst.cumulating("1 day", "1 hour"), pst.CumulatingEventTimeWindows.of("1 day", "1 hour")),
        (pst.session("5 minutes"), pst.EventTimeSessionWindows.with_gap("5 minutes")),
        (pst.session(timedelta(minutes=5), processing_time=True), pst.ProcessingTimeSessionWindows.with_gap("5 minutes")),
        (pst.count(100), pst.windows.CountWindows(100)),
        (pst.count(100, 10), pst.windows.CountWindows(100, slide=10)),
    ],
)
def test_short_name_is_the_assigner(short, long):
    assert short == long
    assert repr(short) == repr(long)


def test_count_window_of_negative_size_is_refused():
    with pytest.raises(InvalidWindowError, match="the size of a count window is a number of elements"):
        pst.count(-1)
