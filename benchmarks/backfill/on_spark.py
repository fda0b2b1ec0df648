"""Contestants: panestream on a batch DataFrame, and Spark's own windows."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.backfill.cases import CASES, Answer, Case, Run, Sliding
from benchmarks.events import EPOCH_MS
from benchmarks.harness import SETTINGS
from panestream import agg
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS

MEMORY = "1600m"


def _session(run: Run) -> SparkSession:
    settings = {**SETTINGS, **STREAM_SETTINGS, **BIRTH_SETTINGS, "spark.driver.memory": MEMORY}
    if run.groups and run.contestant == "native":
        settings["spark.sql.shuffle.partitions"] = str(run.groups)
    builder = SparkSession.builder.master(f"local[{run.cores}]").appName(f"backfill {run.contestant} {run.case}")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _added_up(answer: DataFrame) -> DataFrame:
    """Add up the checks over all rows."""
    seconds = F.floor(F.unix_millis("window_end") / 1000) - EPOCH_MS // 1000
    sums = (
        F.count("*").alias("rows"),
        F.sum("total").alias("total"),
        F.sum("events").alias("events"),
        F.sum(seconds).alias("ends"),
    )
    return answer.agg(*sums)


def _answer(df: DataFrame) -> Answer:
    row = _added_up(df).collect()[0]
    return Answer(*(int(value) for value in row))


def panestream(run: Run) -> Answer:
    """Run the query as users of panestream write it."""
    events = _session(run).read.parquet(run.folder)
    case = CASES[run.case]
    timed = (
        pst.stream(events).assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("1 second")).key_by("key")
    )
    windowed = timed.window(_assigner(case))
    if run.groups:
        windowed = windowed.options(key_groups=run.groups)
    result = windowed.aggregate(agg.sum("value").alias("total"), agg.count("value").alias("events"))
    return _answer(result.main.select("key", "window_end", "total", "events"))


def _assigner(case: Case) -> pst.windows.WindowAssigner:
    if isinstance(case, Sliding):
        return pst.SlidingEventTimeWindows.of(f"{case.size_ms} milliseconds", f"{case.slide_ms} milliseconds")
    return pst.EventTimeSessionWindows.with_gap(f"{case.gap_ms} milliseconds")


def native(run: Run) -> Answer:
    """Run Spark's ``window()`` and ``session_window()``."""
    events = _session(run).read.parquet(run.folder)
    case = CASES[run.case]
    if isinstance(case, Sliding):
        window, end = F.window("ts", f"{case.size_ms} milliseconds", f"{case.slide_ms} milliseconds"), "window.end"
    else:
        window, end = F.session_window("ts", f"{case.gap_ms} milliseconds"), "session_window.end"
    sums = events.groupBy(window, "key").agg(F.sum("value").alias("total"), F.count("value").alias("events"))
    return _answer(sums.select("key", F.col(end).alias("window_end"), "total", "events"))
