"""Carry a workload's columns between Spark and Python without any work on them. This is the limit of any operator in Python.

These are not contestants, since they put no row into a window. ``transfer in`` sends every row to Python and returns one row per
task. ``transfer there and back`` returns all rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.cases import Case
from benchmarks.flink.workloads import CountWindows

_SUMS = pa.schema([("total", pa.int64()), ("events", pa.int64())])


def columns(events: DataFrame, case: Case) -> DataFrame:
    """Return the columns that panestream's query of the case needs."""
    return events.select("key", "value") if isinstance(case, CountWindows) else events.select("key", "value", "ts")


def there(events: DataFrame, case: Case) -> DataFrame:
    """Return columns ``key, window_end`` (null), ``total, events``, with one row per task for all its rows."""
    sums = columns(events, case).mapInArrow(_added_up, "total bigint, events bigint")
    return sums.select(
        F.lit(None).cast("bigint").alias("key"), F.lit(None).cast("timestamp").alias("window_end"), "total", "events"
    )


def there_and_back(events: DataFrame, case: Case) -> DataFrame:
    """Return every row unchanged."""
    sent = columns(events, case)
    rows = sent.mapInArrow(_as_they_are, sent.schema)
    end = F.col("ts") if "ts" in sent.columns else F.lit(None).cast("timestamp")
    return rows.select("key", end.alias("window_end"), F.col("value").alias("total"), F.lit(1).cast("bigint").alias("events"))


def _added_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = rows = 0
    for batch in batches:
        total += pc.sum(batch.column("value")).as_py() or 0
        rows += batch.num_rows
    yield pa.RecordBatch.from_pydict({"total": [total], "events": [rows]}, schema=_SUMS)


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
