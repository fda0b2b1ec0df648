"""Outputs as rows appended to a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.sinks.base import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE_NAME = re.compile(r"[A-Za-z_][\w$-]*(\.[A-Za-z_][\w$-]*){0,2}")


@dataclass(frozen=True)
class TableSink(Sink):
    """Appends to a table.

    Delta writes each micro-batch once: the transaction carries the query's identity and the batch's id (``txnAppId``,
    ``txnVersion``). Other formats append, and a micro-batch that is run again appends again: at least once. For exactly once
    there, use :class:`FileSink`, or :class:`ForeachBatchSink` with a MERGE.

    Args:
        name: ``table``, ``schema.table`` or ``catalog.schema.table``.
        format: e.g. ``delta``, ``iceberg``, ``parquet``; None: the catalog's default.
        options: of Spark's writer.
    """

    name: str
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    query: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or _TABLE_NAME.fullmatch(self.name) is None:
            raise SinkError(f"{self.name!r} is no table name: write table, schema.table or catalog.schema.table")

    def open(self, spark: SparkSession, query: str) -> None:
        object.__setattr__(self, "query", query)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        writer = df.write.mode("append").options(**dict(self.options))
        if self.format is not None:
            writer = writer.format(self.format)
        if self.format == "delta" and batch_id is not None:
            writer = writer.option("txnAppId", f"{self.query}/{self.name}").option("txnVersion", str(batch_id))
        writer.saveAsTable(self.name)

    def describe(self) -> str:
        return f"table {self.name}"
