"""Contestant: Spark's own session windows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.events import EventSpec
from benchmarks.flink.workloads import Sessions


def query(events: DataFrame, case: Sessions, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``."""
    return (
        events.withWatermark("ts", f"{spec.disorder_ms} milliseconds")
        .groupBy(F.session_window("ts", case.gap), "key")
        .agg(F.sum("value").alias("total"), F.count("value").alias("events"))
        .select("key", F.col("session_window.end").alias("window_end"), "total", "events")
    )
