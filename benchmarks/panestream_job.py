"""Contestant: panestream, as its users write it."""

from __future__ import annotations

from pyspark.sql import DataFrame

import panestream as pst
from benchmarks.cases import SumCount
from benchmarks.events import EventSpec
from panestream import agg
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS

SETTINGS = {**STREAM_SETTINGS, **BIRTH_SETTINGS}
"""The settings that ``build_session`` and ``result.start`` set for every user."""


def query(events: DataFrame, case: SumCount, spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``, with one row per key and closed window."""
    windows = (
        pst.TumblingEventTimeWindows.of(case.size)
        if case.slide_ms == case.size_ms
        else pst.SlidingEventTimeWindows.of(case.size, case.slide)
    )
    result = (
        pst.stream(events)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness(f"{spec.disorder_ms} milliseconds"))
        .key_by("key")
        .window(windows)
        .aggregate(agg.sum("value").alias("total"), agg.count("value").alias("events"))
    )
    return result.main.select("key", "window_end", "total", "events")
