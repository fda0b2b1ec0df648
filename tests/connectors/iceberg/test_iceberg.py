"""Real Iceberg tables get each micro-batch exactly once, also if something happens between the sink's commit and Spark's."""

from __future__ import annotations

import re
import time
import warnings
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import SinkError
from panestream.spark.sinks.base import QueryRunInfo
from panestream.spark.sinks.table_formats import iceberg
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.connectors, pytest.mark.iceberg]

SCHEMA = "user BIGINT, price BIGINT, ts TIMESTAMP"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def clicks(spark, tmp_path):
    return Clicks(spark, tmp_path)


class Clicks:
    """A stream of four users' clicks, ten seconds per micro-batch, in windows of ten seconds."""

    def __init__(self, spark, folder):
        self.spark, self.checkpoint = spark, folder / "checkpoint"
        self.rows = MicroBatches(spark, folder / "in", SCHEMA)
        self.count = 0

    def add(self, count=1):
        for _ in range(count):
            at = [START + timedelta(seconds=10 * self.count + second) for second in range(10)]
            self.rows.add([(second % 4, second, when) for second, when in enumerate(at)])
            self.count += 1
        return self

    def windowed(self, rows=None):
        timed = pst.stream(self.rows.stream() if rows is None else rows).assign_timestamps(
            "ts", pst.WatermarkStrategy.for_monotonous_timestamps()
        )
        windows = timed.key_by("user").window(pst.TumblingEventTimeWindows.of("10 seconds"))
        return windows.options(key_groups=2).aggregate(agg.count().alias("n"), agg.sum("price").alias("total"))

    def run(self, sink):
        self.windowed().start(checkpoint=str(self.checkpoint), main=sink).await_termination()

    def take_back(self, batch_id):
        """Undo Spark's commit of the micro-batch, as if it had been killed before."""
        for number in range(batch_id, 100):
            (self.checkpoint / "commits" / str(number)).unlink(missing_ok=True)
            (self.checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)

    @property
    def last(self):
        return max(int(path.name) for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit())

    def expected(self, upto=None):
        """Return the closed windows: all but the newest."""
        return 4 * ((self.count if upto is None else upto) - 1)


def seen_now(spark, table):
    """Refresh the table. Each session's catalog caches tables for half a minute, and sinks commit in other sessions."""
    spark.sql(f"REFRESH TABLE {table}")


def rows_of(spark, table):
    seen_now(spark, table)
    found = [tuple(row) for row in spark.table(table).collect()]
    assert len(set(found)) == len(found), "rows are there twice"
    return len(found)


def snapshots(spark, table):
    seen_now(spark, table)
    return spark.sql(f"SELECT * FROM {table}.snapshots ORDER BY committed_at").collect()


def marks(spark, table):
    found = [row.summary.get("panestream-batch-id") for row in snapshots(spark, table)]
    return [int(number) for number in found if number is not None]


