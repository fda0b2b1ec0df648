"""Apache Iceberg: a snapshot carries the writer and the micro-batch, and must follow the snapshot that the writer has read.

Unlike Delta, Iceberg does not support an application's transactions. So the sink reads the ancestors of the current snapshot to
find a micro-batch. Iceberg itself notices a commit of another copy after that: rows are added as an overwrite of nothing (an
append in the table's history), which is checked against all data files added since the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from panestream.errors import SinkError
from panestream.spark.sinks.base import EXACTLY_ONCE, QueryRunInfo
from panestream.spark.sinks.table_formats.base import Commit, TableFormat, check_there, is_true
from panestream.spark.sinks.table_formats.iceberg_history import BATCH, WAP_ID, WRITER, Target, refresh, target_of
from panestream.spark.sinks.table_formats.names import catalog_of, path_of, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriterV2

_PAGE = "docs/how-to/iceberg.md"
_PROPERTY = "snapshot-property."
_MERGE_SCHEMA = "spark.sql.iceberg.merge-schema"
_ATTEMPTS = 3
"""How often a commit that lost a race is tried again in the way that notices others."""

_CAME_BEFORE = ("Found conflicting files", "Cannot determine history between", "CommitFailedException")
_CLOCKS_APART = 60_000
"""The allowed difference of two writers' clocks in milliseconds; Iceberg itself allows as much."""


@dataclass(frozen=True)
class IcebergFormat(TableFormat):
    """An Iceberg table, in one run of a query."""

    name: str = "iceberg"
    _last: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """The last micro-batch known to be in the table, by writer. Within a run only this run adds to it."""

    def check_known(self, spark: SparkSession, table: str) -> None:
        check_there(spark, self.name, _PAGE)
        catalog = catalog_of(spark, table)
        if path_of(table) is None and spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            # Spark's own catalog. Iceberg would fail in the first micro-batch because a path is not set.
            raise SinkError(
                f"the table {table} cannot be made: its catalog, {catalog}, is Spark's catalog, which does not support Iceberg "
                f"tables. Name a table in an Iceberg catalog, or set spark.sql.catalog.{catalog} to Iceberg's "
                f"SparkSessionCatalog ({_PAGE})"
            )

    def append(self, df: DataFrame, table: str, options: Mapping[str, str], commit: Commit) -> None:
        if commit.batch_id is None:
            df.writeTo(quoted_name(table)).options(**dict(options)).append()
        elif commit.batch_id > self._last.get(commit.writer, -1):
            self._append_once(df, table, options, commit, commit.batch_id)

    def takes_new_columns(self, spark: SparkSession, options: Mapping[str, str]) -> bool:
        return super().takes_new_columns(spark, options) or is_true(spark.conf.get(_MERGE_SCHEMA, "false"))

    def last_of(self, spark: SparkSession, table: str, run: QueryRunInfo) -> int | None:
        refresh(spark, table)
        return target_of(spark, table).history_of_others(spark, run.lineage, run.writer).last

    def append_guarantee(self) -> str:
        return EXACTLY_ONCE

    def _append_once(self, df: DataFrame, table: str, options: Mapping[str, str], commit: Commit, batch_id: int) -> None:
        spark = df.sparkSession
        if commit.writer not in self._last and df.isEmpty():
            # The first micro-batch of a run may have zero rows; a snapshot without rows would be useless.
            return
        for attempt in range(_ATTEMPTS):
            target = self._looked(spark, table, commit, again=attempt > 0)
            if target is None:
                return
            # After reading the table: it shows earlier commits of another copy, and this check stops the run if that copy is
            # newer.
            commit.run.check(spark)
            if _onto(_marked(df, table, options, commit), target.head):
                self._last[commit.writer] = batch_id
                return
        # Others add to the table faster than this micro-batch can be written.
        if self._looked(spark, table, commit, again=True) is not None:
            commit.run.check(spark)
            _marked(df, table, options, commit).append()
            self._last[commit.writer] = batch_id

    def _looked(self, spark: SparkSession, table: str, commit: Commit, *, again: bool) -> Target | None:
        """Return the table state to add the micro-batch to, or None if the table has the micro-batch."""
        if again or commit.writer not in self._last:
            refresh(spark, table)
        target = target_of(spark, table)
        if target.wap_enabled and spark.conf.get(WAP_ID, None) is not None:
            raise SinkError(
                f"the session stages what it writes to {table} ({WAP_ID} is set): the rows would never be in the table. "
                "Unset it; to review them before they are published, set spark.wap.branch instead"
            )
        if again or commit.writer not in self._last:
            self._last[commit.writer] = _last_there(spark, target, commit)
        return None if commit.batch_id is None or commit.batch_id <= self._last[commit.writer] else target


def _marked(df: DataFrame, table: str, options: Mapping[str, str], commit: Commit) -> DataFrameWriterV2:
    marks = {_PROPERTY + WRITER: commit.writer, _PROPERTY + BATCH: str(commit.batch_id)}
    return df.writeTo(quoted_name(table)).options(**{**dict(options), **marks})


def _onto(writer: DataFrameWriterV2, head: int | None) -> bool:
    """Add the rows if others added none since ``head``. Otherwise commit nothing and return False."""
    from pyspark.sql import functions as F

    writer = writer.option("isolation-level", "serializable")
    if head is not None:
        writer = writer.option("validate-from-snapshot-id", str(head))
    try:
        writer.overwrite(F.lit(False))
    except Exception as error:
        if any(words in str(error) for words in _CAME_BEFORE):
            return False
        raise
    return True


def _last_there(spark: SparkSession, target: Target, commit: Commit) -> int:
    """Return the last micro-batch of the writer in a table, or -1. Raises SinkError if too many snapshots were expired."""
    history = target.history(spark, commit.writer)
    said = target.properties.get(_said(commit))
    if said is not None and said.lstrip("-").isdigit():
        return max(int(said), -1 if history.last is None else history.last)
    if history.last is not None:
        return history.last
    if history.whole or _reaches_back(spark, history.oldest, commit):
        return -1
    raise SinkError(_forgotten(target, commit, history.oldest))


def _reaches_back(spark: SparkSession, oldest: int | None, commit: Commit) -> bool:
    """Return whether all expired snapshots are older than the micro-batch's plan, so none of them can be its commit."""
    planned = None if commit.batch_id is None else commit.run.planned_at(spark, commit.batch_id)
    return planned is not None and oldest is not None and oldest + _CLOCKS_APART < planned


def _said(commit: Commit) -> str:
    """Return the table property in which the owner can record the last micro-batch if the snapshots are expired."""
    return f"panestream-last/{commit.writer}"


def _forgotten(target: Target, commit: Commit, oldest: int | None) -> str:
    number, table = commit.batch_id or 0, target.table
    since = "" if oldest is None else f" of before {datetime.fromtimestamp(oldest / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"it is unknown if micro-batch {number} is in the table {table}: it was planned before the query stopped, and the "
        f"table's snapshots{since} have expired since, perhaps including its own. Check if its rows are in the table, then "
        f"record it: ALTER TABLE {table} SET TBLPROPERTIES ('{_said(commit)}' = '{number}') if they are, = '{number - 1}' if "
        f"not; and keep snapshots for longer than the query may be down"
    )
