"""The recipe "Sessions with early results into Delta" keeps exactly the right table, at each step and on real Delta.

Its query starts again for each micro-batch. Then Spark's commit of the micro-batch is deleted, as if Spark was killed before it, so
the micro-batch runs again, and Delta skips it.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import panestream as pst
from tests.comparison.early_sessions import Sessions

pytestmark = [pytest.mark.connectors, pytest.mark.delta]

RECIPES = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "recipes.md").read_text("utf-8")
RECIPE = RECIPES.split("## Sessions with early results into Delta")[1].split("\n## ")[0]
MINUTE = 60_000_000
NINE = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)
SCHEMA = pa.schema([("user", pa.string()), ("price", pa.float64()), ("ts", pa.timestamp("us", tz="UTC"))])
GROWING = [
    [("ann", 0), ("bob", 1)],
    [("ann", 20), ("bob", 3)],  # both have grown
    [("ann", 60), ("cy", 2)],  # ann's second visit; cy comes late, but not too late
    [("ann", 40)],  # merges ann's visits
    [("bob", 120)],  # closes all others
    [("bob", 121), ("ann", 95)],  # ann's visit of 9:00 has ended at 10:30: this one overlaps nothing
]


def micros(minute):
    return int(NINE.timestamp()) * 1_000_000 + minute * MINUTE


def table_of(spark, name):
    """Return the table, by user, start and end."""
    spark.sql(f"REFRESH TABLE {name}")
    rows = spark.table(name).collect()
    found = {
        (row.user, *(int(bound.timestamp()) * 1_000_000 for bound in (row.window_start, row.window_end))): (
            row.clicks,
            row.revenue,
        )
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def test_recipe_of_early_sessions_keeps_each_session_once(spark, tmp_path):
    name = "live"
    query, start = (re.search(rf"```{fence}\n(.*?)```", RECIPE, re.DOTALL)[1] for fence in ("python", "python fragment"))
    query = query.split("\nlive.main")[0]  # of a stream, only the sink gets the rows
    start = start.replace('"1 minute"', '"availableNow"').replace('"out/live"', f'"{tmp_path}/out"')
    (tmp_path / "in").mkdir()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rows = spark.readStream.schema("user string, price double, ts timestamp").parquet(f"{tmp_path}/in")
    trigger = pst.ContinuousEventTimeTrigger.of("1 minute", only_changed=True)
    wanted, number = Sessions(30 * MINUTE, trigger, 0), 0
    try:
        for step, batch in enumerate(GROWING):
            prices = [float(number + place) for place in range(len(batch))]
            number += len(batch)
            times = [NINE + timedelta(minutes=minute) for _, minute in batch]
            pq.write_table(
                pa.table([[user for user, _ in batch], prices, times], schema=SCHEMA), f"{tmp_path}/in/{step:04d}.parquet"
            )
            for (user, minute), price in zip(batch, prices, strict=True):
                wanted.row((user, micros(minute), None, None, price))
            wanted.advance(max([wanted.watermark, *(micros(minute) - 10_000_001 for _, minute in batch)]))
            for _ in range(2):
                names = {"pst": pst, "F": F, "events": pst.stream(rows, time="ts", out_of_orderness="10 seconds")}
                exec(query + "\nrunning = " + start.strip(), names)
                names["running"].await_termination()
                found = table_of(spark, name) if spark.catalog.tableExists(name) else {}
                assert found == {place: values[:2] for place, values in wanted.table.items()}, step
                commits = tmp_path / "out" / "commits"
                last = max(int(path.name) for path in commits.glob("[0-9]*"))
                for log in (f"{last}", f".{last}.crc"):
                    (commits / log).unlink(missing_ok=True)
        assert len(wanted.table) > 2
    finally:
        spark.conf.unset("spark.sql.shuffle.partitions")
        spark.sql(f"DROP TABLE IF EXISTS {name}")
