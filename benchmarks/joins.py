"""Window joins on Spark compared with Spark's own stream-stream join: the same files, the same windows, in turns.

Run: ``python -m benchmarks.joins [--rows 200000] [--batches 8] [--how inner]``. Both read two folders of Parquet files, one file
of each in a micro-batch. They join by key and tumbling window of 10 seconds, or (``--interval``) with the rows of 5 seconds
before. Spark counts and hashes all columns of each micro-batch's pairs. This consumes the pairs, and both results must agree.
Seconds are by the clock, for the median round, without the first micro-batch of each run, which is the warm-up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from panestream.spark.session import build_session

BEGIN = 1_767_225_600_000_000
WINDOW, DELAY = "10 seconds", "5 seconds"
_SECOND = 1_000_000


def write(folder: Path, side: str, given: argparse.Namespace, seed: int) -> str:
    """Write the files of one side. The rate decides the seconds of event time in a micro-batch."""
    rng, path = np.random.default_rng(seed), folder / side
    path.mkdir()
    for number in range(given.batches + 1):
        span = given.rows * _SECOND // given.rate
        # The last file has one row in the far future, so that all windows before it end.
        rows = given.rows if number < given.batches else 1
        times = BEGIN + number * span + (np.sort(rng.integers(0, span, rows)) if rows > 1 else np.asarray([3600 * _SECOND]))
        times = np.where(rng.random(rows) < 0.5, times, np.maximum(times - rng.integers(0, 2 * _SECOND, rows), BEGIN))
        table = pa.table(
            {
                "user": pa.array(rng.integers(0, given.keys, rows)),
                f"{side}_at": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
                f"{side}_value": pa.array(rng.random(rows)),
            }
        )
        pq.write_table(table, path / f"{number:06d}.parquet")
    return str(path)


def read(spark: SparkSession, path: str, side: str) -> DataFrame:
    """Read one side, a file for each micro-batch."""
    schema = f"user bigint, {side}_at timestamp, {side}_value double"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)


class Counting:
    """The ``foreachBatch`` function: it records the number of pairs, their hash, and the end of each micro-batch."""

    def __init__(self) -> None:
        self.pairs = self.hash = 0
        self.done: list[float] = []

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        values = [F.col(name) for name in ("user", "l_at", "l_value", "r_at", "r_value")]
        found = df.agg(F.count("*"), F.sum(F.xxhash64(*values).cast("decimal(38, 0)"))).collect()[0]
        self.pairs += found[0]
        self.hash += int(found[1] or 0)
        self.done.append(time.perf_counter())


def ours(spark: SparkSession, paths: tuple[str, str], given: argparse.Namespace, checkpoint: str, counting: Counting) -> None:
    """Return the join of panestream."""
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness(DELAY)
    left, right = (
        pst.stream(read(spark, path, side)).assign_timestamps(f"{side}_at", strategy).key_by("user")
        for path, side in zip(paths, "lr", strict=True)
    )
    by_time = left.interval_join(right).between("-5 seconds", "0 seconds")
    in_windows = left.join(right).window(pst.TumblingEventTimeWindows.of(WINDOW))
    result = (by_time if given.interval else in_windows).options(key_groups=2).pairs(given.how)
    result.start(main=pst.ForeachBatchSink(counting, idempotent=True), checkpoint=checkpoint).await_termination()


def native(spark: SparkSession, paths: tuple[str, str], given: argparse.Namespace, checkpoint: str, counting: Counting) -> None:
    """Return the join of Spark."""
    left, right = (read(spark, path, side).withWatermark(f"{side}_at", DELAY) for path, side in zip(paths, "lr", strict=True))
    if given.interval:
        right = right.withColumnRenamed("user", "r_user")
        near = F.expr("user = r_user AND r_at >= l_at - INTERVAL 5 SECONDS AND r_at <= l_at")
        joined = left.join(right, near, given.how)
    else:
        # A stream has one event-time column: the window, whose end lets Spark drop rows. The time itself is a plain column.
        left, right = (
            each.withColumn("window", F.window(time, WINDOW)).withColumn(time, F.col(time) + F.expr("INTERVAL 0 SECONDS"))
            for each, time in ((left, "l_at"), (right, "r_at"))
        )
        joined = left.join(right, ["user", "window"], given.how)
    query = joined.writeStream.foreachBatch(counting).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


CONTESTANTS: dict[str, Callable[[SparkSession, tuple[str, str], argparse.Namespace, str, Counting], None]] = {
    "native": native,
    "panestream": ours,
}


def round_of(name: str, spark: SparkSession, paths: tuple[str, str], given: argparse.Namespace) -> dict[str, float]:
    """Return the rows a second of both sides together, after the first micro-batch."""
    counting = Counting()
    with tempfile.TemporaryDirectory() as folder:
        CONTESTANTS[name](spark, paths, given, f"{folder}/checkpoint", counting)
    seconds = counting.done[given.batches - 1] - counting.done[0]
    return {"rows_per_second": 2 * given.rows * (given.batches - 1) / seconds, "pairs": counting.pairs, "hash": counting.hash}


def main() -> None:
    """Print a line for each contestant, and the hashes of their pairs as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a micro-batch, of each side")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rate", type=int, default=20_000, help="rows of a second of event time, of each side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--interval", action="store_true", help="an interval join instead of one in windows")
    parser.add_argument("--how", default="inner", help="inner, left or full")
    given = parser.parse_args()
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    spark = build_session("joins", settings, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), "l", given, 1), write(Path(folder), "r", given, 2)
        rounds = [{name: round_of(name, spark, paths, given) for name in CONTESTANTS} for _ in range(given.rounds)]
    found = {(each[name]["pairs"], each[name]["hash"]) for each in rounds for name in CONTESTANTS}
    if len(found) != 1:
        raise SystemExit(f"the contestants do not come to the same: {rounds}")
    medians = {name: statistics.median(each[name]["rows_per_second"] for each in rounds) for name in CONTESTANTS}
    for name, speed in medians.items():
        print(f"{name:12} {speed:12,.0f} rows/s")
    print(
        json.dumps(
            {"how": given.how, "pairs": next(iter(found))[0], **medians, "times": medians["panestream"] / medians["native"]}
        )
    )
    spark.stop()


if __name__ == "__main__":
    main()
