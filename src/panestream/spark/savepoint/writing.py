"""Take a savepoint: write the state of all key groups after one micro-batch as Parquet, with a manifest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.key_groups import header_of_all
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import CheckpointError, PlanMismatchError, StateDamagedError
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.spark.checkpoint.lease import lineage_of
from panestream.spark.compat import without_pandas
from panestream.spark.failures import as_ours, writing
from panestream.spark.places import FilePath, escaped, path_of
from panestream.spark.savepoint.addresses import readable_path
from panestream.spark.savepoint.beginning import save_positions
from panestream.spark.savepoint.checksums import FileSums, file_sums, total
from panestream.spark.savepoint.damage import reading
from panestream.spark.savepoint.manifest import SavepointManifest, check_free, table_folder, versions, write_manifest
from panestream.spark.savepoint.pieces import rows_of_pieces, with_group
from panestream.spark.savepoint.reading import read_checkpoint
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.session import ARROW_BYTES, ARROW_ROWS, session_settings
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", ARROW_ROWS: "64", ARROW_BYTES: str(64 << 20)}
"""Parquet's type of times, for other tools that read them, and smaller batches to Python, since rows are large here."""


def _to_nobody(_step: str) -> None:
    pass


def savepoint(
    spark: SparkSession,
    checkpoint: FilePath,
    path: FilePath,
    batch_id: int | None = None,
    *,
    allow_pickled_state: bool = False,
) -> Savepoint:
    """Take a savepoint: write the state of a query as Parquet, for another query to start from.

    The job's code is not needed. The job may run meanwhile and continue afterwards. A query that starts from the savepoint gets
    all later rows too, so stop the old query first if both write to the same places.

    Args:
        spark: a classic or Spark Connect session.
        checkpoint: the checkpoint.
        path: an empty folder. It becomes a savepoint only when everything is written, so an interrupted call leaves none.
        batch_id: the micro-batch after which to take it, or None for the last committed one.
        allow_pickled_state: whether to read pickles, which runs the code in them. Only for queries with
            ``.options(allow_pickled_state=True)`` whose checkpoint nobody else can write to.

    Returns:
        The savepoint, as from :func:`read_savepoint`.

    Raises:
        CheckpointError: the checkpoint or micro-batch does not exist, or the folder is not empty. Also if the query has other
            stateful operators, which the savepoint would not contain.
        StateDamagedError: the state of a key group is missing or cannot be read.
        StateFormatError: a newer panestream wrote it.
    """
    return take(spark, checkpoint, path, batch_id, _to_nobody, allow_pickled_state=allow_pickled_state)


def take(
    spark: SparkSession,
    checkpoint: FilePath,
    path: FilePath,
    batch_id: int | None,
    told: Callable[[str], Any],
    *,
    allow_pickled_state: bool = False,
) -> Savepoint:
    """Take a savepoint as :func:`savepoint`, and describe each step to ``told`` when it begins."""
    checkpoint = path_of(checkpoint, "a savepoint is taken of a checkpoint, a folder", CheckpointError)
    path = path_of(path, "a savepoint needs a folder", CheckpointError)
    told(f"looking into {checkpoint}")
    state = read_checkpoint(spark, checkpoint, batch_id, allow_pickled_state=allow_pickled_state)
    entry = newest_entry(spark, checkpoint, state.batch_id) or {}
    check_free(spark, path)
    _check_alone(spark, checkpoint)
    manifest = SavepointManifest(
        saved_plan=entry["plan"],
        headers=[],
        tables={},
        batch_id=state.batch_id,
        checkpoint=checkpoint,
        succession=lineage_of(spark, checkpoint, state.batch_id).as_saved(),
        sources=save_positions(spark, checkpoint, state.batch_id, path, signals=bool(entry.get("signals"))),
    )
    with reading(state.stored):
        taken = write_savepoint(spark, path, state.plan, state.stored.headers(), state.stored.tables(), manifest, told)
        return replace(taken, allow_pickled_state=allow_pickled_state)


def write_savepoint(
    spark: SparkSession,
    path: str,
    plan: WindowPlan,
    headers: DataFrame,
    tables: DataFrame,
    manifest: SavepointManifest,
    told: Callable[[str], Any] = _to_nobody,
) -> Savepoint:
    """Write tables, then the manifest, into an empty folder.

    ``headers`` and ``tables`` are of all key groups, as :data:`~panestream.spark.savepoint.values.HEADERS` and ``TABLE_PARTS``.
    They complete the manifest, with versions and the time. ``told`` gets a description of each step when it begins. Raises
    StateDamagedError if a key group is missing, or key groups are of several micro-batches.
    """
    with as_ours():
        told("reading the state")
        found = _by_group(headers, plan)
    _check_together(found)
    empty = no_state(plan)
    # Disk, because each table is a pass over all rows, and the state may be larger than the memory.
    parts = tables.select("key_group", "table", "body").persist(StorageLevel.DISK_ONLY)
    written: dict[str, int] = {}
    checksums: dict[str, FileSums] = {}
    try:
        with session_settings(spark, _SETTINGS), without_pandas(), as_ours():
            for name, table in empty.tables.items():
                told(f"writing {name} ({len(written) + 1} of {len(empty.tables)})")
                mine = parts.where(F.col("table") == name).select("key_group", "body")
                rows = mine.mapInArrow(rows_of_pieces(table.schema), spark_schema(with_group(table.schema)))
                with writing(path):
                    rows.write.mode("overwrite").parquet(table_folder(path, name))
                there = spark.read.schema(rows.schema).parquet(table_folder(escaped(path), name))
                checksums[name] = file_sums(there)
                written[name], _ = total(checksums[name])
    finally:
        parts.unpersist()
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    whole = replace(manifest, headers=found, tables=written, checksums=checksums, versions=versions(spark), taken_at=now)
    write_manifest(spark, path, whole)
    return Savepoint(path, whole, spark)


def no_state(plan: WindowPlan, group: int = 0) -> StateTables:
    """Return the state tables of an empty key group: names, columns and the initial header."""
    return plan.operator.for_group(plan, MemoryState(), group).tables()


def _check_together(headers: Sequence[Mapping[str, Any]]) -> None:
    """Refuse key groups of several micro-batches."""
    try:
        header_of_all(headers)
    except PlanMismatchError:
        return  # their headers differ: they can only start with the same number of key groups


def _by_group(headers: DataFrame, plan: WindowPlan) -> list[Mapping[str, Any]]:
    """Return the headers, which are small, in the order of key groups."""
    found = {row.key_group: json.loads(row.header) for row in headers.collect()}
    if not found:
        # No row has arrived yet. The first row calls all key groups, which then get their time.
        found = {group: no_state(plan, group).header for group in range(plan.groups)}
    gone = next((group for group in range(plan.groups) if group not in found), None)
    if gone is not None:
        raise StateDamagedError(f"the state of key group {gone} is gone: there are {len(found)} of {plan.groups}", gone)
    return [found[group] for group in range(plan.groups)]


def _check_alone(spark: SparkSession, checkpoint: str) -> None:
    """Refuse a query with other stateful operators, which would start empty."""
    known = spark.read.format("state-metadata").load(readable_path(spark, checkpoint))
    rows = known.select("operatorId", "operatorName").distinct().collect()
    others = sorted(f"{row.operatorName} ({row.operatorId})" for row in rows)
    if len(others) > 1:
        raise CheckpointError(
            f"the query of the checkpoint {checkpoint} has {len(others)} operators with state ({', '.join(others)}): a savepoint "
            "holds that of one. Write what comes before the windows to a table or a topic, by a query of its own"
        )
