"""Read the last transaction of each writer from the log of a Delta table, since no statement of Delta shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from panestream.spark.checkpoint.lineage import is_writer_of
from panestream.spark.checkpoint.records import list_files
from panestream.spark.places import escaped
from panestream.spark.sinks.table_formats.names import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint.*\.(parquet|json)")
_TXN = "txn struct<appId: string, version: bigint>"


def transactions(spark: SparkSession, table: str, lineage: str) -> dict[str, int]:
    """Return the number of the last transaction of each writer of a lineage (``Run.lineage``); ``table`` may be a path in SQL."""
    place = spark.sql(f"DESCRIBE DETAIL {quoted_name(table)}").select("location").collect()[0].location
    log = f"{escaped(str(place))}/_delta_log"
    names = [path.rsplit("/", 1)[-1] for path in list_files(spark, f"{log}/*.{{json,parquet}}")]
    # A checkpoint has all transactions of the commits up to its own.
    newest = max((int(found[1]) for found in map(_CHECKPOINT.fullmatch, names) if found), default=-1)
    wanted = [name for name in names for found in (_CHECKPOINT.fullmatch(name),) if found and int(found[1]) == newest]
    wanted += [name for name in names for found in (_COMMIT.fullmatch(name),) if found and int(found[1]) > newest]
    last: dict[str, int] = {}
    for kind in ("json", "parquet"):
        files = [f"{log}/{name}" for name in wanted if name.endswith(f".{kind}")]
        for row in _told(spark, kind, files).collect() if files else ():
            if is_writer_of(row.appId, lineage):
                last[row.appId] = max(int(row.version), last.get(row.appId, -1))
    return last


def _told(spark: SparkSession, kind: str, files: list[str]) -> DataFrame:
    return spark.read.schema(_TXN).format(kind).load(files).where("txn.appId IS NOT NULL").select("txn.appId", "txn.version")


__all__ = ["transactions"]
