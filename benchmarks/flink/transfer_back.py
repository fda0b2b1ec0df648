"""Limit: send all rows to Python and back, without any work on them."""

from __future__ import annotations

from pyspark.sql import DataFrame

from benchmarks.cases import Case
from benchmarks.events import EventSpec
from benchmarks.flink.transfer import there_and_back
from panestream.spark.session import STREAM_SETTINGS

SETTINGS = dict(STREAM_SETTINGS)
"""The settings of panestream."""


def query(events: DataFrame, case: Case, _spec: EventSpec) -> DataFrame:
    """Return columns ``key, window_end, total, events``, with a row per input row."""
    return there_and_back(events, case)
