"""Aggregates: charts of prices (``ohlc``) and an exact percentile as a stream, and the rate of a counter as a batch.

Spark computes the first two with aggregates of its own. A stream of Spark cannot compute a rate that respects resets; in a batch,
``lag`` over the rows of each window finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.features.contest import (
    BEGIN,
    CORES,
    MINUTE,
    SECOND,
    Contest,
    Contestant,
    cut,
    start,
    stream_of,
    to_files,
    write_parts,
)
from panestream import agg
from panestream.windowing.aggregates.base import Aggregate

KEYS, BATCHES, MINUTES = 1_000, 4, 30
SLIDING = pst.SlidingEventTimeWindows.of("5 minutes", "1 minute")


def write(folder: Path, scale: float, batches: int) -> int:
    """Write 20 rows a minute of 1,000 keys: a price, and a counter with resets. No two rows have the same time."""
    rng = np.random.default_rng(7)
    count = max(2000, int(20 * KEYS * MINUTES * scale))
    times = BEGIN + np.arange(count) * (MINUTES * MINUTE // count)
    columns = {
        "key": rng.integers(0, KEYS, count),
        "price": rng.integers(0, 1000, count) / 8,
        "counter": (np.arange(count) * 7 % 50_000).astype(float),
        "at": times,
    }
    write_parts(folder / "rows", cut(columns, batches) if batches > 1 else [columns])
    return count


def of_panestream(recipe: Aggregate, spark: SparkSession, source: Path, folder: Path) -> None:
    """Run sliding windows of panestream."""
    keyed = pst.stream(stream_of(spark, source / "rows"), time="at", out_of_orderness="1 second").key_by("key")
    start(keyed.window(SLIDING).options(key_groups=CORES).aggregate(recipe), folder)


def native(text: str, spark: SparkSession, source: Path, folder: Path) -> None:
    """Run sliding windows of Spark."""
    rows = stream_of(spark, source / "rows").withWatermark("at", "1 second")
    windows = rows.groupBy("key", F.window("at", "5 minutes", "1 minute").alias("window")).agg(F.expr(text))
    to_files(
        windows.select("*", "window.*").drop("window").withColumnsRenamed({"start": "window_start", "end": "window_end"}), folder
    )


def rate_of_panestream(spark: SparkSession, source: Path, folder: Path) -> None:
    """Compute the rate of each minute."""
    keyed = pst.stream(spark.read.parquet(str(source / "rows")), time="at", out_of_orderness="1 second").key_by("key")
    rates = keyed.window(pst.tumbling("1 minute")).aggregate(agg.rate("counter").alias("rate")).main
    rates.select("key", "window_start", F.round("rate", 6).alias("rate")).write.parquet(str(folder / "out"))


def rate_natively(spark: SparkSession, source: Path, folder: Path) -> None:
    """Compute the same by ``lag``."""
    rows = spark.read.parquet(str(source / "rows")).withColumn("window_start", F.window("at", "1 minute")["start"])
    before = F.expr("lag(counter) OVER (PARTITION BY key, window_start ORDER BY at)")
    grown = F.when(F.col("counter") < F.col("before"), F.col("counter")).otherwise(F.col("counter") - F.col("before"))
    span = (F.unix_micros(F.max("at")) - F.unix_micros(F.min("at"))) / SECOND
    rate = F.try_divide(F.sum(grown), span)
    rates = rows.withColumn("before", before).groupBy("key", "window_start").agg(F.round(rate, 6).alias("rate"))
    rates.write.parquet(str(folder / "out"))


PRICES = "struct(min_by(price, at) AS open, max(price) AS high, min(price) AS low, max_by(price, at) AS close)"


def _rounded(results: DataFrame) -> DataFrame:
    """Round percentiles, whose last digit depends on the formula for values between two rows."""
    return results.withColumn("percentile", F.round("percentile", 6))


def _stream(
    name: str, title: str, recipe: Aggregate, text: str, comparable: Callable[[DataFrame], DataFrame] | None = None
) -> Contest:
    contestants: dict[str, Contestant] = {
        "panestream": partial(of_panestream, recipe.alias(name)),
        "native": partial(native, f"{text} AS {name}"),
    }
    of_each = {} if comparable is None else dict.fromkeys(contestants, comparable)
    title = f"{title}, sliding 5 min / 1 min, {KEYS:,} keys, stream"
    return Contest(name, title, contestants, partial(write, batches=BATCHES), comparable=of_each)


CONTESTS = [
    _stream("ohlc", "open, high, low, close", agg.ohlc("price"), PRICES),
    _stream("percentile", "exact 90 % percentile", agg.percentile("price", 0.9), "percentile(price, 0.9)", _rounded),
    Contest(
        "rate",
        f"rate of a counter, tumbling 1 min, {KEYS:,} keys, batch",
        {"panestream": rate_of_panestream, "native": rate_natively},
        partial(write, batches=1),
    ),
]
