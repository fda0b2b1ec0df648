"""Clicks per user and ten seconds as a streaming table, the late ones in another, and a materialized view over the first.

Run it with `spark-pipelines run`, as the README in this example describes.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg

SCHEMA = "user STRING, price DOUBLE, ts TIMESTAMP"
spark = SparkSession.active()
path = spark.conf.get("clicks.path")


def per_user(clicks: DataFrame) -> pst.datastream.WindowedResult:
    """Return the windows. Columns are strings, since a column of this DataFrame, `clicks.price`, would belong to it alone."""
    return (
        pst.stream(clicks)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds"))
        .key_by("user")
        .window(pst.TumblingEventTimeWindows.of("10 seconds"))
        .side_output_late_data("late")
        .aggregate(agg.count().alias("clicks"), agg.sum("price").alias("revenue"))
    )


# Windows are built here, because the functions below must not inspect a DataFrame (its schema, whether it is a stream).
windows = pst.prepare(per_user, SCHEMA)


def clicks() -> DataFrame:
    """Read the input from outside of the pipeline. It must exist when the pipeline is read."""
    return spark.readStream.schema(SCHEMA).json(path)


@dp.table
def clicks_per_user() -> DataFrame:
    """Return a row for each user and window, once the watermark has passed its end."""
    return windows.main(clicks())


@dp.table
def late_clicks() -> DataFrame:
    """A separate query, which computes the windows once more with its own state."""
    return windows.output("late", clicks())


@dp.materialized_view
def revenue_per_user() -> DataFrame:
    """Return an ordinary view over the streaming table."""
    return (
        spark.read.table("clicks_per_user")
        .groupBy("user")
        .agg(F.sum("clicks").alias("clicks"), F.sum("revenue").alias("revenue"))
    )
