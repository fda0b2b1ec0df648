"""The live view in a notebook: its content for made-up progress, its end, and its output without a notebook."""

import re
import sys
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

import panestream as pst
from panestream.errors import InvalidPlanError, SinkError
from panestream.insight import live as module
from panestream.insight.live import MOST, View, sparkline
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.query import RunningQuery

START = 1_767_225_600_000_000


def batch(number, **more):
    given = {
        "batch_id": number,
        "rows": 100,
        "duration_ms": 50,
        "rows_per_second": 2000.0,
        "watermark": START + number * 60_000_000,
        "max_event_time": START + (number + 5) * 60_000_000,
        "late_rows": number % 2,
        "invalid_rows": 0,
        "fired_rows": 3,
        "fired_windows": 1,
        "open_windows": 4,
        "state_bytes": 1_000,
        "state_calls": 2,
        "on_time_firings": 3,
    }
    return BatchProgress(**{**given, **more})


class Query(RunningQuery):
    """A query with a fixed number of micro-batches. Each look adds one, and then the query ends."""

    def __init__(self, batches, error=None, interrupt=None):
        plan = SimpleNamespace(assigner=pst.TumblingEventTimeWindows.of("1 minute"))
        for name, value in {"plan": plan, "batches": batches, "error": error, "interrupt": interrupt, "looks": 0}.items():
            object.__setattr__(self, name, value)

    @property
    def is_active(self):
        object.__setattr__(self, "looks", self.looks + 1)
        if self.looks == self.interrupt:
            raise KeyboardInterrupt
        return self.looks <= len(self.batches)

    @property
    def recent_progress(self):
        return self.batches[: self.looks]

    def await_termination(self, timeout=None):
        if self.error is not None:
            raise self.error
        return True


@pytest.fixture
def displays(monkeypatch):
    states = []
    monkeypatch.setattr(module, "_shown", lambda view: SimpleNamespace(update=lambda one: states.append(repr(one))))
    return states


def test_live_view_follows_the_query_and_ends_with_it(displays):
    pst.tools.live(Query([batch(0), batch(1), batch(2)]), every=0.001)
    assert [text.split(":")[0] for text in displays] == ["<running"] * 3 + ["<ended"]
    assert displays[-1] == (
        "<ended: micro-batch 2, 2,000 rows/s, watermark 2026-01-01 00:02:00 UTC, 4 open, 9 firings, 1 late row>"
    )


def test_failed_query_fails_the_cell(displays):
    with pytest.raises(SinkError, match="the disk is full"):
        pst.tools.live(Query([batch(0)], SinkError("the disk is full\nand more")), every=0.001)
    assert displays[-1].startswith("<failed: the disk is full:")


def test_interrupted_cell_leaves_the_query_running(displays):
    pst.tools.live(Query([batch(0), batch(1), batch(2)], interrupt=3), every=0.001)
    assert "runs on, no longer watched" in displays[-1]


def test_live_view_ends_after_the_given_seconds(displays):
    query = Query([batch(n) for n in range(1_000)])
    pst.tools.live(query, every=0.01, seconds=0.1)
    assert query.looks < 50
    assert "runs on" in displays[-1]


def test_live_view_refuses_wrong_arguments():
    with pytest.raises(InvalidPlanError, match="the query that start"):
        pst.tools.live("query")
    with pytest.raises(InvalidPlanError, match="positive number of seconds"):
        pst.tools.live(Query([]), every=0)


def test_live_view_prints_lines_without_a_notebook(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    pst.tools.live(Query([batch(0)]), every=0.001)
    assert capsys.readouterr().out.splitlines()[-1].startswith("<ended: micro-batch 0")


def test_html_of_the_live_view_is_escaped_and_bounded():
    view = View("<script>alert(1)</script>")
    assert "No micro-batch yet." in view._repr_html_()
    view.add(batch(n, open_windows=None, watermark=None) for n in range(MOST + 50))
    view.add(batch(n) for n in range(MOST + 60))
    assert (len(view.batches), view.count, view.rows) == (MOST, MOST + 60, 100 * (MOST + 60))
    html = view._repr_html_()
    assert "<script" not in html
    assert html.count("<svg") == 5
    assert not re.search(r"https?://|<img|url\(", html)
    for svg in re.findall(r"<svg.*?</svg>", html):
        ET.fromstring(svg)


def test_sparkline_draws_empty_and_unknown_values():
    for values in ([], [None, None], [0, 0], [1], [None, 5, -1]):
        for bars in (True, False):
            assert "nan" not in sparkline(values, 'a "label"', bars=bars)


def test_micro_batch_and_harness_have_html():
    assert "<th" in batch(3)._repr_html_()
    assert "2026-01-01T00:03:00Z" in batch(3)._repr_html_()
    harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max, traced=True)
    harness.process_element(7, "10 seconds")
    assert "TumblingEventTimeWindows.of(&#x27;1 minute&#x27;)" in harness._repr_html_()
