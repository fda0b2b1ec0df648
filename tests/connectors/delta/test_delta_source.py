"""Delta tables as sources: versions are positions, a restart continues after the last version, and a batch agrees."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import panestream as pst
from panestream import agg

pytestmark = [pytest.mark.connectors, pytest.mark.delta]

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user BIGINT, price BIGINT, ts TIMESTAMP"


@pytest.fixture
def clicks(spark):
    spark.sql(f"CREATE TABLE clicks ({SCHEMA}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    yield
    for table in ("clicks", "minutes"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def add(spark, minute):
    """Add a version with three clicks of a minute."""
    rows = [(second % 2, minute * 10 + second, START + timedelta(minutes=minute, seconds=second)) for second in range(3)]
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta").mode("append").saveAsTable("clicks")


def minutes(df):
    timed = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    windows = timed.key_by("user").window(pst.TumblingEventTimeWindows.of("1 minute")).options(key_groups=1)
    return windows.aggregate(agg.count().alias("n"), agg.sum("price").alias("price"))


def found(df):
    return sorted(tuple(row) for row in df.collect())


def take_back_last_commit(checkpoint):
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()


def test_killed_query_continues_at_the_next_delta_version(spark, clicks, tmp_path):
    """Read from version 2 on. The query is killed between the sink's commit and Spark's, while the table grows."""

    def run():
        source = spark.readStream.option("startingVersion", "2").option("maxFilesPerTrigger", 1).table("clicks")
        sinks = {"main": pst.TableSink("minutes", "delta")}
        minutes(source).start(checkpoint=str(tmp_path / "checkpoint"), **sinks).await_termination()

    for minute in range(4):
        add(spark, minute)
    run()
    take_back_last_commit(tmp_path / "checkpoint")
    add(spark, 4)
    run()
    # Version 1 holds minute 0 and is not read. Minute 4 is still open.
    batch = spark.read.option("versionAsOf", 5).table("clicks").where(f"ts >= TIMESTAMP'{START + timedelta(minutes=1)}'")
    expected = [row for row in found(minutes(batch).main) if row[1].minute < 4]
    assert len(expected) == 6
    assert found(spark.table("minutes")) == expected


def test_commit_version_of_the_change_feed_orders_rows(spark, clicks, tmp_path):
    for minute in range(4):
        add(spark, minute)
    spark.sql("OPTIMIZE clicks")
    options = {"readChangeFeed": "true", "startingVersion": "0"}

    def pairs(df):
        ordered = pst.stream(df.where("_change_type = 'insert'")).arrival_order("_commit_version", "ts").key_by("user")
        values = (agg.first("price").alias("first"), agg.last("price").alias("last"), agg.max("_commit_version").alias("version"))
        return ordered.count_window(2).options(key_groups=1).aggregate(*values)

    memory = pst.MemorySink()
    stream = pairs(spark.readStream.options(**options).option("maxFilesPerTrigger", 1).table("clicks"))
    stream.start(checkpoint=str(tmp_path / "checkpoint"), main=memory).await_termination()
    pick = ["user", "first", "last", "version"]
    streamed = sorted(tuple(row[name] for name in pick) for row in memory.rows)
    # User 0 has clicks 0, 2, 10, 12, 20, 22, 30, 32. User 1 has clicks 1, 11, 21, 31.
    assert streamed == [(0, 0, 2, 1), (0, 10, 12, 2), (0, 20, 22, 3), (0, 30, 32, 4), (1, 1, 11, 2), (1, 21, 31, 4)]
    assert found(pairs(spark.read.options(**options).table("clicks")).main.select(*pick)) == streamed


@pytest.mark.parametrize("by", ["table", "path"])
def test_job_file_reads_and_writes_delta(spark, clicks, tmp_path, by):
    from panestream.jobs.loading import load_job
    from panestream.jobs.runner import build

    for minute in range(3):
        add(spark, minute)
    location = spark.sql("DESCRIBE DETAIL clicks").collect()[0].location.removeprefix("file:")
    where = 'table = "clicks"' if by == "table" else f'path = "{location}"'
    job = tmp_path / "job.toml"
    job.write_text(f"""
key = ["user"]
key_groups = 1
checkpoint = "checkpoint"
[source]
format = "delta"
{where}
files_per_batch = 1
options = {{ startingVersion = 1 }}
[event_time]
column = "ts"
[watermark]
strategy = "monotonous"
[window]
type = "tumbling"
size = "1 minute"
[aggregate]
n = "count"
price = "sum(price)"
[sinks.main]
format = "delta"
table = "minutes"
""")
    loaded = load_job(job)
    sinks = {tag: sink.recipe(loaded.job.key) for tag, sink in loaded.job.sinks.items()}
    result = build(loaded, spark)
    assert "main: table minutes, exactly once" in str(result.explain(**sinks))
    result.start(checkpoint=str(loaded.job.checkpoint), **sinks).await_termination()
    assert [row[-2:] for row in found(spark.table("minutes"))] == [(2, 2), (2, 22), (1, 1), (1, 11)]
