"""Outputs as rows appended to a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.sinks.base import Run, Sink
from panestream.spark.sinks.table_formats.base import Commit, TableFormat
from panestream.spark.sinks.table_formats.known import format_to_be

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE_NAME = re.compile(r"[A-Za-z_][\w$-]*(\.[A-Za-z_][\w$-]*){0,2}")


@dataclass(frozen=True)
class CatalogTableSink(Sink):
    """Writes into a table of the catalog, made where it does not exist: what the sinks of tables share.

    Attributes:
        name: ``table``, ``schema.table`` or ``catalog.schema.table``.
        run: whose rows come.
    """

    name: str
    run: Run = field(default_factory=Run, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or _TABLE_NAME.fullmatch(self.name) is None:
            raise SinkError(f"{self.name!r} is no table name: write table, schema.table or catalog.schema.table")

    def place(self, spark: SparkSession) -> str:
        return table_place(spark, self.name)

    def open(self, spark: SparkSession, run: Run) -> Sink:
        if run.written and not spark.catalog.tableExists(self.name):
            raise SinkError(
                f"the table {self.name} is gone: earlier micro-batches of this checkpoint were written there, and they do not "
                "come again. Put it back; or if it was meant to go, make an empty one or choose another, in which the output "
                "goes on; or start with a new checkpoint, which computes everything again"
            )
        return replace(self, run=run)

    def make(self, df: DataFrame, kind: str | None) -> None:
        """Makes an empty table for these rows, of format ``kind``, where there is none."""
        spark = df.sparkSession
        if spark.catalog.tableExists(self.name):
            return
        writer = spark.createDataFrame([], df.schema).write.mode("ignore")
        if kind is not None:
            writer = writer.format(kind)
        writer.saveAsTable(self.name)

    def commit(self, batch_id: int | None) -> Commit:
        """What the commit of a micro-batch carries, where the table's format takes it."""
        return Commit(f"{self.run.query}/{self.run.output}/{self.name}", batch_id, self.run)


@dataclass(frozen=True)
class TableSink(CatalogTableSink):
    """Appends to a table, which the first micro-batch makes where it does not exist.

    Into a **Delta** table, exactly once: the transaction carries the query's identity and the batch's id (``txnAppId``,
    ``txnVersion``), and Delta passes over one that it has seen. That holds for whatever *is* a Delta table, with or without
    ``format="delta"``. It compares ids, not rows: with a checkpoint that was restored from a copy older than the table,
    micro-batches that the table has are passed over also where they would bring other rows now.

    Tables of **other formats** append, and a micro-batch that is run again appends again: at least once, which the query warns of
    when it starts. For exactly once there, use :class:`FileSink`, :class:`MergeSink`, or a
    :class:`ForeachBatchSink` that overwrites.

    Args:
        name: ``table``, ``schema.table`` or ``catalog.schema.table``.
        format: of a table that does not exist yet, e.g. ``delta``, ``iceberg``, ``parquet``; None: the catalog's default.
        options: of Spark's writer.
    """

    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    _formats: dict[str, TableFormat] = field(default_factory=dict, init=False, repr=False, compare=False)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self.run.check(df.sparkSession)
        self._format(df).append(df, self.name, self.options, self.commit(batch_id))

    def _format(self, df: DataFrame) -> TableFormat:
        """What the table is, asked once a run: nobody changes that under a query. Dropped meanwhile, it is made anew by Spark."""
        if self.name not in self._formats:
            # Empty, so that it can be asked what it is before the first rows come.
            self.make(df, self.format)
            self._formats[self.name] = format_to_be(df.sparkSession, self.name, self.format)
        return self._formats[self.name]

    def guarantee(self, spark: SparkSession) -> str:
        return format_to_be(spark, self.name, self.format).append_guarantee()

    def describe(self) -> str:
        return f"table {self.name}"


def table_place(spark: SparkSession, name: str) -> str:
    """One text for all spellings of a table's name."""
    parts = name.split(".")
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    if len(parts) == 2:
        parts = [spark.catalog.currentCatalog(), *parts]
    return "table " + ".".join(parts).lower()
