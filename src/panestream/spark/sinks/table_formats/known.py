"""The formats that know more than to append, by name; and what a table is."""

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
    """The format that a catalog calls so: by its short name, a class of it, or with what lies in its files.

    >>> format_named("DELTA") == format_named("org.apache.spark.sql.delta.sources.DeltaDataSource") == DeltaFormat()
    True
    >>> format_named("CSV")
    TableFormat(name='csv')
    """
    words = re.split("[./]", name.lower())
    return next((known() for short, known in _KNOWN.items() if short in words), TableFormat(name.lower()))


def format_of(spark: SparkSession, table: str) -> TableFormat | None:
    """What a table is; None where it does not exist.

    Raises:
        SinkError: it is a view.
    """
    if not table_exists(spark, table):
        return None
    name = quoted_name(table)
    rows = [(row.col_name, row.data_type) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    # Before that line come the columns, of which one may be called Provider; of a temporary view there is no more.
    start = next((at for at, (title, _) in enumerate(rows) if title == _DETAILS), len(rows))
    details = dict(rows[start + 1 :])
    if not details or "VIEW" in str(details.get("Type", "")).upper():
        raise SinkError(f"{table} is a view: rows can only be written into a table. Name one, or what does not exist yet")
    return format_named(details.get("Provider") or _told_by_delta(spark, name))


def _told_by_delta(spark: SparkSession, name: str) -> str:
    """What Delta says that a table is, whose catalog does not say it; ``""``: nobody there who knows."""
    try:
        return str(spark.sql(f"DESCRIBE DETAIL {name}").select("format").collect()[0][0])
    except Exception:  # noqa: BLE001 (whoever else there is does not know the statement)
        return ""


def format_to_be(spark: SparkSession, table: str, wanted: str | None) -> TableFormat:
    """What a table is, or would be if it were made now as ``wanted``; None: as its name or the session's default says."""
    there = format_of(spark, table)
    if there is not None:
        return there
    by_path = path_of(table)
    if by_path is None and spark.conf.get(f"spark.sql.catalog.{catalog_of(spark, table)}", None) == _ICEBERG_CATALOG:
        # Whatever is made there is Iceberg; "parquet" is then the format of its files.
        return IcebergFormat()
    return format_named(by_path[0] if by_path else wanted or str(spark.conf.get(_DEFAULT_FORMAT, "parquet")))
