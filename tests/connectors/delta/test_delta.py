"""Sinks detect real Delta tables, skip a micro-batch that the table already has, and refuse what Delta cannot do."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import SinkError
from panestream.spark.sinks.base import QueryRunInfo
from tests.connectors.kills import start, write_clicks

pytestmark = [pytest.mark.connectors, pytest.mark.delta]

TARGET = "tests.connectors.delta.delta_targets:MERGE_AND_APPEND"
RUN = QueryRunInfo("query", "main")
ROWS = "user BIGINT, n BIGINT"


@pytest.fixture
def table(spark, request):
    """A table name for this test alone."""
    name = "t_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    yield name
    spark.sql(f"DROP TABLE IF EXISTS `{name}`")
    shutil.rmtree(Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / name, ignore_errors=True)


def rows(spark, *values):
    return spark.createDataFrame(list(values), ROWS)


def rows_in(spark, name):
    return sorted(map(tuple, spark.table(name).collect()))


def write_twice(spark, sink, *batches):
    """Write every micro-batch, and write it again in the next run."""
    for number, batch in enumerate(batches):
        for _ in range(2):
            sink.open(spark, RUN).write(rows(spark, *batch), number)


def transactions(folder):
    """Return the transactions in a table's log, one for each commit that has one."""
    log = sorted(Path(folder).glob("_delta_log/*.json"))
    actions = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    return [(action["txn"]["appId"], action["txn"]["version"]) for action in actions if "txn" in action]


@pytest.mark.parametrize("how", [pytest.param("said", marks=pytest.mark.smoke), "default", "there", "path", "schema", "catalog"])
def test_delta_table_skips_a_repeated_micro_batch(spark, table, how, tmp_path):
    name, kind = table, None
    if how == "said":
        kind = "delta"
    elif how == "path":
        name = f"delta.`{tmp_path / 'a table'}`"
    elif how != "default":
        spark.sql(f"CREATE TABLE {table} ({ROWS}) USING delta")
        name = {"there": table, "schema": f"default.{table}", "catalog": f"spark_catalog.default.{table}"}[how]
    if how == "default":
        spark.conf.set("spark.sql.sources.default", "delta")
    try:
        sink = pst.TableSink(name, kind)
        assert sink.guarantee(spark) == "exactly once"
        write_twice(spark, sink, [(1, 1)], [(1, 1), (2, 2)])
    finally:
        spark.conf.unset("spark.sql.sources.default")
    assert rows_in(spark, name) == [(1, 1), (1, 1), (2, 2)]


@pytest.mark.iceberg
def test_sink_writes_to_table_whose_name_needs_quotes(spark):
    # Delta's own catalog refuses such names. Other catalogs accept them.
    name = "ice.db.click-counts"
    for values in ([(1, 1)], [(1, 2), (2, 3)]):
        pst.MergeSink(name, ["user"], "iceberg").open(spark, RUN).write(rows(spark, *values), 0)
    assert rows_in(spark, "ice.db.`click-counts`") == [(1, 2), (2, 3)]
    spark.sql("DROP TABLE ice.db.`click-counts`")


def test_renamed_table_still_skips_a_repeated_micro_batch(spark, table):
    sink = pst.TableSink(table, "delta")
    sink.open(spark, RUN).write(rows(spark, (1, 1)), 0)
    pst.TableSink(f"default.{table}").open(spark, RUN).write(rows(spark, (1, 1)), 0)
    assert rows_in(spark, table) == [(1, 1)]
    # Another query and a batch count as other writers.
    pst.TableSink(table).open(spark, QueryRunInfo("another")).write(rows(spark, (1, 1)), 0)
    pst.TableSink(table).open(spark, QueryRunInfo()).write(rows(spark, (1, 1)), None)
    assert rows_in(spark, table) == 3 * [(1, 1)]


def test_parquet_table_is_not_merged_into_and_view_is_refused(spark, table):
    spark.sql(f"CREATE TABLE {table} ({ROWS}) USING parquet")
    assert (
        pst.TableSink(table, "delta")
        .guarantee(spark)
        .startswith("at least once: a parquet table gets the rows of a repeated micro-batch again")
    )
    with pytest.raises(SinkError, match="does not support MERGE: a MergeSink needs a table of Delta"):
        pst.MergeSink(table, ["user"]).write(rows(spark, (1, 1)), 0)
    spark.sql(f"CREATE OR REPLACE VIEW a_view AS SELECT * FROM {table}")
    spark.table(table).createOrReplaceTempView("a_temporary_view")
    try:
        for view in ("a_view", "default.a_view", "a_temporary_view"):
            with pytest.raises(SinkError, match=f"{view} is a view"):
                pst.TableSink(view).write(rows(spark, (1, 1)), 0)
    finally:
        spark.sql("DROP VIEW a_view")
        spark.catalog.dropTempView("a_temporary_view")


