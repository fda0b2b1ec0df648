"""Windows on Spark through every layer: streams in micro-batches, and batches."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidEventTimeError, InvalidPlanError, PanestreamWarning, PlanMismatchError, SinkError
from panestream.spark.types import arrow_schema

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = "user string, ts timestamp, price bigint"


def at(seconds):
    return START + timedelta(seconds=seconds)


def write_files(spark, folder, batches, schema=SCHEMA):
    """Write one Parquet file for each micro-batch, in order. (With pyarrow, because Spark takes a second for each.)"""
    arrow = arrow_schema(spark.createDataFrame([], schema).schema)
    for number, rows in enumerate(batches):
        (folder / f"{number:04d}").mkdir(parents=True)
        columns = [pa.array([row[position] for row in rows], field.type) for position, field in enumerate(arrow)]
        file = folder / f"{number:04d}" / "part.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=arrow), file)
        # Spark orders files by modification time, and two files may be written in one millisecond.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return str(folder)


def read_stream(spark, folder, schema=SCHEMA):
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("recursiveFileLookup", "true")
    return reader.parquet(folder)


def read_batch(spark, folder, schema=SCHEMA):
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(folder)


def windowed(df, assigner=None, delay="5 seconds", late=None, invalid=None):
    source = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(delay))
    if invalid:
        source = source.side_output_invalid(invalid)
    stream = source.key_by("user").window(assigner or pst.TumblingEventTimeWindows.of("10 seconds"))
    if late:
        stream = stream.side_output_late_data(late)
    return stream.aggregate(agg.count().alias("n"), agg.sum("price").alias("total"))


def values(rows):
    return sorted((row.user or "", row.window_start, row.window_end, row.n, row.total) for row in rows)


ROWS = [(user, at(second), second) for second in range(60) for user in ("ann", "bob", None)]
BATCHES = [ROWS[start : start + 20] for start in range(0, len(ROWS), 20)]


def expected(rows, size, slide, until=None):
    found = {}
    for user, time, price in rows:
        second = int((time - START).total_seconds())
        for start in range(second // slide * slide, second - size, -slide):
            n, total = found.get((user, start), (0, 0))
            found[user, start] = n + 1, total + price
    naive = lambda second: at(second).replace(tzinfo=None)  # noqa: E731
    return sorted(
        (user or "", naive(start), naive(start + size), n, total)
        for (user, start), (n, total) in found.items()
        if until is None or start + size <= until
    )


@pytest.mark.parametrize(("size", "slide"), [(10, 10), (20, 5), (7, 3), (4, 6)])
def test_stream_and_batch_agree_with_the_definition(spark, tmp_path, size, slide):
    folder = write_files(spark, tmp_path / "in", BATCHES)
    assigner = pst.SlidingEventTimeWindows.of(f"{size} seconds", f"{slide} seconds")
    sink = pst.MemorySink()
    result = windowed(read_stream(spark, folder), assigner)
    result.start(main=sink, checkpoint=str(tmp_path / "checkpoint")).await_termination()
    # Spark gives Python timestamps in the machine's zone. The session's zone is UTC, and tests compare in UTC.
    streamed = values(sink.rows)
    in_batch = values(windowed(read_batch(spark, folder), assigner).main.collect())
    assert in_batch == [tuple(row) for row in local(expected(ROWS, size, slide))]
    assert streamed == [tuple(row) for row in local(expected(ROWS, size, slide, until=59 - 5))]
    assert len(sink.batches) > 1


def local(rows):
    """Return expected instants like Spark's collect(): naive, in the machine's time zone."""
    convert = lambda instant: instant.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=None)  # noqa: E731
    return sorted((user, convert(start), convert(end), n, total) for user, start, end, n, total in rows)


def test_main_is_an_ordinary_dataframe_and_fires_in_the_same_micro_batch(spark, tmp_path):
    folder = write_files(spark, tmp_path / "in", [[("ann", at(11), 5)], [("ann", at(21), 6), ("ann", at(2), 9)]])
    result = windowed(read_stream(spark, folder), delay="0 seconds")
    with pytest.warns(PanestreamWarning) as warned:
        assert result.main.columns == ["user", "window_start", "window_end", "n", "total"]
    (warning,) = warned
    assert warning.filename == __file__
    lines = str(warning.message).splitlines()[1:-1]
    assert lines == ['  spark.conf.set("spark.sql.shuffle.partitions", "4")']
    exec(lines[0].strip())
    try:
        query = (
            result.main.writeStream.format("memory")
            .queryName("ordinary")
            .outputMode("append")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    finally:
        spark.conf.unset("spark.sql.shuffle.partitions")
    assert [(row.user, row.n, row.total) for row in spark.table("ordinary").collect()] == [("ann", 1, 5)]
    assert [progress["numInputRows"] for progress in query.recentProgress] == [1, 2]  # no third batch was needed
    counters = [progress["observedMetrics"]["panestream"].asDict() for progress in query.recentProgress]
    assert [(step["input_rows"], step["late_rows"], step["fired_rows"]) for step in counters] == [(1, 0, 0), (2, 1, 1)]


def test_late_and_invalid_rows_reach_their_own_sinks(spark, tmp_path):
    batches = [
        [("ann", at(1), 1), ("ann", at(30), 2), ("bob", None, 3)],
        [("ann", at(2), 4), ("ann", at(24), 5), ("bob", at(19), 6)],
        [("ann", at(60), 7)],
    ]
    folder = write_files(spark, tmp_path / "in", batches)
    result = windowed(read_stream(spark, folder), late="late", invalid="invalid")
    progress = []
    out = tmp_path / "out"
    sinks = {tag: pst.ParquetSink(str(out / tag)) for tag in ("main", "late", "invalid")}
    result.start(checkpoint=str(tmp_path / "checkpoint"), on_progress=progress.append, **sinks).await_termination()
    rows = {tag: spark.read.parquet(str(out / tag)).collect() for tag in sinks}
    assert sorted((row.user, row.n, row.total) for row in rows["main"]) == [("ann", 1, 1), ("ann", 1, 2), ("ann", 1, 5)]
    assert sorted((row.user, row.price, row.batch_id) for row in rows["late"]) == [("ann", 4, 1), ("bob", 6, 1)]
    assert [(row.user, row.ts, row.price) for row in rows["invalid"]] == [("bob", None, 3)]
    assert [step.late_rows for step in progress] == [0, 2, 0]
    assert [step.dropped_rows for step in progress] == [0, 0, 0]
    assert [step.invalid_rows for step in progress] == [1, 0, 0]
    assert [step.rows for step in progress] == [3, 3, 1]
    assert [step.fired_windows for step in progress] == [1, 0, 2]
    assert progress[0].watermark == int(at(25).timestamp() * 1e6) - 1


def test_rows_without_event_time_fail_the_query_by_default(spark, tmp_path):
    folder = write_files(spark, tmp_path / "in", [[("ann", at(1), 1), ("bob", None, 3), ("bob", None, 4)]])
    query = windowed(read_stream(spark, folder)).start(main=pst.MemorySink(), checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(InvalidEventTimeError, match=r"2 of 3 rows .* 'ts' .*side_output_invalid"):
        query.await_termination()


def test_checkpoint_of_another_plan_is_refused_before_the_query_runs(spark, tmp_path):
    folder = write_files(spark, tmp_path / "in", BATCHES[:1])
    sink = pst.ParquetSink(str(tmp_path / "out"))
    checkpoint = str(tmp_path / "checkpoint")
    windowed(read_stream(spark, folder)).start(main=sink, checkpoint=checkpoint).await_termination()
    other = windowed(read_stream(spark, folder), pst.TumblingEventTimeWindows.of("20 seconds"))
    with pytest.raises(PlanMismatchError, match=r"10 seconds.*->.*20 seconds"):
        other.start(main=sink, checkpoint=checkpoint)


def test_checkpoint_keeps_its_number_of_key_groups_on_other_machines_and_sessions(spark, tmp_path):
    folder, checkpoint = write_files(spark, tmp_path / "in", BATCHES[:1]), str(tmp_path / "checkpoint")
    windows = pst.stream(read_stream(spark, folder)).assign_timestamps(
        "ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")
    )
    windows = windows.key_by("user").window(pst.TumblingEventTimeWindows.of("10 seconds"))
    count, sink = agg.count().alias("n"), pst.MemorySink()
    assert windows.aggregate(count).plan.groups == 4 != spark.sparkContext.defaultParallelism
    windows.options(key_groups=3).aggregate(count).start(main=sink, checkpoint=checkpoint).await_termination()
    write_files(spark, tmp_path / "more", BATCHES[1:])
    (tmp_path / "more" / "0007").rename(tmp_path / "in" / "9999")
    again = windows.aggregate(count).start(main=sink, checkpoint=checkpoint)
    again.await_termination()
    assert again.plan.groups == 3
    assert again.recent_progress[-1].rows == 20
    with pytest.raises(PlanMismatchError, match=r"key groups: 3  ->  2\n.*\.options\(key_groups=3\)"):
        windows.options(key_groups=2).aggregate(count).start(main=sink, checkpoint=checkpoint)


def test_state_refuses_another_plan(spark, tmp_path):
    folder = write_files(spark, tmp_path / "in", BATCHES[:1])
    checkpoint = tmp_path / "checkpoint"
    windowed(read_stream(spark, folder)).start(main=pst.MemorySink(), checkpoint=str(checkpoint)).await_termination()
    shutil.rmtree(checkpoint / "panestream")
    write_files(spark, tmp_path / "more", BATCHES[1:2])
    (tmp_path / "more" / "0000").rename(tmp_path / "in" / "9999")
    other = windowed(read_stream(spark, folder), pst.TumblingEventTimeWindows.of("20 seconds"))
    query = other.start(main=pst.MemorySink(), checkpoint=str(checkpoint))
    with pytest.raises(PlanMismatchError, match=r"10 seconds.*->.*20 seconds"):
        query.await_termination()


def test_sink_of_another_query_is_refused(spark, tmp_path):
    folder = write_files(spark, tmp_path / "in", BATCHES[:1])
    sink = pst.ParquetSink(str(tmp_path / "out"))
    windowed(read_stream(spark, folder)).start(main=sink, checkpoint=str(tmp_path / "one")).await_termination()
    with pytest.raises(SinkError, match="another query"):
        windowed(read_stream(spark, folder)).start(main=sink, checkpoint=str(tmp_path / "two"))


def test_sink_with_foreign_files_is_refused(spark, tmp_path):
    folder = write_files(spark, tmp_path / "in", BATCHES[:1])
    with pytest.raises(SinkError, match="not this query's"):
        windowed(read_stream(spark, folder)).start(main=pst.ParquetSink(folder), checkpoint=str(tmp_path / "one"))


def test_any_split_into_micro_batches_gives_the_same_closed_windows(spark, tmp_path):
    outcomes = []
    for cut in (7, 45, 180):
        batches = [ROWS[start : start + cut] for start in range(0, len(ROWS), cut)]
        folder = write_files(spark, tmp_path / f"in{cut}", batches)
        sink = pst.MemorySink()
        windowed(read_stream(spark, folder)).start(main=sink, checkpoint=str(tmp_path / f"c{cut}")).await_termination()
        outcomes.append(values(sink.rows))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_window_all_and_several_keys(spark, tmp_path):
    df = spark.createDataFrame(
        [("a", 1, at(1), 2.5), ("a", 2, at(2), 1.5), ("b", 1, at(3), None)], "u string, i int, ts timestamp, p double"
    )
    source = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks())
    total = source.window_all(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(
        agg.count().alias("n"), agg.mean("p").alias("m")
    )
    assert [(row.n, row.m) for row in total.main.collect()] == [(3, 2.0)]
    by_two = (
        source.key_by("u", "i + 1 AS j")
        .window(pst.TumblingEventTimeWindows.of("1 hour"))
        .aggregate(agg.count_distinct("p").alias("n"))
    )
    assert sorted((row.u, row.j, row.n) for row in by_two.main.collect()) == [("a", 2, 1), ("a", 3, 1), ("b", 2, 0)]


def test_top_in_batch_and_on_a_stream(spark, tmp_path):
    rows = [(f"item{item}", at(second), item) for second in range(30) for item in range(second % 7)]
    folder = write_files(spark, tmp_path / "in", [rows[:40], rows[40:]])
    sink = pst.MemorySink()
    windowed(read_stream(spark, folder), delay="0 seconds").top(2, by="n").start(
        main=sink, checkpoint=str(tmp_path / "checkpoint")
    ).await_termination()
    in_batch = windowed(read_batch(spark, folder)).top(2, by="n").main.collect()
    counts = Counter((int((time - START).total_seconds()) // 10, user) for user, time, _ in rows)
    want = []
    for window in range(3):
        ranked = sorted(((-n, user) for (w, user), n in counts.items() if w == window))[:2]
        want += [(window, rank + 1, user, -n) for rank, (n, user) in enumerate(ranked)]
    origin = START.astimezone().replace(tzinfo=None)
    shape = lambda row: (int((row.window_start - origin).total_seconds()) // 10, row["rank"], row.user, row.n)  # noqa: E731
    assert sorted(map(shape, in_batch)) == want
    assert sorted(map(shape, sink.rows)) == [row for row in want if row[0] < 2]


def test_sql_sum_that_overflows_fails(spark):
    df = spark.createDataFrame([("a", at(1), 2**63 - 1), ("a", at(2), 1)], SCHEMA)
    with pytest.raises(Exception, match="AggregateOverflowError"):
        windowed(df).main.collect()


def test_column_names_that_need_quoting(spark):
    df = spark.createDataFrame(
        [("a", at(1), 2, 3, 4)], "`the user` string, `event.time` timestamp, `pri``ce` bigint, rows int, pane int"
    )
    result = (
        pst.stream(df)
        .assign_timestamps("event.time", pst.WatermarkStrategy.no_watermarks())
        .side_output_invalid("bad")
        .key_by("the user", "rows", "pane")
        .window(pst.TumblingEventTimeWindows.of("1 hour"))
        .side_output_late_data("late")
        .aggregate(agg.sum("pri`ce").alias("s"))
    )
    assert [tuple(row) for row in result.main.select("the user", "rows", "pane", "s").collect()] == [("a", 3, 4, 2)]
    odd = pst.stream(df).assign_timestamps("event.time", pst.WatermarkStrategy.no_watermarks()).key_by("pri`ce")
    top = odd.window(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.count().alias("n`")).top(1, by="n`")
    assert [(row["pri`ce"], row["n`"], row["rank"]) for row in top.main.collect()] == [(2, 1, 1)]
    assert result.output("late").columns == df.columns


def test_batch_writes_to_sinks(spark, tmp_path):
    df = spark.createDataFrame([("a", at(1), 2), ("b", None, 3)], SCHEMA)
    result = windowed(df, invalid="bad")
    result.run(main=pst.ParquetSink(str(tmp_path / "main")), bad=pst.ParquetSink(str(tmp_path / "bad")))
    assert spark.read.parquet(str(tmp_path / "main")).select("user", "n").collect() == [("a", 1)]
    assert spark.read.parquet(str(tmp_path / "bad")).count() == 1


def test_tables_functions_and_the_console_as_sinks(spark, tmp_path, capsys):
    folder = write_files(spark, tmp_path / "in", BATCHES[:4])
    seen = {}
    sinks = {
        "main": pst.TableSink("windows_of_users", format="parquet"),
        "late": pst.ForeachBatchSink(lambda df, batch: seen.update({batch: df.count()})),
    }
    result = windowed(read_stream(spark, folder), late="late")
    with pytest.warns(PanestreamWarning) as warned:
        query = result.start(checkpoint=str(tmp_path / "checkpoint"), **sinks)
    said = [str(each.message) for each in warned]
    assert re.search(r"'main' \(table windows_of_users\) is written at least once: a parquet table", said[0])
    assert re.search(r"'late' \(function <lambda>\) is written at least once: the function is called again", said[1])
    query.await_termination()
    assert values(spark.table("windows_of_users").collect()) == [
        tuple(row) for row in local(expected(ROWS[:80], 10, 10, until=20))
    ]
    assert seen == {0: 0}
    windowed(read_batch(spark, folder)).run(main=pst.ConsoleSink(3))
    assert "window_start" in capsys.readouterr().out
    for name in ("a b", "a.b.c.d", "", "x; drop"):
        with pytest.raises(SinkError, match="not a table name"):
            pst.TableSink(name)
    with pytest.raises(SinkError, match="parquet, json, csv or orc"):
        pst.FileSink("x", format="delta")


def test_repeated_batch_leaves_the_same_output(spark, tmp_path):
    """A crash between the sinks and Spark's commit repeats the last micro-batch, which writes the same rows."""
    folder = write_files(spark, tmp_path / "in", BATCHES)
    checkpoint = tmp_path / "checkpoint"

    def run():
        result = windowed(read_stream(spark, folder), delay="0 seconds")
        result.start(main=pst.ParquetSink(str(tmp_path / "out")), checkpoint=str(checkpoint)).await_termination()
        return sorted(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect()), key=repr)

    before = run()
    last = max(checkpoint.glob("commits/[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    assert run() == before


def test_numbers_and_times_without_zone_as_event_time(spark):
    df = spark.range(3).select(
        F.lit("k").alias("k"),
        (F.col("id") + 1_700_000_000).alias("s"),
        ((F.col("id") + 1_700_000_000) * 1000).alias("ms"),
        F.expr("timestamp_ntz'2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id)").alias("ntz"),
        F.when(F.col("id") > 0, F.lit(9e300)).otherwise(F.lit(1.5)).alias("absurd"),
    )
    none = pst.WatermarkStrategy.no_watermarks()
    for column, unit, start in (
        ("s", "seconds", 1_699_999_200),
        ("ms", "milliseconds", 1_699_999_200),
        ("ntz", None, 1_767_225_600),
    ):
        result = (
            pst.stream(df)
            .assign_timestamps(column, none, unit=unit)
            .key_by("k")
            .window(pst.TumblingEventTimeWindows.of("1 hour"))
        )
        rows = result.aggregate(agg.count().alias("n")).main.select(F.unix_seconds("window_start").alias("s"), "n").collect()
        assert rows == [(start, 3)]
    absurd = pst.stream(df).assign_timestamps("absurd", none, unit="seconds").side_output_invalid("bad").key_by("k")
    result = absurd.window(pst.TumblingEventTimeWindows.of("1 hour")).aggregate(agg.count().alias("n"))
    assert [row.n for row in result.main.collect()] == [1]
    assert result.output("bad").count() == 2


def test_wrong_call_is_refused_with_the_line_to_write(spark):
    df = spark.createDataFrame([("a", at(1), 2)], SCHEMA)
    bounded = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")
    stream = pst.stream(df).assign_timestamps("ts", bounded)
    hour = pst.TumblingEventTimeWindows.of("1 hour")
    with pytest.raises(InvalidPlanError, match="did you mean 'user'"):
        stream.key_by("usr")
    with pytest.raises(InvalidEventTimeError, match="parse it first"):
        pst.stream(df).assign_timestamps("user", bounded)
    with pytest.raises(InvalidEventTimeError, match="unit="):
        pst.stream(df).assign_timestamps("price", bounded)
    with pytest.raises(InvalidPlanError, match="assign_timestamps"):
        pst.stream(df).key_by("user").window(hour)
    with pytest.raises(InvalidPlanError, match="more than one column 'ts'"):
        pst.stream(df.select("*", F.lit(1).alias("ts")))
    with pytest.raises(InvalidPlanError, match="did you mean 'n'"):
        stream.key_by("user").window(hour).aggregate(agg.count().alias("n")).top(3, by="nn")
    with pytest.raises(InvalidPlanError, match="per_partition"):
        pst.stream(df).assign_timestamps("ts", bounded.per_partition("nope"))
    result = stream.key_by("user").window(hour).aggregate(agg.count().alias("n"))
    with pytest.raises(InvalidPlanError, match=r"result.run"):
        result.start(main=pst.MemorySink(), checkpoint="x")
    with pytest.raises(InvalidPlanError, match="no output 'mian'; did you mean 'main'"):
        result.run(mian=pst.MemorySink())


def test_watermark_waits_for_the_slowest_partition(spark, tmp_path):
    schema = SCHEMA + ", part int"
    batches = [[("a", at(1), 1, 0), ("a", at(50), 1, 0), ("a", at(5), 1, 1)], [("a", at(9), 1, 1), ("a", at(12), 1, 1)]]
    folder = write_files(spark, tmp_path / "in", batches, schema)
    strategy = pst.WatermarkStrategy.for_monotonous_timestamps().per_partition("part").with_idleness("1 hour")
    stream = pst.stream(read_stream(spark, folder, schema)).assign_timestamps("ts", strategy).key_by("user")
    sink = pst.MemorySink()
    result = stream.window(pst.TumblingEventTimeWindows.of("10 seconds")).aggregate(agg.count().alias("n"))
    result.start(main=sink, checkpoint=str(tmp_path / "checkpoint")).await_termination()
    assert [row.n for row in sink.rows] == [3]  # [0, 10) closes with the slower partition, with all three rows


def test_explain_shows_the_operator_and_its_reasons(spark):
    df = spark.createDataFrame([("a", at(1), 2)], SCHEMA)
    text = windowed(df, pst.SlidingEventTimeWindows.of("1 hour", "25 minutes")).explain()
    for part in ("aligned panes", "10 minutes and 15 minutes", "invertible", "late rows are counted"):
        assert part in text


def test_memory_limit_of_the_plan_applies_to_a_batch_if_set(spark):
    keyed = pst.stream(spark.createDataFrame([], SCHEMA)).assign_timestamps("ts", pst.WatermarkStrategy.no_watermarks())
    windowed = keyed.key_by("user").window(pst.TumblingEventTimeWindows.of("10 seconds"))
    plans = [each.aggregate(agg.count().alias("n")).plan for each in (windowed, windowed.options(memory_limit=5_000_000))]
    assert [(plan.most_bytes, plan.batch_bytes) for plan in plans] == [(1 << 30, None), (5_000_000, 5_000_000)]
    for wrong in (True, 999_999, 1e6):
        with pytest.raises(InvalidPlanError, match="a whole number from 1,000,000 on"):
            windowed.options(memory_limit=wrong)
