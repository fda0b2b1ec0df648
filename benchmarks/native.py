"""Contestant: Spark's own ``window()`` in append mode. All of it runs in the JVM."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.cases import SumCount
from benchmarks.events import EventSpec


def query(events: DataFrame, case: SumCount, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``, with one row per key and closed window."""
    slide = None if case.slide_ms == case.size_ms else case.slide
    return (
        events.withWatermark("ts", f"{spec.disorder_ms} milliseconds")
        .groupBy(F.window("ts", case.size, slide), "key")
        .agg(F.sum("value").alias("total"), F.count("value").alias("events"))
        .select("key", F.col("window.end").alias("window_end"), "total", "events")
    )
