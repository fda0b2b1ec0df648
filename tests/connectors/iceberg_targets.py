"""What the kills strike of Iceberg: a table that is appended to, and tables that are merged into."""

from __future__ import annotations

import panestream as pst
from tests.connectors.kills import Target

CATALOG = "kills"
"""A catalog of the job's folder: the session that looks at it afterwards knows two of them, one after the other."""

RESULT = "user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, clicks BIGINT, revenue BIGINT"


def catalog(spark, folder):
    """A catalog whose tables lie in the job's folder; its name has the folder's in it."""
    name = f"{CATALOG}_{folder.name}"
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(folder / "iceberg"))
    return name


def appended(spark, folder):
    # Made by the sink, in a catalog that knows nothing but Iceberg: no format is named.
    return {"main": pst.TableSink(f"{catalog(spark, folder)}.db.appended")}


def merged(mode):
    def sinks(spark, folder):
        table = f"{catalog(spark, folder)}.db.merged"
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({RESULT}) USING iceberg TBLPROPERTIES ('write.merge.mode' = '{mode}')")
        return {"main": pst.MergeSink(table, ["user"])}

    return sinks


def reader(name):
    return lambda spark, folder: spark.table(f"{catalog(spark, folder)}.db.{name}").collect()


APPEND = Target(appended, reader("appended"))
# Sessions that a late row makes one: rows are inserted, updated and deleted.
MERGE = Target(merged("merge-on-read"), reader("merged"), changes=True, sessions=True)
COPIES = Target(merged("copy-on-write"), reader("merged"))
