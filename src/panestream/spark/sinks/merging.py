"""Merge results and changelogs into a table that supports MERGE: one row per key and window, the last one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import Window
from pyspark.sql import functions as F

from panestream.engine.plan import DELETE, OP_COLUMN, UPDATE_BEFORE
from panestream.errors import SinkError
from panestream.spark.columns import quoted
from panestream.spark.sinks.base import QueryRunInfo, Sink
from panestream.spark.sinks.keys import check_key_columns, check_keys, key_and_window
from panestream.spark.sinks.table_formats.base import TableFormat
from panestream.spark.sinks.table_formats.known import format_to_be
from panestream.spark.sinks.table_formats.names import table_exists
from panestream.spark.sinks.tables import CatalogTableSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHANGES = "panestream_changes"
_KNOWS_MERGE = "a table of Delta, Iceberg or Hudi (whose SQL extensions the session must have)"
_WITHOUT_MERGE = ("parquet", "orc", "json", "csv", "text", "xml", "avro", "hive")
"""Spark's own table formats, which never support MERGE."""


@dataclass(frozen=True)
class MergeSink(CatalogTableSink):
    """Upserts into a table by key and window: a window that fires again replaces its row. Exactly once, by idempotence.

    A micro-batch that is run again merges the same rows, which changes nothing. For a **Delta** table the MERGE also carries the
    micro-batch's id (see :class:`TableSink`; not through Spark Connect), and a repetition is skipped. Rows are plain results, or
    rows of ``.changelog()``: ``delete`` removes the row, and ``update_before`` is ignored. A micro-batch must have at most one
    row per key and window, as columnar operators and changelogs emit. If a row operator without a changelog fires a window
    several times in a micro-batch, the sink raises an error with the key, since it cannot determine the last row.

    Sessions that fire early or late need a changelog. It deletes the rows of a session's former, shorter windows, so that each
    session has one row. Of rolling values (:meth:`KeyedStream.rolling`) the sink keeps one row per key, the latest by ``as_of``.

    The table must support ``MERGE INTO``: Delta, Iceberg or Hudi. The first micro-batch creates it if it does not exist.

    Args:
        name: ``table``, ``schema.table`` or ``catalog.schema.table``; or the path of a Delta table, ``delta.`/data/clicks```.
        keys: the key columns of the results; the window's columns are added.
        format: of a table that does not exist yet, e.g. ``delta``, ``iceberg``; the catalog's default if None.

    Raises:
        SinkError: the name or the keys are invalid.

    >>> MergeSink("shop.clicks", ["user_id"], format="delta").describe()
    'MERGE into shop.clicks'
    """

    appends: ClassVar[bool] = False
    keys: Sequence[str]
    format: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_keys(self.keys, "a MergeSink")

    def check_columns(self, names: Sequence[str]) -> None:
        check_key_columns(self.keys, names, f"the results for {self.name}")

    def open(self, spark: SparkSession, run: QueryRunInfo) -> Sink:
        opened = super().open(spark, run)
        kind = self.to_be(spark).name
        if kind in _WITHOUT_MERGE:
            is_one, say = (
                ("is one", "")
                if table_exists(spark, self.name)
                else ("would be made as one", ": give the sink a format, such as format='delta'")
            )
            raise SinkError(
                f"the table {self.name} {is_one} of {kind}, which does not support MERGE: a MergeSink needs {_KNOWS_MERGE}{say}"
            )
        return opened

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        spark = df.sparkSession
        self.run.check(spark)
        found = self.table(df.drop(OP_COLUMN.name) if self._has_changes(df.columns) else df, self.format, {})
        if self.run.holds_from is None:
            self._check_single(df)
        else:
            df = self._latest(df, self.run.holds_from)
        # A unique name: through Spark Connect queries may share a session and all its views.
        changes = f"{_CHANGES}_{uuid.uuid4().hex}"
        df.createOrReplaceTempView(changes)
        try:
            # Check again after the Spark job above. A copy that was fenced meanwhile would replace newer rows with older ones.
            self.run.check(spark)
            self._merge(spark, found, self.statement(df.columns, changes), batch_id)
        finally:
            spark.catalog.dropTempView(changes)

    def statement(self, columns: Sequence[str], changes: str = _CHANGES) -> str:
        """Return the MERGE for rows with these columns in the view ``changes``.

        >>> print(MergeSink("clicks", ["user"]).statement(["user", "window_start", "window_end", "n", "op"]))
        MERGE INTO `clicks` AS t
        USING (SELECT * FROM panestream_changes WHERE `op` <> 'update_before') AS s
        ON t.`user` <=> s.`user` AND t.`window_start` <=> s.`window_start` AND t.`window_end` <=> s.`window_end`
        WHEN MATCHED AND s.`op` = 'delete' THEN DELETE
        WHEN MATCHED THEN UPDATE SET `n` = s.`n`
        WHEN NOT MATCHED AND s.`op` <> 'delete' THEN INSERT (`user`, `window_start`, `window_end`, `n`)
        VALUES (s.`user`, s.`window_start`, s.`window_end`, s.`n`)
        """
        matched = key_and_window(self.keys, columns)
        op = quoted(OP_COLUMN.name) if self._has_changes(columns) else None
        stored = [name for name in columns if op is None or name != OP_COLUMN.name]
        changed = [name for name in stored if name not in matched]
        lines = [
            f"MERGE INTO {self.quoted_name} AS t",
            f"USING (SELECT * FROM {changes}{f' WHERE {op} <> {UPDATE_BEFORE!r}' if op else ''}) AS s",  # noqa: S608 (quoted)
            "ON " + " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in matched),
            *([f"WHEN MATCHED AND s.{op} = {DELETE!r} THEN DELETE"] if op else []),
            *(["WHEN MATCHED THEN UPDATE SET " + ", ".join(f"{quoted(n)} = s.{quoted(n)}" for n in changed)] if changed else []),
            f"WHEN NOT MATCHED{f' AND s.{op} <> {DELETE!r}' if op else ''} THEN INSERT ({', '.join(map(quoted, stored))})",
            f"VALUES ({', '.join(f's.{quoted(name)}' for name in stored)})",
        ]
        return "\n".join(lines)

    def _has_changes(self, columns: Sequence[str]) -> bool:
        """Return whether rows are changes. A user's result may also have a column named ``op``."""
        return OP_COLUMN.name in self.run.added and OP_COLUMN.name in columns

    def _latest(self, df: DataFrame, holds_from: str) -> DataFrame:
        """Return the last row of each key. Rolling values may change at several steps of a micro-batch."""
        rows = df.where(F.col(OP_COLUMN.name) != UPDATE_BEFORE) if self._has_changes(df.columns) else df
        of_key = Window.partitionBy(*(F.col(quoted(name)) for name in self.keys)).orderBy(F.col(quoted(holds_from)).desc())
        numbered = rows.withColumn("panestream_number", F.row_number().over(of_key))
        return numbered.where("panestream_number = 1").drop("panestream_number")

    def _check_single(self, df: DataFrame) -> None:
        """Refuse two rows for one key and window: a MERGE would insert both into a table without such a row."""
        names = key_and_window(self.keys, df.columns)
        rows = df.where(F.col(OP_COLUMN.name) != UPDATE_BEFORE) if self._has_changes(df.columns) else df
        counts = rows.groupBy(*(F.col(quoted(name)) for name in names)).agg(F.count(F.lit(1)).alias("panestream_count"))
        twice = counts.where("panestream_count > 1").first()
        if twice is not None:
            *values, count = twice
            row = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
            raise SinkError(
                f"a micro-batch has {count} rows for one row of the table {self.name} ({row}): their order is unknown. A window "
                f"must fire at most once in a micro-batch with one row: add .changelog(), or run it on columns, without "
                f".options(every_firing=True) (explain() has the reasons against columns), or write all rows with a TableSink"
            )

    def _merge(self, spark: SparkSession, found: TableFormat, statement: str, batch_id: int | None) -> None:
        try:
            found.merge(spark, self.name, statement, self.commit(batch_id))
        except Exception as error:
            if "MERGE INTO TABLE" in str(error) or "UNSUPPORTED_FEATURE.TABLE_OPERATION" in str(error):
                raise SinkError(f"the table {self.name} does not support MERGE: a MergeSink needs {_KNOWS_MERGE}") from error
            raise

    @property
    def keeps_last(self) -> bool:
        return True

    def to_be(self, spark: SparkSession) -> TableFormat:
        return format_to_be(spark, self.name, self.format)

    def guarantee(self, spark: SparkSession) -> str:
        return self.to_be(spark).merge_guarantee()

    def describe(self) -> str:
        return f"MERGE into {self.name}"
