"""Delta Lake: a transaction carries the writer and the micro-batch, and Delta skips a transaction that it has seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.session import is_connect, session_settings
from panestream.spark.sinks.base import EXACTLY_ONCE, QueryRunInfo
from panestream.spark.sinks.table_formats.base import Commit, TableFormat, check_there, is_true
from panestream.spark.sinks.table_formats.delta_log import transactions
from panestream.spark.sinks.table_formats.names import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DML = "spark.databricks.delta.write"
_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
_HALF_THERE = ("provider 'delta' does not support external metadata", "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG")
"""The errors of a session with Delta's package but without its settings."""


@dataclass(frozen=True)
class DeltaFormat(TableFormat):
    """A Delta table.

    Delta skips a transaction whose number is not larger than the last one of the same writer. The table stores the last number,
    forever unless it has a ``delta.setTransactionRetentionDuration``.
    """

    name: str = "delta"

    def check_known(self, spark: SparkSession, table: str) -> None:
        check_there(spark, self.name, "docs/how-to/delta.md")

    def append(self, df: DataFrame, table: str, options: Mapping[str, str], commit: Commit) -> None:
        writer = df.write.format(self.name).mode("append").options(**dict(options))
        if commit.batch_id is not None:
            writer = writer.option("txnAppId", commit.writer).option("txnVersion", str(commit.batch_id))
        writer.saveAsTable(quoted_name(table))

    def merge(self, spark: SparkSession, table: str, statement: str, commit: Commit) -> None:
        with session_settings(spark, transaction(spark, commit)):
            spark.sql(statement)

    def takes_new_columns(self, spark: SparkSession, options: Mapping[str, str]) -> bool:
        return super().takes_new_columns(spark, options) or is_true(spark.conf.get(_AUTO_MERGE, "false"))

    def last_of(self, spark: SparkSession, table: str, run: QueryRunInfo) -> int | None:
        others = {each: number for each, number in transactions(spark, table, run.lineage).items() if each != run.writer}
        return max(others.values(), default=None)

    def append_guarantee(self) -> str:
        return EXACTLY_ONCE


@contextmanager
def with_deltas_settings(table: str) -> Iterator[None]:
    """Raise SinkError with the missing settings if a table cannot be created because the session has Delta's package alone."""
    try:
        yield
    except Exception as error:
        if any(sign in str(error) for sign in _HALF_THERE):
            raise SinkError(
                f"the table {table} cannot be made: the session has Delta's package, but not its settings; start it with "
                ".config('spark.sql.extensions', 'io.delta.sql.DeltaSparkSessionExtension') and "
                ".config('spark.sql.catalog.spark_catalog', 'org.apache.spark.sql.delta.catalog.DeltaCatalog')"
            ) from error
        raise


def transaction(spark: SparkSession, commit: Commit) -> dict[str, str]:
    """Return the settings that mark a statement with the commit; statements do not support options.

    Each streaming query has its own session in Spark, and its micro-batches and sinks run in sequence, so other statements do not
    see the settings. With Spark Connect all queries of a client may share a session. Then the result is empty, and the MERGE
    relies on its idempotence alone.
    """
    if commit.batch_id is None or is_connect(spark):
        return {}
    return {f"{_DML}.txnAppId": commit.writer, f"{_DML}.txnVersion": str(commit.batch_id)}
