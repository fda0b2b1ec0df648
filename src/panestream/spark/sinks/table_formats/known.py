"""Find the format of a table, and the class for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.sinks.table_formats.base import TableFormat
from panestream.spark.sinks.table_formats.delta import DeltaFormat
from panestream.spark.sinks.table_formats.iceberg import IcebergFormat
from panestream.spark.sinks.table_formats.names import catalog_of, path_of, quoted_name, table_exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN: Mapping[str, Callable[[], TableFormat]] = {"delta": DeltaFormat, "iceberg": IcebergFormat}
_ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_DEFAULT_FORMAT = "spark.sql.sources.default"
_DETAILS = "# Detailed Table Information"


def format_named(name: str) -> TableFormat:
    """Return the format for a catalog's name of it: a short name, a class, or one like ``iceberg/parquet``.

    >>> format_named("DELTA") == format_named("org.apache.spark.sql.delta.sources.DeltaDataSource") == DeltaFormat()
    True
    >>> format_named("CSV")
    TableFormat(name='csv')
    """
    words = re.split("[./]", name.lower())
    return next((known() for short, known in _KNOWN.items() if short in words), TableFormat(name.lower()))


def format_of(spark: SparkSession, table: str) -> TableFormat | None:
    """Return the format of a table, or None if it does not exist; raises SinkError for a view."""
    if not table_exists(spark, table):
        return None
    name = quoted_name(table)
    rows = [(row.col_name, row.data_type) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    # The columns precede that line, and one may be named Provider. A temporary view has only columns.
    start = next((at for at, (title, _) in enumerate(rows) if title == _DETAILS), len(rows))
    details = dict(rows[start + 1 :])
    if not details or "VIEW" in str(details.get("Type", "")).upper():
        raise SinkError(f"{table} is a view: rows can only be written into a table. Name one, or what does not exist yet")
    return format_named(details.get("Provider") or _told_by_delta(spark, name))


def _told_by_delta(spark: SparkSession, name: str) -> str:
    """Return the format from Delta, whose catalog does not have it; ``""`` if Delta is missing."""
    try:
        return str(spark.sql(f"DESCRIBE DETAIL {name}").select("format").collect()[0][0])
    except Exception:  # noqa: BLE001 (without Delta the statement is unknown)
        return ""


def format_to_be(spark: SparkSession, table: str, wanted: str | None) -> TableFormat:
    """Return the format of a table, or the one it would get now: ``wanted``, or by its name or the session's default."""
    there = format_of(spark, table)
    if there is not None:
        return there
    by_path = path_of(table)
    if by_path is None and spark.conf.get(f"spark.sql.catalog.{catalog_of(spark, table)}", None) == _ICEBERG_CATALOG:
        # All tables there are Iceberg's; "parquet" is then the format of its files.
        return IcebergFormat()
    return format_named(by_path[0] if by_path else wanted or str(spark.conf.get(_DEFAULT_FORMAT, "parquet")))
