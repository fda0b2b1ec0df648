"""As-of joins: each left row with the newest right row of its key in the 5 seconds before, as a stream and as a batch.

Spark has no as-of join of streams. ``native`` is an interval join of Spark, and ``max_by`` over its pairs. ``by hand`` is a
``transformWithState``: it stores the rows of a key that the watermark has not passed, and joins them once it has.
DuckDB and Polars have an as-of join. They run over the same files, on the same number of processors.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

import panestream as pst
from benchmarks.features.contest import BEGIN, CORES, SECOND, Contest, cut, shuffled, start, stream_of, to_files, write_parts

SIDES = ("l", "r")
DELAY, TOLERANCE = "5 seconds", "5 seconds"
_TOLERANCE = 5 * SECOND
ROWS_PER_SECOND, BATCHES = 20_000, 6
_OUTPUT = "key bigint, l_us bigint, l_value double, r_us bigint, r_value double"
_STATE = "l_us array<bigint>, l_values array<double>, r_us array<bigint>, r_values array<double>, timer bigint"
_Pair = Row("key", "l_us", "l_value", "r_us", "r_value")


def write(folder: Path, scale: float, rows: int, keys: int) -> int:
    """Write as many rows for each side, 20,000 a second. No two rows of a side have the same time."""
    count = max(1000, int(rows * scale))
    step = SECOND // ROWS_PER_SECOND
    for seed, side in enumerate(SIDES):
        rng = np.random.default_rng(seed)
        times = BEGIN + np.arange(count) * step + rng.integers(0, step, count)
        values = rng.integers(0, 2**20, count) / 64
        columns = {"key": rng.integers(0, keys, count), f"{side}_at": times, f"{side}_value": values}
        order = shuffled(times, 2 * SECOND, rng)
        write_parts(folder / side, cut({name: column[order] for name, column in columns.items()}, BATCHES))
    return 2 * count


def _joined(left: DataFrame, right: DataFrame) -> pst.datastream.WindowedResult:
    ours, theirs = (
        pst.stream(df, time=f"{side}_at", out_of_orderness=DELAY).key_by("key")
        for side, df in zip(SIDES, (left, right), strict=True)
    )
    return ours.asof_join(theirs, tolerance=TOLERANCE).options(key_groups=CORES).pairs("inner")


def panestream_stream(spark: SparkSession, source: Path, folder: Path) -> None:
    """Run the as-of join as a stream."""
    left, right = (stream_of(spark, source / side) for side in SIDES)
    start(_joined(left, right), folder)


def native(spark: SparkSession, source: Path, folder: Path) -> None:
    """Run an interval join of Spark, and take the newest right row of each left row."""
    left, right = (stream_of(spark, source / side).withWatermark(f"{side}_at", DELAY) for side in SIDES)
    near = F.expr(f"key = r_key AND r_at >= l_at - INTERVAL {TOLERANCE} AND r_at <= l_at")
    pairs = left.join(right.withColumnRenamed("key", "r_key"), near)
    newest = F.max_by(F.struct("r_at", "r_value"), "r_at").alias("newest")
    to_files(pairs.groupBy("key", "l_at", "l_value").agg(newest).select("key", "l_at", "l_value", "newest.*"), folder)


class AsOfByHand(StatefulProcessor):
    """The as-of join of one key. Its state is read and written once for each key and micro-batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("rows", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        left, right, timer = self._load()
        for _, is_left, us, value in rows:
            (left if is_left else right).append((us, value))
        return self._join(key[0], left, right, timer, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Row]:
        left, right, _ = self._load()
        return self._join(key[0], left, right, 0, timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def _load(self) -> tuple[list[tuple[int, float]], list[tuple[int, float]], int]:
        state = self.state.get()
        if state is None:
            return [], [], 0
        return list(zip(state[0], state[1], strict=True)), list(zip(state[2], state[3], strict=True)), state[4]

    def _join(
        self, key: int, left: list[tuple[int, float]], right: list[tuple[int, float]], timer: int, watermark: int
    ) -> Iterator[Row]:
        left.sort()
        right.sort()
        passed = bisect_right(left, (watermark * 1000, float("inf")))
        times = [us for us, _ in right]
        found = []
        for us, value in left[:passed]:
            place = bisect_right(times, us) - 1
            if place >= 0 and times[place] >= us - _TOLERANCE:
                found.append(_Pair(key, us, value, *right[place]))
        left, right = left[passed:], right[max(0, bisect_right(times, watermark * 1000) - 1) :]
        if right and right[0][0] < watermark * 1000 - _TOLERANCE:
            del right[0]
        if left and not timer:  # for a key that gets no more rows
            timer = left[-1][0] // 1000 + 1
            self.handle.registerTimer(timer)
        if left or right:
            self.state.update(
                ([us for us, _ in left], [v for _, v in left], [us for us, _ in right], [v for _, v in right], timer)
            )
        elif self.state.exists():
            self.state.clear()
        return iter(found)


def by_hand(spark: SparkSession, source: Path, folder: Path) -> None:
    """Run the join by hand over the union of both streams."""
    left, right = (
        stream_of(spark, source / side)
        .withWatermark(f"{side}_at", DELAY)
        # Integers are much cheaper to transfer to Python than timestamps.
        .select(
            "key", F.lit(side == "l").alias("is_left"), F.unix_micros(f"{side}_at").alias("us"), F.col(f"{side}_value").alias("v")
        )
        for side in SIDES
    )
    found = left.union(right).groupBy("key").transformWithState(AsOfByHand(), _OUTPUT, "append", "eventTime")
    times = [F.timestamp_micros(f"{side}_us").alias(f"{side}_at") for side in SIDES]
    to_files(found.select("key", "l_value", "r_value", *times), folder)


def panestream_batch(spark: SparkSession, source: Path, folder: Path) -> None:
    """Run the as-of join as a batch."""
    left, right = (spark.read.parquet(str(source / side)) for side in SIDES)
    _joined(left, right).main.write.parquet(str(folder / "out"))


def duckdb_batch(_spark: SparkSession, source: Path, folder: Path) -> None:
    """Run DuckDB's as-of join."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {CORES}; SET TimeZone = 'UTC'")
        for side in SIDES:
            connection.read_parquet(f"{source / side}/*.parquet").create_view(side)
        nearest = "SELECT l.key, l_at, l_value, r_at, r_value FROM l ASOF JOIN r ON l.key = r.key AND l_at >= r_at"
        connection.sql(nearest).filter(f"l_at - r_at <= INTERVAL {TOLERANCE}").write_parquet(str(folder / "out"))


def polars_batch(_spark: SparkSession, source: Path, folder: Path) -> None:
    """Run the as-of join of Polars, which needs sorted input."""
    os.environ["POLARS_MAX_THREADS"] = str(CORES)
    import polars as pl

    left, right = (pl.scan_parquet(f"{source / side}/*.parquet").sort(f"{side}_at") for side in SIDES)
    joined = left.join_asof(
        right,
        left_on="l_at",
        right_on="r_at",
        by="key",
        tolerance=timedelta(microseconds=_TOLERANCE),
        coalesce=False,
        check_sortedness=False,
    )
    joined.filter(pl.col("r_at").is_not_null()).sink_parquet(folder / "out")


CONTESTS = [
    *(
        Contest(
            f"asof-{keys}",
            f"as-of join, 5 s, {keys:,} keys, {per_key} candidates a row, stream",
            {"panestream": panestream_stream, "native": native, "by hand": by_hand},
            partial(write, rows=200_000, keys=keys),
            {"native": 5.0, "by hand": 5.0},
        )
        for keys, per_key in ((10_000, 10), (50_000, 2))
    ),
    Contest(
        "asof-batch",
        "as-of join, 5 s, 10,000 keys, batch",
        {"panestream": panestream_batch, "DuckDB": duckdb_batch, "Polars": polars_batch},
        partial(write, rows=3_000_000, keys=10_000),
        {"DuckDB": 1 / 3},
    ),
]
