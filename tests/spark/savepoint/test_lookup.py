"""The windows and rows in a summary of state become the known state of ``why``."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from panestream.engine.inspection.summary import SourceTimes
from panestream.spark.savepoint.inspectable_state import lookup
from panestream.tracing.of_state import KnownRow, KnownState, KnownWindow
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy
from panestream.windowing.windows import GlobalWindow, TimeWindow

PLAN = SimpleNamespace(event_time="at", watermark=WatermarkStrategy.for_monotonous_timestamps())
SECOND = 1_000_000


def summary_of(**more):
    told = {
        "listed": None, "sources": (), "source_count": 1, "windows": 0, "elements": 0, "watermark": None, "clock": None,
        "closed": None, "late_dropped": None,
    }  # fmt: skip
    return SimpleNamespace(**{**told, **more})


def window_of(**more):
    told = {
        "window_start": "1970-01-01T00:00:10Z", "window_end": "1970-01-01T00:00:20Z", "window": "short", "rows": 3,
        "results": {"n": 3}, "contents": None, "firings": 2, "last_firing": "early", "due": "1970-01-01T00:00:20Z",
        "closes": "1970-01-01T00:00:25Z", "key": {"user": "ann"},
    }  # fmt: skip
    return {**told, **more}


def element_of(place, **more):
    bounds = {"start": "1970-01-01T00:00:10Z", "end": "1970-01-01T00:00:20Z"}
    told = {"place": place, "time": "1970-01-01T00:00:11Z", "windows": [bounds], "key": {"user": "ann", "page": 7}}
    return {**told, **more}


def known_window(**more):
    told = {
        "key": "ann", "window": TimeWindow(10 * SECOND, 20 * SECOND), "label": "short", "rows": 3, "results": {"n": 3},
        "contents": None, "firings": 2, "last_firing": "early", "due": 20 * SECOND, "closes": 25 * SECOND,
    }  # fmt: skip
    return KnownWindow(**{**told, **more})


def test_empty_summary_gives_empty_known_state():
    assert lookup(PLAN, summary_of(), "the checkpoint") == KnownState(
        PLAN, "the checkpoint", (), (), 0, 0, MIN_TIMESTAMP, None, MIN_TIMESTAMP, None, None
    )


def test_known_state_has_the_counts_of_the_summary():
    summary = summary_of(windows=7, elements=9, watermark=5, clock=6, closed=4, late_dropped=8)
    assert lookup(PLAN, summary, "it") == KnownState(PLAN, "it", (), (), 7, 9, 5, 6, 4, None, 8)
    summary = summary_of(watermark=0, clock=0, closed=0, late_dropped=0)
    assert lookup(PLAN, summary, "it") == KnownState(PLAN, "it", (), (), 0, 0, 0, 0, 0, None, 0)


def test_known_windows_have_bounds_and_times():
    listed = {
        "windows": [
            window_of(),
            window_of(window_start=None, window_end=None, due=None, closes=None, key={"user": "bob", "page": 7}, firings=0),
            window_of(key={"user": None}, contents="{}", results=None, window_start=None),
        ],
        "elements": (),
    }
    one, none, nobody = lookup(PLAN, summary_of(listed=listed), "it").windows
    assert one == known_window()
    assert none == known_window(key=("bob", 7), window=GlobalWindow(), due=None, closes=None, firings=0)
    assert nobody == known_window(key=None, contents="{}", results=None, window=GlobalWindow())


def test_known_state_has_the_key_of_the_question():
    listed = {"windows": [window_of()], "elements": [element_of(0, value=1)]}
    known = lookup(PLAN, summary_of(listed=listed), "it", ("ann", 7))
    assert (known.windows[0].key, known.rows[0].key) == (("ann", 7), ("ann", 7))
    known = lookup(PLAN, summary_of(listed=listed), "it", None)
    assert (known.windows[0].key, known.rows[0].key) == (None, None)


def test_known_window_of_a_query_without_keys_has_no_key():
    without = {name: value for name, value in window_of().items() if name != "key"}
    assert lookup(PLAN, summary_of(listed={"windows": [without], "elements": ()}), "it").windows[0].key is None
    assert lookup(PLAN, summary_of(listed={"windows": [without], "elements": ()}), "it", 3).windows[0].key == 3


@pytest.mark.parametrize(
    ("more", "time", "value"),
    [
        ({"value": 5}, 11 * SECOND, 5),
        ({"value": 5, "element": None}, 11 * SECOND, 5),
        ({"element": "text"}, 11 * SECOND, "text"),
        ({"time": None, "value": 5}, None, 5),
        ({"element": {"at": "1970-01-01T00:00:12Z", "v": 4}}, 11 * SECOND, ("1970-01-01T00:00:12Z", 4)),
        # The row is stored without its time, which is in one of its columns.
        ({"time": None, "element": {"at": "1970-01-01T00:00:12.500Z", "v": 4}}, 12_500_000, ("1970-01-01T00:00:12.500Z", 4)),
        ({"time": None, "element": {"at": "1970-01-01T00:00:12", "v": 4}}, 12 * SECOND, ("1970-01-01T00:00:12", 4)),
        ({"time": None, "element": {"at": "soon", "v": 4}}, None, ("soon", 4)),
        ({"time": None, "element": {"at": 12, "v": 4}}, None, (12, 4)),
        ({"time": None, "element": {"then": "1970-01-01T00:00:12Z"}}, None, ("1970-01-01T00:00:12Z",)),
    ],
)
def test_known_rows_have_time_and_values(more, time, value):
    known = lookup(PLAN, summary_of(listed={"windows": (), "elements": [element_of(0, **more)]}), "it")
    (row,) = known.rows
    told = tuple(row.value) if isinstance(value, tuple) else row.value
    assert (row.key, row.timestamp, told, row.windows) == (("ann", 7), time, value, (TimeWindow(10 * SECOND, 20 * SECOND),))
    if isinstance(value, tuple):
        assert row.value._fields == tuple(more["element"])


def test_known_rows_keep_arrival_order_and_any_number_of_windows():
    everywhere = [{"start": None, "end": None}, {"start": "1970-01-01T00:00:00Z", "end": "1970-01-01T00:00:01Z"}]
    elements = [element_of(2, value="c", windows=[]), element_of(0, value="a", windows=everywhere), element_of(1, value="b")]
    rows = lookup(PLAN, summary_of(listed={"windows": (), "elements": elements}), "it").rows
    assert [row.value for row in rows] == ["a", "b", "c"]
    assert [row.windows for row in rows] == [
        (GlobalWindow(), TimeWindow(0, SECOND)),
        (TimeWindow(10 * SECOND, 20 * SECOND),),
        (),
    ]
    assert all(isinstance(row, KnownRow) for row in rows)


@pytest.mark.parametrize(
    ("sources", "count", "slowest"),
    [
        ((), 0, None),
        ((SourceTimes("p0", 5, 4, False),), 1, None),
        ((SourceTimes("p0", 5, 4, False), SourceTimes("p1", 9, 8, False)), 2, ("p0", 4)),
        ((SourceTimes("p0", 5, 4, True), SourceTimes("p1", 9, None, False)), 2, ("p1", None)),
        ((SourceTimes("", 5, 4, False), SourceTimes("p1", 9, 8, True)), 2, None),
    ],
)
def test_slowest_source_partition_is_the_first_that_is_not_idle(sources, count, slowest):
    assert lookup(PLAN, summary_of(sources=sources, source_count=count), "it").slowest == slowest
