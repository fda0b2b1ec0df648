"""Pictures are the same for the same run, work for any size and number of harnesses, and are saved in the format of the file name."""

from __future__ import annotations

import re
from itertools import product

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import panestream as pst
from panestream.errors import InvalidPlanError
from panestream.insight.timeline import PAPER, drawn
from panestream.insight.timeline_layout import layout
from panestream.testing import WindowTestHarness
from tests.costs import thinned

MINUTES = pst.TumblingEventTimeWindows.of("1 minute")


def harness(windows=MINUTES, rows=6, keys=2, step=7, **options):
    one = WindowTestHarness(windows, traced=True, **{"reduce": max, **options})
    for row in range(rows):
        one.process_element(row, f"{row * step} seconds", key=f"key{row % keys}")
    return one


def test_same_run_gives_the_same_picture():
    assert pst.tools.timeline(harness()).svg() == pst.tools.timeline(harness()).svg()
    assert pst.tools.timeline(harness()).png() == pst.tools.timeline(harness()).png()


def test_svg_has_real_text_in_the_colours_of_the_page():
    svg = pst.tools.timeline(harness()).svg(themed=False)
    assert ">key0</text>" in svg
    assert "currentColor" in svg
    assert "#010101" not in svg
    assert "<style>:root" not in svg
    assert "prefers-color-scheme: dark" in pst.tools.timeline(harness()).svg()


def test_picture_of_ten_thousand_rows_shows_complete_counts():
    one = WindowTestHarness(MINUTES, reduce=max, traced=True)
    for row in range(10_000):
        one.process_element(row, row * 100_000, key=row % 3)
        if row % 500 == 499:
            one.process_watermark((row - 300) * 100_000)
    for row in range(50):
        one.process_element(row, row, key=0)  # these rows are late
    picture = pst.tools.timeline(one)
    (drawn,) = picture.layouts
    assert drawn.points == ()
    assert {fate: sum(cells.values()) for fate, cells in drawn.crowd.items()} == {"taken": 10_000, "late": 50}
    assert len(picture.svg()) < 700_000


@pytest.mark.full
def test_picture_of_many_windows_shows_complete_counts():
    one = harness(pst.SlidingEventTimeWindows.of("1 minute", "2 seconds"), rows=300, keys=30, step=2)
    one.end_of_input()
    trace = one.trace()
    drawn = layout(trace)
    assert drawn.bars == ()
    assert sum(drawn.windows.cells["window"].values()) == len(trace.windows)
    assert sum(drawn.windows.cells["on_time"].values()) == len(trace.firings)
    assert drawn.windows.cells["on_time"] == drawn.windows.cells["window"]  # a firing at the end is drawn above its window
    names = re.findall(r' id="([^"]+)"', str(pst.tools.timeline(one).svg()))
    assert len(names) == len(set(names))  # a page must not contain the same id twice


def test_hidden_keys_are_listed_and_one_can_be_selected():
    one = harness(rows=20, keys=10)
    (drawn,) = pst.tools.timeline(one).layouts
    assert drawn.left_out == ("key8", "key9")
    assert "2 more keys are not shown" in pst.tools.timeline(one).svg()
    (drawn,) = pst.tools.timeline(one, key="key9").layouts
    assert [lanes.key for lanes in drawn.lanes] == ["key9"]
    assert len(drawn.points) == 2


def test_trace_of_one_key_is_consistent():
    one = harness(pst.EventTimeSessionWindows.with_gap("20 seconds"), rows=20, keys=2)
    one.end_of_input()
    whole, part = one.trace(), one.trace().of_key("key1")
    assert len(part.firings) == sum(whole.windows[firing.window].key == "key1" for firing in whole.firings)
    assert all({part.elements[number].key for number in firing.elements} == {"key1"} for firing in part.firings)
    assert [element.number for element in part.elements] == list(range(10))


def test_two_harnesses_share_one_time_axis():
    picture = pst.tools.timeline(
        harness(), harness(pst.EventTimeSessionWindows.with_gap("1 minute")), titles=["minutes", "sessions"]
    )
    first, second = picture.layouts
    assert (first.first, first.last) == (second.first, second.last)
    svg = picture.svg()
    assert ">minutes</text>" in svg
    assert ">sessions</text>" in svg
    assert 'id="1-row-0"' in svg


def test_picture_is_saved_in_the_format_of_its_file_name(tmp_path):
    picture = pst.tools.timeline(harness())
    assert picture.save(tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert picture.save(str(tmp_path / "one.svg")).read_text("utf-8").startswith("<svg")
    with pytest.raises(InvalidPlanError, match=r"saved as \.svg or \.png, not as 'one\.pdf'"):
        picture.save(tmp_path / "one.pdf")


def test_picture_escapes_user_values():
    one = WindowTestHarness(MINUTES, reduce=max, traced=True)
    one.process_element("$x<b>", "1 second", key="<script>")
    one.end_of_input()
    svg = pst.tools.timeline(one, titles=['"><script>']).svg()
    assert "<script>" not in svg
    assert "$x&lt;b&gt;" in svg


def test_empty_harness_can_be_drawn():
    pst.tools.timeline(WindowTestHarness(MINUTES, reduce=max, traced=True)).png()
    lonely = WindowTestHarness(MINUTES, reduce=max, traced=True)
    lonely.process_watermark("5 minutes")
    pst.tools.timeline(lonely).svg()


def test_harnesses_without_a_common_time_axis_are_refused():
    clock = WindowTestHarness(pst.TumblingProcessingTimeWindows.of("1 minute"), reduce=max, traced=True)
    clock.set_processing_time("1 second")
    clock.process_element(1)
    with pytest.raises(InvalidPlanError, match="do not share a time axis"):
        pst.tools.timeline(harness(), clock)
    with pytest.raises(InvalidPlanError, match="at least one harness"):
        pst.tools.timeline()
    with pytest.raises(InvalidPlanError, match="1 pictures and 2 titles"):
        pst.tools.timeline(clock, titles=["a", "b"])


@pytest.mark.parametrize(
    ("price", "interval"),
    thinned(list(product([1, 100, 1_234_567], ["3 seconds", "7 seconds", "12 seconds", "25 seconds"])), 5),
)
def test_labels_of_firings_do_not_overlap(price, interval):
    one = harness(
        trigger=pst.ContinuousEventTimeTrigger.of(interval), rows=0, reduce=lambda a, b: a + b, allowed_lateness="20 seconds"
    )
    for second in (*range(2, 60, 6), 59, 75, 58, 110):
        one.process_element(price, f"{second} seconds", key="ann")
        one.process_watermark(f"{second} seconds")
    one.end_of_input()
    figure = drawn(pst.tools.timeline(one).layouts, ("",), PAPER)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    windows = figure.axes[-1]
    told = [text for text in windows.texts if text.get_text()]
    places = [text.get_window_extent(canvas.get_renderer()) for text in told]
    assert told or price > 100
    for at, place in enumerate(places):
        assert not place.count_overlaps(places[:at]), [text.get_text() for text in told]


def test_titles_are_escaped():
    svg = pst.tools.timeline(harness(), titles=["<script>\x00\x1b[31m\ud800"]).svg()
    assert "&lt;script&gt;\\x00\\x1b[31m\\ud800" in svg
    assert "<script" not in svg


def test_repr_of_an_empty_picture_has_zero_windows():
    assert repr(pst.tools.timeline(harness(rows=0))).startswith("<Timeline: 0 rows, 0 windows;")
