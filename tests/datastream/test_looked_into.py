"""User-defined gaps, triggers and evictors get the columns that they read, even if no aggregate needs them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import panestream as pst
from panestream import agg

pytestmark = pytest.mark.spark

_TEN = datetime(2026, 1, 1, 10, tzinfo=timezone.utc)


@pytest.fixture
def clicks(spark: SparkSession) -> DataFrame:
    rows = [(0, "view", 5.0), (2, "buy", 5.0), (8, "view", 50.0), (9, "view", 51.0)]
    return spark.createDataFrame(
        [("ann", _TEN + timedelta(minutes=minute), action, price) for minute, action, price in rows],
        "user STRING, at TIMESTAMP, action STRING, price DOUBLE",
    )


def _counts(clicks: DataFrame, windowed: Callable[[Any], Any]) -> list[int]:
    keyed = pst.stream(clicks).assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps()).key_by("user")
    result = windowed(keyed).aggregate(agg.count().alias("n"), agg.max("price * 2").alias("most"))
    return [row.n for row in sorted(result.main.collect(), key=lambda row: row.window_start)]


def test_gap_reads_a_column_that_no_aggregate_takes(clicks: DataFrame) -> None:
    windows = pst.EventTimeSessionWindows.with_dynamic_gap(lambda click: timedelta(minutes=1 if click.action == "buy" else 5))
    # The purchase at 10:02 has a gap of one minute, the view before it of five, until 10:05.
    assert _counts(clicks, lambda keyed: keyed.window(windows)) == [2, 2]


def test_a_trigger_reads_a_column_that_no_aggregate_takes(clicks: DataFrame) -> None:
    trigger = pst.triggers.DeltaTrigger.of(10.0, lambda last, new: abs(new.price - last.price))
    hour = pst.TumblingEventTimeWindows.of("1 hour")
    # The jump from 5 to 50 is the only one. This trigger does not fire at the window's end.
    assert _counts(clicks, lambda keyed: keyed.window(hour).trigger(trigger)) == [3]


def test_an_evictor_reads_a_column_that_no_aggregate_takes(clicks: DataFrame) -> None:
    evictor = pst.evictors.DeltaEvictor.of(10.0, lambda row, last: abs(last.price - row.price))
    hour = pst.TumblingEventTimeWindows.of("1 hour")
    assert _counts(clicks, lambda keyed: keyed.window(hour).evictor(evictor)) == [2]
