"""All sinks of one query: checked together before it starts, opened, and called for each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.savepoint.operators import NamedPlan
from panestream.engine.storage.state_age import StateAge
from panestream.errors import FencedError, warn
from panestream.spark.checkpoint.epoch import Epoch
from panestream.spark.checkpoint.lease import CheckpointMode, Lease, ensure_identity, register, succeed
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.failures import of_sink
from panestream.spark.operator.processor import RestartInfo
from panestream.spark.places import check_apart
from panestream.spark.session import is_connect
from panestream.spark.sinks.base import AT_LEAST_ONCE, QueryRunInfo, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class Outputs:
    """The opened sinks of one run, by output.

    Attributes:
        data_frames: whether the checkpoint's state was created with data frames.
        restored_from: the savepoint that the checkpoint began with, or None.
        begins_with: the savepoint whose state must still be loaded, or None if the checkpoint has it.
        begun: whether the sinks have received the first micro-batch, Spark's number ``begun_with``.
        committed: whether the sinks know that it is committed.
        first: the number that sinks use for Spark's micro-batch 0.
        succeeded: the entry that fences the query that this one succeeds, or None if not needed.
        ended: whether the checkpoint records the end of the run.
    """

    sinks: Mapping[str, Sink]
    epoch: Epoch
    data_frames: bool = False
    restored_from: RestoredFrom | None = None
    begins_with: RestoredFrom | None = None
    begun: bool = field(default=False)
    begun_with: int = field(default=-1)
    committed: bool = field(default=False)
    first: int = 0
    succeeded: Epoch | None = None
    mode: CheckpointMode = field(default_factory=CheckpointMode)
    restart_info: RestartInfo | None = None
    age: StateAge = field(default_factory=StateAge)
    ended: bool = False

    def deliver(self, rows_of: Callable[[str], DataFrame], present: Collection[str], batch_id: int) -> None:
        """Write one micro-batch, ``batch_id`` in Spark's numbers: the outputs in ``present``, or all in the first one of a run.

        The first one makes the place with its schema, and removes rows of this and later micro-batches, which an earlier run
        wrote.
        """
        number = batch_id + self.first
        if self.begun:
            # Once the first micro-batch is committed, the old query cannot be started any more.
            self.succeeded = None
        if self.begun and not self.committed and batch_id > self.begun_with:
            for tag, sink in self.sinks.items():
                with of_sink(tag, sink, batch_id):
                    sink.on_first_commit(rows_of(tag))
            self.committed = True
        for tag, sink in self.sinks.items():
            if self.begun and tag not in present:
                continue
            with of_sink(tag, sink, batch_id):
                if not self.begun:
                    sink.begin(rows_of(tag), number)
                sink.write(rows_of(tag), number)
        if not self.begun:
            self.begun, self.begun_with = True, batch_id

    def check(self, spark: SparkSession) -> None:
        """Raise FencedError if another copy of the query was started later."""
        self.epoch.check(spark)
        if self.succeeded is not None:
            self.succeeded.check(spark)

    def note_end(self, spark: SparkSession) -> None:
        """Record in the checkpoint the last commit of this run, if the run still holds the checkpoint."""
        # On a server the micro-batches run with a copy of this object.
        if self.ended or not (self.begun or is_connect(spark)):
            return
        # After a failure or without Spark this may fail. Then the next start assumes that the run was killed.
        with suppress(Exception):
            self.epoch.check(spark)
            self.epoch.write_end(spark)
            self.ended = True

    def check_after(self, spark: SparkSession, error: Exception) -> None:
        """Raise FencedError instead of a failure if another copy runs, since that copy may be the cause."""
        fenced = None if isinstance(error, FencedError) else self.fenced(spark)
        if fenced is not None:
            raise fenced from error

    def fenced(self, spark: SparkSession) -> FencedError | None:
        try:
            self.epoch.check(spark)
        except FencedError as error:
            return error
        except Exception:  # noqa: BLE001 (the caller reports the original failure; this is only a check)
            return None
        return None


def open_outputs(
    spark: SparkSession,
    plan: WindowPlan,
    sinks: Mapping[str, Sink],
    checkpoint: str,
    requested: RestoredFrom | None = None,
    mode: CheckpointMode | None = None,
    chain: Sequence[NamedPlan] = (),
) -> Outputs:
    """Open the sinks of a stream, and make its run the holder of the checkpoint.

    ``requested`` is the savepoint that the checkpoint must begin with. If ``mode`` is None, the plan decides how the query runs.
    ``chain`` has all operators of the query, of which the last has the ``plan`` and the outputs; empty if they are unknown.
    The errors of :func:`ensure_identity` and :meth:`Sink.open` come through. In addition, raises FencedError if another copy was
    started in the same moment, and SinkError if two outputs share a place.
    """
    places = checked_places(spark, plan, sinks, checkpoint)
    lease = ensure_identity(spark, plan, checkpoint, requested, mode, chain)
    opened = {tag: sink.open(spark, _run(plan, lease, tag, places.get(tag))) or sink for tag, sink in sinks.items()}
    _warn(spark, sinks)
    succeeded = succeed(spark, lease, places.values())
    register(spark, lease, places.values())
    first: dict[str, Any] = {"first": lease.first, "succeeded": succeeded, "mode": lease.mode, "restart_info": lease.restart_info}
    is_comparable = lease.state_of is not None or lease.last < 0
    first["age"] = StateAge(lease.last, lease.state_of, is_comparable=is_comparable, is_last_known=lease.is_last_known)
    return Outputs(opened, lease.epoch, lease.data_frames, lease.restored_from, lease.begins_with, **first)


def open_for_batch(spark: SparkSession, plan: WindowPlan, sinks: Mapping[str, Sink], query: str = "") -> dict[str, Sink]:
    """Open the sinks of a batch query; raises SinkError if two outputs share a place, or a place is not a batch query's.

    A stream that continues this batch knows the places by the identity ``query`` (empty without such a stream).
    """
    checked_places(spark, plan, sinks)
    return {tag: sink.open(spark, _batch_run(plan, tag, query)) or sink for tag, sink in sinks.items()}


def _batch_run(plan: WindowPlan, tag: str, query: str) -> QueryRunInfo:
    return QueryRunInfo(query, tag, queries=frozenset({query}), added=_added(plan, tag), holds_from=_holds_from(plan, tag))


def checked_places(
    spark: SparkSession, plan: WindowPlan, sinks: Mapping[str, Sink], checkpoint: str | None = None
) -> dict[str, str]:
    """Return the places of outputs that have one; raises SinkError if two outputs share one, or a sink refuses the columns."""
    for tag, sink in sinks.items():
        sink.check_columns(plan.output_schema(tag).names)
    asked = {tag: sink.place(spark) for tag, sink in sinks.items()}
    places = {tag: place for tag, place in asked.items() if place is not None}
    check_apart(places, checkpoint)
    return places


def _run(plan: WindowPlan, lease: Lease, tag: str, place: str | None) -> QueryRunInfo:
    succeeds = lease.last < 0 and lease.succession is not None and place in lease.succession.places
    written = place in lease.written
    columns = tuple(plan.output_schema(tag).names)
    known = QueryRunInfo(
        lease.query, tag, lease.epoch, lease.queries, written, _added(plan, tag), lease.first, succeeds, columns=columns
    )
    known = replace(known, holds_from=_holds_from(plan, tag))
    last_run = lease.committer
    return replace(known, began=lease.first + last_run["after"] + 1) if place in last_run.get("places", ()) else known


def _added(plan: WindowPlan, tag: str) -> frozenset[str]:
    return plan.added_names if tag == MAIN else frozenset()


def _holds_from(plan: WindowPlan, tag: str) -> str | None:
    return plan.operator.capabilities.holds_from if tag == MAIN else None


def _warn(spark: SparkSession, sinks: Mapping[str, Sink]) -> None:
    for tag, sink in sinks.items():
        guarantee = sink.guarantee(spark)
        if guarantee.startswith(AT_LEAST_ONCE):
            message = f"the output {tag!r} ({sink.describe()}) is written {guarantee}"
            warn(message)
