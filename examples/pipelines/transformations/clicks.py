"""Clicks per user and ten seconds in a streaming table, late clicks in another and in files, and sessions that are corrected.

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
def outputs() -> DataFrame:
    """Return the rows of all outputs. This is the only query with a state."""
    return windows.all_outputs(clicks())


@dp.table
def clicks_per_user() -> DataFrame:
    """Return a row for each user and window, once the watermark has passed its end."""
    return spark.readStream.table("outputs").where("output = 'main'").select("main.*")


@dp.table
def late_clicks() -> DataFrame:
    """Return the clicks that came after their window was closed."""
    return spark.readStream.table("outputs").where("output = 'late'").select("late.*")


dp.create_sink("late_files", "json", {"path": spark.conf.get("late.path")})


@dp.append_flow(target="late_files")
def late_clicks_as_json() -> DataFrame:
    """Write the late clicks to files outside of the catalog."""
    return spark.readStream.table("late_clicks")


@dp.materialized_view
def revenue_per_user() -> DataFrame:
    """Return an ordinary view over the streaming table."""
    return (
        spark.read.table("clicks_per_user")
        .groupBy("user")
        .agg(F.sum("clicks").alias("clicks"), F.sum("revenue").alias("revenue"))
    )


def per_session(clicks: DataFrame) -> pst.datastream.WindowedResult:
    """Return the changes of sessions. A late click corrects its session, or makes two sessions one."""
    return (
        pst.stream(clicks)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_monotonous_timestamps())
        .key_by("user")
        .window(pst.EventTimeSessionWindows.with_gap("5 seconds"))
        .allowed_lateness("1 minute")
        .aggregate(agg.count().alias("clicks"), agg.sum("price").alias("revenue"))
        .with_firing()
        .changelog()
    )


sessions = pst.prepare(per_session, SCHEMA)


@dp.table
def session_changes() -> DataFrame:
    """Return the changes. ``change`` orders those of a session, and ``changed_at`` is the time of the micro-batch."""
    changes = sessions.main(clicks()).where("op <> 'update_before'")
    return changes.withColumns({"change": F.expr("2 * firing_number + int(op = 'delete')"), "changed_at": F.current_timestamp()})


@dp.materialized_view
def user_sessions() -> DataFrame:
    """Return the newest result of each session that is still valid."""
    names = ["user", "window_start", "window_end"]
    newest = (
        spark.read.table("session_changes")
        .groupBy(*names)
        .agg(F.max_by(F.struct("op", "clicks", "revenue"), "change").alias("newest"))
    )
    return newest.where("newest.op <> 'delete'").select(*names, "newest.clicks", "newest.revenue")
