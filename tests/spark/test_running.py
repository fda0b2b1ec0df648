"""A running query for its user: counters, warnings, errors with the right name, and no hangs."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import asdict
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import CallbackError, InvalidPlanError, PanestreamWarning, SinkError, StateDamagedError
from panestream.windowing.failures import BAR, WindowFunctionError

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user string, ts timestamp, price bigint"
ON_TIME = [[("ann", 1)], [("ann", 30), ("bob", 31)]]
LATE = [[("ann", 1), ("bob", 30)], [("ann", 2), ("cid", 3), ("ann", 100)], [("ann", 5), ("dan", 200)]]


def stream_of(spark, folder, batches):
    """Return a stream of (user, second) rows, with one file and micro-batch each."""
    folder.mkdir()
    for number, rows in enumerate(batches):
        file = folder / f"{number}.parquet"
        times = pa.array([START + timedelta(seconds=second) for _, second in rows], pa.timestamp("us", tz="UTC"))
        columns = {"user": [user for user, _ in rows], "ts": times, "price": pa.array([1] * len(rows), pa.int64())}
        pq.write_table(pa.table(columns), file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def keyed(df):
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
    return pst.stream(df).assign_timestamps("ts", strategy).key_by("user").window(pst.TumblingEventTimeWindows.of("10 seconds"))


def counted(df):
    return keyed(df).aggregate(agg.count().alias("n"))


def run(result, checkpoint, **arguments):
    query = result.start(checkpoint=str(checkpoint), **arguments)
    query.await_termination()
    return query


def counters(progress):
    return {name: value for name, value in asdict(progress).items() if name not in ("duration_ms", "rows_per_second", "stages")}


def test_late_rows_without_an_output_are_counted_and_warned_of_once(spark, tmp_path):
    seen = []
    result = counted(stream_of(spark, tmp_path / "in", LATE))
    with pytest.warns(PanestreamWarning) as warned:
        query = run(result, tmp_path / "checkpoint", main=pst.MemorySink(), on_progress=seen.append)
    (text,) = [str(warning.message) for warning in warned if warning.category is PanestreamWarning]
    assert text.startswith("micro-batch 1 dropped 2 late rows: keep them with .side_output_late_data")
    assert [step.late_rows for step in seen] == [0, 2, 1]
    assert [counters(step) for step in query.recent_progress] == [counters(step) for step in seen]
    assert [step["observedMetrics"]["panestream"].late_rows for step in query.query.recentProgress] == [0, 2, 1]


def test_late_rows_are_dropped_if_their_output_has_no_sink(spark, tmp_path):
    result = keyed(stream_of(spark, tmp_path / "in", LATE)).side_output_late_data("late").aggregate(agg.count().alias("n"))
    with pytest.warns(PanestreamWarning) as warned:
        run(result, tmp_path / "one", main=pst.MemorySink())
    at_start, at_first_late_row = [str(warning.message) for warning in warned]
    assert "the output 'late' has no sink" in at_start
    assert "no sink: start(late=...)" in at_first_late_row
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sinks = {"main": pst.MemorySink(), "late": pst.MemorySink()}
        run(result, tmp_path / "two", **sinks)
    assert len(sinks["late"].rows) == 3


@pytest.mark.parametrize(
    ("where", "raised"),
    [("on_progress", SystemExit(3)), ("sink", KeyboardInterrupt("stop")), ("sink", ValueError("no"))],
    ids=["exit", "interrupt", "error"],
)
def test_any_error_of_a_user_function_ends_the_query_with_its_name(spark, tmp_path, raised, where):
    def users_function(*_):
        raise raised

    sink = pst.ForeachBatchSink(users_function, idempotent=True) if where == "sink" else pst.MemorySink()
    query = counted(stream_of(spark, tmp_path / "in", ON_TIME)).start(
        main=sink, checkpoint=str(tmp_path / "checkpoint"), on_progress=users_function if where == "on_progress" else None
    )
    kind, who = (CallbackError, "on_progress") if where == "on_progress" else (SinkError, r"the output 'main' \(function users_")
    with pytest.raises(kind, match=who) as caught:
        assert query.await_termination(60), "the query hangs"
    lines = str(caught.value).splitlines()
    assert "in micro-batch 0" in lines[0]
    assert f"{type(raised).__name__}: {raised}" in lines[0]
    assert lines[1] == f"{BAR}Traceback (most recent call last):"
    assert any("in users_function" in line for line in lines)
    assert all(line.startswith(BAR) for line in lines[1:])
    assert caught.value.__context__ is raised
    assert caught.value.spark_error is not None
    assert not query.is_active


def test_spark_error_in_a_sink_names_the_sink(spark, tmp_path):
    def users_function(df, _):
        df.select("nope").collect()

    query = counted(stream_of(spark, tmp_path / "in", ON_TIME)).start(
        main=pst.ForeachBatchSink(users_function, idempotent=True), checkpoint=str(tmp_path / "checkpoint")
    )
    with pytest.raises(SinkError, match=r"the sink of the output 'main' .* failed in micro-batch 0: .*UNRESOLVED_COLUMN.*nope"):
        query.await_termination()


def test_error_of_a_batch_through_main_is_short(spark):
    def users_function(key, window, rows):
        raise KeyError("prize")

    df = spark.createDataFrame([("ann", START, 1)], SCHEMA)
    result = keyed(df).apply(users_function, "n bigint")
    with pytest.raises(PythonException) as caught:
        result.main.collect()
    text = str(caught.value)
    assert "(at key 'ann', window 2026-01-01 00:00:00 to 2026-01-01 00:00:10 UTC, which holds 1 element)" in text
    assert text.rstrip().endswith(f"{BAR}KeyError: 'prize'")
    assert text.count("Traceback") == 2  # the worker's and, after bars, the user's
    assert len(text.splitlines()) < 25
    with pytest.raises(WindowFunctionError) as short:
        result.run(main=pst.MemorySink())
    assert str(short.value).splitlines()[0].startswith("the window function raised KeyError: 'prize' (at key 'ann'")
    assert short.value.window == pst.windows.TimeWindow(1_767_225_600_000_000, 1_767_225_610_000_000)
    assert short.value.__suppress_context__
    assert isinstance(short.value.spark_error, PythonException)


def test_spark_log_of_a_wrong_name_is_suppressed(spark):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    loggers = [PySparkLogger.getLogger(name) for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")]
    before = [list(logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.handlers[:] = [handler]
    try:
        df = spark.createDataFrame([("ann", START, 1)], SCHEMA)
        source = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks())
        with pytest.raises(InvalidPlanError, match="did you mean 'user'") as caught:
            source.key_by("usr")
        assert isinstance(caught.value.spark_error, AnalysisException)
        assert caught.value.__suppress_context__
        with pytest.raises(InvalidPlanError):
            source.key_by(F.col("usr"))
        with pytest.raises(InvalidPlanError):
            keyed(df).apply(print, "n bigint bigint")
        assert records == []
        with pytest.raises(AnalysisException):
            df.select(F.col("usr"))
        assert len(records) == 1  # errors of users themselves are still logged
    finally:
        for logger, handlers in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers


def test_damaged_log_of_spark_is_named_when_the_next_run_fails(spark, tmp_path):
    """Only Spark shows how it fails on its own logs: with a sentence of a JSON parser, and the plan of the query."""
    result, checkpoint = counted(stream_of(spark, tmp_path / "in", ON_TIME[:1])), tmp_path / "checkpoint"
    run(result, checkpoint, main=pst.ParquetSink(tmp_path / "out"))
    log = checkpoint / "sources/0/0"
    log.write_text(log.read_text()[:-5])
    (checkpoint / "sources/0/.0.crc").unlink()
    with pytest.raises(StateDamagedError) as raised:
        run(result, checkpoint, main=pst.ParquetSink(tmp_path / "out"))
    assert "sources/0/0 is cut off or was changed (" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert "== Streaming Query ==" in str(raised.value.spark_error)
