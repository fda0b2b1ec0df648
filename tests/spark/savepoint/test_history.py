"""A stream starts from the savepoint of a batch over history."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import CheckpointError, InvalidPlanError, OperatorError
from panestream.spark.compat import group_values
from panestream.spark.savepoint.restore import initial_state
from panestream.testing import MicroBatches
from tests.spark.savepoint.runs import ran, texts

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
SCHEMA = "user string, n bigint, ts timestamp"
ROWS = [(f"u{number % 7}", number, START + dt.timedelta(minutes=number * 2 - number % 5)) for number in range(100)]
SEAM = START + dt.timedelta(minutes=90)


def clicks_in(spark, folder, rows):
    clicks = MicroBatches(spark, folder, SCHEMA)
    clicks.add(rows[: len(rows) // 2])
    clicks.add(rows[len(rows) // 2 :])
    return clicks


def counted(rows, groups=2, late=False):
    windowed = (
        pst.stream(rows)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by("user")
        .window(pst.SlidingEventTimeWindows.of("30 minutes", "10 minutes"))
    )
    windowed = windowed.side_output_late_data("late") if late else windowed
    return windowed.options(key_groups=groups).aggregate(
        agg.count().alias("n"), agg.sum("n").alias("total"), agg.complete("total")
    )


def test_history_and_stream_agree_with_one_stream(spark, tmp_path):
    whole, _ = ran(counted(clicks_in(spark, tmp_path / "all", ROWS).stream()), tmp_path / "whole")
    # The history has too many rows, and its columns in another order. The stream reads some of its rows again.
    history = spark.createDataFrame([*ROWS[:60]], SCHEMA).select("ts", F.lit(1).alias("other"), "n", "user")
    stream = clicks_in(spark, tmp_path / "rest", ROWS[30:])
    result = counted(stream.stream())
    first = pst.MemorySink()
    saved = result.bootstrap(history, str(tmp_path / "saved"), until=SEAM, main=first)
    assert (saved.batch_id, saved.manifest.groups) == (None, 2)
    rest, running = ran(counted(stream.stream(), groups=3), tmp_path / "new", savepoint=saved.path)
    assert sorted(texts(first.rows) + rest) == whole
    known = sum(row[2] < SEAM for row in ROWS[30:])
    progress = running.recent_progress
    assert (sum(one.history_rows for one in progress), sum(one.rows for one in progress)) == (known, 70 - known)
    assert sum(one.late_rows for one in progress) == 0


def test_checkpoint_keeps_until_after_restart_without_the_savepoint(spark, tmp_path):
    clicks = clicks_in(spark, tmp_path / "clicks", ROWS[:60])
    saved = counted(clicks.stream()).bootstrap(spark.createDataFrame(ROWS[:60], SCHEMA), str(tmp_path / "saved"), until=SEAM)
    new = tmp_path / "new"
    ran(counted(clicks.stream()), new, savepoint=saved.path)
    clicks.add([("late to come", 1, SEAM - dt.timedelta(minutes=1)), ("u1", 1, SEAM + dt.timedelta(hours=9))])
    rest, running = ran(counted(clicks.stream()), new)
    assert running.recent_progress[-1].history_rows == 1
    assert not any("late to come" in row for row in rest)


def test_history_and_stream_write_to_one_folder(spark, tmp_path):
    whole, _ = ran(counted(clicks_in(spark, tmp_path / "all", ROWS).stream()), tmp_path / "whole")
    out = str(tmp_path / "out")
    result = counted(clicks_in(spark, tmp_path / "rest", ROWS[60:]).stream())
    saved = result.bootstrap(spark.createDataFrame(ROWS[:60], SCHEMA), str(tmp_path / "saved"), main=pst.ParquetSink(out))
    result.start(main=pst.ParquetSink(out), checkpoint=str(tmp_path / "new"), savepoint=saved.path).await_termination()
    assert texts(spark.read.parquet(out).drop("batch_id").collect()) == whole


def test_second_query_from_the_same_history_may_not_write_to_the_same_folders(spark, tmp_path):
    out = str(tmp_path / "out")
    result = counted(clicks_in(spark, tmp_path / "rest", ROWS[60:]).stream())
    saved = result.bootstrap(spark.createDataFrame(ROWS[:60], SCHEMA), str(tmp_path / "saved"), main=pst.ParquetSink(out))

    def start(checkpoint, out):
        result.start(main=pst.ParquetSink(out), checkpoint=str(checkpoint), savepoint=saved.path).await_termination()

    start(tmp_path / "new", out)
    there = texts(spark.read.parquet(out).collect())
    with pytest.raises(CheckpointError, match=r"another query continued from .*saved already, with the checkpoint .*new"):
        start(tmp_path / "second", out)
    assert texts(spark.read.parquet(out).collect()) == there
    # A trial in other folders is fine, and so is a restart of the first query.
    start(tmp_path / "trial", str(tmp_path / "elsewhere"))
    start(tmp_path / "new", out)
    # The way out that the error names.
    shutil.rmtree(tmp_path / "new")
    start(tmp_path / "second", out)
    assert texts(spark.read.parquet(out).collect()) == there


def test_history_without_rows_gives_a_savepoint(spark, tmp_path):
    whole, _ = ran(counted(clicks_in(spark, tmp_path / "all", ROWS).stream()), tmp_path / "whole")
    result = counted(clicks_in(spark, tmp_path / "rest", ROWS).stream())
    saved = result.bootstrap(spark.createDataFrame([], SCHEMA), str(tmp_path / "saved"))
    # Each new key group starts with the reached time, although it gets no row.
    assert {row[0] for row in initial_state(saved, replace(saved.plan, groups=3)).collect()} == set(group_values(3))
    assert ran(result, tmp_path / "new", savepoint=saved.path)[0] == whole


@pytest.mark.parametrize("sinks", [{}, {"main": pst.MemorySink()}])
def test_error_in_history_does_not_blame_a_sink_or_the_savepoint(spark, tmp_path, sinks):
    result = counted(clicks_in(spark, tmp_path / "clicks", ROWS[:2]).stream())
    wrong = spark.createDataFrame(ROWS[:4], SCHEMA).withColumn("n", F.col("user").cast("bigint"))
    with pytest.raises(OperatorError, match=r"^the windows could not be computed: .*CAST_INVALID_INPUT"):
        result.bootstrap(wrong, str(tmp_path / "saved"), **sinks)
    assert not (tmp_path / "saved").exists()


def test_wrong_history_is_refused(spark, tmp_path):
    stream = clicks_in(spark, tmp_path / "clicks", ROWS).stream()
    result, history = counted(stream), spark.createDataFrame(ROWS[:4], SCHEMA)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (history.drop("user"), {}, "user: string in the stream, missing in history"),
        (history.withColumn("n", F.col("n").cast("string")), {}, "n: bigint in the stream, string in history"),
        (stream, {}, "needs history as a batch"),
        (history, {"until": "soon"}, "until must be a time, got 'soon'"),
        (history, {"mian": pst.MemorySink()}, "there is no output 'mian'; did you mean 'main'?"),
    ]
    for given, how, words in wrong:
        with pytest.raises(InvalidPlanError) as refused:
            result.bootstrap(given, str(tmp_path / "saved"), **how)
        assert words in str(refused.value)
    with pytest.raises(InvalidPlanError, match=r"[Cc]all bootstrap on the stream's result"):
        counted(history).bootstrap(history, str(tmp_path / "saved"))
    timed = pst.stream(stream).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    bound = timed.key_by(stream.user).window(pst.TumblingEventTimeWindows.of("1 hour"))
    with pytest.raises(InvalidPlanError, match="a Column of the stream's DataFrame"):
        bound.aggregate(agg.count()).bootstrap(history, str(tmp_path / "saved"))
    clock = pst.stream(stream).key_by("user").window(pst.TumblingProcessingTimeWindows.of("1 hour"))
    with pytest.raises(InvalidPlanError, match=r"[Uu]se the clock"):
        clock.aggregate(agg.count()).bootstrap(history, str(tmp_path / "saved"))
    result.bootstrap(history, str(tmp_path / "saved"))
    with pytest.raises(CheckpointError, match="holds a savepoint already"):
        result.bootstrap(history, str(tmp_path / "saved"))
