"""Read a checkpoint without running a query: locate its state, validate it, and return it for decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from panestream.engine.plan import WindowPlan
from panestream.engine.savepoint.plans import plan_of
from panestream.errors import CheckpointError
from panestream.spark.places import FilePath, path_of
from panestream.spark.savepoint.decode import StoredState, operator_and_plan, operator_of
from panestream.spark.savepoint.inspectable_state import CheckpointState
from panestream.spark.savepoint.locate import StateLocation, locate
from panestream.spark.savepoint.validate import validate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_checkpoint(
    spark: SparkSession,
    path: FilePath,
    batch_id: int | None = None,
    *,
    plan: WindowPlan | None = None,
    operator: str | None = None,
    allow_pickled_state: bool = False,
) -> CheckpointState:
    """Read a checkpoint, even while its query runs. The job's code is not needed, since the checkpoint contains the plan.

    The call reads only the metadata of the state. Executors read the state itself when one of the DataFrames is used.

    Args:
        spark: a classic or Spark Connect session.
        path: the checkpoint.
        batch_id: the micro-batch after which to read the state, or None for the last committed one. Spark keeps the last 100
            (``spark.sql.streaming.minBatchesToRetain``).
        plan: ``result.plan`` of the operator to read, if ``start`` was called on another one, as in windows over the results of
            windows. It is also required if the query was started by ``.main.writeStream``, because such a checkpoint lacks the
            plan.
        operator: the name of the operator to read (``.uid(...)``), in a query of several. None is the last.
        allow_pickled_state: whether to read pickles, which runs the code in them. Only for queries with
            ``.options(allow_pickled_state=True)`` whose checkpoint nobody else can write to. A given ``plan`` has its own
            setting.

    Returns:
        The state as DataFrames.

    Raises:
        CheckpointError: the checkpoint does not exist, has a query without panestream's windows, or does not have the micro-batch
            (any more). Also if neither the checkpoint nor the caller gives a plan, or several operators run it, or the query does
            not have the operator.
        PlanMismatchError: no operator of the query runs the given plan.
        StateFormatError: a newer panestream wrote it.
        StateDamagedError: its entry cannot be read, or Spark's metadata of the state is missing.

    Examples:
        >>> state = pst.state.read_checkpoint(spark, checkpoint)
        >>> state.batch_id, state.windows.columns[:4]
        (0, ['key', 'window', 'window_start', 'window_end'])
    """
    path = path_of(path, "a checkpoint is a folder", CheckpointError)
    found = locate(spark, path, batch_id)
    validate(found, plan)
    operators, batch_id = found.operators, found.batch_id
    if plan is not None:
        stored = StoredState(spark, path, batch_id, plan, address=found.address)
        number, known = operator_and_plan(stored, operators, plan)
        return CheckpointState(replace(stored, plan=known, operator_id=number))
    if operator is not None or len(operators) == len(found.uids) > 1:
        return CheckpointState(stored_operator(found, operator or found.uid, pickles=allow_pickled_state), found.uids)
    saved = plan_of(found.saved_plan or {}, pickles=allow_pickled_state)
    stored = StoredState(spark, path, batch_id, saved, min(operators), found.address)
    if len(operators) > 1:
        stored = replace(stored, operator_id=operator_of(stored, operators, saved.identity()))
    return CheckpointState(stored)


def stored_operator(found: StateLocation, uid: str, *, pickles: bool) -> StoredState:
    """Return the state of an operator by its name; raises CheckpointError if the checkpoint does not have it or its plan."""
    number = found.number_of(uid)
    place = found.uids.index(uid)
    saved = found.saved_plan if place == len(found.before) else found.before[place]["plan"]
    if saved is None:
        raise CheckpointError(f"the operator {uid!r} of the checkpoint {found.path} is of another package: give plan=")
    return StoredState(found.spark, found.path, found.batch_id, plan_of(saved, pickles=pickles), number, found.address)
