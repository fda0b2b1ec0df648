"""Validate what was found in a checkpoint before its state is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from panestream.engine.plan import WindowPlan
from panestream.errors import CheckpointError, StateDamagedError
from panestream.spark.checkpoint.records import list_files
from panestream.spark.checkpoint.spark_logs import logged
from panestream.spark.places import escaped
from panestream.spark.savepoint.decode import WAY_OUT
from panestream.spark.savepoint.locate import StateLocation
from panestream.spark.savepoint.manifest import is_savepoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def validate(found: StateLocation, plan: WindowPlan | None) -> None:
    """Refuse a checkpoint whose state cannot be read; ``plan`` is the caller's plan.

    Raises:
        CheckpointError: it has no micro-batch, or not this one, no plan, or no state of panestream.
        StateDamagedError: Spark's metadata of the state or a partition is missing.
    """
    path = found.path
    if not found.committed:
        _refuse_empty(found.spark, path, known=bool(found.entry))
    if plan is None and found.saved_plan is None:
        raise CheckpointError(
            f"the checkpoint {path} does not contain the plan of its query: "
            + ("it was not created by start()" if not found.entry else "an operator of another package runs it")
            + ". Give the plan of the query: read_checkpoint(spark, path, plan=result.plan)"
        )
    if not found.operators and found.saved_plan is not None:
        raise StateDamagedError(
            f"Spark's metadata of the state in the checkpoint {path} is missing (state/*/_metadata). Put back a copy of the "
            f"whole "
            "checkpoint from before the damage"
        )
    if not found.operators:
        raise CheckpointError(f"the checkpoint {path} is of a query without windows of panestream's")
    for operator_id, partitions in found.operators.items():
        check_last_partition(found.spark, path, operator_id, partitions)
    if found.batch_id not in found.with_state:
        which = f"it has {_ranges(found.with_state)}" if found.with_state else "Spark has cleaned all of its state"
        raise CheckpointError(f"the checkpoint {path} has no micro-batch {found.batch_id}: {which}")


def check_last_partition(spark: SparkSession, path: str, operator_id: int, partitions: int) -> None:
    """Raise StateDamagedError if the last of ``partitions`` is missing: Spark's reader only counts the existing folders."""
    folder = f"state/{operator_id}/{partitions - 1}"
    if not list_files(spark, f"{escaped(path)}/{folder}"):
        raise StateDamagedError(f"the state of the checkpoint {path} cannot be read: {folder} is missing. {WAY_OUT}")


def _refuse_empty(spark: SparkSession, path: str, *, known: bool) -> NoReturn:
    """Raise the error about a checkpoint without a micro-batch; ``known`` if a query was started there."""
    if known or logged(spark, path, "offsets"):
        raise CheckpointError(f"the checkpoint {path} has no micro-batch: none was committed yet")
    if is_savepoint(spark, path):
        raise CheckpointError(f"{path} is a savepoint, not a checkpoint. Read it with pst.state.read_savepoint(spark, folder)")
    there = "" if list_files(spark, f"{escaped(path.rstrip('/'))}/*") else ": it does not exist"
    raise CheckpointError(f"{path} is not a checkpoint of a streaming query{there}")


def _ranges(numbers: Sequence[int]) -> str:
    """Shorten a list of micro-batches, which are mostly consecutive."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join(" to ".join(map(str, part)) for part in parts)
