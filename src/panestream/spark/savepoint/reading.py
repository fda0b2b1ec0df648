"""What is in a checkpoint, as DataFrames: open windows, kept elements, users' states, timers. No query runs for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.savepoint.plans import plan_of
from panestream.engine.shown import Shown, listed
from panestream.engine.storage.state import MemoryState
from panestream.engine.storage.state_tables import StateViews
from panestream.errors import CheckpointError
from panestream.spark.checkpoint import last_committed, newest_entry
from panestream.spark.operator.placement import group_number
from panestream.spark.operator.without_pandas import without_pandas
from panestream.spark.reasons import in_few_words
from panestream.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "panestream"
"""The name of the state variable that every operator keeps."""
_VALUES = pa.schema([("group", pa.int32()), ("space", pa.string()), ("number", pa.int64()), ("value", pa.binary())])
_NONE = _VALUES.empty_table()


@dataclass(frozen=True, repr=False)
class CheckpointState(Shown):
    """The state of a query as it was after one micro-batch; see :func:`read_checkpoint`.

    Attributes:
        path: the checkpoint.
        batch_id: the micro-batch.
        plan: the query's, as the checkpoint tells it: of functions of users' own the names alone.
    """

    path: str
    batch_id: int
    plan: WindowPlan = field(repr=False)
    spark: SparkSession = field(repr=False)

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
        return self._view("windows")

    @cached_property
    def elements(self) -> DataFrame:
        """The rows that are kept for functions and evictors."""
        return self._view("elements")

    @cached_property
    def user_state(self) -> DataFrame:
        """What triggers and functions of users keep, by descriptor."""
        return self._view("user_state")

    @cached_property
    def timers(self) -> DataFrame:
        """When something is due, for each key and window."""
        return self._view("timers")

    def _view(self, name: str) -> DataFrame:
        made = views_of(self.plan, name)
        return self._of_groups(made, made(_NONE).schema)

    def _of_groups(self, made: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> DataFrame:
        with without_pandas():
            return self._values.groupBy("group").applyInArrow(made, spark_schema(schema))

    @cached_property
    def _values(self) -> DataFrame:
        """What lies in Spark's state store: a row for each value, with its key group."""
        reader = self.spark.read.format("statestore").option("path", self.path).option("batchId", str(self.batch_id))
        values = reader.option("stateVarName", VARIABLE).load()
        return values.select(
            F.col("key")["group"].alias("group"),
            F.col("user_map_key")["space"].alias("space"),
            F.col("user_map_key")["key"].alias("number"),
            F.col("user_map_value")["value"].alias("value"),
        )


def views_of(plan: WindowPlan, name: str) -> Callable[[pa.Table], pa.Table]:
    """The function for ``applyInArrow`` that makes one view of a key group's values."""

    def made(values: pa.Table) -> pa.Table:
        group = group_number(plan.groups, values.column("group")[0].as_py()) if values.num_rows else 0
        columns = (values.column(each).to_pylist() for each in ("space", "number", "value"))
        state = MemoryState({(space, number): value for space, number, value in zip(*columns, strict=True)})
        with in_few_words():
            saved = plan.operator.for_group(plan, state, group).tables()
            views: StateViews = plan.operator.views(plan, saved, group)
        found: pa.Table = getattr(views, name)
        return found

    return made


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
    return CheckpointState(path, last if batch_id is None else batch_id, plan_of(entry["plan"]), spark)
