"""Rolling values compared with Spark's own sliding windows over the same rows, as a batch, in turns.

Run: ``python -m benchmarks.rolling_values [--rows 20000] [--keys 100] [--rounds 3]``. For each key the sum and the number of rows
of the last hour and the last day, every minute. Spark groups by one sliding window of each length. It computes every minute of
every key. Its two results are neither joined nor compared with the minute before, which favours it. Rows come at random over two
days. Seconds are of the clock and of the processor (Java and Python workers together), because other work on the machine changes
the clock. A check that the answers agree warms both up. Then they take turns.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst

LENGTHS = {"1h": "1 hour", "24h": "24 hours"}
_DAYS = 2


def rows_of(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return cached rows over two days."""
    made = spark.range(rows, numPartitions=os.cpu_count() or 1)
    found = made.select(
        F.timestamp_seconds(F.lit(1_767_225_600) + F.pmod(F.xxhash64("id"), F.lit(_DAYS * 86_400))).alias("ts"),
        F.pmod(F.hash("id"), F.lit(keys)).alias("key"),
        F.pmod(F.hash(F.col("id") + 1), F.lit(1000)).cast("bigint").alias("value"),
    ).cache()
    found.count()
    return found


def of_panestream(rows: DataFrame) -> list[DataFrame]:
    """Return rolling values, a row for each change."""
    keyed = pst.stream(rows, time="ts", out_of_orderness="0 seconds").key_by("key")
    rolling = keyed.rolling(LENGTHS, every="1 minute")
    return [rolling.agg(F.sum("value").alias("total"), F.count("*").alias("n")).main]


def of_spark(rows: DataFrame) -> list[DataFrame]:
    """Return Spark's sliding windows, a frame for each length."""
    values = F.sum("value").alias("total"), F.count("*").alias("n")
    return [rows.groupBy("key", F.window("ts", length, "1 minute")).agg(*values) for length in LENGTHS.values()]


def processor_seconds() -> float:
    """Return the processor time of this process and all its descendants that live, with those that ended."""
    times: dict[int, tuple[int, int]] = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = one.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        times[int(one.parent.name)] = (int(values[1]), sum(map(int, values[11:15])))
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in times.items() if parent in ours} - ours:
        ours |= more
    return sum(times[pid][1] for pid in ours if pid in times) / os.sysconf("SC_CLK_TCK")


def turn(frames: Callable[[DataFrame], list[DataFrame]], rows: DataFrame) -> tuple[float, float]:
    """Return the seconds of the clock and of the processor to compute all rows, without writing them."""
    clock, processor = time.perf_counter(), processor_seconds()
    for frame in frames(rows):
        frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - clock, processor_seconds() - processor


def check(rows: DataFrame) -> None:
    """Raise SystemExit if rolling values of the last hour are not in Spark's answer."""
    ours = of_panestream(rows)[0].where("n_1h > 0").select("key", "as_of", "total_1h", "n_1h")
    theirs = of_spark(rows)[0].select("key", F.col("window.end"), "total", "n")
    if ours.exceptAll(theirs).limit(1).count():
        raise SystemExit("the answers differ")


def main() -> None:
    """Print the seconds of both, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    spark = pst.build_session("rolling_values", master=f"local[{os.cpu_count() or 1}]")
    rows = rows_of(spark, given.rows, given.keys)
    check(rows)
    turn(of_panestream, rows)
    found = [(turn(of_panestream, rows), turn(of_spark, rows)) for _ in range(given.rounds)]
    for place, name in enumerate(("clock", "processor")):
        ours, theirs = ([one[side][place] for one in found] for side in (0, 1))
        ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
        print(
            f"{name:>9}: panestream {median(ours):.2f} s, Spark {median(theirs):.2f} s, "
            f"ratio {median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})"
        )
    spark.stop()


if __name__ == "__main__":
    main()
