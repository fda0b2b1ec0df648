"""The running query: computes the operator once per micro-batch and delivers each output to its sink."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from panestream.engine.explain import ReprHtml, listed
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.savepoint.operators import NamedPlan
from panestream.engine.storage.state_age import StateAge
from panestream.errors import InvalidPlanError, OperatorError, PanestreamError
from panestream.spark.batch_output import BatchOutput, output
from panestream.spark.checkpoint import control_messages, spark_logs
from panestream.spark.checkpoint.control_messages import EndOfInputRun
from panestream.spark.checkpoint.epoch import UNKNOWN
from panestream.spark.checkpoint.lease import CheckpointMode
from panestream.spark.checkpoint.lineage import RestoredFrom
from panestream.spark.failures import java_is_gone, of_callback, of_operator, own_error, without_java
from panestream.spark.open_lineage.emitter import LineageWatcher, PreparedLineage
from panestream.spark.progress.listening import ProgressWatcher
from panestream.spark.progress.micro_batch import OBSERVED, BatchProgress, observed
from panestream.spark.progress.notices import DroppedBySpark, Notices
from panestream.spark.savepoint.saved import Savepoint
from panestream.spark.savepoint.source_offsets import Sources
from panestream.spark.sendable import check_sendable
from panestream.spark.session import (
    DEFAULT_GROUPS,
    chosen_partitions,
    is_connect,
    numbers_micro_batches,
    session_settings,
    settings_for,
)
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.outputs import Outputs, open_outputs
from panestream.spark.sinks.spark_sinks import sink_of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOOK_EVERY = 5.0
"""Seconds between two checks of a query on a server."""


@dataclass(slots=True)
class SinkWriter:
    """The function for ``foreachBatch``: computes the operator once and has its outputs delivered."""

    plan: WindowPlan
    outputs: Outputs
    late_kept: bool
    on_progress: Callable[[BatchProgress], Any] | None = None
    notices: Notices | None = None
    failure: list[Exception] = field(default_factory=list)
    sources: Sources | None = None
    """The start positions of the sources, or None if they already had positions."""
    age: StateAge = field(default_factory=StateAge)
    """The possible age of the state."""
    has_begun: bool = False
    """True once the first micro-batch of the run is recorded in the checkpoint."""
    has_gap: bool = False
    """True once the checkpoint records that a micro-batch of the run left the state unchanged."""

    def __call__(self, operated: DataFrame, batch_id: int) -> None:
        # Java waits for the answer, and py4j handles ordinary exceptions only. If this runs in the user's process, the caller of
        # `await_termination` finds the error in `failure`.
        try:
            self._write(operated, batch_id)
        except Exception as error:
            self.failure.append(error)
            raise
        except BaseException as error:  # noqa: BLE001 (Java waits for an answer)
            self.failure.append(OperatorError(f"micro-batch {batch_id} failed: {type(error).__name__}: {error}"))
            raise self.failure[-1] from None

    def _write(self, operated: DataFrame, batch_id: int) -> None:
        started = time.perf_counter()
        spark = operated.sparkSession
        self.outputs.check(spark)
        if self.sources is not None and batch_id == 0:
            self.sources.check_begun(spark)
        operated.persist()
        try:
            with of_operator(batch_id):
                computed = BatchOutput.of(operated, self.plan)
                self.age.check(computed.metrics, batch_id)
            self.outputs.deliver(computed.rows, computed.present, batch_id)
            self._note_age(spark, computed.metrics, batch_id)
            # A run that lost the checkpoint must not commit.
            self.outputs.check(spark)
        except Exception as error:
            self.outputs.check_after(spark, error)
            raise
        finally:
            operated.unpersist()
        seconds = time.perf_counter() - started
        progress = BatchProgress.of(
            batch_id, seconds, computed.metrics, tags=self.plan.tags, groups=self.plan.groups, late_kept=self.late_kept
        )
        if self.on_progress is not None:
            with of_callback("on_progress", batch_id):
                self.on_progress(progress)
        if self.notices is not None:
            self.notices.look(progress)

    def _note_age(self, spark: SparkSession, metrics: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        """Record, before the commit, that this run has started, and whether the state may be older than this micro-batch."""
        if not self.has_begun:
            self.outputs.epoch.write_first(spark, batch_id)
            self.has_begun = True
        before = self.age.state_of if batch_id == self.age.after + 1 else None
        if not self.age.advance(metrics, batch_id) and not self.has_gap:
            self.outputs.epoch.write_gap(spark, UNKNOWN if before is None else before)
            self.has_gap = True


@dataclass(frozen=True, repr=False)
class RunningQuery(ReprHtml):
    """A started query: Spark's ``StreamingQuery`` (the attribute :attr:`query`) with panestream's errors and counters.

    >>> query.await_termination()
    True
    >>> query.is_active, [progress.rows for progress in query.recent_progress]
    (False, [3])
    """

    query: StreamingQuery
    plan: WindowPlan = field(repr=False)
    spark: SparkSession = field(repr=False)
    outputs: Outputs = field(repr=False)
    failure: list[Exception] = field(default_factory=list, repr=False)
    """The errors of micro-batches that ran in this process."""
    notices: Notices | None = field(default=None, repr=False)
    """Checks the progress that a server reports; None if the micro-batches do so themselves."""
    observed_as: str = field(default=OBSERVED, repr=False)
    """The name of the counters in Spark's progress."""
    watcher: ProgressWatcher | None = field(default=None, repr=False)
    """Calls ``on_progress`` if the micro-batches cannot."""
    dropped: DroppedBySpark = field(default_factory=DroppedBySpark, repr=False)
    """Checks Spark's own operators after the query has ended, as micro-batches cannot see them."""
    closing: EndOfInputRun | None = field(default=None, repr=False)
    """Closes open windows after all available input has been read; None if they wait for the next run."""
    followed: list[LineageWatcher] = field(default_factory=list, repr=False)
    """The senders of lineage events, one for each of Spark's runs."""

    def _parts(self) -> Mapping[str, str]:
        # From the plan alone: the query's name and whether it runs would need a call of Spark.
        plan = self.plan
        outputs = listed([f"{column.name} {column.type}" for column in plan.operator.result_schema])
        keys = listed(plan.key_names) or "none"
        return {"results": outputs, "windows": stable_repr(plan.assigner), "key": keys, "outputs": ", ".join(plan.tags)}

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    @property
    def recent_progress(self) -> list[BatchProgress]:
        """The progress of the last micro-batches, oldest first; also through Spark Connect and after the end of the query.

        Entries come from Spark's own progress, shortly after the sinks have their rows. Spark keeps the last 100
        (``spark.sql.streaming.numRecentProgressUpdates``).
        """
        return [*([] if self.closing is None else self.closing.before), *self._progress()]

    @property
    def last_progress(self) -> BatchProgress | None:
        """The progress of the last micro-batch, or None if Spark has not reported any yet; see :attr:`recent_progress`."""
        return next(iter(self.recent_progress[-1:]), None)

    def _progress(self) -> list[BatchProgress]:
        entries = [BatchProgress.of_spark(entry, self.observed_as) for entry in self.query.recentProgress]
        return [progress for progress in entries if progress is not None]

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most ``timeout`` seconds, and return whether the query has ended.

        Each of panestream's errors has Spark's original error, with its plan and stack, in ``spark_error``.

        Raises:
            WindowFunctionError: a user function raised. The message has the place and the user's traceback.
            FencedError: another copy of the query was started later on the same checkpoint.
            SinkError: a sink or sink function failed. The message has the sink, its output and the user's traceback.
            CallbackError: ``on_progress`` raised, possibly :class:`SystemExit` or :class:`KeyboardInterrupt`.
            OperatorError: the windows could not be computed for another reason, e.g. too little memory, or Java has ended.
            StateDamagedError: the state, or one of Spark's logs in the checkpoint, is damaged.
            PanestreamError: panestream refused something, e.g. a checkpoint of another plan.
            StreamingQueryException: any other failure, e.g. in the source, as Spark reports it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            ended = self._wait(timeout)
            while ended and self._closes():
                ended = self._wait(None if deadline is None else max(deadline - time.monotonic(), 0))
            if ended:
                self._wait_for_lineage()
                for progress in self.recent_progress:
                    self.dropped.look(progress)
                if self.watcher is not None:
                    self.watcher.finish()
                self.outputs.note_end(self.spark)
        except StreamingQueryException as error:
            self.outputs.note_end(self.spark)
            self._wait_for_lineage()
            if self.watcher is not None:
                self.watcher.wait()
            failed = self._named(error)
        except Exception as error:
            if not java_is_gone(error):
                raise
            failed = without_java(error)
        else:
            return ended
        raise failed

    def stop(self) -> None:
        """Stop the query and abandon the current micro-batch. A query with the same checkpoint resumes from there."""
        if self.closing is not None:
            self.closing.over = True
        for each in self.followed[-1:] if self.is_active else ():
            each.stopped = True
        self.query.stop()
        self.outputs.note_end(self.spark)
        self._look()
        self._wait_for_lineage()

    def _wait_for_lineage(self) -> None:
        for each in self.followed:
            each.wait()

    def _closes(self) -> bool:
        """Start the next run that closes windows, if one is due; it replaces the query. Return whether it was started."""
        begun = None if self.closing is None else self.closing.after(self._progress())
        if begun is None:
            return False
        if self.watcher is not None:
            self.watcher.finish()
        for name, value in zip(("query", "watcher"), begun(), strict=True):
            object.__setattr__(self, name, value)
        return True

    def _wait(self, timeout: float | None) -> bool:
        if self.notices is None and timeout is None:
            self.query.awaitTermination()
            return True
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            step = left if self.notices is None else min(left, _LOOK_EVERY)
            ended = bool(self.query.awaitTermination(max(1, math.ceil(step))))
            self._look()
            if ended or time.monotonic() >= deadline:
                return ended

    def _look(self) -> None:
        if self.notices is not None:
            for progress in self.recent_progress:
                self.notices.look(progress)

    def _named(self, error: StreamingQueryException) -> Exception:
        """Return the error to raise: panestream's own if there is one."""
        explained = self.failure[-1] if self.failure else own_error(str(error))
        if explained is None:
            # Two copies also conflict in the files of Spark's own logs and state.
            explained = self.outputs.fenced(self.spark) or spark_logs.named(self.spark, self.outputs.epoch.checkpoint, error)
        if explained is None:
            return error
        if isinstance(explained, PanestreamError) and explained.spark_error is None:
            explained.spark_error = error
        return explained.with_traceback(None)


