"""Delta targets of the kills: a table into which one query merges, and a table to which it appends."""

from __future__ import annotations

import panestream as pst
from tests.connectors.kills import Target

RESULT = "user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, clicks BIGINT, revenue BIGINT"
LATE = "user BIGINT, price BIGINT, ts TIMESTAMP"


def register_table(spark, folder, name, columns):
    """Register a Delta table of the job's folder in the session, whose catalog forgets tables."""
    table = f"{name}_{folder.name}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING delta LOCATION '{folder / name}'")
    return table


def sinks(spark, folder):
    # The sinks do not mention Delta. They must detect the format of the tables.
    merge = pst.MergeSink(register_table(spark, folder, "merged", RESULT), ["user"])
    return {"main": merge, "late": pst.TableSink(register_table(spark, folder, "appended", LATE))}


def read(spark, folder):
    return [
        (name, *row) for name in ("merged", "appended") for row in spark.read.format("delta").load(str(folder / name)).collect()
    ]


# A late row merges sessions, so rows are inserted, updated and deleted. Rows that are too late are appended unchanged.
MERGE_AND_APPEND = Target(sinks, read, changes=True, sessions=True)
