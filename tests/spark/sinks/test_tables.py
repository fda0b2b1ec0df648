"""What a TableSink asks of the table, and tells Delta; with a session that only answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import panestream as pst
from panestream.errors import SinkError
from panestream.spark.sinks.base import Run


class Session:
    """A catalog with tables by their format, and what was written."""

    def __init__(self, default="parquet", **tables):
        self.tables, self.default, self.written, self.asked = dict(tables), default, [], []
        self.catalog = SimpleNamespace(tableExists=self.exists, currentCatalog=lambda: "spark_catalog")
        self.conf = SimpleNamespace(get=lambda name, default=None: self.default)

    def exists(self, name):
        self.asked.append("exists")
        return name in self.tables

    def sql(self, text):
        self.asked.append("describe")
        name = text.removeprefix("DESCRIBE TABLE EXTENDED ").replace("`", "")
        rows = [("Provider", "a column's type"), ("# Detailed Table Information", ""), ("Provider", self.tables[name])]
        return SimpleNamespace(collect=lambda: [SimpleNamespace(col_name=key, data_type=value) for key, value in rows])

    def createDataFrame(self, rows, schema):  # noqa: N802 (Spark's name)
        return Frame(self, empty=True)


class Frame:
    """A DataFrame and its writer."""

    schema = None

    def __init__(self, session, empty=False):
        self.sparkSession, self.empty, self.said = session, empty, {}

    @property
    def write(self):
        return Frame(self.sparkSession, self.empty)

    def mode(self, mode):
        return self

    def format(self, name):
        self.said["format"] = name
        return self

    def options(self, **options):
        return self

    def option(self, name, value):
        self.said[name] = value
        return self

    def saveAsTable(self, name):  # noqa: N802 (Spark's name)
        self.sparkSession.tables.setdefault(name, self.said.get("format", self.sparkSession.default))
        if not self.empty:
            self.sparkSession.written.append(self.said)


def written(session, sink=None, batch_id=7, output="late"):
    sink = sink or pst.TableSink("t")
    sink.open(session, Run("q1", output)).write(Frame(session), batch_id)
    return session.written[-1]


def test_whatever_is_a_delta_table_is_told_the_micro_batch():
    delta = {"format": "delta", "txnAppId": "q1/late/t", "txnVersion": "7"}
    assert written(Session(t="delta")) == delta
    assert written(Session(default="delta")) == delta  # made by this very micro-batch
    assert written(Session(default="delta", t="parquet")) == {"format": "parquet"}
    assert written(Session()) == {"format": "parquet"}
    assert written(Session(), pst.TableSink("t", "delta")) == delta
    assert written(Session(t="delta"), batch_id=None) == {"format": "delta"}
    assert written(Session(t="delta"), output="main")["txnAppId"] != delta["txnAppId"]


def test_what_the_table_is_is_asked_once_a_run():
    session, sink = Session(t="delta"), pst.TableSink("t", "delta")
    for run in (Run("q1"), Run("q1", written=True)):
        opened = sink.open(session, run)
        opened.write(Frame(session), 7)
        session.asked.clear()
        del session.tables["t"]  # somebody drops it: it is made again, as it was
        opened.write(Frame(session), 8)
        assert session.asked == []
        assert session.tables == {"t": "delta"}
        assert session.written[-1]["txnVersion"] == "8"


def test_what_is_only_at_least_once_says_so():
    assert pst.TableSink("t").guarantee(Session(t="delta")) == "exactly once"
    assert pst.TableSink("t").guarantee(Session(default="delta")) == "exactly once"
    assert pst.TableSink("t", "delta").guarantee(Session()) == "exactly once"
    assert pst.TableSink("t").guarantee(Session()).startswith("at least once: a parquet table")
    assert pst.TableSink("t", "delta").guarantee(Session(t="csv")).startswith("at least once: a csv table")
    assert pst.FileSink("x").guarantee(Session()) == "exactly once"
    function = pst.ForeachBatchSink(lambda df, batch: None)
    assert function.guarantee(Session()).startswith("at least once")
    assert pst.ForeachBatchSink(function.function, idempotent=True).guarantee(Session()) == "exactly once"


@pytest.mark.parametrize("sink", [pst.TableSink("t"), pst.MergeSink("t", ["user"])])
def test_a_table_that_vanished_is_missed(sink):
    with pytest.raises(SinkError, match="the table t is gone"):
        sink.open(Session(), Run("q1", written=True))
    assert sink.open(Session(t="delta"), Run("q1", written=True)) == sink
    assert sink.open(Session(), Run("q1")) == sink
