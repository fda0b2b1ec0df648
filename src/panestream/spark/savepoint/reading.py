"""What is in a checkpoint, as DataFrames: open windows, kept elements, users' states, timers. No query runs for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.savepoint.plans import plan_of
from panestream.engine.shown import Shown, listed
from panestream.errors import CheckpointError
from panestream.inspection.asked import asked_of
from panestream.inspection.merging import Looked
from panestream.inspection.summary import Summary
from panestream.spark.checkpoint import last_committed, newest_entry, planned_at
from panestream.spark.savepoint.summarizing import summarized
from panestream.spark.savepoint.values import StoredState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class CheckpointState(Shown):
    """The state of a query as it was after one micro-batch; see :func:`read_checkpoint`.

    Attributes:
        stored: where its state is, for what is built on it: state tables and headers.
    """

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
        """The query's, as the checkpoint tells it: of functions of users' own the names alone."""
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
    def windows(self) -> DataFrame:
        """The open windows: a row for each key and window that still takes rows or will fire."""
        return self.stored.view("windows")

    @cached_property
    def elements(self) -> DataFrame:
        """The rows that are kept for functions and evictors."""
        return self.stored.view("elements")

    @cached_property
    def user_state(self) -> DataFrame:
        """What triggers and functions of users keep, by descriptor."""
        return self.stored.view("user_state")

    @cached_property
    def timers(self) -> DataFrame:
        """When something is due, for each key and window."""
        return self.stored.view("timers")

    def summary(self, keys: Sequence[str] = (), windows: Sequence[str] = (), *, most: int = 10) -> Summary:
        r"""What the state holds, in few numbers: what ``panestream inspect`` shows.

        One job, which decodes each key group once; what comes to the driver does not grow with the state.

        Args:
            keys: only of this key: ``column=value`` for some of the key columns, the value alone where there is one; ``\N`` is
                null.
            windows: only windows that hold this time (ISO 8601; without a zone: UTC), or of the kind with this label.
            most: how many of each list: the oldest windows, the largest keys and so on.

        Raises:
            CheckpointError: there is no such key column or kind of windows, or a value is not of the column's type.
        """
        asked = asked_of(self.plan, keys, windows, most)
        planned = planned_at(self.stored.spark, self.path, self.batch_id)
        looked = Looked(self.path, self.batch_id, None if planned is None else planned * 1000, time.time_ns() // 1000)
        return summarized(self.stored, asked, looked)


def read_checkpoint(spark: SparkSession, path: str, batch_id: int | None = None) -> CheckpointState:
    """Looks into a checkpoint, also one of a query that runs.

    Needs nothing of the job's code: the plan rests in the checkpoint.

    Args:
        spark: a session, classic or Spark Connect's.
        path: the checkpoint.
        batch_id: after which micro-batch; None: the last that was committed. Spark keeps the last 100
            (``spark.sql.streaming.minBatchesToRetain``).

    Raises:
        CheckpointError: there is no checkpoint of a query started by panestream; or it has no such micro-batch.
        StateFormatError: a newer panestream wrote it.
        StateDamagedError: its entry cannot be read.
    """
    entry: Mapping[str, Any] | None = newest_entry(spark, path)
    if entry is None:
        raise CheckpointError(f"{path} is no checkpoint of a query that panestream's start() began")
    if entry.get("plan") is None:
        raise CheckpointError(f"the checkpoint {path} does not hold its query's plan: an operator of another package runs it")
    last = last_committed(spark, path)
    if last < 0 or (batch_id is not None and not 0 <= batch_id <= last):
        there = f"its last is {last}" if last >= 0 else "none was committed yet"
        raise CheckpointError(f"the checkpoint {path} has no micro-batch {'' if batch_id is None else batch_id}: {there}")
    return CheckpointState(StoredState(spark, path, last if batch_id is None else batch_id, plan_of(entry["plan"])))
