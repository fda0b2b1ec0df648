"""Contestants that are not stream processors, with queries as their users would write them: DuckDB and Polars, on one machine."""

from __future__ import annotations

import tempfile
from datetime import timedelta

from benchmarks.backfill.cases import CASES, Answer, Run, Sliding
from benchmarks.events import EPOCH_MS

MEMORY = "12GB"
_SUMS = "SELECT count(*), sum(total), sum(events), sum(end_ms // 1000 - {epoch}) FROM windows"
_SLIDING = """
WITH panes AS (
    SELECT key, epoch_ms(ts) // {slide} AS slide, sum(value) AS total, count(*) AS events FROM events GROUP BY ALL
), spans AS (
    SELECT key, min(slide) AS first, max(slide) AS last FROM panes GROUP BY key
), grid AS (
    SELECT key, unnest(range(first, last + {per_window})) AS slide FROM spans
), windows AS (
    SELECT key, (slide + 1) * {slide} AS end_ms, sum(total) OVER of_window AS total, sum(events) OVER of_window AS events
    FROM grid LEFT JOIN panes USING (key, slide)
    WINDOW of_window AS (PARTITION BY key ORDER BY slide ROWS {per_window} - 1 PRECEDING)
    QUALIFY sum(events) OVER of_window > 0
)
"""
_SESSIONS = """
WITH timed AS (
    SELECT key, epoch_ms(ts) AS ms, value FROM events
), marked AS (
    SELECT *, coalesce(ms - lag(ms) OVER (PARTITION BY key ORDER BY ms) > {gap}, true) AS begins FROM timed
), numbered AS (
    SELECT *, count(*) FILTER (begins) OVER (PARTITION BY key ORDER BY ms ROWS UNBOUNDED PRECEDING) AS session FROM marked
), windows AS (
    SELECT key, max(ms) + {gap} AS end_ms, sum(value) AS total, count(*) AS events FROM numbered GROUP BY key, session
)
"""


def duckdb(run: Run) -> Answer:
    """Run SQL. Windows are a trailing sum over a grid without gaps, and sessions use the distance to the row before."""
    import duckdb

    case = CASES[run.case]
    if isinstance(case, Sliding):
        text = _SLIDING.format(slide=case.slide_ms, per_window=case.size_ms // case.slide_ms)
    else:
        text = _SESSIONS.format(gap=case.gap_ms)
    with tempfile.TemporaryDirectory(prefix="backfill-") as spill, duckdb.connect() as database:
        database.execute(f"SET threads = {run.cores}; SET memory_limit = '{MEMORY}'; SET temp_directory = '{spill}'")
        database.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
        database.read_parquet(f"{run.folder}/*.parquet").create_view("events")
        [row] = database.execute(text + _SUMS.format(epoch=EPOCH_MS // 1000)).fetchall()
    return Answer(*(int(value) for value in row))


def polars(run: Run) -> Answer:
    """Run ``group_by_dynamic`` per key. Sessions use the distance to the row before."""
    import polars as pl

    case = CASES[run.case]
    events = pl.scan_parquet(f"{run.folder}/*.parquet")
    sums = pl.col("value").sum().alias("total"), pl.len().alias("events")
    if isinstance(case, Sliding):
        every, period = timedelta(milliseconds=case.slide_ms), timedelta(milliseconds=case.size_ms)
        windows = (
            events.sort("key", "ts")
            .group_by_dynamic("ts", every=every, period=period, offset=every - period, group_by="key")
            .agg(*sums)
            .with_columns(end=pl.col("ts").dt.epoch("ms") + case.size_ms)
        )
    else:
        gap = case.gap_ms
        begins = (pl.col("ms").diff() > gap) | (pl.col("key").diff() != 0)
        windows = (
            events.select("key", "value", pl.col("ts").dt.epoch("ms").alias("ms"))
            .sort("key", "ms")
            .with_columns(session=begins.fill_null(True).cum_sum())
            .group_by("session")
            .agg(*sums, (pl.col("ms").max() + gap).alias("end"))
        )
    ends = (pl.col("end") // 1000 - EPOCH_MS // 1000).sum()
    row = (
        windows.select(pl.len(), pl.col("total").sum(), pl.col("events").cast(pl.Int64).sum(), ends)
        .collect(engine="streaming")
        .row(0)
    )
    return Answer(*(int(value) for value in row))
