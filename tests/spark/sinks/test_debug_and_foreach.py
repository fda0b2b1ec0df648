"""The console sink, the memory sink and the function sink. Rows are lists, without Spark."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream.errors import SinkError


class Rows(list):
    """Rows as a list."""

    def collect(self):
        return list(self)

    def show(self, rows, truncate):
        print(self[:rows], truncate)


def test_memory_sink_replaces_a_repeated_micro_batch():
    sink = pst.MemorySink()
    for batch in (10, 9, 2, 3):
        sink.write(Rows([batch, "row"]), batch)
    assert sink.rows == [2, "row", 3, "row", 9, "row", 10, "row"]
    sink.begin(Rows(), 9)
    assert sorted(sink.batches) == [2, 3, 9]
    sink.write(Rows(["again"]), 9)
    sink.write(Rows(["all"]), None)
    assert (sink.rows, sink.batches[-1]) == (["all", 2, "row", 3, "row", "again"], ["all"])
    assert (sink.describe(), sink.guarantee(None), sink.keeps_last) == ("memory", "exactly once", False)
    assert sink.place(None) == sink.place(None) != pst.MemorySink().place(None)


def test_console_sink_prints_rows_with_their_micro_batch(capsys):
    sink = pst.ConsoleSink(2)
    sink.write(Rows([1, 2, 3]), 7)
    sink.write(Rows([4]), None)
    assert capsys.readouterr().out == "--- micro-batch 7\n[1, 2] False\n--- all rows\n[4] False\n"
    assert (sink.describe(), sink.place(None)) == ("console", None)
    assert sink.guarantee(None).startswith("for debugging:")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pst.MemorySink("totals"), "a MemorySink has no name or path, got 'totals'"),
        (lambda: pst.ConsoleSink("totals"), "a ConsoleSink takes the number of rows to print"),
        (lambda: pst.ConsoleSink(0), "got 0"),
    ],
)
def test_sink_for_debugging_refuses_a_name_with_the_line_to_write(make, message):
    with pytest.raises(SinkError, match=message):
        make()


def test_function_sink_gets_rows_and_number_of_the_micro_batch():
    called = []

    def take(df, batch_id):
        called.append((list(df), batch_id))

    sink = pst.ForeachBatchSink(take)
    sink.write(Rows([1]), 3)
    sink.write(Rows([2]), None)
    assert called == [([1], 3), ([2], -1)]
    assert (sink.describe(), sink.guarantee(None).startswith("at least once: the function is called again")) == (
        "function take",
        True,
    )
    assert pst.ForeachBatchSink(take, idempotent=True).guarantee(None) == "exactly once"
    with pytest.raises(SinkError):
        pst.ForeachBatchSink(lambda df: None)
