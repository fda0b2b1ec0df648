"""What the kills strike of Delta: a table that is appended to, and tables that are merged into."""

from __future__ import annotations

import panestream as pst
from tests.connectors.kills import Target


def known(spark, folder, name, columns):
    """Makes a Delta table in the job's folder known to the session, whose catalog forgets."""
    table = f"{name}_{folder.name}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING delta LOCATION '{folder / name}'")
    return table


def reader(name):
    return lambda spark, folder: spark.read.format("delta").load(str(folder / name)).collect()


RESULT = "user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, clicks BIGINT, revenue BIGINT"


def appended(spark, folder):
    # Not a word of Delta to the sink: that the table is one must be found out.
    return {"main": pst.TableSink(known(spark, folder, "appended", RESULT))}


def merged(spark, folder):
    return {"main": pst.MergeSink(known(spark, folder, "merged", RESULT), ["user"])}


APPEND = Target(appended, reader("appended"))
# Sessions that a late row makes one: rows are inserted, updated and deleted.
MERGE = Target(merged, reader("merged"), changes=True, sessions=True)
