"""What the kills strike of Iceberg: a table that is merged into, and one that is appended to."""

from __future__ import annotations

import panestream as pst
from tests.connectors.kills import Target

RESULT = "user BIGINT, window_start TIMESTAMP, window_end TIMESTAMP, clicks BIGINT, revenue BIGINT"


def catalog(spark, folder):
    """A catalog whose tables lie in the job's folder, and whose name has the folder's in it: who compares two has both."""
    name = f"kills_{folder.name}"
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(folder / "iceberg"))
    # Who reads here saw the table before the query, which writes in a session of its own.
    spark.conf.set(f"spark.sql.catalog.{name}.cache-enabled", "false")
    return name


def sinks(spark, folder):
    tables = f"{catalog(spark, folder)}.db"
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {tables}.merged ({RESULT}) USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"
    )
    # The other is made by the sink, in a catalog that knows nothing but Iceberg: no format is named.
    return {"main": pst.MergeSink(f"{tables}.merged", ["user"]), "late": pst.TableSink(f"{tables}.appended")}


def read(spark, folder):
    tables = f"{catalog(spark, folder)}.db"
    return [(name, *row) for name in ("merged", "appended") for row in spark.table(f"{tables}.{name}").collect()]


# Sessions that a late row makes one: rows are inserted, updated and deleted. Rows that are too late are appended as they are.
MERGE_AND_APPEND = Target(sinks, read, changes=True, sessions=True)
