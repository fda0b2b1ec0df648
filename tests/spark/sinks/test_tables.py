"""A TableSink's questions about the table, and its settings for Delta, with a fake session."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from pyspark.errors import AnalysisException

import panestream as pst
from panestream.errors import FencedError, SinkError
from panestream.spark.sinks.base import QueryRunInfo
from panestream.spark.sinks.table_formats.base import TableFormat
from panestream.spark.sinks.table_formats.names import table_exists


class Session:
    """A catalog with tables by their format, which records writes."""

    def __init__(self, default="parquet", **tables):
        self.tables, self.default, self.written, self.asked = dict(tables), default, [], []
        self.catalog = SimpleNamespace(tableExists=self.exists, currentCatalog=lambda: "spark_catalog")
        self.settings = {"spark.sql.sources.default": default}
        self.conf = SimpleNamespace(get=lambda name, default=None: self.settings.get(name, default))

    def exists(self, name):
        self.asked.append("exists")
        return name.replace("`", "") in self.tables

    def table(self, name):
        return SimpleNamespace(columns=["user", "n"])

    def sql(self, text):
        self.asked.append("describe")
        name = text.split()[-1].replace("`", "")
        if text.startswith("DESCRIBE DETAIL"):
            raise ValueError("only Delta knows that")
        kind = self.tables[name]
        details = [("# Detailed Table Information", ""), *([("Type", kind)] if "VIEW" in kind else [("Provider", kind)])]
        rows = [("Provider", "a column's type"), *(details if kind else [])]
        return SimpleNamespace(collect=lambda: [SimpleNamespace(col_name=key, data_type=value) for key, value in rows])

    def createDataFrame(self, rows, schema):  # noqa: N802 (Spark's name)
        return Frame(self, empty=True)


class Frame:
    """A DataFrame and its writer."""

    def __init__(self, session, empty=False, columns=("user", "n")):
        self.sparkSession, self.empty, self.said = session, empty, {}
        self.schema = [SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda: "bigint")) for name in columns]

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
        name = name.replace("`", "")
        self.sparkSession.tables.setdefault(name, self.said.get("format", self.sparkSession.default))
        if not self.empty:
            self.sparkSession.written.append(self.said)


def written(session, sink=None, batch_id=7, output="late"):
    sink = sink or pst.TableSink("t")
    sink.open(session, QueryRunInfo("q1", output)).write(Frame(session), batch_id)
    return session.written[-1]


def test_delta_table_gets_the_number_of_the_micro_batch():
    delta = {"format": "delta", "txnAppId": "q1/late", "txnVersion": "7"}
    assert written(Session(t="delta")) == delta
    assert written(Session(default="delta")) == delta  # created by this micro-batch
    assert written(Session(default="delta", t="parquet")) == {"format": "parquet"}
    assert written(Session()) == {"format": "parquet"}
    assert written(Session(), pst.TableSink("t", "delta")) == delta
    assert written(Session(t="delta"), batch_id=None) == {"format": "delta"}
    assert written(Session(t="delta"), output="main")["txnAppId"] != delta["txnAppId"]


@pytest.mark.parametrize("sink", [pst.TableSink("t"), pst.MergeSink("t", ["user"])])
def test_overtaken_run_neither_writes_nor_creates_the_table(sink):
    session, epoch = Session(default="delta"), Mock()
    session.read = Mock()
    epoch.check.side_effect = FencedError("another copy")
    opened = sink.open(session, QueryRunInfo("q1", epoch=epoch))
    epoch.check.assert_not_called()
    with pytest.raises(FencedError, match="another copy"):
        opened.write(Frame(session), 7)
    epoch.check.assert_called_once_with(session)
    assert (session.tables, session.written) == ({}, [])


def test_run_that_is_overtaken_while_it_checks_rows_merges_nothing(monkeypatch):
    merged, session, epoch = [], Session(t="delta"), Mock()
    monkeypatch.setattr(pst.MergeSink, "_check_single", lambda *_: None)
    monkeypatch.setattr(pst.MergeSink, "_merge", lambda *given: merged.append(given[-1]))
    session.catalog.dropTempView = Mock()
    frame = Frame(session)
    frame.columns, frame.createOrReplaceTempView = ["user", "n"], Mock()
    opened = pst.MergeSink("t", ["user"]).open(session, QueryRunInfo("q1", epoch=epoch))
    opened.write(frame, 7)
    assert (merged, epoch.check.call_count) == ([7], 2)
    epoch.check.side_effect = [None, FencedError("another copy")]
    with pytest.raises(FencedError, match="another copy"):
        opened.write(frame, 8)
    assert merged == [7]
    # Each merge makes a view and drops it, also if nothing was merged.
    made, gone = (
        [call.args[0] for call in each.call_args_list] for each in (frame.createOrReplaceTempView, session.catalog.dropTempView)
    )
    assert (made, len(set(made))) == (gone, 2)


def test_format_of_the_table_is_read_once_per_run():
    session, sink = Session(t="delta"), pst.TableSink("t", "delta")
    for run in (QueryRunInfo("q1"), QueryRunInfo("q1", written=True)):
        opened = sink.open(session, run)
        opened.write(Frame(session), 7)
        session.asked.clear()
        del session.tables["t"]  # another user drops it, and the sink creates it again
        opened.write(Frame(session), 8)
        assert session.asked == []
        assert session.tables == {"t": "delta"}
        assert session.written[-1]["txnVersion"] == "8"


def test_sink_without_exactly_once_reports_at_least_once():
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
def test_missing_table_is_an_error(sink):
    with pytest.raises(SinkError, match="the table t is missing"):
        sink.open(Session(), QueryRunInfo("q1", written=True))
    session = Session(t="delta")
    assert sink.open(session, QueryRunInfo("q1", written=True)) == sink
    del session.tables["t"]
    session.settings["spark.sql.sources.default"] = "hudi"
    assert sink.open(session, QueryRunInfo("q1")) == sink


@pytest.mark.parametrize(
    ("last", "run", "refused"),
    [
        (None, QueryRunInfo("q2", first=8, succeeds=True), False),
        (7, QueryRunInfo("q2", first=8, succeeds=True), False),
        (8, QueryRunInfo("q2", first=8, succeeds=True), True),
        (9, QueryRunInfo("q2", first=8, succeeds=True), True),
        (9, QueryRunInfo("q2", first=8), False),  # it has committed something, so it no longer depends on the old query
    ],
)
def test_micro_batch_of_the_old_query_after_the_savepoint_is_not_appended_again(monkeypatch, last, run, refused):
    asked = []
    monkeypatch.setattr(TableFormat, "last_of", lambda kind, *given: asked.append(given) or last)
    session, sink = Session(t="hudi"), pst.TableSink("t")
    if refused:
        with pytest.raises(
            SinkError,
            match=f"^the table t has micro-batch {last} of .* the savepoint was taken after micro-batch 7: its later rows",
        ):
            sink.open(session, run)
    else:
        assert sink.open(session, run).run == run
    assert asked == ([(session, "t", run)] if run.succeeds else [])
    # A repeated merge changes nothing, and a missing table does not have rows.
    assert pst.MergeSink("t", ["user"]).open(session, run).run == sink.open(Session(), run).run == run


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"t": "parquet"}, "the table t is one of parquet, which does not support MERGE"),
        (
            {},
            "the table t would be made as one of parquet, which does not support MERGE: .*: give the sink a format, such as format='delta'$",
        ),
    ],
)
def test_merge_into_a_table_of_a_built_in_format_is_refused(tables, said):
    with pytest.raises(SinkError, match=said):
        pst.MergeSink("t", ["user"]).open(Session(**tables), QueryRunInfo("q1"))


@pytest.mark.parametrize("provider", ["DELTA", "org.apache.spark.sql.delta.sources.DeltaDataSource"])
def test_delta_is_recognised_by_all_its_provider_names(provider):
    assert pst.TableSink("t").guarantee(Session(t=provider)) == "exactly once"
    assert written(Session(t=provider))["txnVersion"] == "7"


@pytest.mark.parametrize("sink", [pst.TableSink("t", "FORMAT"), pst.MergeSink("t", ["user"], "FORMAT")])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_format_that_the_session_lacks_is_refused_at_start(sink, kind):
    sink = replace(sink, format=kind)
    for said, refused in (("[DATA_SOURCE_NOT_FOUND] Failed to find", True), ("'path' is not specified", False)):
        session, reader = Session(t="hudi"), Mock()
        session.settings["spark.sql.catalog.spark_catalog"] = "the format's"
        session.read = reader
        reader.format.return_value.load.side_effect = ValueError(said)
        assert sink.open(session, QueryRunInfo("q1")) == sink  # an existing table is accepted in any format
        del session.tables["t"]
        if refused:
            with pytest.raises(SinkError, match=f"this Spark lacks {kind}. .* docs/how-to/{kind}.md"):
                sink.open(session, QueryRunInfo("q1"))
        else:
            assert sink.open(session, QueryRunInfo("q1")) == sink
        reader.format.assert_called_with(kind)


@pytest.mark.parametrize(
    "said",
    [
        "Failed to create data source table `default`.`t`: provider 'delta' does not support external metadata but a schema is provided",
        "[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG] This Delta operation requires the SparkSession",
    ],
)
def test_missing_settings_of_delta_are_named(monkeypatch, said):
    def refused(frame, name):
        raise ValueError(said)

    monkeypatch.setattr(Frame, "saveAsTable", refused)
    with pytest.raises(
        SinkError, match=r"the table t cannot be made: .*spark\.sql\.extensions.*spark\.sql\.catalog\.spark_catalog"
    ):
        written(Session(), pst.TableSink("t", "delta"))


@pytest.mark.parametrize("sink", [pst.TableSink("t", "iceberg"), pst.MergeSink("shop.t", ["user"], "iceberg")])
def test_iceberg_table_in_the_session_catalog_is_refused_at_start(sink):
    session = Session()
    session.read = Mock()
    with pytest.raises(SinkError, match=r"cannot be made: its catalog, spark_catalog, is Spark's catalog"):
        sink.open(session, QueryRunInfo("q1"))
    session.settings["spark.sql.catalog.spark_catalog"] = "org.apache.iceberg.spark.SparkSessionCatalog"
    assert sink.open(session, QueryRunInfo("q1")) == sink


def test_missing_catalog_is_named_in_the_error():
    def exists(name):
        raise AnalysisException(
            f"[REQUIRES_SINGLE_PART_NAMESPACE] spark_catalog requires a single-part namespace, but got {name}"
        )

    session = Session()
    session.catalog.tableExists = exists
    sink = pst.TableSink("lake.shop.clicks")
    for ask in (sink.guarantee, lambda spark: sink.open(spark, QueryRunInfo("q1"))):
        with pytest.raises(SinkError, match=r"the table lake\.shop\.clicks: this session has no catalog 'lake'"):
            ask(session)


@pytest.mark.parametrize(
    ("name", "words", "there"),
    [
        ("delta.`/a`", "[DELTA_MISSING_DELTA_TABLE] no", False),
        ("delta.`/a`", "[PATH_NOT_FOUND] no", False),
        ("delta.`/a`", "[DELTA_PATH_DOES_NOT_EXIST] no", False),
        ("delta.`/a`", "[INSUFFICIENT_PERMISSIONS] no", None),
        ("shop.clicks", "[PATH_NOT_FOUND] no", None),
        ("shop.clicks", "[REQUIRES_SINGLE_PART_NAMESPACE] no", None),
    ],
)
def test_missing_path_is_not_a_table_and_other_errors_are_raised(name, words, there):
    session = Session()
    session.catalog.tableExists = Mock(side_effect=AnalysisException(words))
    if there is None:
        with pytest.raises(AnalysisException):
            table_exists(session, name)
    else:
        assert table_exists(session, name) is there


@pytest.mark.parametrize("kind", ["VIEW", ""])
def test_view_as_target_is_refused(kind):
    for sink in (pst.TableSink("t"), pst.MergeSink("t", ["user"])):
        with pytest.raises(SinkError, match="t is a view: rows can only be written into a table"):
            sink.guarantee(Session(t=kind))


def test_result_without_a_column_in_the_table_is_named():
    frame = Frame(Session(t="delta"), columns=("user", "N", "mean"))
    with pytest.raises(SinkError, match=r"the table t has no column 'mean' \(bigint\), which the output 'main' has"):
        pst.TableSink("t").write(frame, 7)
    pst.TableSink("t", options={"mergeSchema": "true"}).write(frame, 7)


def test_names_of_tables_and_columns_are_quoted():
    assert "MERGE INTO `a-b`.`c$d` AS t" in pst.MergeSink("a-b.c$d", ["user"]).statement(["user", "n"])
    by_path = pst.TableSink("delta.`/data/a b`")
    assert by_path.place(None) == "file:/data/a b"
    assert by_path.quoted_name == "`delta`.`/data/a b`"
    for name in ("a b", "a.b.c.d", "delta.`x", "delta./x", "", 3):
        with pytest.raises(SinkError, match="is not a table name"):
            pst.TableSink(name)


def test_user_column_op_is_stored():
    columns = ["op", "window_start", "window_end", "n"]
    statement = pst.MergeSink("t", ["op"], run=QueryRunInfo(added=frozenset())).statement(columns)
    assert "ON t.`op` <=> s.`op`" in statement
    assert "INSERT (`op`, `window_start`, `window_end`, `n`)" in statement
    assert "WHERE" not in statement
    assert "DELETE" not in statement
