"""Sum and count of the last 1, 12 and 24 hours, every minute, as a stream.

Native Spark emits a row for each key, window and minute. panestream emits a row when a value changes, and holds all windows in
it. To compare them, each of its rows is repeated for the minutes that it holds. ``native`` has three sliding windows in a query.
Each row is in 2,220 of its windows, so it needs minutes for a few thousand rows.
"""

from __future__ import annotations

from functools import partial, reduce
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.features.contest import BEGIN, CORES, MINUTE, Contest, cut, shuffled, start, stream_of, to_files, write_parts

SIZES = {"1h": "1 hour", "12h": "12 hours", "24h": "24 hours"}
DELAY = "10 seconds"
KEYS, MINUTES, BATCHES = 50, 12, 4


def write(folder: Path, scale: float, per_minute: int) -> int:
    """Write rows of 50 keys over twelve minutes at full size. A smaller scale has fewer keys and minutes."""
    rng = np.random.default_rng(7)
    minutes, keys = max(BATCHES, int(MINUTES * scale)), max(5, int(KEYS * min(scale, 1)))
    rows = keys * minutes * per_minute
    times = BEGIN + np.sort(rng.integers(0, minutes * MINUTE, rows))
    columns = {"key": rng.integers(0, keys, rows), "at": times, "value": rng.integers(0, 1000, rows)}
    order = shuffled(times, 5_000_000, rng)
    write_parts(folder / "rows", cut({name: values[order] for name, values in columns.items()}, BATCHES))
    return rows


def of_panestream(spark: SparkSession, source: Path, folder: Path) -> None:
    """Run the rolling windows."""
    keyed = pst.stream(stream_of(spark, source / "rows"), time="at", out_of_orderness=DELAY).key_by("key")
    rolling = keyed.rolling(SIZES, every="1 minute").options(key_groups=CORES)
    start(rolling.agg(F.sum("value").alias("total"), F.count("*").alias("n")), folder)


def native(spark: SparkSession, source: Path, folder: Path) -> None:
    """Run a sliding window for each length, in one query."""
    rows = stream_of(spark, source / "rows").withWatermark("at", DELAY)
    each = [
        rows.select("key", "value", F.lit(label).alias("label"), F.window("at", size, "1 minute").alias("window"))
        for label, size in SIZES.items()
    ]
    sums = F.sum("value").alias("total"), F.count("*").alias("n")
    windows = reduce(DataFrame.union, each).groupBy("label", "key", "window").agg(*sums)
    to_files(windows.select("key", "label", F.col("window.end").alias("as_of"), "total", "n"), folder)


def each_minute(changes: DataFrame) -> DataFrame:
    """Repeat each row of rolling values for the minutes and the windows that it holds for."""
    end = F.expr("lead(as_of) OVER (PARTITION BY key ORDER BY as_of) - INTERVAL 1 MINUTE")
    step = F.expr("INTERVAL 1 MINUTE")
    minutes = changes.withColumn("end", end).withColumn("as_of", F.explode(F.sequence("as_of", "end", step)))
    labels = ", ".join(f"'{label}', total_{label}, n_{label}" for label in SIZES)
    each = minutes.selectExpr("key", "as_of", f"stack({len(SIZES)}, {labels}) AS (label, total, n)")
    return each.where("total IS NOT NULL")


CONTESTS = [
    Contest(
        f"rolling-{name}",
        f"rolling sum and count of 1 h, 12 h and 24 h every minute, {KEYS} keys, {density} rows a minute each, stream",
        {"panestream": of_panestream, "native": native},
        partial(write, per_minute=density),
        {"native": 10.0},
        {"panestream": each_minute},
    )
    for name, density in (("sparse", 1), ("dense", 10))
]
