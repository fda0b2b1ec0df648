"""Read a checkpoint as DataFrames without running a query: open windows, kept elements, user state, timers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import DataFrame

from panestream.engine.explain import listed
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.savepoint.plans import plan_of
from panestream.errors import CheckpointError, StateDamagedError
from panestream.inspection.asked import StateFilter
from panestream.inspection.summary import Summary
from panestream.spark.batch_output import merge_split_timers, merge_split_windows
from panestream.spark.checkpoint.epoch import newest_entry
from panestream.spark.checkpoint.records import list_files
from panestream.spark.checkpoint.spark_logs import logged
from panestream.spark.places import FilePath, escaped, path_of
from panestream.spark.savepoint.damage import check_last_partition
from panestream.spark.savepoint.manifest import is_savepoint
from panestream.spark.savepoint.operators import held, operator_and_plan, operator_of, operators_in
from panestream.spark.savepoint.shown_state import ShownState
from panestream.spark.savepoint.summarizing import summary_of_stored
from panestream.spark.savepoint.values import StoredState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class CheckpointState(ShownState):
    """The state of a query after one micro-batch; see :func:`read_checkpoint`. ``stored`` gives state tables and headers."""

    stored: StoredState

    @property
    def path(self) -> str:
        """The checkpoint."""
        return self.stored.path

    @property
    def batch_id(self) -> int:
        """The micro-batch."""
        return self.stored.batch_id

    @property
    def plan(self) -> WindowPlan:
        """The plan in the checkpoint. User functions are present only by name."""
        return self.stored.plan

    def _parts(self) -> Mapping[str, str]:
        keys = listed(self.plan.key_names) or "none"
        return {
            "checkpoint": self.path,
            "micro-batch": str(self.batch_id),
            "windows": stable_repr(self.plan.assigner),
            "key": keys,
        }

    @cached_property
    def watermarks(self) -> DataFrame:
        """The watermarks: a row for each key group and source partition. All key groups of a micro-batch agree."""
        return self.stored.watermarks()

    @cached_property
    def windows(self) -> DataFrame:
        """The open windows: a row for each key and window that still accepts rows or will fire."""
        shown = self.stored.view("windows")
        return shown if self.plan.split is None else merge_split_windows(shown, self.plan)

    @cached_property
    def elements(self) -> DataFrame:
        """The rows that are kept for functions and evictors."""
        return self.stored.view("elements")

    @cached_property
    def user_state(self) -> DataFrame:
        """The state of users' triggers and functions, by descriptor."""
        return self.stored.view("user_state")

    @cached_property
    def timers(self) -> DataFrame:
        """The due timers for each key and window."""
        shown = self.stored.view("timers")
        return shown if self.plan.split is None else merge_split_timers(shown)

    def _summary(self, asked: StateFilter) -> Summary:
        return summary_of_stored(self.stored, asked)


def read_checkpoint(
    spark: SparkSession,
    path: FilePath,
    batch_id: int | None = None,
    *,
    plan: WindowPlan | None = None,
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
        allow_pickled_state: whether to read pickles, which runs the code in them. Only for queries with
            ``.options(allow_pickled_state=True)`` whose checkpoint nobody else can write to. A given ``plan`` has its own
            setting.

    Returns:
        The state as DataFrames.

    Raises:
        CheckpointError: the checkpoint does not exist, has a query without panestream's windows, or does not have the micro-batch
            (any more). Also if neither the checkpoint nor the caller gives a plan, or several operators run it.
        PlanMismatchError: no operator of the query runs the given plan.
        StateFormatError: a newer panestream wrote it.
        StateDamagedError: its entry cannot be read, or Spark's metadata of the state is missing.
    """
    path = path_of(path, "a checkpoint is a folder", CheckpointError)
    committed = logged(spark, path, "commits")
    last = max(committed, default=-1)
    entry = newest_entry(spark, path, last if batch_id is None else batch_id)
    if not committed:
        _refuse_empty(spark, path, known=entry is not None)
    saved = None if entry is None else entry.get("plan")
    if plan is None and saved is None:
        raise CheckpointError(
            f"the checkpoint {path} does not say what its query computes: "
            + ("start() did not begin it" if entry is None else "an operator of another package runs it")
            + ". Give the plan of the query: read_checkpoint(spark, path, plan=result.plan)"
        )
    operators = operators_in(spark, path)
    if not operators and saved is not None:
        raise StateDamagedError(
            f"what Spark says of the state in the checkpoint {path} is gone (state/*/_metadata): put back a copy of the whole "
            "checkpoint from before the damage"
        )
    if not operators:
        raise CheckpointError(f"the checkpoint {path} is of a query without windows of panestream's")
    asked = last if batch_id is None else batch_id
    for operator_id, partitions in operators.items():
        check_last_partition(spark, path, operator_id, partitions)
    first = next(iter(operators))
    there = held(spark, path, first)
    if asked not in there:
        which = f"it has {_in_words(there)}" if there else "Spark has cleaned all of its state"
        raise CheckpointError(f"the checkpoint {path} has no micro-batch {asked}: {which}")
    if plan is None:
        stored = StoredState(spark, path, asked, plan_of(saved or {}, pickles=allow_pickled_state), first)
        if len(operators) > 1:
            stored = replace(stored, operator_id=operator_of(stored, operators, stored.plan.identity()))
        return CheckpointState(stored)
    operator, plan = operator_and_plan(StoredState(spark, path, asked, plan), operators, plan)
    return CheckpointState(StoredState(spark, path, asked, plan, operator))


def _refuse_empty(spark: SparkSession, path: str, *, known: bool) -> NoReturn:
    """Raise the error about a checkpoint without a micro-batch; ``known`` if a query was started there."""
    if known or logged(spark, path, "offsets"):
        raise CheckpointError(f"the checkpoint {path} has no micro-batch: none was committed yet")
    if is_savepoint(spark, path):
        raise CheckpointError(f"{path} is a savepoint, and no checkpoint: pst.state.read_savepoint(spark, folder) looks into it")
    there = "" if list_files(spark, f"{escaped(path.rstrip('/'))}/*") else ": there is nothing"
    raise CheckpointError(f"{path} is no checkpoint of a streaming query{there}")


def _in_words(numbers: Sequence[int]) -> str:
    """Shorten a list of micro-batches, which are mostly consecutive."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join(" to ".join(map(str, part)) for part in parts)
