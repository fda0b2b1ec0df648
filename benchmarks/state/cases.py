"""Large states: many open windows, and many kept rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = 10
"""Seconds of a window."""
SCHEMA = "user bigint, ts timestamp, price bigint, text string"


@dataclass(frozen=True)
class Case:
    """A query, and the rows of its state.

    Attributes:
        name: the name of the case.
        rows: makes the rows of the file with a number, for a ``size``. None of their windows closes.
        query: makes the query from the rows and a number of key groups.
        files: the number of files, one for each micro-batch.
    """

    name: str
    rows: Callable[[SparkSession, int, int], DataFrame]
    query: Callable[[DataFrame, int], pst.datastream.WindowedResult]
    files: int


def _keyed(df: DataFrame) -> pst.datastream.KeyedStream:
    # The watermark has a long delay, so that every window stays open.
    return pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("1 day")).key_by("user")


def _at(second: Column) -> Column:
    return F.timestamp_seconds(F.lit(1_767_225_600) + second)


def _one_row_a_window(spark: SparkSession, size: int, number: int) -> DataFrame:
    rows = spark.range(0, size, 1, 4)
    return rows.select(
        F.col("id").alias("user"), _at(F.lit(EVERY * number)).alias("ts"), F.col("id").alias("price"), F.lit("").alias("text")
    )


def _kilobytes(spark: SparkSession, size: int, number: int) -> DataFrame:
    """Return rows of hashes, which do not compress well. A million bytes are about a thousand rows."""
    rows = spark.range(number * size, (number + 1) * size, 1, 4)
    text = F.concat(*(F.sha2(F.concat(F.col("id").cast("string"), F.lit(f"-{part}")), 512) for part in range(8)))
    return rows.select(
        (F.col("id") % 100_000).alias("user"),
        _at(F.col("id") % EVERY).alias("ts"),
        F.col("id").alias("price"),
        text.alias("text"),
    )


CASES = {
    "windows": Case(
        "windows",
        _one_row_a_window,
        lambda df, groups: (
            _keyed(df)
            .window(pst.TumblingEventTimeWindows.of(f"{EVERY} seconds"))
            .options(key_groups=groups)
            .aggregate(agg.count().alias("n"), agg.sum("price").alias("total"))
        ),
        10,
    ),
    "elements": Case(
        "elements",
        _kilobytes,
        lambda df, groups: (
            _keyed(df)
            .window(pst.TumblingEventTimeWindows.of(f"{EVERY} seconds"))
            .options(key_groups=groups)
            .apply_arrow(lambda _key, _window, table: table.select(["price"]).slice(0, 1), "price bigint")
        ),
        4,
    ),
}
