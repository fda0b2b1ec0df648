"""A savepoint is taken: the state of all key groups after one micro-batch, as Parquet, with a manifest."""

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
from panestream.spark.checkpoint import newest_entry, succession_of
from panestream.spark.failures import as_ours, writing
from panestream.spark.operator.without_pandas import without_pandas
from panestream.spark.places import FilePath, escaped, path_of
from panestream.spark.savepoint.addresses import readable_path
from panestream.spark.savepoint.beginning import save_positions
from panestream.spark.savepoint.checksums import FileSums, file_sums, total
from panestream.spark.savepoint.damage import reading
from panestream.spark.savepoint.manifest import Manifest, check_free, table_folder, versions, write_manifest
from panestream.spark.savepoint.pieces import rows_of_pieces, with_group
from panestream.spark.savepoint.reading import read_checkpoint
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.session import ARROW_BYTES, ARROW_ROWS, session_settings
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", ARROW_ROWS: "64", ARROW_BYTES: str(64 << 20)}
"""What Parquet calls a time, for those who read it with other tools; and how much goes to Python at once: rows are large here."""


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
    """Takes a savepoint: the state of a query as Parquet, for another query to start from.

    Needs nothing of the job's code. The job may run meanwhile, and go on afterwards; but the one that starts from the savepoint
    has all rows from there on, too: stop the old one first where both write to the same places.

    Args:
        spark: a session, classic or Spark Connect's.
        checkpoint: the checkpoint.
        path: a folder that holds nothing yet. It is a savepoint once all is there: a call that was broken off leaves none.
        batch_id: after which micro-batch; None: the last that was committed.
        allow_pickled_state: whether pickles in it are read, which runs what is in them: for queries with
            ``.options(allow_pickled_state=True)``, where nobody else can write to the checkpoint.

    Returns:
        The savepoint, as :func:`read_savepoint` has it.

    Raises:
        CheckpointError: there is no such checkpoint or micro-batch; the folder holds something; the query has other operators
            with state, of which the savepoint would know nothing.
        StateDamagedError: the state of a key group cannot be read, or is gone.
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
    """What :func:`savepoint` does; ``told`` of each step when it begins, in words."""
    checkpoint = path_of(checkpoint, "a savepoint is taken of a checkpoint, a folder", CheckpointError)
    path = path_of(path, "a savepoint needs a folder", CheckpointError)
    told(f"looking into {checkpoint}")
    state = read_checkpoint(spark, checkpoint, batch_id, allow_pickled_state=allow_pickled_state)
    entry = newest_entry(spark, checkpoint, state.batch_id) or {}
    check_free(spark, path)
    _check_alone(spark, checkpoint)
    manifest = Manifest(
        saved_plan=entry["plan"],
        headers=[],
        tables={},
        batch_id=state.batch_id,
        checkpoint=checkpoint,
        succession=succession_of(spark, checkpoint, state.batch_id).as_saved(),
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
    manifest: Manifest,
    told: Callable[[str], Any] = _to_nobody,
) -> Savepoint:
    """Writes tables, then the manifest.

    Args:
        spark: the session.
        path: the folder, which holds nothing.
        plan: the query's.
        headers: of all key groups (:data:`~panestream.spark.savepoint.values.HEADERS`).
        tables: of all key groups (:data:`~panestream.spark.savepoint.values.TABLE_PARTS`).
        manifest: what else is known; headers, tables, versions and the time are filled in.
        told: is told of each step when it begins, in words.

    Raises:
        StateDamagedError: the state of a key group is gone, or that of several is not of the same micro-batch.
    """
    with as_ours():
        told("reading the state")
        found = _by_group(headers, plan)
    _check_together(found)
    empty = no_state(plan)
    # Disk: each table is a pass over all, and the state may be larger than the memory.
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
    """The state tables of a key group that has nothing: their names and columns, and the header that it begins with."""
    return plan.operator.for_group(plan, MemoryState(), group).tables()


def _check_together(headers: Sequence[Mapping[str, Any]]) -> None:
    """Refuses key groups of several micro-batches."""
    try:
        header_of_all(headers)
    except PlanMismatchError:
        return  # each has something of its own: they start in the same number only


def _by_group(headers: DataFrame, plan: WindowPlan) -> list[Mapping[str, Any]]:
    """The headers in the order of key groups: few, and small."""
    found = {row.key_group: json.loads(row.header) for row in headers.collect()}
    if not found:
        # No row has come: the first one calls all key groups, each is told of its time.
        found = {group: no_state(plan, group).header for group in range(plan.groups)}
    gone = next((group for group in range(plan.groups) if group not in found), None)
    if gone is not None:
        raise StateDamagedError(f"the state of key group {gone} is gone: there are {len(found)} of {plan.groups}", gone)
    return [found[group] for group in range(plan.groups)]


def _check_alone(spark: SparkSession, checkpoint: str) -> None:
    """Refuses a query with other operators that have state: they would begin anew where this one goes on."""
    known = spark.read.format("state-metadata").load(readable_path(spark, checkpoint))
    rows = known.select("operatorId", "operatorName").distinct().collect()
    others = sorted(f"{row.operatorName} ({row.operatorId})" for row in rows)
    if len(others) > 1:
        raise CheckpointError(
            f"the query of the checkpoint {checkpoint} has {len(others)} operators with state ({', '.join(others)}): a savepoint "
            "holds that of one. Write what comes before the windows to a table or a topic, by a query of its own"
        )
