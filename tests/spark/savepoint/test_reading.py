"""A checkpoint is read without the job's code. Its open windows agree with a count of the input."""

import datetime as dt
import json
from collections import Counter

import pytest

import panestream as pst
from panestream import agg
from panestream.engine.savepoint.key_groups import header_of_all
from panestream.errors import CheckpointError
from panestream.spark.savepoint.decode import table_in
from panestream.testing import MicroBatches

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
ROWS = [(f"u{number % 3}", number, START + dt.timedelta(minutes=number)) for number in range(100)]
SCHEMA = "user string, n bigint, ts timestamp"


def utc(time):
    return time.astimezone(dt.timezone.utc)


def sums(df):
    keyed = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes")).key_by("user")
    windowed = keyed.window(pst.SlidingEventTimeWindows.of("30 minutes", "10 minutes")).options(key_groups=2)
    return windowed.aggregate(agg.count().alias("n"), agg.sum("n").alias("total"))


def expected_after(rows):
    """Return the open windows with rows and sum, and the watermark, minus the microsecond by which every watermark lags."""
    watermark = max(ts for _, _, ts in rows) - dt.timedelta(minutes=5)
    found: dict = {}
    for user, n, ts in rows:
        first = ts.replace(minute=ts.minute // 10 * 10)
        for start in (first - dt.timedelta(minutes=10 * back) for back in range(3)):
            if start + dt.timedelta(minutes=30) > watermark:
                count, total = found.get((user, start), (0, 0))
                found[user, start] = (count + 1, total + n)
    return {place: (count, count, total) for place, (count, total) in found.items()}, watermark


def shown(state):
    return {
        (row.key.user, utc(row.window_start)): (row.rows, row.results.n, row.results.total) for row in state.windows.collect()
    }


def test_open_windows_agree_with_the_input_after_every_micro_batch_of_a_running_query(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", SCHEMA)
    for begin, end in ((0, 40), (40, 60), (60, 100)):
        clicks.add(ROWS[begin:end])
    checkpoint = str(tmp_path / "checkpoint")
    query = sums(clicks.stream()).start(
        main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=checkpoint, trigger="1 second", name="running"
    )
    try:
        while not (query.recent_progress and query.recent_progress[-1].batch_id == 2):
            assert not query.await_termination(0.2)
        found = pst.state.read_checkpoint(spark, checkpoint)
        assert (found.batch_id, found.plan.key_names) == (2, ("user",))
        expected, watermark = expected_after(ROWS)
        assert shown(found) == expected
        timers = found.timers.collect()
        assert Counter(row.kind for row in timers) == {"event": len(expected)}
        assert found.elements.count() == found.user_state.count() == 0
        assert query.is_active
    finally:
        query.stop()
    for batch_id, rows in enumerate((40, 60)):
        assert shown(pst.state.read_checkpoint(spark, checkpoint, batch_id)) == expected_after(ROWS[:rows])[0]
    check_times(found, watermark)
    check_tables(found)
    for asked in (9, -1):
        with pytest.raises(CheckpointError, match=f"has no micro-batch {asked}: it has 0 to 2"):
            pst.state.read_checkpoint(spark, checkpoint, asked)
    with pytest.raises(CheckpointError, match="is not a checkpoint of a streaming query"):
        pst.state.read_checkpoint(spark, str(tmp_path / "out"))


def check_times(found, watermark):
    one = dt.timedelta(microseconds=1)
    rows = found.watermarks.orderBy("key_group").collect()
    assert [row.key_group for row in rows] == [0, 1]
    for row in rows:
        assert [utc(time) for time in (row.watermark, row.closed, row.partition_watermark)] == [watermark - one] * 3
        assert utc(row.max_event_time) == watermark + dt.timedelta(minutes=5)
        assert (row.source_partition, row.idle, row.silent, row.processing_time) == ("", False, None, None)


def check_tables(found):
    """Check the tables that savepoints are made of."""
    headers = {row.key_group: json.loads(row.header) for row in found.stored.headers().collect()}
    assert sorted(headers) == [0, 1]
    assert header_of_all([headers[0], headers[1]])["identity"] == found.plan.identity()
    parts = found.stored.tables().collect()
    assert sorted((row.key_group, row.table, row.part) for row in parts) == [(0, "panes", 0), (1, "panes", 0)]
    panes = [(row.key_group, pane) for row in parts for pane in table_in(row.body).to_pylist()]
    table = found.stored.table("panes")
    assert sorted((row.key_group, row["key 0"], row.start, row.rows) for row in table.collect()) == sorted(
        (group, pane["key 0"], pane["start"], pane["rows"]) for group, pane in panes
    )
    assert table.columns == ["key_group", *panes[0][1]]


def test_micro_batch_that_spark_has_cleaned_is_refused(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", SCHEMA)
    for number in range(5):
        clicks.add(ROWS[20 * number : 20 * number + 20])
    checkpoint = tmp_path / "checkpoint"
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        sums(clicks.stream()).start(main=pst.MemorySink(), checkpoint=str(checkpoint)).await_termination()
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    with pytest.raises(CheckpointError, match="has no micro-batch 1: it has 2 to 4"):
        pst.state.read_checkpoint(spark, str(checkpoint), 1)
    assert shown(pst.state.read_checkpoint(spark, str(checkpoint), 2)) == expected_after(ROWS[:60])[0]
    for file in (checkpoint / "state/0/0").glob("3.*"):
        file.unlink()
    with pytest.raises(CheckpointError, match="has no micro-batch 2: it has 3 to 4"):
        pst.state.read_checkpoint(spark, str(checkpoint), 2)


def test_key_groups_that_share_a_partition_are_read_separately(spark, tmp_path):
    """The query was not started by start(), so its checkpoint lacks a plan."""
    rows = [(f"user {number} " + "x" * 40, number, START) for number in range(3000)]
    clicks = MicroBatches(spark, tmp_path / "clicks", SCHEMA).add(rows)
    result = sums(clicks.stream())
    checkpoint = str(tmp_path / "checkpoint")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        with pytest.warns(pst.errors.PanestreamWarning):
            main = result.main
        writer = main.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
    finally:
        spark.conf.unset("spark.sql.shuffle.partitions")
    with pytest.raises(CheckpointError, match=r"it was not created by start\(\). Give the plan of the query: .*plan=result.plan"):
        pst.state.read_checkpoint(spark, checkpoint)
    found = pst.state.read_checkpoint(spark, checkpoint, plan=result.plan)
    lengths = found.stored.values().selectExpr("max(parts) AS parts", "max(length(value)) AS length").first()
    assert lengths.parts > 1
    assert lengths.length == 16 * 1024
    assert shown(found) == expected_after(rows)[0]
    assert {row.key_group for row in found.watermarks.collect()} == {0, 1}