@pytest.mark.smoke
def test_iceberg_table_skips_a_repeated_micro_batch(spark, table, clicks):
    clicks.add(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Iceberg's catalog is recognised before the table exists.
        clicks.run(pst.TableSink(table))
    assert rows_of(spark, table) == clicks.expected() == 8
    assert {row.operation for row in snapshots(spark, table)} == {"append"}
    written = marks(spark, table)
    clicks.take_back(clicks.last)
    clicks.add().run(pst.TableSink(table))
    assert rows_of(spark, table) == clicks.expected() == 12
    assert marks(spark, table) == [*written, clicks.last]


class Copies:
    """Runs of one query without a stream, each with its own sink on one table."""

    def __init__(self, spark, table, **sink):
        self.spark, self.table, self.made = spark, table, sink

    def run(self, **kept):
        """Start a new run, which must look up the state of the table."""
        return pst.TableSink(self.table, **self.made).open(self.spark, QueryRunInfo("q", "main", **kept))

    def rows(self, batch_id, count=3):
        return self.spark.range(batch_id * 100, batch_id * 100 + count).toDF("x")

    def write(self, run, *batches):
        for batch_id in batches:
            run.write(self.rows(batch_id), batch_id)

    @property
    def there(self):
        found = sorted(row.x for row in self.spark.table(self.table).collect())
        return [x // 100 for x in found if x % 100 == 0], len(found)


@pytest.fixture
def copies(spark, table):
    spark.sql(f"CREATE TABLE {table} (x BIGINT) USING iceberg")
    return Copies(spark, table)


class Planned(NamedTuple):
    """The entry of a run, as far as a sink reads it."""

    milliseconds: int
    checkpoint: str = ""

    def check(self, spark):
        return None


def test_micro_batch_after_a_rollback_is_written_again(spark, table, copies):
    copies.write(copies.run(), 0, 1)
    before = snapshots(spark, table)[0].snapshot_id
    spark.sql(f"CALL ice.system.rollback_to_snapshot('{table.removeprefix('ice.')}', {before})")
    copies.write(copies.run(), 0, 1)
    assert copies.there == ([0, 1], 6)


def test_compaction_does_not_hide_written_micro_batches(spark, table, copies):
    copies.write(copies.run(), 0, 1)
    short = table.removeprefix("ice.")
    done = spark.sql(f"CALL ice.system.rewrite_data_files(table => '{short}', options => map('rewrite-all', 'true'))").collect()
    assert done[0].rewritten_data_files_count > 0
    copies.write(copies.run(), 1, 2)
    assert copies.there == ([0, 1, 2], 9)


def test_micro_batch_is_refused_only_if_its_snapshot_may_have_expired(spark, table, copies, monkeypatch):
    copies.write(copies.run(), 0, 1)
    spark.range(7, 8).toDF("x").writeTo(table).append()
    short, now = table.removeprefix("ice."), int(time.time() * 1000)
    spark.sql(f"CALL ice.system.expire_snapshots(table => '{short}', older_than => now(), retain_last => 1)")
    assert len(snapshots(spark, table)) == 1
    monkeypatch.setattr("panestream.spark.sinks.base.planned_at", lambda spark, checkpoint, batch_id: planned)
    # This run was planned before the remaining snapshot was committed. An expired snapshot may have had its rows.
    planned = now - 600_000
    with pytest.raises(SinkError, match=r"it is unknown if micro-batch 1 is in the table") as refused:
        copies.write(copies.run(epoch=Planned(0)), 1)
    (said,) = re.findall(r"(ALTER TABLE .*?\)) if they are,", str(refused.value))
    # This run was planned long after it, so no expired snapshot can have its rows.
    planned = now + 600_000
    copies.write(copies.run(epoch=Planned(0)), 2)
    assert copies.there == ([0, 1, 2], 10)  # plus the 7 of another writer
    planned = now - 600_000
    stranger = pst.TableSink(table).open(spark, QueryRunInfo("another", "main", epoch=Planned(0)))
    with pytest.raises(SinkError, match="it is unknown if micro-batch"):
        stranger.write(copies.rows(5), 5)
    spark.sql(said.replace("q/main", "another/main").replace("'1'", "'5'"))
    for batch_id in (5, 6):
        pst.TableSink(table).open(spark, QueryRunInfo("another", "main", epoch=Planned(0))).write(copies.rows(batch_id), batch_id)
    assert copies.there == ([0, 1, 2, 6], 13)


def test_micro_batch_of_two_concurrent_copies_is_written_once(spark, table, copies, monkeypatch):
    """The other copy commits the same micro-batch after this copy has checked the table and decided to write."""
    first, second = copies.run(), copies.run()
    copies.write(first, 0)
    onto, began = iceberg._onto, []

    def meanwhile(writer, head):
        if not began:
            began.append(True)
            copies.write(second, 1)
        return onto(writer, head)

    monkeypatch.setattr(iceberg, "_onto", meanwhile)
    copies.write(first, 1)
    assert copies.there == ([0, 1], 6)
    assert marks(spark, table) == [0, 1]
    # The same for a table without a snapshot.
    spark.sql(f"CREATE OR REPLACE TABLE {table} (x BIGINT) USING iceberg")
    began.clear()
    second = copies.run()
    copies.write(copies.run(), 1)
    assert copies.there == ([1], 3)


def test_write_retries_after_concurrent_appends_of_others(spark, table, copies, monkeypatch):
    onto, tries = iceberg._onto, []

    def busy(writer, head):
        tries.append(head)
        spark.range(50, 51).toDF("x").writeTo(table).append()
        return onto(writer, head)

    monkeypatch.setattr(iceberg, "_onto", busy)
    copies.write(copies.run(), 0)
    assert len(tries) == len(set(tries)) == 3
    assert copies.there == ([0], 6)


def test_branch_skips_its_own_repeated_micro_batches(spark, table, copies):
    copies.write(copies.run(), 0)
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    copies.write(copies.run(), 1)
    spark.catalog.setCurrentCatalog("ice")
    try:
        branch = Copies(spark, f"{table.removeprefix('ice.')}.branch_audit")
        # The writer is the same, but the sink searches the branch for its micro-batches.
        branch.write(branch.run(), 0, 1)
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
    assert spark.table(f"{table}.branch_audit").count() == 6
    # The session redirects writes into a branch that does not exist yet.
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.conf.set("spark.wap.branch", "wap")
    try:
        copies.write(copies.run(), 1, 2)
        copies.write(copies.run(), 2)
    finally:
        spark.conf.unset("spark.wap.branch")
    assert (copies.there, spark.table(f"{table}.branch_wap").count()) == (([0, 1], 6), 9)
    spark.conf.set("spark.wap.id", "w")
    try:
        with pytest.raises(SinkError, match="stages what it writes"):
            copies.write(copies.run(), 2)
    finally:
        spark.conf.unset("spark.wap.id")


def test_sink_writes_with_partitions_and_new_columns(spark, table):
    spark.sql(
        f"CREATE TABLE {table} (x BIGINT, ts TIMESTAMP) USING iceberg PARTITIONED BY (days(ts), bucket(4, x)) "
        "TBLPROPERTIES ('write.spark.accept-any-schema' = 'true', 'write.distribution-mode' = 'hash')"
    )
    rows = spark.range(30).selectExpr("id AS x", "timestamp_seconds(id * 20000) AS ts")
    options = {"merge-schema": "true", "fanout-enabled": "true"}
    for batch_id in (0, 0, 1):
        wider = rows.withColumn("more", F.lit(batch_id))
        pst.TableSink(table, options=options).open(spark, QueryRunInfo("q", "main")).write(wider, batch_id)
    assert spark.table(table).count() == 60
    assert spark.table(f"{table}.partitions").count() > 7
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('write.spark.accept-any-schema')")
    with pytest.raises(Exception, match="has no column 'a'"):
        pst.TableSink(table).open(spark, QueryRunInfo("q", "main")).write(
            rows.withColumn("a", F.lit(1)).withColumn("b", F.lit(2)), 2
        )


def test_micro_batch_without_rows_adds_no_snapshot(spark, table):
    sink = pst.TableSink(table).open(spark, QueryRunInfo("q", "main"))
    sink.write(spark.range(0).toDF("x"), 0)
    assert spark.table(table).columns == ["x"]
    assert marks(spark, table) == []
    sink.write(spark.range(1).toDF("x"), 1)
    assert marks(spark, table) == [1]
