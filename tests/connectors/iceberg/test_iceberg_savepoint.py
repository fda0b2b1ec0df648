"""A query from a savepoint goes on in the Iceberg tables of the old one."""

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


def found(spark, table):
    test_iceberg.seen_now(spark, table)
    return sorted(map(tuple, spark.table(table).collect()))


def test_it_goes_on(spark, clicks, tmp_path):
    clicks.add(3).run(pst.TableSink(TABLE, "iceberg"))
    clicks.run(pst.TableSink(TABLE, "iceberg"))
    # A micro-batch that the table has and Spark has not committed: appended to, it would be there twice.
    clicks.take_back(2)
    old = clicks.checkpoint
    saved = pst.savepoint(spark, str(old), str(tmp_path / "saved"))
    assert saved.batch_id == 1
    with pytest.raises(SinkError, match=r"has micro-batch 2 of a query that this one succeeds"):
        clicks.windowed().start(checkpoint=str(tmp_path / "refused"), savepoint=saved.path, main=pst.TableSink(TABLE, "iceberg"))
    # The way out that it names.
    clicks.run(pst.TableSink(TABLE, "iceberg"))
    last = pst.savepoint(spark, str(old), str(tmp_path / "last"))
    clicks.add(2)
    how = {"checkpoint": str(tmp_path / "new"), "savepoint": last.path}
    clicks.windowed().start(main=pst.TableSink(TABLE, "iceberg"), **how).await_termination()
    whole = pst.MemorySink()
    clicks.windowed().start(main=whole, checkpoint=str(tmp_path / "whole")).await_termination()
    assert found(spark, TABLE) == sorted(map(tuple, whole.rows)) != []


def test_a_merge_may_come_again(spark, clicks, tmp_path):
    sink = pst.MergeSink(MERGED, ["user"], format="iceberg")
    clicks.add(3).run(sink)
    clicks.take_back(2)
    saved = pst.savepoint(spark, str(clicks.checkpoint), str(tmp_path / "saved"))
    how = {"checkpoint": str(tmp_path / "new"), "savepoint": saved.path}
    clicks.windowed().start(main=sink, **how).await_termination()
    whole = pst.MemorySink()
    clicks.windowed().start(main=whole, checkpoint=str(tmp_path / "whole")).await_termination()
    assert found(spark, MERGED) == sorted(map(tuple, whole.rows)) != []
