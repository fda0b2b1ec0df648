"""Append the rows of outputs to a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from panestream.errors import SinkError
from panestream.spark.columns import Names
from panestream.spark.sinks.base import QueryRunInfo, Sink
from panestream.spark.sinks.table_formats.base import Commit, TableFormat
from panestream.spark.sinks.table_formats.delta import with_deltas_settings
from panestream.spark.sinks.table_formats.known import format_to_be
from panestream.spark.sinks.table_formats.names import check_table_name, path_of, quoted_name, table_exists, table_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class CatalogTableSink(Sink):
    """Base class of table sinks. ``name`` is a table of the catalog, which is created if it does not exist."""

    appends: ClassVar[bool] = True
    """True if rows that are written twice appear twice."""

    name: str
    run: QueryRunInfo = field(default_factory=QueryRunInfo, repr=False, compare=False, kw_only=True)
    _known: list[TableFormat] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_table_name(self.name)

    @property
    def quoted_name(self) -> str:
        return quoted_name(self.name)

    def place(self, spark: SparkSession) -> str:
        return table_place(spark, self.name)

    def to_be(self, spark: SparkSession) -> TableFormat:
        """Return the format of the table, or the format that it would get now."""
        return format_to_be(spark, self.name, None)

    def open(self, spark: SparkSession, run: QueryRunInfo) -> Sink:
        there = table_exists(spark, self.name)
        if run.written and not there:
            raise SinkError(
                f"the table {self.name} is missing: earlier micro-batches of this checkpoint were written there, and they will "
                f"not be repeated. Restore it; or create an empty table or choose another for the rest of the output; or start "
                f"with a new checkpoint, which computes everything again"
            )
        found = self.to_be(spark)
        if not there:
            found.check_known(spark, self.name)
        elif run.succeeds and self.appends:
            self._check_nothing_beyond(found.last_of(spark, self.name, run), run)
        return replace(self, run=run)

    def _check_nothing_beyond(self, last: int | None, run: QueryRunInfo) -> None:
        if last is not None and last >= run.first:
            raise SinkError(
                f"the table {self.name} has micro-batch {last} of a query that this one succeeds, and the savepoint was taken "
                f"after micro-batch {run.first - 1}: its later rows would be written twice. If the old query stopped within a "
                f"micro-batch, start it again on its checkpoint (trigger='availableNow'), and take the savepoint after that. Or "
                f"give this output its own table"
            )

    def table(self, df: DataFrame, kind: str | None, options: Mapping[str, str]) -> TableFormat:
        """Return the format of the table for these rows, once a run. Creates an empty table if it does not exist.

        The format does not change during a query. If the table is dropped meanwhile, Spark creates it again or reports it
        missing. A new table gets the format ``kind``, or the catalog's default. Raises SinkError for a view, or if a column is
        missing.
        """
        if not self._known:
            spark = df.sparkSession
            # Empty, so that its format is known before the first rows come.
            self._make(df, kind, options)
            found = format_to_be(spark, self.name, kind)
            if not found.takes_new_columns(spark, options):
                self._check_fits(df)
            self._known.append(found)
        return self._known[0]

    def commit(self, batch_id: int | None) -> Commit:
        """Return the marks for the commit of a micro-batch, if the table's format supports them."""
        return Commit(self.run.writer, batch_id, self.run)

    def _make(self, df: DataFrame, kind: str | None, options: Mapping[str, str]) -> None:
        spark = df.sparkSession
        if table_exists(spark, self.name):
            return
        writer = spark.createDataFrame([], df.schema).write.mode("ignore").options(**dict(options))
        by_path = path_of(self.name)
        with with_deltas_settings(self.name):
            if by_path is not None:
                writer.format(by_path[0]).save(by_path[1])
            else:
                (writer if kind is None else writer.format(kind)).saveAsTable(self.quoted_name)

    def _check_fits(self, df: DataFrame) -> None:
        there = df.sparkSession.table(self.quoted_name).columns
        find = Names.of(df.sparkSession).finder(there)
        missing = [column for column in df.schema if find(column.name) is None]
        if missing:
            name, kind = missing[0].name, missing[0].dataType.simpleString()
            raise SinkError(
                f"the table {self.name} has no column {name!r} ({kind}), which the output {self.run.output!r} has; it has "
                f"{', '.join(there)}. Add it (ALTER TABLE {self.quoted_name} ADD COLUMN `{name}` {kind}), rename the result "
                f"(.alias), or write into another table"
            )


@dataclass(frozen=True)
class TableSink(CatalogTableSink):
    """Rows appended to a table, which the first micro-batch creates if it does not exist.

    **Delta**: exactly once. The transaction carries the query's identity and the batch's id (``txnAppId``, ``txnVersion``), and
    Delta skips a transaction that it has seen. This holds for every Delta table, with or without ``format="delta"``, also after
    it was renamed. Delta compares ids, not rows. If a checkpoint is restored from a copy older than the table, the table's
    micro-batches are skipped even if their rows differ now. A table that forgets ids (``delta.setTransactionRetentionDuration``)
    appends a repetition after that time again.

    **Iceberg**: exactly once. Snapshots carry the query's identity and the batch's id. A micro-batch is not written again if the
    table's current state descends from its snapshot (requirements: docs/how-to/iceberg.md). In an Iceberg catalog this holds for
    every table, with or without ``format="iceberg"``.

    **Other formats**: at least once, since a micro-batch that is run again appends again. The query warns when it starts. For
    exactly once use :class:`FileSink`, :class:`MergeSink`, or a :class:`ForeachBatchSink` that overwrites.

    Args:
        name: ``table``, ``schema.table`` or ``catalog.schema.table``; or the path of a Delta table, ``delta.`/data/clicks```.
        format: of a table that does not exist yet, e.g. ``delta``, ``iceberg``, ``parquet``; the catalog's default if None.
        options: options of Spark's writer, used also when the table is created.

    Raises:
        SinkError: the name is invalid.

    Examples:
        >>> TableSink("shop.clicks", format="delta")
        TableSink(name='shop.clicks', format='delta', options={})
    """

    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        self.run.check(df.sparkSession)
        found = self.table(df, self.format, self.options)
        found.append(df, self.name, self.options, self.commit(batch_id))

    def to_be(self, spark: SparkSession) -> TableFormat:
        return format_to_be(spark, self.name, self.format)

    def guarantee(self, spark: SparkSession) -> str:
        return self.to_be(spark).append_guarantee()

    def describe(self) -> str:
        return f"table {self.name}"
