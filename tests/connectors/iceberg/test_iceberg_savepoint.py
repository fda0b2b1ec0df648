"""A query that starts from a savepoint continues in the Iceberg tables of the old query."""

from __future__ import annotations

import pytest

import panestream as pst
from panestream.errors import SinkError
from tests.connectors.iceberg import test_iceberg

pytestmark = [pytest.mark.connectors, pytest.mark.iceberg]

clicks = test_iceberg.clicks
TABLE, MERGED = "ice.db.succeeded", "ice.db.succeeded_merged"


@pytest.fixture(autouse=True)
def tables(spark):
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
    yield
    for table in (TABLE, MERGED):
        spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")


def read_rows(spark, table):
    test_iceberg.seen_now(spark, table)
    return sorted(map(tuple, spark.table(table).collect()))


def test_query_from_savepoint_appends_to_the_iceberg_table_of_the_old_query(spark, clicks, tmp_path):
    clicks.add(3).run(pst.TableSink(TABLE, "iceberg"))
    clicks.run(pst.TableSink(TABLE, "iceberg"))
    # The table has a micro-batch that Spark has not committed. Appending again would write it twice.
    clicks.take_back(2)
    old = clicks.checkpoint
    saved = pst.savepoint(spark, str(old), str(tmp_path / "saved"))
    assert saved.batch_id == 1
    with pytest.raises(SinkError, match=r"has micro-batch 2 of a query that this one succeeds"):
        clicks.windowed().start(checkpoint=str(tmp_path / "refused"), savepoint=saved.path, main=pst.TableSink(TABLE, "iceberg"))
    # The way out that the error names.
    clicks.run(pst.TableSink(TABLE, "iceberg"))
    last = pst.savepoint(spark, str(old), str(tmp_path / "last"))
    clicks.add(2)
    how = {"checkpoint": str(tmp_path / "new"), "savepoint": last.path}
    clicks.windowed().start(main=pst.TableSink(TABLE, "iceberg"), **how).await_termination()
    whole = pst.MemorySink()
    clicks.windowed().start(main=whole, checkpoint=str(tmp_path / "whole")).await_termination()
    assert read_rows(spark, TABLE) == sorted(map(tuple, whole.rows)) != []


def test_query_from_savepoint_may_repeat_a_merge_of_the_old_query(spark, clicks, tmp_path):
    sink = pst.MergeSink(MERGED, ["user"], format="iceberg")
    clicks.add(3).run(sink)
    clicks.take_back(2)
    saved = pst.savepoint(spark, str(clicks.checkpoint), str(tmp_path / "saved"))
    how = {"checkpoint": str(tmp_path / "new"), "savepoint": saved.path}
    clicks.windowed().start(main=sink, **how).await_termination()
    whole = pst.MemorySink()
    clicks.windowed().start(main=whole, checkpoint=str(tmp_path / "whole")).await_termination()
    assert read_rows(spark, MERGED) == sorted(map(tuple, whole.rows)) != []
