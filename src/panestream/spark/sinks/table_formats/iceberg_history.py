"""Read the micro-batches of a writer from the ancestors of an Iceberg table's current snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panestream.spark.columns import quoted
from panestream.spark.sinks.table_formats.base import is_true

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

MAIN = "main"
WRITER, BATCH = "panestream-writer", "panestream-batch-id"
"""Properties of a snapshot's summary."""

_BRANCH = "branch_"
_WAP_ENABLED, _WAP_BRANCH, WAP_ID = "write.wap.enabled", "spark.wap.branch", "spark.wap.id"


@dataclass(frozen=True)
class IcebergSnapshot:
    """One snapshot of a table; ``committed`` is in milliseconds since 1970 by the writer's clock.

    ``batch`` is the micro-batch of the writer in question, or None if another writer committed it.
    """

    name: int
    parent: int | None
    committed: int
    batch: int | None


@dataclass(frozen=True)
class IcebergHistory:
    """The writer's newest micro-batch, if any, among the ancestors of a table's current snapshot, without rolled-back snapshots.

    ``whole`` is whether all snapshots exist, back to the first. ``oldest`` is the oldest one's commit, milliseconds since 1970.
    """

    last: int | None
    whole: bool = True
    oldest: int | None = None


def walk(head: int | None, snapshots: Iterable[IcebergSnapshot]) -> IcebergHistory:
    """Follow the parents of ``head`` until one is the writer's or is missing.

    >>> walk(2, [IcebergSnapshot(1, None, 1000, 7), IcebergSnapshot(2, 1, 2000, None), IcebergSnapshot(3, 1, 3000, 8)])
    IcebergHistory(last=7, whole=True, oldest=None)
    >>> walk(2, [IcebergSnapshot(2, 1, 2000, None)])
    IcebergHistory(last=None, whole=False, oldest=2000)
    """
    known = {each.name: each for each in snapshots}
    at, oldest = head, None
    while at is not None:
        if at not in known:
            return IcebergHistory(None, whole=False, oldest=oldest)
        if known[at].batch is not None:
            return IcebergHistory(known[at].batch)
        oldest, at = known[at].committed, known[at].parent
    return IcebergHistory(None)


@dataclass(frozen=True)
class Target:
    """The state of a table before a write: its SQL name without the branch, and the branch's current snapshot, ``head``."""

    table: str
    branch: str
    head: int | None
    properties: Mapping[str, str]

    @property
    def wap_enabled(self) -> bool:
        """True if sessions may divert writes to another branch."""
        return is_true(self.properties.get(_WAP_ENABLED))

    def history(self, spark: SparkSession, writer: str) -> IcebergHistory:
        from pyspark.sql import functions as F

        return self._history(spark, F.col("summary")[WRITER] == F.lit(writer))

    def history_of_others(self, spark: SparkSession, lineage: str, writer: str) -> IcebergHistory:
        from pyspark.sql import functions as F

        theirs = F.col("summary")[WRITER]
        # Same rule as in panestream.spark.checkpoint.lineage.is_writer_of.
        return self._history(spark, (F.regexp_replace(theirs, r"\+[^/]*/", "/") == F.lit(lineage)) & (theirs != F.lit(writer)))

    def _history(self, spark: SparkSession, theirs: Column) -> IcebergHistory:
        from pyspark.sql import functions as F

        batch = F.when(theirs, F.col("summary")[BATCH].cast("bigint"))
        committed = F.unix_millis("committed_at").alias("committed")
        every = spark.table(f"{self.table}.snapshots").select("snapshot_id", "parent_id", committed, batch.alias("batch"))
        rows = every.collect()
        return walk(self.head, (IcebergSnapshot(row.snapshot_id, row.parent_id, row.committed, row.batch) for row in rows))


def target_of(spark: SparkSession, name: str) -> Target:
    """Return the state of the table and branch to which this session writes ``name``."""
    from pyspark.sql import functions as F

    parts, branch = _without_branch(name)
    table = _whole(spark, parts)
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    if is_true(properties.get(_WAP_ENABLED)):
        branch = branch or spark.conf.get(_WAP_BRANCH, None)
    branch = branch or MAIN
    head = properties.get("current-snapshot-id", "none")
    main = None if head == "none" else int(head)
    if branch == MAIN:
        return Target(table, branch, main, properties)
    found = spark.table(f"{table}.refs").where(F.col("name") == F.lit(branch)).collect()
    # A new branch begins at the table's current snapshot.
    return Target(table, branch, found[0].snapshot_id if found else main, properties)


def refresh(spark: SparkSession, name: str) -> None:
    """Refresh the session's cached table, which may be older than commits of others."""
    spark.sql(f"REFRESH TABLE {_whole(spark, _without_branch(name)[0])}")


def _without_branch(name: str) -> tuple[list[str], str | None]:
    """Split a table's name into its parts and its branch, in Iceberg's notation.

    >>> _without_branch("shop.clicks.branch_audit")
    (['shop', 'clicks'], 'audit')
    >>> _without_branch("`shop`.`clicks`")
    (['shop', 'clicks'], None)
    """
    parts = [part.strip("`") for part in name.split(".")]
    branch = parts.pop().removeprefix(_BRANCH) if len(parts) > 1 and parts[-1].startswith(_BRANCH) else None
    return parts, branch


def _whole(spark: SparkSession, parts: list[str]) -> str:
    """Return a table's full SQL name. In a shorter ``table.snapshots`` the table would be read as a schema."""
    if len(parts) == 1:
        parts = [*filter(None, [spark.catalog.currentDatabase()]), *parts]
    if len(parts) == 2 and spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is None:
        parts = [spark.catalog.currentCatalog(), *parts]
    return ".".join(map(quoted, parts))
