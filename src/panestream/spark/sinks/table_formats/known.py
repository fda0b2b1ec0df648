"""The formats that know more than to append, by name; and what a table is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panestream.spark.columns import quoted
from panestream.spark.sinks.table_formats.base import TableFormat
from panestream.spark.sinks.table_formats.delta import DeltaFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN: dict[str, TableFormat] = {one.name: one for one in (DeltaFormat(),)}
_DEFAULT_FORMAT = "spark.sql.sources.default"


def format_named(name: str) -> TableFormat:
    """The format that Spark's catalog calls so."""
    return _KNOWN.get(name.lower()) or TableFormat(name.lower())


def format_of(spark: SparkSession, table: str) -> TableFormat | None:
    """What a table is; None where it does not exist, or does not say."""
    if not spark.catalog.tableExists(table):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted_name(table)}").collect()
    provider = next((row.data_type for row in reversed(rows) if row.col_name == "Provider"), None)
    return None if provider is None else format_named(provider)


def format_to_be(spark: SparkSession, table: str, wanted: str | None) -> TableFormat:
    """What a table is, or would be if it were made now as ``wanted``; None: as the session's default."""
    return format_of(spark, table) or format_named(wanted or str(spark.conf.get(_DEFAULT_FORMAT, "parquet")))


def quoted_name(name: str) -> str:
    """A checked table name for SQL.

    >>> quoted_name("shop.click-counts")
    '`shop`.`click-counts`'
    """
    return ".".join(quoted(part) for part in name.split("."))
