"""A user's file that type checkers accept."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from panestream import agg


def revenue(clicks: DataFrame) -> pst.datastream.WindowedResult:
    return (
        pst.stream(clicks, time="ts", out_of_orderness="5 seconds")
        .group_by("user", pst.sliding("1 hour", "5 minutes"))
        .trigger(pst.ContinuousEventTimeTrigger.of("1 minute"))
        .allowed_lateness("10 minutes")
        .side_output_late_data("late")
        .options(key_groups=8)
        .agg(F.sum("price").alias("revenue"), agg.count().alias("clicks"))
        .with_firing()
    )


def visit(user: str, window: pst.windows.TimeWindow, rows: Iterable[Row]) -> Iterable[tuple[int]]:
    yield (sum(1 for _ in rows),)


def visits(clicks: DataFrame) -> DataFrame:
    strategy = pst.WatermarkStrategy.for_bounded_out_of_orderness("5 seconds").closing_after("1 minute")
    keyed = pst.stream(clicks).assign_timestamps("ts", strategy).key_by("user")
    return keyed.window(pst.EventTimeSessionWindows.with_gap("30 minutes")).apply(visit, "clicks INT").main


def run(spark: SparkSession, clicks: DataFrame) -> list[int]:
    query: pst.RunningQuery = revenue(clicks).start(
        main=pst.ParquetSink("out"), late=pst.MemorySink(), checkpoint="checkpoint", trigger="10 seconds"
    )
    query.await_termination(60)
    state = pst.state.read_checkpoint(spark, "checkpoint")
    print(pst.tools.why(state, key="ann", at="2026-01-01 10:08"))
    return [batch.late_rows for batch in query.recent_progress]


def tested() -> list[object]:
    harness = pst.testing.WindowTestHarness(pst.tumbling("1 minute"), reduce=max)
    harness.process_element(1, "10 seconds", key="ann")
    harness.process_watermark("1 minute")
    return [result.value for result in harness.extract_output()]
