"""What the kills strike of Delta: a table that is merged into and one that is appended to, by one query."""

from __future__ import annotations

import panestream as pst
from tests.connectors.kills import Target

RESULT = "user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, clicks BIGINT, revenue BIGINT"
LATE = "user BIGINT, price BIGINT, ts TIMESTAMP"


def known(spark, folder, name, columns):
    """Makes a Delta table in the job's folder known to the session, whose catalog forgets."""
    table = f"{name}_{folder.name}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING delta LOCATION '{folder / name}'")
    return table


def sinks(spark, folder):
    # Not a word of Delta to the sinks: that the tables are Delta's must be found out.
    merge = pst.MergeSink(known(spark, folder, "merged", RESULT), ["user"])
    return {"main": merge, "late": pst.TableSink(known(spark, folder, "appended", LATE))}


def read(spark, folder):
    return [
        (name, *row) for name in ("merged", "appended") for row in spark.read.format("delta").load(str(folder / name)).collect()
    ]


# Sessions that a late row makes one: rows are inserted, updated and deleted. Rows that are too late are appended as they are.
MERGE_AND_APPEND = Target(sinks, read, changes=True, sessions=True)
