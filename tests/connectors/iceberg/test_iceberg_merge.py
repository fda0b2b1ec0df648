"""MERGE into real Iceberg tables writes results, deletes and merged sessions, and changes nothing if it runs again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg
from panestream.spark.sinks.base import QueryRunInfo
from panestream.testing import MicroBatches

pytestmark = [pytest.mark.connectors, pytest.mark.iceberg]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_repeated_merge_of_changes_leaves_the_iceberg_table_unchanged(spark, table, mode):
    spark.sql(
        f"CREATE TABLE {table} (user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT) USING iceberg "
        f"PARTITIONED BY (days(window_end)) TBLPROPERTIES ('write.merge.mode' = '{mode}')"
    )

    def changes(*rows):
        at = [(user, START, START + timedelta(seconds=10), n, op) for user, n, op in rows]
        return spark.createDataFrame(at, "user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, op STRING")

    batches = [
        changes((1, 1, "insert"), (2, 1, "insert"), (None, 5, "insert")),
        changes((1, 1, "update_before"), (1, 2, "update_after"), (2, 1, "delete"), (3, 1, "insert")),
        changes(),
        changes((3, 1, "delete"), (None, 5, "update_before"), (None, 6, "update_after")),
    ]
    for upto in (2, 4, 4):
        sink = pst.MergeSink(table, ["user"]).open(spark, QueryRunInfo("q", "main"))
        for batch_id in range(max(0, upto - 2), upto):  # The last two run twice, as if Spark was killed before its commit.
            sink.write(batches[batch_id], batch_id)
    assert sorted(((row.user, row.n) for row in spark.table(table).collect()), key=repr) == [(1, 2), (None, 6)]


def test_merged_sessions_replace_their_rows_in_the_iceberg_table(spark, table, tmp_path):
    """A late click merges two sessions, so two rows are replaced by one."""
    rows = MicroBatches(spark, tmp_path / "in", "user BIGINT, ts TIMESTAMP")
    for seconds in ([0, 30], [60], [15], [200]):
        rows.add([(1, START + timedelta(seconds=second)) for second in seconds])

    def sessions(df):
        timed = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("user")
        windows = (
            timed.window(pst.EventTimeSessionWindows.with_gap("20 seconds")).allowed_lateness("1 hour").options(key_groups=1)
        )
        return windows.aggregate(agg.count().alias("n")).changelog()

    for _ in range(2):
        query = sessions(rows.stream()).start(
            checkpoint=str(tmp_path / "checkpoint"), main=pst.MergeSink(table, ["user"], format="iceberg")
        )
        query.await_termination()
        for log in (tmp_path / "checkpoint" / "commits").glob("*3*"):
            log.unlink()
    found = sorted((int((row.window_end - row.window_start).total_seconds()), row.n) for row in spark.table(table).collect())
    # Rows 0, 15 and 30 form one session, and 60 another. The newest session is open.
    assert found == [(20, 1), (50, 3)]