def _check_name(spark: SparkSession, name: str | None) -> None:
    """Raise InvalidPlanError if a running query has this name, before the new run takes the checkpoint from it."""
    if name is not None and any(query.name == name for query in spark.streams.active):
        raise InvalidPlanError(
            f"a query with name={name!r} is running in this session. Choose another name, or stop that query first: "
            f"[query.stop() for query in spark.streams.active if query.name == {name!r}]"
        )


def _stream_writer(operated: DataFrame, sink_writer: SinkWriter, request: StartRequest) -> DataStreamWriter:
    """Return Spark's writer of the query, which calls the sinks, or is the SparkSink's own."""
    found = sink_of_spark(request.sinks)
    if found is None:
        writer = operated.writeStream.foreachBatch(sink_writer.__call__)
    else:
        writer = found[1].writer(output(operated, sink_writer.plan, found[0]))
    writer = writer.outputMode("append").option("checkpointLocation", request.checkpoint).trigger(**request.trigger)
    return writer if request.name is None else writer.queryName(request.name)


@dataclass(frozen=True)
class StartRequest:
    """The checked arguments of ``WindowedResult.start``, where each is documented.

    ``own_position`` means that sources begin at their own options instead of the end of the savepoint.
    """

    sinks: Mapping[str, Sink]
    checkpoint: str
    trigger: Mapping[str, Any]
    name: str | None = None
    savepoint: str | None = None
    own_position: bool = False
    allow_incomplete: bool = False
    allow_non_restored_state: bool = False
    migrate: Mapping[str, Any] = field(default_factory=dict)
    fire_at_end: bool = False
    on_progress: Callable[[BatchProgress], Any] | None = None
    lineage: PreparedLineage | None = None


