"""The calls of a query's sinks, micro-batch by micro-batch. Rows are words, without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from panestream.errors import SinkError
from panestream.spark.sinks import outputs as outputs_
from panestream.spark.sinks.outputs import Outputs


class Noting:
    """A sink that records its calls."""

    def __init__(self, tag, calls):
        self.tag, self.calls = tag, calls

    def begin(self, rows, number):
        self.calls.append((self.tag, "begin", rows, number))

    def on_first_commit(self, rows):
        self.calls.append((self.tag, "committed", rows))

    def write(self, rows, number):
        self.calls.append((self.tag, "write", rows, number))

    def describe(self):
        return f"noting {self.tag}"


def outputs(**more):
    calls = []
    return Outputs({tag: Noting(tag, calls) for tag in ("main", "late")}, epoch=None, **more), calls


def deliver(told, present, batch_id):
    told.deliver("rows of {}".format, present, batch_id)


def test_first_micro_batch_of_a_run_begins_and_writes_all_outputs():
    told, calls = outputs()
    deliver(told, ["main"], 7)
    assert calls == [(tag, what, f"rows of {tag}", 7) for tag in ("main", "late") for what in ("begin", "write")]


def test_later_micro_batches_only_write_outputs_with_rows():
    told, calls = outputs()
    deliver(told, [], 7)
    calls.clear()
    deliver(told, ["late"], 8)
    deliver(told, [], 9)
    assert [call for call in calls if call[1] != "committed"] == [("late", "write", "rows of late", 8)]


def test_each_output_learns_once_of_the_first_commit():
    told, calls = outputs()
    deliver(told, [], 7)
    deliver(told, [], 7)
    assert "committed" not in [what for _, what, *_ in calls]
    calls.clear()
    deliver(told, ["late"], 8)
    assert calls == [*((tag, "committed", f"rows of {tag}") for tag in ("main", "late")), ("late", "write", "rows of late", 8)]
    deliver(told, [], 9)
    assert len(calls) == 3


def test_sinks_continue_the_numbers_of_a_savepoint():
    told, calls = outputs(first=100)
    deliver(told, [], 0)
    assert {number for *_, number in calls} == {100}


def test_old_query_is_forgotten_after_the_first_commit():
    told, _ = outputs(succeeded=SimpleNamespace())
    deliver(told, [], 0)
    assert told.succeeded is not None  # it is not committed yet
    deliver(told, [], 1)
    assert told.succeeded is None


def test_run_has_not_begun_if_a_sink_refuses():
    told, _ = outputs()

    def refuse(rows, number):
        raise OSError("no room")

    told.sinks["late"].begin = refuse
    with pytest.raises(SinkError, match=r"output 'late' \(noting late\) failed"):
        deliver(told, ["main"], 0)
    assert not told.begun


@pytest.mark.parametrize("fails", [None, "check", "write_end"])
def test_end_of_a_run_is_recorded_once_if_it_began_and_is_not_fenced(monkeypatch, fails):
    told, _ = outputs()
    done = []

    def step(name):
        done.append(name)
        if name == fails:
            raise RuntimeError("gone")

    told.epoch = SimpleNamespace(check=lambda spark: step("check"), write_end=lambda spark: step("write_end"))
    monkeypatch.setattr(outputs_, "is_connect", lambda spark: False)
    told.note_end("the session")
    assert done == []  # it has not begun
    deliver(told, ["main"], 0)
    told.note_end("the session")
    told.note_end("the session")
    noted = ["check", "write_end"]
    assert done == {None: noted, "check": ["check"] * 2, "write_end": noted * 2}[fails]
