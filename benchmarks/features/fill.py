"""Windows without rows, as a batch: counts as 0, and means from the window before.

``native`` is the shortest way in SQL: each window with rows is repeated, by ``explode`` of a ``sequence``, until the next one of
its key, which ``lead`` finds. It needs no join. Both fill up to the last window of all keys.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.features.contest import BEGIN, MINUTE, Contest, write_parts
from panestream import agg

KEYS, MINUTES = 20_000, 200


def write(folder: Path, scale: float) -> int:
    """Write three rows for each of a random quarter of the minutes of a key, and one of each key in the first minute."""
    rng = np.random.default_rng(7)
    keys = max(20, int(KEYS * scale))
    places = np.flatnonzero(rng.random(keys * MINUTES) < 0.25).repeat(3)
    key, minute = np.r_[places // MINUTES, np.arange(keys)], np.r_[places % MINUTES, np.zeros(keys, int)]
    times = BEGIN + minute * MINUTE + rng.integers(0, MINUTE, len(key))
    order = np.argsort(times)
    columns = {"key": key, "value": rng.integers(0, 2**20, len(key)) / 64, "at": times}
    write_parts(folder / "rows", [{name: values[order] for name, values in columns.items()}])
    return len(key)


def of_panestream(spark: SparkSession, source: Path, folder: Path) -> None:
    """Fill the windows of panestream."""
    keyed = pst.stream(spark.read.parquet(str(source / "rows")), time="at", out_of_orderness="1 second").key_by("key")
    filled = keyed.window(pst.tumbling("1 minute")).fill("last", {"n": "zero"})
    answer = filled.aggregate(agg.count().alias("n"), agg.mean("value").alias("mean")).main
    answer.select("key", "window_start", "n", "mean").write.parquet(str(folder / "out"))


def native(spark: SparkSession, source: Path, folder: Path) -> None:
    """Repeat each window until the next one."""
    window = F.window("at", "1 minute").alias("window")
    windows = (
        spark.read.parquet(str(source / "rows"))
        .groupBy("key", window)
        .agg(F.count("*").alias("n"), F.avg("value").alias("mean"))
        .select("key", F.col("window.start").alias("start"), "n", "mean")
    )
    last = windows.agg(F.max("start").alias("last"))
    minute = F.expr("INTERVAL 1 MINUTE")
    following = F.expr("lead(start) OVER (PARTITION BY key ORDER BY start)") - minute
    until = windows.withColumn("until", following).crossJoin(F.broadcast(last))
    every = F.explode(F.sequence("start", F.coalesce("until", "last"), minute))
    repeated = until.withColumn("window_start", every)
    count = F.when(F.col("window_start") == F.col("start"), F.col("n")).otherwise(F.lit(0).cast("bigint")).alias("n")
    repeated.select("key", "window_start", count, "mean").write.parquet(str(folder / "out"))


CONTESTS = [
    Contest(
        "fill",
        f"filled minutes of {KEYS:,} keys, three of four without rows, batch",
        {"panestream": of_panestream, "native": native},
        write,
    )
]