def start(
    spark: SparkSession,
    operated_in: Callable[..., DataFrame],
    chain: Sequence[NamedPlan],
    request: StartRequest,
    savepoint: Savepoint | RestoredFrom | None = None,
    observed_as: str = OBSERVED,
) -> RunningQuery:
    """Start one streaming query that serves all sinks of the request. ``savepoint`` was read from the request's folder.

    ``operated_in`` returns the output of the last operator of the ``chain``. Its ``data_frames`` comes from the checkpoint. A
    checkpoint without a state ``restores`` that of the savepoint, and a query with control messages gets ``also``.
    """
    _check_name(spark, request.name)
    plan, remote = chain[-1].plan, is_connect(spark)
    sinks, checkpoint, on_progress = request.sinks, request.checkpoint, request.on_progress
    requested = (
        replace(savepoint.restored_from, own_position=request.own_position) if isinstance(savepoint, Savepoint) else savepoint
    )
    mode = CheckpointMode.wanted(plan, ends="availableNow" in request.trigger, closes=request.fire_at_end)
    outputs = open_outputs(spark, plan, sinks, checkpoint, requested, mode, chain)
    sources = Sources.of(outputs.restored_from, checkpoint)
    restores = isinstance(savepoint, Savepoint) and outputs.begins_with is not None
    if restores:
        sources.prepare(spark)
    more: dict[str, Any] = {"clock": outputs.mode.clock, "restart_info": outputs.restart_info}
    if outputs.mode.signals:
        control_messages.prepare(spark, checkpoint, wake=plan.wakes_up)
        more["also"] = control_messages.exchanged(spark, checkpoint, plan)
    operated = operated_in(sources.unread, restores=restores, data_frames=outputs.data_frames, **more)
    late_kept = plan.late_tag is not None and sinks.keys() >= set(plan.late_tags)
    notices = Notices.of(plan, kept=late_kept)
    # If micro-batches do not run in this process, the query itself checks the progress.
    elsewhere = remote or sink_of_spark(sinks) is not None
    sink_writer = SinkWriter(plan, outputs, late_kept, None if elsewhere else on_progress, None if elsewhere else notices)
    sink_writer.sources = sources if restores else None
    if remote:
        check_sendable(sink_writer)
    sink_writer.age = replace(outputs.age, is_woken=plan.wakes_up, is_told=numbers_micro_batches(spark))
    writer = _stream_writer(observed(operated, plan, observed_as, late_kept=late_kept), sink_writer, request)
    partitions = max(each.plan.groups for each in chain)
    if observed_as != OBSERVED:
        # An earlier operator shares the query, so it shares the number of partitions.
        partitions = max(partitions, chosen_partitions(spark) or DEFAULT_GROUPS)

    followed: list[LineageWatcher] = []
    ends = "processingTime" not in request.trigger
    follow = None if request.lineage is None else request.lineage.follower(spark, plan, sinks, observed_as, ends=ends)

    def run() -> tuple[StreamingQuery, ProgressWatcher | None]:
        settings = settings_for(spark, partitions, local_files=outputs.epoch.is_local)
        with session_settings(spark, settings), spark_logs.explained(spark, checkpoint):
            query = writer.start()
        if follow is not None:
            followed.append(follow(query))
        return query, ProgressWatcher(query, on_progress, observed_as) if elsewhere and on_progress is not None else None

    query, watcher = run()
    looks = notices if elsewhere else None
    closing = EndOfInputRun(spark, checkpoint, run, lambda: outputs.check(spark)) if request.fire_at_end else None
    return RunningQuery(
        query, plan, spark, outputs, sink_writer.failure, looks, observed_as, watcher, closing=closing, followed=followed
    )
