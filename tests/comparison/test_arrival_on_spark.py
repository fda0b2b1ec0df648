"""Batch and stream agree on results that depend on the order of arrival if the query names it, for any split of files.


``PANESTREAM_SPARK_CASES=50 pytest tests/comparison/test_arrival_on_spark.py`` draws more; ``PANESTREAM_SEED`` others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg
from panestream.errors import InvalidPlanError
from tests.comparison import harness

pytestmark = pytest.mark.spark

CASES = int(os.environ.get("PANESTREAM_SPARK_CASES", "3"))
SCHEMA = "key string, ts timestamp, u bigint, part string, at bigint"
ARROW = pa.schema(
    [("key", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("u", pa.int64()), ("part", pa.string()), ("at", pa.int64())]
)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SPLITS = {"spark.sql.files.maxPartitionBytes": "3000", "spark.sql.files.openCostInBytes": "1"}
"""Spark then cuts files into pieces, and combines pieces of several files, the larger ones first."""
Row = tuple[str, datetime, int, str, int]


def random_rows(rng: random.Random) -> list[list[Row]]:
    """Return the rows of some files in the order of arrival, with many equal event times. The last row closes all windows."""
    files, number = [], 0
    for place in range(rng.randint(3, 7)):
        rows = []
        for _ in range(rng.choice([1, 10, 120])):
            number += 1
            key = rng.choice("abc")
            time = START + timedelta(seconds=place * 4 + rng.randint(0, 8))
            # As in Kafka, each key is in one partition with ascending offsets.
            rows.append((key, time, number, f"p{ord(key) % 2}", number))
        files.append(rows)
    return [*files, [("end", START + timedelta(days=1), 0, "p0", number + 1)]]


def write(rng: random.Random, folder: Path, files: list[list[Row]], *, named: bool, together: bool) -> None:
    """Write the files, ordered by modification time and name. If columns name the order, shuffle the rows of each file.

    Args:
        rng: Decides times and names.
        folder: The target folder.
        files: The files in their order.
        named: True if columns name the order.
        together: True if files may have the same time. A stream reads such files in any order, so all form one micro-batch.
    """
    folder.mkdir()
    time = number = 0
    for place, rows in enumerate(files):
        step = rng.choice([0, 1, 60] if together else [1, 60])
        number = number + 1 if not step else rng.randint(0, 50)
        time += step
        path = folder / f"{number:03}-{place}.{'parquet' if named else 'csv'}"
        if named:
            given = rng.sample(rows, len(rows))
            columns = [pa.array(column, field.type) for column, field in zip(zip(*given, strict=True), ARROW, strict=True)]
            pq.write_table(pa.table(columns, schema=ARROW), path, row_group_size=20)
        else:
            path.write_text("".join(f"{row[0]},{row[1].isoformat()},{row[2]},{row[3]},{row[4]}\n" for row in rows))
        os.utime(path, (1_700_000_000 + time,) * 2)


def rows_of(key: Any, _window: Any, rows: Any) -> list[tuple[list[int]]]:
    return [([row.u for row in rows],)]


TUMBLING = pst.TumblingEventTimeWindows.of("10 seconds")
SESSIONS = pst.EventTimeSessionWindows.with_gap("2 seconds")
DECLARED = (
    agg.first("u").alias("f"),
    agg.last("u").alias("l"),
    agg.collect_list("u").alias("c"),
    agg.max_by("u", "key").alias("m"),
)
QUERIES: dict[str, Callable[[pst.datastream.KeyedStream], pst.datastream.WindowedResult]] = {
    "tumbling": lambda keyed: keyed.window(TUMBLING).aggregate(*DECLARED),
    "sliding": lambda keyed: keyed.window(pst.SlidingEventTimeWindows.of("10 seconds", "4 seconds")).aggregate(*DECLARED),
    "sessions": lambda keyed: keyed.window(SESSIONS).aggregate(*DECLARED),
    "counts": lambda keyed: keyed.count_window(7).aggregate(*DECLARED),
    "sliding counts": lambda keyed: keyed.count_window(7, 3).aggregate(agg.sum("u").alias("s"), *DECLARED),
    "apply": lambda keyed: keyed.window(TUMBLING).apply(rows_of, "c array<bigint>"),
    "apply, sessions": lambda keyed: keyed.window(SESSIONS).apply(rows_of, "c array<bigint>"),
    "count trigger": lambda keyed: keyed.window(TUMBLING).trigger(pst.CountTrigger.of(3)).aggregate(*DECLARED),
    "count evictor": lambda keyed: keyed.window(TUMBLING).evictor(pst.evictors.CountEvictor.of(3)).aggregate(*DECLARED),
}


def firings(rows: DataFrame) -> list[str]:
    numbers = {name: F.unix_micros(name) for name in rows.columns if name.startswith("window_")}
    return [repr(row) for row in rows.where("key <> 'end'").withColumns(numbers).collect()]


@pytest.mark.parametrize("seed", range(harness.first_seed(), harness.first_seed() + CASES))
def test_batch_and_stream_agree_on_order_sensitive_results(spark, tmp_path, seed):
    rng = random.Random(seed)
    named = rng.random() < 0.4
    kind = rng.choice([*QUERIES])
    order = ("part", "at") if named else pst.order.FILE
    format_, most, groups = "parquet" if named else "csv", rng.choice([1, 2, 3, 100]), rng.randint(1, 4)
    write(rng, tmp_path / "in", random_rows(rng), named=named, together=most == 100)

    def result_of(df: DataFrame) -> pst.datastream.WindowedResult:
        strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("1 minute")
        keyed = pst.stream(df).assign_timestamps("ts", strategy).arrival_order(*order).key_by("key")
        result = QUERIES[kind](keyed)
        return pst.datastream.WindowedResult(result.windowed.options(key_groups=groups), result.operator, result.inputs)

    for name, value in SPLITS.items():
        spark.conf.set(name, value)
    try:
        batch = spark.read.schema(SCHEMA).format(format_).load(str(tmp_path / "in"))
        expected = firings(result_of(batch).main)
        found: list[str] = []
        stream = spark.readStream.schema(SCHEMA).format(format_).option("maxFilesPerTrigger", most).load(str(tmp_path / "in"))
        sink = pst.ForeachBatchSink(lambda rows, _: found.extend(firings(rows)), idempotent=True)
        result_of(stream).start(main=sink, checkpoint=str(tmp_path / "checkpoint")).await_termination()
    finally:
        for name in SPLITS:
            spark.conf.unset(name)
    assert expected
    assert sorted(found) == sorted(expected), f"seed {seed}: {kind} in the order of {order}, {most} files a micro-batch"


def test_plan_of_order_insensitive_aggregates_does_not_sort(spark):
    rows = spark.createDataFrame([("a", START, 1, "p", 1)], SCHEMA)
    events = pst.stream(rows).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    windowed = events.arrival_order("part", "at").key_by("key").window(TUMBLING)
    counted, listed = windowed.aggregate(agg.count()), windowed.aggregate(agg.collect_list("u"))
    assert counted.plan.arrival is None
    assert "order" not in counted.explain()
    assert "in the order of part, at: Spark puts the rows in order first" in listed.explain()
    unnamed = events.key_by("key").window(TUMBLING).aggregate(agg.collect_list("u"))
    assert "results depend on the order of arrival, which is Spark's" in unnamed.explain()


def test_wrong_arrival_order_is_refused(spark):
    rows = spark.createDataFrame([("a", START, 1, "p", 1)], SCHEMA).withColumn("parts", F.array("part"))
    events = pst.stream(rows)
    with pytest.raises(InvalidPlanError, match="at least one column"):
        events.arrival_order()
    with pytest.raises(InvalidPlanError, match="the arrival order 'offset' is neither a column"):
        events.arrival_order("offset")
    with pytest.raises(InvalidPlanError, match="the arrival order 'parts' is a array<string>"):
        events.arrival_order("parts")
    with pytest.raises(InvalidPlanError, match=r"the arrival order '_metadata\.file_modification_time' is neither"):
        events.arrival_order(*pst.order.FILE)
