"""Spark's own sinks in the execution of the operator: rows, progress, restarts, copies, and what such a query refuses."""

from __future__ import annotations

import shutil

import pytest

import panestream as pst
from panestream.errors import FencedError, InvalidPlanError, PanestreamWarning, SinkError
from panestream.spark.checkpoint.lease import read_lease, register
from tests.datastream.test_stream import at, read_stream, windowed, write_files

FILES = [[("ann", at(0), 1)], [("ann", at(20), 2), ("bob", at(21), 3)], [("ann", at(40), 4), ("ann", at(1), 5)]]
"""Each file closes the windows of the file before. The last row is late."""
ON_TIME = [("ann", 1), ("ann", 1), ("bob", 1)]
SparkSink = pst.sinks.SparkSink


def parquet(folder):
    return SparkSink("parquet", {"path": str(folder)})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SparkSink(""), "a SparkSink needs the name of a format, such as 'parquet' or 'kafka', got ''"),
        (lambda: SparkSink("parquet", "out"), "takes the options of Spark's writer as a dict, such as SparkSink"),
        (lambda: SparkSink("kafka", {}, "value"), "the columns of a SparkSink are a list of SQL expressions, got 'value'"),
    ],
)
def test_wrong_arguments_are_refused_with_the_right_ones(make, message):
    with pytest.raises(SinkError, match=message):
        make()


def test_place_and_guarantee_follow_from_the_format_and_secrets_stay_hidden(tmp_path):
    files, kafka = parquet(tmp_path), SparkSink("kafka", {"kafka.sasl.jaas.config": "secret"})
    assert (files.place(None), kafka.place(None)) == (f"file:{tmp_path}", None)
    assert files.guarantee(None) == SparkSink("Parquet").guarantee(None) == "exactly once"
    assert kafka.guarantee(None) == "at least once: Spark's kafka sink may get the rows of a repeated micro-batch again"
    assert "secret" not in repr(kafka)
    with pytest.raises(SinkError, match=r"give it to result.start\(\) as the only sink"):
        files.write(None, 0)


@pytest.mark.spark
def test_spark_writes_each_row_once_over_restarts_and_reports_progress(spark, tmp_path):
    source, out, seen = write_files(spark, tmp_path / "in", FILES[:2]), tmp_path / "out", []
    windowed(read_stream(spark, source)).start(checkpoint=f"{tmp_path}/c", main=parquet(out)).await_termination()
    write_files(spark, tmp_path / "in" / "third", FILES[2:])
    # A crash between the sink's log and Spark's commit: the sink has the repeated micro-batch, so Spark does not compute it.
    for name in ("1", ".1.crc"):
        (tmp_path / "c" / "commits" / name).unlink(missing_ok=True)
    result = windowed(read_stream(spark, source))
    query = result.start(checkpoint=f"{tmp_path}/c", main=parquet(out), on_progress=seen.append)
    with pytest.warns(PanestreamWarning, match="micro-batch 2 dropped 1 late row"):
        query.await_termination()
    assert [(step.batch_id, step.rows, step.late_rows) for step in seen] == [(1, 0, 0), (2, 2, 1)]
    assert query.recent_progress == seen
    assert sorted(map(tuple, spark.read.parquet(str(out)).select("user", "n").collect())) == ON_TIME
    # A sink that foreachBatch calls continues. Then Spark's log would have a gap.
    memory = pst.MemorySink()
    write_files(spark, tmp_path / "in" / "fourth", [[("ann", at(60), 6)]])
    windowed(read_stream(spark, source)).start(checkpoint=f"{tmp_path}/c", main=memory).await_termination()
    assert [(row.user, row.n) for row in memory.rows] == [("ann", 1)]
    with pytest.raises(SinkError, match=r"out has micro-batches up to 2, but the checkpoint .* has committed those up to 3"):
        result.start(checkpoint=f"{tmp_path}/c", main=parquet(out))
    for checkpoint, folder, message in [
        ("c", tmp_path / "new", "new is not where this query wrote its micro-batches up to 3"),
        ("other", out, "out holds the output of another query or of another kind of sink"),
        ("other", source, "in already holds files that are not this query's"),
    ]:
        with pytest.raises(SinkError, match=message):
            result.start(checkpoint=f"{tmp_path}/{checkpoint}", main=parquet(folder))
    with pytest.raises(SinkError, match="out holds the output of another query"):
        result.start(checkpoint=f"{tmp_path}/c", main=pst.ParquetSink(out))


@pytest.mark.spark
def test_spark_writes_the_chosen_columns_and_windows_fire_at_the_end(spark, tmp_path):
    source = write_files(spark, tmp_path / "in", FILES[:2])
    sink = SparkSink("json", {"path": str(tmp_path / "out")}, ["upper(user) AS who", "n + 1 AS more"])
    query = windowed(read_stream(spark, source)).start(checkpoint=f"{tmp_path}/c", main=sink, fire_at_end=True)
    assert query.await_termination()
    assert sorted(map(tuple, spark.read.json(str(tmp_path / "out")).select("who", "more").collect())) == [
        ("ANN", 2),
        ("ANN", 2),
        ("BOB", 2),
    ]


@pytest.mark.spark
def test_copy_that_was_overtaken_fails_as_fenced(spark, tmp_path):
    source = write_files(spark, tmp_path / "in", FILES[:1])
    result = windowed(read_stream(spark, source))
    checkpoint, waiting = tmp_path / "c", {"trigger": "100 milliseconds"}
    query = result.start(checkpoint=str(checkpoint), main=parquet(tmp_path / "out"), **waiting)
    while query.last_progress is None:
        query.await_termination(0.1)
    # Another copy starts, and plans the next micro-batch first.
    register(spark, read_lease(spark, result.plan, str(checkpoint)), [])
    shutil.copy(checkpoint / "offsets" / "0", checkpoint / "offsets" / "1")
    write_files(spark, tmp_path / "in" / "second", FILES[1:2])
    with pytest.raises(FencedError, match="another copy of this query was started later"):
        query.await_termination(60)


@pytest.mark.spark
def test_query_refuses_what_spark_cannot_write_in_one_execution(spark, tmp_path):
    source, sink = write_files(spark, tmp_path / "in", FILES[:1]), parquet(tmp_path / "out")
    stream, checkpoint = read_stream(spark, source), f"{tmp_path}/c"
    with pytest.raises(
        SinkError, match="Spark's parquet sink must be the only sink of its query, but there are others, of 'late'"
    ):
        windowed(stream, late="late").start(checkpoint=checkpoint, main=sink, late=pst.MemorySink())
    largest = windowed(stream).top(1, by="n")
    with pytest.raises(InvalidPlanError, match="top on a stream needs a second execution in each micro-batch"):
        largest.start(checkpoint=checkpoint, main=sink)
    with pytest.raises(InvalidPlanError, match="start with another sink, and give the SparkSink at a later start"):
        windowed(stream).start(checkpoint=checkpoint, main=sink, savepoint=f"{tmp_path}/saved")
    batch = spark.read.schema(stream.schema).parquet(f"{source}/*")
    with pytest.raises(SinkError, match="Spark's parquet sink is for streams"):
        windowed(batch).run(main=sink)
    windowed(batch).run(main=pst.ParquetSink(tmp_path / "out"))
    for format_name in ("parquet", "PARQUET"):
        with pytest.raises(SinkError, match="holds the output of another query or of another kind of sink"):
            windowed(stream).start(checkpoint=checkpoint, main=SparkSink(format_name, {"Path": str(tmp_path / "out")}))
