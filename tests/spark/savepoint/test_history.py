"""History first: the savepoint of a batch, from which a stream starts."""

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
from panestream.spark.savepoint.initial_state import initial_state
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


def test_history_and_the_stream_from_there_are_all_as_a_stream(spark, tmp_path):
    whole, _ = ran(counted(clicks_in(spark, tmp_path / "all", ROWS).stream()), tmp_path / "whole")
    # The history has more than it should, in other columns' order; the stream reads some of it again.
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


def test_the_seam_is_known_to_the_checkpoint_when_the_savepoint_is_not_given_any_more(spark, tmp_path):
    clicks = clicks_in(spark, tmp_path / "clicks", ROWS[:60])
    saved = counted(clicks.stream()).bootstrap(spark.createDataFrame(ROWS[:60], SCHEMA), str(tmp_path / "saved"), until=SEAM)
    new = tmp_path / "new"
    ran(counted(clicks.stream()), new, savepoint=saved.path)
    clicks.add([("late to come", 1, SEAM - dt.timedelta(minutes=1)), ("u1", 1, SEAM + dt.timedelta(hours=9))])
    rest, running = ran(counted(clicks.stream()), new)
    assert running.recent_progress[-1].history_rows == 1
    assert not any("late to come" in row for row in rest)


def test_the_outputs_of_history_and_of_the_stream_in_one_place(spark, tmp_path):
    whole, _ = ran(counted(clicks_in(spark, tmp_path / "all", ROWS).stream()), tmp_path / "whole")
    out = str(tmp_path / "out")
    result = counted(clicks_in(spark, tmp_path / "rest", ROWS[60:]).stream())
    saved = result.bootstrap(spark.createDataFrame(ROWS[:60], SCHEMA), str(tmp_path / "saved"), main=pst.ParquetSink(out))
    result.start(main=pst.ParquetSink(out), checkpoint=str(tmp_path / "new"), savepoint=saved.path).await_termination()
    assert texts(spark.read.parquet(out).drop("batch_id").collect()) == whole


def test_a_second_query_from_the_same_history_does_not_take_the_places_of_the_first(spark, tmp_path):
    out = str(tmp_path / "out")
    result = counted(clicks_in(spark, tmp_path / "rest", ROWS[60:]).stream())
    saved = result.bootstrap(spark.createDataFrame(ROWS[:60], SCHEMA), str(tmp_path / "saved"), main=pst.ParquetSink(out))

    def start(checkpoint, out):
        result.start(main=pst.ParquetSink(out), checkpoint=str(checkpoint), savepoint=saved.path).await_termination()

    start(tmp_path / "new", out)
    there = texts(spark.read.parquet(out).collect())
    with pytest.raises(CheckpointError, match=r"another query went on from .*saved already, with the checkpoint .*new"):
        start(tmp_path / "second", out)
    assert texts(spark.read.parquet(out).collect()) == there
    # A trial elsewhere is nobody's rival, nor is the first one again.
    start(tmp_path / "trial", str(tmp_path / "elsewhere"))
    start(tmp_path / "new", out)
    # The way back that the error tells.
    shutil.rmtree(tmp_path / "new")
    start(tmp_path / "second", out)
    assert texts(spark.read.parquet(out).collect()) == there


def test_no_rows_of_history_are_a_savepoint_too(spark, tmp_path):
    whole, _ = ran(counted(clicks_in(spark, tmp_path / "all", ROWS).stream()), tmp_path / "whole")
    result = counted(clicks_in(spark, tmp_path / "rest", ROWS).stream())
    saved = result.bootstrap(spark.createDataFrame([], SCHEMA), str(tmp_path / "saved"))
    # Each new key group begins with something, though no row comes to it: what time it is.
    assert {row[0] for row in initial_state(saved, replace(saved.plan, groups=3)).collect()} == set(group_values(3))
    assert ran(result, tmp_path / "new", savepoint=saved.path)[0] == whole


@pytest.mark.parametrize("sinks", [{}, {"main": pst.MemorySink()}])
def test_history_that_cannot_be_computed_is_nothing_that_a_sink_or_the_savepoint_failed_in(spark, tmp_path, sinks):
    result = counted(clicks_in(spark, tmp_path / "clicks", ROWS[:2]).stream())
    wrong = spark.createDataFrame(ROWS[:4], SCHEMA).withColumn("n", F.col("user").cast("bigint"))
    with pytest.raises(OperatorError, match=r"^the windows could not be computed: .*CAST_INVALID_INPUT"):
        result.bootstrap(wrong, str(tmp_path / "saved"), **sinks)
    assert not (tmp_path / "saved").exists()


def test_what_is_no_history_of_the_stream_is_refused_in_words(spark, tmp_path):
    stream = clicks_in(spark, tmp_path / "clicks", ROWS).stream()
    result, history = counted(stream), spark.createDataFrame(ROWS[:4], SCHEMA)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (history.drop("user"), {}, "user: string in the stream, missing in history"),
        (history.withColumn("n", F.col("n").cast("string")), {}, "n: bigint in the stream, string in history"),
        (stream, {}, "wants history as a batch"),
        (history, {"until": "soon"}, "until must be a time, got 'soon'"),
        (history, {"mian": pst.MemorySink()}, "there is no output 'mian'; did you mean 'main'?"),
    ]
    for given, how, words in wrong:
        with pytest.raises(InvalidPlanError) as refused:
            result.bootstrap(given, str(tmp_path / "saved"), **how)
        assert words in str(refused.value)
    with pytest.raises(InvalidPlanError, match="called on the stream's result"):
        counted(history).bootstrap(history, str(tmp_path / "saved"))
    timed = pst.stream(stream).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    bound = timed.key_by(stream.user).window(pst.TumblingEventTimeWindows.of("1 hour"))
    with pytest.raises(InvalidPlanError, match="a Column of the stream's own DataFrame"):
        bound.aggregate(agg.count()).bootstrap(history, str(tmp_path / "saved"))
    clock = pst.stream(stream).key_by("user").window(pst.TumblingProcessingTimeWindows.of("1 hour"))
    with pytest.raises(InvalidPlanError, match="go by the clock"):
        clock.aggregate(agg.count()).bootstrap(history, str(tmp_path / "saved"))
    result.bootstrap(history, str(tmp_path / "saved"))
    with pytest.raises(CheckpointError, match="holds a savepoint already"):
        result.bootstrap(history, str(tmp_path / "saved"))
