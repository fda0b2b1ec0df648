"""The live view: what it shows of progress that is made up, when it ends, and that it works without a notebook."""

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
    """A query that has so many micro-batches, one more at each look, and then ends."""

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
def shown(monkeypatch):
    states = []
    monkeypatch.setattr(module, "_shown", lambda view: SimpleNamespace(update=lambda one: states.append(repr(one))))
    return states


def test_the_view_follows_the_query_and_ends_with_it(shown):
    pst.tools.live(Query([batch(0), batch(1), batch(2)]), every=0.001)
    assert [text.split(":")[0] for text in shown] == ["<running"] * 3 + ["<ended"]
    assert shown[-1] == ("<ended: micro-batch 2, 2,000 rows/s, watermark 2026-01-01 00:02:00 UTC, 4 open, 9 firings, 1 late row>")


def test_a_query_that_fails_fails_the_cell(shown):
    with pytest.raises(SinkError, match="the disk is full"):
        pst.tools.live(Query([batch(0)], SinkError("the disk is full\nand more")), every=0.001)
    assert shown[-1].startswith("<failed: the disk is full:")


def test_an_interrupted_cell_leaves_the_query_running(shown):
    pst.tools.live(Query([batch(0), batch(1), batch(2)], interrupt=3), every=0.001)
    assert "runs on, no longer watched" in shown[-1]


def test_so_many_seconds(shown):
    query = Query([batch(n) for n in range(1_000)])
    pst.tools.live(query, every=0.01, seconds=0.1)
    assert query.looks < 50
    assert "runs on" in shown[-1]


def test_what_is_asked():
    with pytest.raises(InvalidPlanError, match="the query that start"):
        pst.tools.live("query")
    with pytest.raises(InvalidPlanError, match="positive number of seconds"):
        pst.tools.live(Query([]), every=0)


def test_without_a_notebook_it_prints_lines(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    pst.tools.live(Query([batch(0)]), every=0.001)
    assert capsys.readouterr().out.splitlines()[-1].startswith("<ended: micro-batch 0")


def test_what_a_notebook_is_given():
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


def test_plots_of_nothing_and_of_unknown_values():
    for values in ([], [None, None], [0, 0], [1], [None, 5, -1]):
        for bars in (True, False):
            assert "nan" not in sparkline(values, 'a "label"', bars=bars)


def test_a_micro_batch_and_a_harness_show_themselves():
    assert "<th" in batch(3)._repr_html_()
    assert "2026-01-01T00:03:00Z" in batch(3)._repr_html_()
    harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max, traced=True)
    harness.process_element(7, "10 seconds")
    assert "TumblingEventTimeWindows.of(&#x27;1 minute&#x27;)" in harness._repr_html_()
