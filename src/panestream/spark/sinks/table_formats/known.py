"""The formats that know more than to append, by name; and what a table is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from panestream.spark.columns import quoted
from panestream.spark.sinks.table_formats.base import TableFormat
from panestream.spark.sinks.table_formats.delta import DeltaFormat
from panestream.spark.sinks.table_formats.iceberg import IcebergFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN: Mapping[str, Callable[[], TableFormat]] = {"delta": DeltaFormat, "iceberg": IcebergFormat}
_ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_DEFAULT_FORMAT = "spark.sql.sources.default"


def format_named(name: str) -> TableFormat:
    """The format that Spark's catalog calls so."""
    known = _KNOWN.get(name.lower())
    return TableFormat(name.lower()) if known is None else known()


def format_of(spark: SparkSession, table: str) -> TableFormat | None:
    """What a table is; None where it does not exist, or does not say."""
    if not spark.catalog.tableExists(table):
        return None
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted_name(table)}").collect()
    provider = next((row.data_type for row in reversed(rows) if row.col_name == "Provider"), None)
    return None if provider is None else format_named(provider)


def format_to_be(spark: SparkSession, table: str, wanted: str | None) -> TableFormat:
    """What a table is, or would be if it were made now as ``wanted``; None: as the session's default."""
    there = format_of(spark, table)
    if there is None and spark.conf.get(f"spark.sql.catalog.{_catalog_of(spark, table)}", None) == _ICEBERG_CATALOG:
        # Whatever is made there is Iceberg; "parquet" is then the format of its files.
        return IcebergFormat()
    return there or format_named(wanted or str(spark.conf.get(_DEFAULT_FORMAT, "parquet")))


def _catalog_of(spark: SparkSession, table: str) -> str:
    """The catalog that a table's name leads to: its first part, if that is one."""
    first, _, rest = table.partition(".")
    there = rest and spark.conf.get(f"spark.sql.catalog.{first}", None) is not None
    return first if there else spark.catalog.currentCatalog()


def quoted_name(name: str) -> str:
    """A checked table name for SQL.

    >>> quoted_name("shop.click-counts")
    '`shop`.`click-counts`'
    """
    return ".".join(quoted(part) for part in name.split("."))
