"""The formats that know more than to append, by name; and what a table is."""

from __future__ import annotations

<<<<<<< HEAD
from collections.abc import Callable, Mapping
=======
import re
>>>>>>> f310a82 (Whatever is a Delta table is told the micro-batch, by MERGE too; jobs are killed beside it)
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.sinks.table_formats.base import TableFormat
from panestream.spark.sinks.table_formats.delta import DeltaFormat
<<<<<<< HEAD
from panestream.spark.sinks.table_formats.iceberg import IcebergFormat
=======
from panestream.spark.sinks.table_formats.names import quoted_name
>>>>>>> f310a82 (Whatever is a Delta table is told the micro-batch, by MERGE too; jobs are killed beside it)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

<<<<<<< HEAD
_KNOWN: Mapping[str, Callable[[], TableFormat]] = {"delta": DeltaFormat, "iceberg": IcebergFormat}
_ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
=======
_KNOWN: dict[str, TableFormat] = {one.name: one for one in (DeltaFormat(),)}
_DETAILS = "# Detailed Table Information"
>>>>>>> f310a82 (Whatever is a Delta table is told the micro-batch, by MERGE too; jobs are killed beside it)
_DEFAULT_FORMAT = "spark.sql.sources.default"


def format_named(name: str) -> TableFormat:
<<<<<<< HEAD
    """The format that Spark's catalog calls so."""
    known = _KNOWN.get(name.lower())
    return TableFormat(name.lower()) if known is None else known()
=======
    """The format that a catalog calls so: by its short name, a class of it, or with what lies in its files.

    >>> format_named("DELTA") == format_named("org.apache.spark.sql.delta.sources.DeltaDataSource") == DeltaFormat()
    True
    >>> format_named("CSV")
    TableFormat(name='csv')
    """
    words = re.split("[./]", name.lower())
    return next((one for short, one in _KNOWN.items() if short in words), TableFormat(name.lower()))
>>>>>>> f310a82 (Whatever is a Delta table is told the micro-batch, by MERGE too; jobs are killed beside it)


def format_of(spark: SparkSession, table: str) -> TableFormat | None:
    """What a table is; None where it does not exist.

    Raises:
        SinkError: it is a view.
    """
    name = quoted_name(table)
    if not spark.catalog.tableExists(name):
        return None
    rows = [(row.col_name, row.data_type) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    # Before that line come the columns, of which one may be called Provider; of a temporary view there is no more.
    start = next((at for at, (title, _) in enumerate(rows) if title == _DETAILS), len(rows))
    details = dict(rows[start + 1 :])
    if not details or "VIEW" in str(details.get("Type", "")).upper():
        raise SinkError(
            f"{table} is a view: rows can only be written into a table. Name the table, or another that does not exist yet"
        )
    return format_named(details.get("Provider") or _told_by_delta(spark, name))


def _told_by_delta(spark: SparkSession, name: str) -> str:
    """``delta``, where the catalog does not say so, but Delta answers for the table; else ``""``."""
    try:
        return str(spark.sql(f"DESCRIBE DETAIL {name}").select("format").collect()[0][0])
    except Exception:  # noqa: BLE001 (whoever else there is does not know the statement)
        return ""


def format_to_be(spark: SparkSession, table: str, wanted: str | None) -> TableFormat:
    """What a table is, or would be if it were made now as ``wanted``; None: as the session's default."""
<<<<<<< HEAD
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
=======
    return format_of(spark, table) or format_named(wanted or str(spark.conf.get(_DEFAULT_FORMAT, "parquet")))
>>>>>>> f310a82 (Whatever is a Delta table is told the micro-batch, by MERGE too; jobs are killed beside it)
