"""Thirty days from stored tiles and from rows, and features as of an instant by look-up and by a range join, on Spark.

Run: ``python -m benchmarks.tiles [--rows 60000000] [--keys 500] [--days 60] [--slice "1 hour"] [--join]``. Rows and tiles are in
Parquet files. The contestants take turns in one session. Each line has the median of the rounds, in seconds from the call until
the last result, including planning and small jobs. Compare only figures of one run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg

MONTH = pst.SlidingEventTimeWindows.of("30 days", "1 day")
AGGREGATES = (
    agg.count().alias("n"),
    agg.sum("price").alias("total"),
    agg.mean("price").alias("mean"),
    agg.max("price").alias("largest"),
)
_BEGIN = 1_767_225_600


def make_rows(spark: SparkSession, folder: str, rows: int, keys: int, days: int) -> None:
    """Write rows of some keys, evenly over some days."""
    spark.range(0, rows, 1, 16).selectExpr(
        f"pmod(xxhash64(id), {keys}) AS user",
        f"timestamp_micros({_BEGIN}000000 + cast(id * ({days} * 86400000000D / {rows}) AS bigint)) AS ts",
        "(xxhash64(id, 7) & 65535) / 64D AS price",
    ).write.parquet(folder)


def keyed(rows: DataFrame) -> pst.datastream.KeyedStream:
    """Return the rows keyed by user."""
    return pst.stream(rows).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("user")


def make_questions(spark: SparkSession, count: int, keys: int, days: int) -> DataFrame:
    """Return look-ups of random users and instants."""
    return spark.range(0, count, 1, 2).selectExpr(
        "id",
        f"pmod(xxhash64(id, 3), {keys}) AS user",
        f"timestamp_micros({_BEGIN}000000 + pmod(xxhash64(id, 5), {days * 86_400_000_000})) AS at",
    )


def joined(rows: DataFrame, questions: DataFrame) -> DataFrame:
    """Return the answers as SQL computes them, by a join on the range of times."""
    within = (rows.user == questions.user) & (rows.ts < questions.at) & (rows.ts >= questions.at - F.expr("INTERVAL '30' DAY"))
    together = questions.join(rows, within, "left")
    return together.groupBy("id").agg({"ts": "count", "price": "sum"})


def seconds(made: Callable[[], DataFrame]) -> float:
    """Return the seconds from the call until the last row."""
    started = time.perf_counter()
    made().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def compare(contestants: Mapping[str, Callable[[], DataFrame]], rounds: int) -> dict[str, float]:
    """Run and print a line for each contestant, compared with the first."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, made in contestants.items():
            spent = seconds(made)
            if number:  # the first round is the warm-up
                taken[name].append(spent)
    found = {name: statistics.median(each) for name, each in taken.items()}
    first = next(iter(found.values()))
    for name, spent in found.items():
        print(f"{name:56} {spent:8.2f} s   {first / spent:6.1f} x the first", flush=True)
    return found


def main() -> None:
    """Prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000_000)
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--slice", default="1 hour", help="how wide tiles are")
    parser.add_argument("--questions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--join", action="store_true", help="the join of ranges too, of the first hundred questions")
    given = parser.parse_args()
    spark = pst.build_session("tiles", {"spark.ui.enabled": "false"}, master=f"local[{given.cores}]")
    with tempfile.TemporaryDirectory() as folder:
        raw, stored = str(Path(folder) / "rows"), str(Path(folder) / "tiles")
        make_rows(spark, raw, given.rows, given.keys, given.days)
        rows = spark.read.parquet(raw)
        keyed(rows).window(pst.TumblingEventTimeWindows.of(given.slice)).panes(*AGGREGATES).run(main=pst.ParquetSink(stored))
        tiles = spark.read.parquet(stored)
        print(f"{given.rows:,} rows, {tiles.count():,} tiles", flush=True)
        compare(
            {
                "30 days, every day, from rows": lambda: keyed(rows).window(MONTH).aggregate(*AGGREGATES).main,
                "30 days, every day, from tiles": lambda: pst.from_panes(tiles, *AGGREGATES).window(MONTH),
            },
            given.rounds,
        )
        questions = make_questions(spark, given.questions, given.keys, given.days)
        alone, exact = pst.from_panes(tiles, *AGGREGATES), pst.from_panes(tiles, *AGGREGATES, rows=rows, event_time="ts")
        windows = {"30d": "30 days"}
        contestants: dict[str, Callable[[], DataFrame]] = {}
        if given.join:
            few = questions.where("id < 100")
            contestants["100 questions by a join of ranges"] = lambda: joined(rows, few)
            contestants["100 questions, tiles and rows"] = lambda: exact.as_of(few, at="at", windows=windows)
        contestants[f"{given.questions:,} questions, tiles and rows"] = lambda: exact.as_of(questions, at="at", windows=windows)
        contestants[f"{given.questions:,} questions, tiles alone"] = lambda: alone.as_of(questions, at="at", windows=windows)
        compare(contestants, given.rounds)
    spark.stop()


if __name__ == "__main__":
    main()
