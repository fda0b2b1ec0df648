"""The final runs that close the windows of a query at the end of its input. Without Spark."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from panestream.errors import FencedError, PanestreamWarning
from panestream.spark.checkpoint import control_messages
from panestream.spark.checkpoint.control_messages import EndOfInputRun


def batch(rows=0, history_rows=0):
    return SimpleNamespace(rows=rows, history_rows=history_rows)


@pytest.fixture
def sent(monkeypatch):
    told = []
    monkeypatch.setattr(control_messages, "send", lambda *given: told.append(given))
    return told


def closing_of(**more):
    run = object()
    return EndOfInputRun(**{"spark": "the session", "checkpoint": "/c", "run": run, "check": lambda: None, **more}), run


@pytest.mark.parametrize("progress", [[], [batch()], [batch(3)], [batch(0, 2)]])
def test_end_signal_is_sent_after_the_first_run(sent, progress):
    one, run = closing_of()
    assert one.after(progress) is run
    assert (one.tries, one.before, one.over) == (1, progress, False)
    assert sent == [("the session", "/c", control_messages.END_WORD)]


def test_closing_ends_when_the_first_micro_batch_of_a_run_has_no_rows(sent):
    one, run = closing_of()
    first, second = [batch(5), batch(7)], [batch(), batch(3)]
    assert one.after(first) is run
    assert one.after(second) is None
    assert (one.over, one.tries, one.before) == (True, 1, first)
    assert one.after([batch(9)]) is None
    assert len(sent) == 1


@pytest.mark.parametrize("second", [[batch(1)], [batch(0, 1)], []])
def test_end_signal_is_sent_again_if_rows_came_meanwhile(sent, second):
    one, run = closing_of()
    assert one.after([batch(5)]) is run
    assert one.after(second) is run
    assert (one.over, one.tries, len(one.before), len(sent)) == (False, 2, 1 + len(second), 2)


def test_endless_input_leaves_windows_open_with_a_warning(sent):
    one, run = closing_of()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [one.after([batch(1)]) for _ in range(10)] == [run] * 10
    with pytest.warns(PanestreamWarning) as told:
        assert one.after([batch(1)]) is None
    assert str(told[0].message) == (
        "fire_at_end: 10 times rows came before the windows could be closed, so windows are still open: the input does not end. "
        "Keep the query running (trigger='10 seconds'), and close windows with WatermarkStrategy.closing_after"
    )
    assert (one.over, one.tries, len(sent), len(one.before)) == (True, 10, 10, 10)
    assert one.after([batch(1)]) is None


def test_fenced_run_sends_no_end_signal(sent):
    def refuse():
        raise FencedError("another copy")

    one, _ = closing_of(check=refuse)
    with pytest.raises(FencedError):
        one.after([batch(1)])
    assert (one.tries, one.before, sent) == (0, [], [])