def test_merge_skips_a_repeated_micro_batch(spark, table):
    warehouse = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    merge = pst.MergeSink(table, ["user"], "delta")
    write_twice(spark, merge, [(1, 1), (None, 7)], [(1, 2), (2, 3)], [])
    assert sorted(map(tuple, spark.table(table).collect()), key=repr) == [(1, 2), (2, 3), (None, 7)]
    assert transactions(warehouse / table) == [("query/main", 0), ("query/main", 1), ("query/main", 2)]
    # The session's settings are restored, so the next write does not carry a transaction.
    spark.sql(f"DELETE FROM {table} WHERE user = 2")
    assert len(transactions(warehouse / table)) == 3
    # The table already has this micro-batch, so other rows in a repeated run are not written.
    merge.open(spark, RUN).write(rows(spark, (1, 99)), 1)
    assert (1, 99) not in [tuple(row) for row in spark.table(table).collect()]
    # A batch does not have a number, so it merges each time.
    for value in (4, 5):
        merge.open(spark, QueryRunInfo()).write(rows(spark, (1, value)), None)
    assert (1, 5) in [tuple(row) for row in spark.table(table).collect()]


def test_user_column_op_is_not_read_as_a_change_without_changelog(spark, table, tmp_path):
    """The column has the values of a database's change feed. Its rows must not be read as changes of the results."""
    words = ["insert", "delete", "update_before", None]
    at = datetime(2024, 1, 1)
    df = spark.createDataFrame([(user, word, at) for user, word in enumerate(words)], "user BIGINT, op STRING, at TIMESTAMP")
    keyed = pst.stream(df).assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("user")
    hours = keyed.window(pst.TumblingEventTimeWindows.of("1 hour"))
    hours.aggregate(agg.max("op").alias("op")).run(main=pst.MergeSink(table, ["user"], format="delta"))
    assert [row.op for row in spark.table(table).orderBy("user").collect()] == words


def test_merge_of_two_rows_into_one_row_is_refused(spark, table):
    merge = pst.MergeSink(table, ["user"], "delta")
    with pytest.raises(SinkError, match=rf"has 2 rows for one row of the table {table} \(user = 1\)"):
        merge.write(rows(spark, (1, 1), (1, 2), (2, 1)), 0)
    assert rows_in(spark, table) == []


def test_query_continues_after_its_table_is_replaced(spark, table):
    sink = pst.TableSink(table, "delta").open(spark, RUN)
    sink.write(rows(spark, (1, 1)), 0)
    # The query continues after the table was emptied. The table still skips the micro-batches that it had.
    spark.sql(f"CREATE OR REPLACE TABLE {table} ({ROWS}) USING delta")
    sink.write(rows(spark, (1, 1)), 0)
    sink.write(rows(spark, (2, 2)), 1)
    assert rows_in(spark, table) == [(2, 2)]
    spark.sql(f"CREATE OR REPLACE TABLE {table} (user BIGINT) USING delta")
    with pytest.raises(Exception, match=r"(?s)schema mismatch.*n: long"):
        sink.write(rows(spark, (2, 2)), 2)
    with pytest.raises(SinkError, match=rf"the table {table} has no column 'n' \(bigint\)"):
        sink.open(spark, RUN).write(rows(spark, (2, 2)), 2)
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} ({ROWS}) USING csv")
    with pytest.raises(Exception, match=r"csv|CSV|Csv"):
        sink.write(rows(spark, (2, 2)), 2)


def test_table_whose_transactions_expired_writes_a_repeated_micro_batch(spark, table):
    # docs/how-to/delta.md describes this. With a retention of zero, ids expire at once.
    spark.sql(
        f"CREATE TABLE {table} ({ROWS}) USING delta TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 0 seconds')"
    )
    write_twice(spark, pst.TableSink(table), [(1, 1)])
    assert rows_in(spark, table) == [(1, 1), (1, 1)]


def test_concurrent_queries_of_one_session_keep_separate_transactions(spark, tmp_path):
    """Two queries run at the same time, each with a MERGE and an append.

    The transaction of a MERGE is in the session's settings.
    """
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        write_clicks(folder / "clicks", 3)
    for query in [start(spark, TARGET, folder) for folder in folders]:
        query.await_termination()
    writers = set()
    for folder in folders:
        for name, output in (("merged", "main"), ("appended", "late")):
            written = transactions(folder / name)
            (writer,) = {writer for writer, _ in written}
            assert writer.endswith(f"/{output}")
            assert [number for _, number in written] == sorted({number for _, number in written})
            assert written[-1][1] == 2
            writers.add(writer)
    assert len(writers) == 4
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None
