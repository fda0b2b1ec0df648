"""Contestant: panestream, with allowed lateness and a changelog."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.events import EventSpec
from benchmarks.limits.cases import Refired
from panestream import agg
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS

SETTINGS = {**STREAM_SETTINGS, **BIRTH_SETTINGS}
"""The settings that ``build_session`` and ``result.start`` set for every user."""


def query(events: DataFrame, case: Refired, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events`` of changes. Retracted ones are negative."""
    result = (
        pst.stream(events)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{spec.disorder_ms} milliseconds"))
        .key_by("key")
        .window(pst.SlidingEventTimeWindows.of(case.size, case.slide))
        .allowed_lateness(f"{case.lateness_ms} milliseconds")
        .aggregate(agg.sum("value").alias("total"), agg.count("value").alias("events"))
        .changelog()
    )
    sign = F.when(F.col("op") == "update_before", -1).otherwise(1)
    return result.main.select(
        "key", "window_end", (sign * F.col("total")).alias("total"), (sign * F.col("events")).alias("events")
    )
