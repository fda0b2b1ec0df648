"""Iceberg targets of the kills: a table into which one query merges, and a table to which it appends."""

from __future__ import annotations

import panestream as pst
from tests.connectors.kills import Target

RESULT = "user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, clicks BIGINT, revenue BIGINT"


def catalog(spark, folder):
    """Configure a catalog whose tables are in the job's folder.

    Its name contains the folder's, so that both jobs can be compared.
    """
    name = f"kills_{folder.name}"
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(folder / "iceberg"))
    # This session saw the table before the query, which writes in another session.
    spark.conf.set(f"spark.sql.catalog.{name}.cache-enabled", "false")
    return name


def sinks(spark, folder):
    tables = f"{catalog(spark, folder)}.db"
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {tables}.merged ({RESULT}) USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"
    )
    # The sink creates the other table. The catalog only supports Iceberg, so no format is given.
    return {"main": pst.MergeSink(f"{tables}.merged", ["user"]), "late": pst.TableSink(f"{tables}.appended")}


def read(spark, folder):
    tables = f"{catalog(spark, folder)}.db"
    return [(name, *row) for name in ("merged", "appended") for row in spark.table(f"{tables}.{name}").collect()]


# A late row merges sessions, so rows are inserted, updated and deleted. Rows that are too late are appended unchanged.
MERGE_AND_APPEND = Target(sinks, read, changes=True, sessions=True)
