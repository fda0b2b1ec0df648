"""As-of joins on Spark compared with Spark's best way for streams, and with DuckDB for batches, in turns.

Run: ``python -m benchmarks.asof [--rows 100000] [--batches 6]``. Each left row gets the newest right row of its key in the 5
seconds before. Spark has no as-of join of streams, so it runs an interval join, and ``max_by`` over its pairs.
DuckDB runs ``ASOF JOIN`` over the same files, limited to the same processors. Results are counted and hashed, and must agree.
Times are of the median round: seconds by the clock, and seconds of the processors of this process and all below it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.joins import DELAY, read, write
from panestream.spark.session import build_session

COLUMNS = ("user", "l_at", "l_value", "r_at", "r_value")
SCHEMA = "user bigint, {0}_at timestamp, {0}_value double"
TOLERANCE = "5 seconds"


def figures(df: DataFrame) -> tuple[int, int]:
    """Return the number of rows and a hash of all."""
    values = [F.unix_micros(name) if name.endswith("_at") else F.col(name) for name in COLUMNS]
    found = df.agg(F.count("*"), F.sum(F.xxhash64(*values).cast("decimal(38, 0)"))).collect()[0]
    return found[0], int(found[1] or 0)


def joined(left: DataFrame, right: DataFrame) -> pst.datastream.WindowedResult:
    """Return the as-of join of panestream."""
    ours, theirs = (
        pst.stream(df, time=f"{side}_at", out_of_orderness=DELAY).key_by("user") for side, df in (("l", left), ("r", right))
    )
    return ours.asof_join(theirs, tolerance=TOLERANCE).options(key_groups=2).pairs("inner")


def panestream_stream(spark: SparkSession, paths: tuple[str, str], folder: str) -> tuple[int, int]:
    """Run the as-of join as a stream."""
    counted: list[tuple[int, int]] = []
    sink = pst.ForeachBatchSink(lambda df, _: counted.append(figures(df)), idempotent=True)
    left, right = (read(spark, path, side) for path, side in zip(paths, "lr", strict=True))
    joined(left, right).start(main=sink, checkpoint=folder).await_termination()
    return sum(rows for rows, _ in counted), sum(code for _, code in counted)


def spark_stream(spark: SparkSession, paths: tuple[str, str], folder: str) -> tuple[int, int]:
    """Run an interval join of Spark, and take the newest right row of each left row."""
    counted: list[tuple[int, int]] = []
    left, right = (read(spark, path, side).withWatermark(f"{side}_at", DELAY) for path, side in zip(paths, "lr", strict=True))
    near = F.expr(f"user = r_user AND r_at >= l_at - INTERVAL {TOLERANCE} AND r_at <= l_at")
    pairs = left.join(right.withColumnRenamed("user", "r_user"), near)
    newest = F.max_by(F.struct("r_at", "r_value"), "r_at").alias("newest")
    found = pairs.groupBy("user", "l_at", "l_value").agg(newest).select("user", "l_at", "l_value", "newest.*")
    query = found.writeStream.foreachBatch(lambda df, _: counted.append(figures(df)))
    query.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()
    return sum(rows for rows, _ in counted), sum(code for _, code in counted)


def panestream_batch(spark: SparkSession, paths: tuple[str, str], folder: str) -> tuple[int, int]:
    """Run the as-of join as a batch, into Parquet."""
    left, right = (spark.read.schema(SCHEMA.format(side)).parquet(path) for path, side in zip(paths, "lr", strict=True))
    joined(left, right).main.write.parquet(f"{folder}/out")
    return 0, 0


def duckdb_batch(_spark: SparkSession, paths: tuple[str, str], folder: str) -> tuple[int, int]:
    """Run DuckDB's as-of join, into Parquet."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        left, right = (connection.read_parquet(f"{path}/*.parquet") for path in paths)
        nearest = "SELECT l.user, l_at, l_value, r_at, r_value FROM l ASOF JOIN r ON l.user = r.user AND l_at >= r_at"
        left.create_view("l")
        right.create_view("r")
        found = connection.sql(nearest).filter(f"l_at - r_at <= INTERVAL {TOLERANCE}")
        found.write_parquet(f"{folder}/out.parquet")
    return 0, 0


Contestant = Callable[[SparkSession, tuple[str, str], str], tuple[int, int]]
STREAMS: dict[str, Contestant] = {"panestream": panestream_stream, "Spark": spark_stream}
BATCHES: dict[str, Contestant] = {"panestream": panestream_batch, "DuckDB": duckdb_batch}


def busy() -> float:
    """Return the processor seconds of this process and all below it."""
    every = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(
        times.user + times.system + times.children_user + times.children_system for times in (one.cpu_times() for one in every)
    )


def timed(run: Contestant, spark: SparkSession, paths: tuple[str, str]) -> tuple[tuple[float, float], tuple[int, int]]:
    """Return seconds by the clock and of the processors, and the number of rows with their hash."""
    with tempfile.TemporaryDirectory() as folder:
        begin, before = time.perf_counter(), busy()
        found = run(spark, paths, folder)
        seconds, of_processors = time.perf_counter() - begin, busy() - before
        written = sorted(Path(folder).glob("out*"))
        return (seconds, of_processors), figures(spark.read.parquet(str(written[0]))) if written else found


def compare(contestants: dict[str, Contestant], spark: SparkSession, paths: tuple[str, str], rounds: int) -> None:
    """Print the figures of each contestant, after a round of warming up."""
    told: dict[str, list[tuple[tuple[float, float], tuple[int, int]]]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, run in contestants.items():
            told[name].append(timed(run, spark, paths))
    if len({one[1] for every in told.values() for one in every}) != 1:
        raise SystemExit(f"the contestants do not come to the same: {told}")
    first, other = contestants
    for place, what in enumerate(("seconds", "processor seconds")):
        medians = {name: statistics.median(one[0][place] for one in every[1:]) for name, every in told.items()}
        ratios = [theirs[0][place] / ours[0][place] for ours, theirs in zip(told[first][1:], told[other][1:], strict=True)]
        spread = {"ratio": statistics.median(ratios), "from": min(ratios), "to": max(ratios)}
        print(json.dumps({"rows": told[first][0][1][0], "what": what, **medians, f"{other} / {first}": spread}), flush=True)


def main() -> None:
    """Print a line of JSON for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a micro-batch, of each side")
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=20_000, help="rows of a second of event time, of each side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", action="store_true", help="batches, beside DuckDB, instead of streams")
    given = parser.parse_args()
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    spark = build_session("asof", settings, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), "l", given, 1), write(Path(folder), "r", given, 2)
        compare(BATCHES if given.batch else STREAMS, spark, paths, given.rounds)
    spark.stop()


if __name__ == "__main__":
    main()
