"""Check, before a query starts, whether it can start from a savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from panestream.engine.kernels.columns import Ints
from panestream.engine.plan import WindowPlan, check_taken_over
from panestream.engine.savepoint.added import check_added
from panestream.engine.savepoint.key_groups import new_groups
from panestream.engine.savepoint.migration import check_migrations, migrated, migrated_identity
from panestream.engine.storage.state_tables import StateTables
from panestream.errors import CheckpointError, PlanMismatchError, warn
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.checkpoint.spark_logs import last_committed
from panestream.spark.failures import as_ours
from panestream.spark.savepoint.initial_state import RestorePlan, refusal
from panestream.spark.savepoint.saved import Savepoint, read_savepoint
from panestream.spark.session import session_settings, settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def savepoint_for(spark: SparkSession, path: str, checkpoint: str) -> Savepoint | RestoredFrom:
    """Return the savepoint that a checkpoint begins with, or only the record of it if the checkpoint has committed since.

    In that case the savepoint is not needed any more and may be deleted. Raises the errors of :func:`read_savepoint`.
    """
    restored_from = RestoredFrom.of_json((newest_entry(spark, checkpoint) or {}).get("born"))
    if restored_from is not None and last_committed(spark, checkpoint) >= 0:
        try:
            name = read_savepoint(spark, path).manifest.name
        except CheckpointError:
            name = restored_from.name if restored_from.lies_at(path) else ""
        if name == restored_from.name:
            return restored_from
    return read_savepoint(spark, path)


def cutover_time(spark: SparkSession, saved: Savepoint | RestoredFrom | None, checkpoint: str) -> int | None:
    """Return the time before which rows are in the history that a query started from, or None."""
    if saved is None:
        restored_from = RestoredFrom.of_json((newest_entry(spark, checkpoint) or {}).get("born"))
        return None if restored_from is None else restored_from.until
    return saved.restored_from.until if isinstance(saved, Savepoint) else saved.until


def check_start(savepoint: Savepoint, plan: WindowPlan, *, allow_incomplete: bool = False) -> None:
    """Refuse to start a plan from a savepoint that is incomplete or does not fit. Runs Spark jobs.

    ``allow_incomplete`` permits new aggregates even if no result marks that they lack the earlier rows.

    Raises:
        PlanMismatchError: with all differences.
        InvalidPlanError: a conversion is given for a value that the query does not keep.
        StateDamagedError: rows of the savepoint are missing, duplicated or changed.
    """
    manifest = savepoint.manifest
    check_migrations(savepoint.migrate, plan)
    check_taken_over(migrated_identity(manifest.plan.identity(), savepoint.migrate, plan), plan)
    taken = RestorePlan.of(savepoint, plan)
    if plan.groups != manifest.groups:
        for table in taken.empty.values():
            new_groups(table, plan, _of_no_rows, plan.groups, 0, manifest.groups)
    taken.state_of(0, [])
    first = migrated(StateTables(manifest.headers[0], taken.empty), savepoint.migrate, plan)
    check_added(first.header, plan, allow_incomplete=allow_incomplete)
    savepoint.check_whole()
    if not savepoint.has_checksums:
        warn(
            f"the savepoint {savepoint.path} has no checksums, an earlier panestream wrote it: that all its rows are there was "
            "checked, and not that they are what was written. A savepoint that is taken now has them"
        )
    if manifest.plan.identity()["windows"] != plan.identity()["windows"]:
        # Only the rows show whether the old panes fit into new ones.
        spark = savepoint.spark
        with session_settings(spark, settings_for(spark, plan.groups)), as_ours():
            why = refusal(savepoint, plan)
        if why is not None:
            raise PlanMismatchError(why)


def _of_no_rows(_keys: object, _groups: int) -> Ints:
    return np.zeros(0, np.int64)


__all__ = ["check_start", "cutover_time", "savepoint_for"]
