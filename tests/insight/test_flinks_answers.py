"""The drawing of every named scenario agrees with Flink's answer."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from panestream.insight.timeline import timeline
from panestream.insight.timeline_layout import MAX_LANES, MAX_POINTS, layout
from panestream.windowing.windows import TimeWindow
from tests.tracing.test_flinks_answers import SCENARIOS, traced

DRAWN = SCENARIOS[::12]
"""Each takes a third of a second to draw."""


def bounds(window):
    return (window.window.start, window.window.end) if isinstance(window.window, TimeWindow) else (None, None)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_drawing_of_a_scenario_agrees_with_flinks_answer(scenario):
    trace, observed = traced(scenario)
    if trace is None or observed.error is not None:
        return
    drawn, expected = layout(trace), scenario.expected
    if drawn.windows is not None:
        counted = {kind: sum(cells.values()) for kind, cells in drawn.windows.cells.items()}
        assert counted == {
            "window": sum(window.merged_into is None for window in trace.windows),
            **Counter(each.which for each in trace.firings),
        }
        assert sum(len(firing.results) for firing in trace.firings) == sum(map(len, expected.steps))
        return
    assert not drawn.left_out
    # Each of Flink's results belongs to a mark on the bar of its window, or of the window that it merged into.
    keys = {lane: lanes.key for lanes in drawn.lanes for lane in range(lanes.first, lanes.first + lanes.count)}
    marks = Counter()
    for mark in drawn.marks:
        firing = trace.windows[mark.window].firings[mark.number]
        marks[(keys[mark.lane], *bounds(trace.windows[mark.window]))] += len(firing.results)
    assert marks == Counter((each["key"], each["start"], each["end"]) for step in expected.steps for each in step)
    # Each row appears once, and there are as many red ones as Flink called late.
    assert sorted(point.number for point in drawn.points) == list(range(len(trace.elements)))
    assert sum(point.fate == "late" for point in drawn.points) == (
        sum(map(len, expected.late)) if scenario.spec.get("late_output") else expected.late_dropped
    )
    # Bars of a lane do not overlap, and each is within the picture.
    for bar in drawn.bars:
        assert (bar.start, bar.end) == bounds(trace.windows[bar.window])
        assert bar.start is None or drawn.first <= bar.start < bar.end <= drawn.last
        for other in drawn.bars:
            if other.lane == bar.lane and other.window != bar.window:
                assert None not in (bar.start, other.start)
                assert bar.end <= other.start or other.end <= bar.start
    assert all(drawn.first <= point.x <= drawn.last for point in drawn.points)


@pytest.mark.full
@pytest.mark.parametrize("scenario", DRAWN, ids=lambda scenario: scenario.name)
def test_drawing_shows_each_row_and_firing_once(scenario):
    trace, _ = traced(scenario)
    if trace is None:
        return
    picture = timeline(trace)
    (drawn,) = picture.layouts
    svg = picture.svg()
    ET.fromstring(svg)
    found = Counter(re.findall(r'id="((?:row|window|firing)-[\d-]+)"', svg))
    wanted = [f"row-{point.number}" for point in drawn.points] + [f"window-{bar.window}" for bar in drawn.bars]
    wanted += [f"firing-{mark.window}-{mark.number}" for mark in drawn.marks]
    assert found == Counter(wanted)
    assert len(drawn.points) <= MAX_POINTS
    assert drawn.height <= MAX_LANES
