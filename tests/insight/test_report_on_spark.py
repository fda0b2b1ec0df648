"""A report of real runs: it does not change results, its late rows equal the counts, and its delays equal the advisor's."""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.insight.report_points import closes, closes_of
from panestream.windowing.time import to_micros
from tests.insight.test_inspect import Page

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")]

EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)
FILES, ROWS = 4, 2_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a hundred minutes of rows in files, one for each micro-batch. Some rows are late by minutes."""
    draw, home = random.Random(5), tmp_path_factory.mktemp("rows")
    for number in range(FILES):
        seconds = [1_500 * number + draw.randrange(1_500) - int(draw.expovariate(1 / 120)) for _ in range(ROWS)]
        table = {
            "ts": pa.array([EPOCH + timedelta(seconds=each) for each in seconds], pa.timestamp("us", tz="UTC")),
            "user": [draw.randrange(20) for _ in seconds],
        }
        pq.write_table(pa.table(table), home / f"{number}.parquet")
        os.utime(home / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    return home


def query(df, delay="1 minute"):
    return (
        pst.stream(df)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(delay))
        .key_by("user")
        .window(pst.TumblingEventTimeWindows.of("1 minute"))
        .allowed_lateness("30 seconds")
        .aggregate(agg.count().alias("n"))
    )


def test_report_describes_a_run_without_changing_it(spark, folder, tmp_path):
    rows = spark.readStream.schema("ts timestamp, user bigint").option("maxFilesPerTrigger", 1).parquet(str(folder))
    result, report, heard, main = query(rows), pst.tools.RunReport(), [], pst.MemorySink()
    watched = report.watch(result)
    assert watched is not result
    spark.streams.addListener(report)
    try:
        given = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow", "name": "watched"}
        running = watched.start(main=main, on_progress=report.beside(heard.append), **given)
        running.await_termination()
        # Spark notifies its listeners a moment later.
        deadline = datetime.now() + timedelta(seconds=60)
        while report.run.times.rows < FILES * ROWS and datetime.now() < deadline:
            running.await_termination(0.1)
    finally:
        spark.streams.removeListener(report)
    assert watched.plan.identity() == result.plan.identity()
    late = sum(progress.late_rows for progress in heard)
    assert late > 0
    assert report.run.points.total.late == late
    assert report.run.points.total.rows == report.run.times.rows == FILES * ROWS
    # The quantiles estimate the counted number of late rows, or more by at most the distance of two levels.
    found = report.run.times.completeness
    assert late <= FILES * ROWS - found.keeps(to_micros("1 minute")) <= late + 0.006 * FILES * ROWS
    batch = spark.read.schema("ts timestamp, user bigint").parquet(str(folder))
    advised = pst.tools.lateness(
        batch, "ts", F.col("_metadata.file_path"), windows="1 minute", allowed_lateness="30 seconds", together=True
    )
    for share in (0.9, 0.99):
        told = timedelta(microseconds=found.delay_for(share))
        assert advised.delay(share) <= told <= advised.delay(share + 0.006)
    assert timedelta(microseconds=found.delay_for(1.0)) == advised.delay(1.0)
    text = " ".join(Page(report.html()).text)
    for each in ("watched", "TumblingEventTimeWindows.of('1 minute')", "would have kept 99 %", "in 4 micro-batches"):
        assert each in text, each
    # The sink has the same rows as without a report.
    plain = pst.MemorySink()
    result.start(main=plain, checkpoint=str(tmp_path / "plain"), trigger="availableNow").await_termination()
    assert sorted(map(tuple, main.rows)) == sorted(map(tuple, plain.rows))


def test_last_instants_of_windows_are_the_same_on_spark(spark):
    """The last instant of the last window: Spark computes the same as numpy, also before 1970."""
    import numpy as np

    times = [-7_000_001, -1, 0, 1, 59_999_999, 60_000_000, 1_767_225_600_000_000, 1_767_225_659_999_999]
    rows = spark.createDataFrame([(each,) for each in times], "time bigint")
    for windows in (
        pst.TumblingEventTimeWindows.of("1 minute", "7 seconds"),
        pst.SlidingEventTimeWindows.of("1 minute", "25 seconds"),
        pst.SlidingEventTimeWindows.of("10 seconds", "1 minute"),
        pst.CumulatingEventTimeWindows.of("1 minute", "20 seconds"),
    ):
        result = (
            pst.stream(rows.select(F.timestamp_micros("time").alias("ts")))
            .assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
            .window_all(windows)
            .allowed_lateness("3 seconds")
            .aggregate(agg.count().alias("n"))
        )
        when = closes(result)
        assert when.windows
        found = [row[0] for row in rows.select(closes_of(F.col("time"), when)).collect()]
        assert found == when.of(np.array(times)).tolist(), windows
