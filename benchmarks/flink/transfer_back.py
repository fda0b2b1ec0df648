"""Limit: all rows into Python and out again, and nothing done with them."""

from __future__ import annotations

from pyspark.sql import DataFrame

from benchmarks.cases import Case
from benchmarks.events import EventSpec
from benchmarks.flink.transfer import there_and_back
from panestream.spark.session import STREAM_SETTINGS

SETTINGS = dict(STREAM_SETTINGS)
"""As panestream has them."""


def query(events: DataFrame, case: Case, _spec: EventSpec) -> DataFrame:
    """Columns ``key, window_end, total, events``: a row per row."""
    return there_and_back(events, case)
