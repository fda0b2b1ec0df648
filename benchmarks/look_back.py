"""Look-backs compared with Spark's own range window over the same rows, as a batch on Spark, in turns.

Run: ``python -m benchmarks.look_back [--rows 1000000] [--keys 1000] [--rounds 3]``. For each row the sum, the number and the
largest of the values of its key in the time before it. How many rows a look-back has is what costs Spark, so that is what
changes from line to line; the last line has three look-backs in one pass. Seconds are of the clock; each contestant has a
turn for warming up, then they go in turns, and each line has the medians. Both answers are added up and must be the same.
``--json FILE`` keeps the figures.

The floor is not a contestant. Rows go from Spark to Python as Arrow and come back with as many columns as results have, without a
shuffle or any computation. Any computation of look-backs in Python takes longer, so the ratio of Spark's time to the floor's is
an upper limit of the speed-up.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import panestream as pst
from panestream import agg

_MILLI = 1000
"""The distance of rows in time, over all keys. They arrive in this order."""


@dataclass(frozen=True)
class Line:
    """What was measured.

    Attributes:
        look_backs: the average number of rows of each look-back.
        rows: the number of input rows.
        spark, panestream, floor: the seconds of each round.
    """

    look_backs: tuple[int, ...]
    rows: int
    spark: list[float]
    panestream: list[float]
    floor: list[float]

    @property
    def limit(self) -> float:
        """The upper limit of the ratio, if the computation took no time."""
        return median(self.spark) / median(self.floor)

    @property
    def ratio(self) -> float:
        """Spark's time divided by panestream's."""
        return median(self.spark) / median(self.panestream)


def rows_of(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    """Return cached rows, so that the measurement starts with them."""
    made = spark.range(rows, numPartitions=os.cpu_count() or 1)
    columns = (
        F.timestamp_millis(F.col("id")).alias("ts"),
        F.pmod(F.xxhash64("id"), F.lit(keys)).alias("key"),
        F.pmod(F.hash("id"), F.lit(1000)).cast("bigint").alias("value"),
    )
    found = made.select(*columns).cache()
    found.count()
    return found


def of_spark(rows: DataFrame, lengths: dict[str, int]) -> DataFrame:
    """Spark's range windows."""
    found = []
    for label, micros in lengths.items():
        over = f"OVER (PARTITION BY key ORDER BY unix_micros(ts) RANGE BETWEEN {micros} PRECEDING AND CURRENT ROW)"
        found += [F.expr(f"{text} {over}").alias(f"{name}_{label}") for name, text in NAMED.items()]
    return rows.select("*", *found)


def of_panestream(rows: DataFrame, lengths: dict[str, int]) -> DataFrame:
    """Compute the results by look-backs."""
    timed = pst.stream(rows).assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
    windows = {label: pst.LookBackWindows(micros) for label, micros in lengths.items()}
    recipes = agg.sum("value").alias("total"), agg.count().alias("n"), agg.max("value").alias("most")
    return timed.key_by("key").windows(windows).aggregate(*recipes).main


@dataclass(frozen=True)
class Through:
    """Send rows to Python and back. The last column replaces the results.

    Attributes:
        names: the names of the result columns.
    """

    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows, as a function for ``mapInArrow``."""
        for batch in batches:
            columns = [*batch.columns, *([batch.columns[-1]] * len(self.names))]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *self.names])


def floor(rows: DataFrame, lengths: dict[str, int]) -> DataFrame:
    """Send the input's columns to Python, and return the result's columns. Any way through Python takes at least this time."""
    names = tuple(f"{name}_{label}" for label in lengths for name in NAMED)
    schema = T.StructType([*rows.schema, *(T.StructField(name, T.LongType()) for name in names)])
    return rows.mapInArrow(Through(names).__call__, schema)


NAMED = {"total": "sum(value)", "n": "count(*)", "most": "max(value)"}


def seconds(frame: DataFrame) -> float:
    """Return the seconds to compute all rows, without writing them."""
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def sums(frame: DataFrame, lengths: dict[str, int]) -> list[Any]:
    """Return the sums of the results."""
    return list(frame.agg(*(F.sum(f"{name}_{label}") for label in lengths for name in NAMED)).collect()[0])


def compare(rows: DataFrame, count: int, keys: int, look_backs: tuple[int, ...], rounds: int) -> Line:
    """One line.

    Raises:
        SystemExit: the answers differ.
    """
    lengths = {f"l{place}": per_window * keys * _MILLI for place, per_window in enumerate(look_backs)}
    makers: list[Callable[[], DataFrame]] = [lambda: of_spark(rows, lengths), lambda: of_panestream(rows, lengths)]
    makers.append(lambda: floor(rows, lengths))
    *answers, _ = [sums(make(), lengths) for make in makers]  # all have warmed up
    if answers[0] != answers[1]:
        raise SystemExit(f"the answers differ: Spark {answers[0]}, panestream {answers[1]}")
    taken = [[seconds(make()) for make in makers] for _ in range(rounds)]
    return Line(look_backs, count, *map(list, zip(*taken, strict=True)))


def main() -> None:
    """Print a line for each length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--look-backs", type=int, nargs="+", default=[1, 10, 100, 1000], help="rows of a look-back")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    spark = pst.build_session("look_back", master=f"local[{cores}]")
    rows = rows_of(spark, given.rows, given.keys)
    lines = []
    for look_backs in [*((look_back,) for look_back in given.look_backs), tuple(given.look_backs[-3:])]:
        line = compare(rows, given.rows, given.keys, look_backs, given.rounds)
        lines.append(line)
        own, theirs = given.rows / median(line.panestream) / 1e3, given.rows / median(line.spark) / 1e3
        named = " and ".join(map(str, look_backs))
        speeds = f"Spark {theirs:8,.0f} k rows/s   panestream {own:8,.0f} k rows/s"
        print(f"{named:>16} rows: {speeds}   ratio {line.ratio:.2f} of at most {line.limit:.1f}", flush=True)
    if given.json is not None:
        machine = {"cores": cores, "python": platform.python_version(), "spark": spark.version, "keys": given.keys}
        given.json.write_text(json.dumps({"machine": machine, "lines": [asdict(line) for line in lines]}, indent=1) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
