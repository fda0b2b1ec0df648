"""Runs a checked job on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from panestream.errors import JobError
from panestream.jobs.building import build, check_paths, find_function
from panestream.jobs.loading import LoadedJob
from panestream.jobs.sessions import QuietSession
from panestream.metrics import JsonLinesMetrics, PrometheusMetrics
from panestream.spark.progress.listening import ProgressListener
from panestream.spark.progress.micro_batch import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import panestream as pst


class Query(Protocol):
    """A started stream; see ``panestream.RunningQuery``."""

    def await_termination(self, timeout: float | None = None) -> bool: ...
    def stop(self) -> None: ...


class Runner(Protocol):
    """The Spark operations of the command line; tests replace it."""

    @property
    def metrics_url(self) -> str | None:
        """The URL for Prometheus, or None without an endpoint."""

    def explain(self) -> str:
        """Return the plan."""

    def guarantees(self) -> Mapping[str, str]:
        """Return the delivery guarantee of each output: ``exactly once``, or ``at least once: `` and the reason."""

    def start(self, on_progress: Callable[[BatchProgress], Any]) -> Query:
        """Start a stream."""

    def run_batch(self) -> None:
        """Run a batch to its end."""


class SessionRunner:
    """Runs a job on an existing Spark session; ``listeners`` receive a stream's progress."""

    def __init__(self, loaded: LoadedJob, spark: SparkSession, listeners: Sequence[ProgressListener] = ()) -> None:
        self.loaded = loaded
        self.spark = spark
        self.listeners = [*listeners, *([] if loaded.report is None else [loaded.report])]

    @property
    def metrics_url(self) -> str | None:
        return next((listener.url for listener in self.listeners if isinstance(listener, PrometheusMetrics)), None)

    def explain(self) -> str:
        return str(self._result().explain())

    def guarantees(self) -> Mapping[str, str]:
        sinks = self.loaded.job.sinks.recipes(self.loaded.job.keys)
        return {tag: sink.guarantee(self.spark) for tag, sink in sinks.items()}

    def start(self, on_progress: Callable[[BatchProgress], Any]) -> Query:
        job = self.loaded.job
        sinks: dict[str, Any] = {**job.sinks.recipes(job.keys)}
        for listener in self.listeners:
            self.spark.streams.addListener(listener)
        loaded, how = from_savepoint(self.loaded, self.spark)
        how |= {"checkpoint": str(job.checkpoint), "trigger": job.trigger.spark, "name": job.name, "on_progress": on_progress}
        how["fire_at_end"] = job.trigger.fire_at_end
        return self._watched(build(loaded, self.spark)).start(outputs=sinks, **how)

    def run_batch(self) -> None:
        job = self.loaded.job
        self._watched(self._result()).run(outputs=job.sinks.recipes(job.keys))

    def _watched(self, result: pst.datastream.WindowedResult) -> pst.datastream.WindowedResult:
        """Record rows for the report, if there is one; without row times if the job starts from a savepoint."""
        report = self.loaded.report
        return result if report is None else report.watch(result, times=self.loaded.savepoint is None)

    def _result(self) -> pst.datastream.WindowedResult:
        return build(self.loaded, self.spark)


class SparkRunner(SessionRunner, AbstractContextManager["SparkRunner"]):
    """Runs a job on its own session; raises ``EnvironmentNotReadyError`` without Java or a supported version of Spark."""

    def __init__(self, loaded: LoadedJob) -> None:
        check_paths(loaded)
        find_function(loaded)  # fails before Spark starts, which takes seconds
        listeners = open_listeners(loaded)
        try:
            self.session = QuietSession(f"panestream: {loaded.job.name}", loaded.job.spark)
        except BaseException:
            close_listeners(listeners)
            raise
        super().__init__(loaded, self.session.spark, listeners)

    def __exit__(self, *exception: object) -> None:
        try:
            # This also ends the delivery of events to the listeners, after the last event.
            self.session.__exit__(*exception)
        finally:
            close_listeners(self.listeners)


def from_savepoint(loaded: LoadedJob, spark: SparkSession) -> tuple[LoadedJob, dict[str, Any]]:
    """Return the job with sources that start at the savepoint's end, and further arguments for ``start``.

    File sources stay unchanged, since ``start`` skips the files that were read. If the checkpoint has progressed, the savepoint
    is not read. Errors are ``JobError`` for a batch or for options without a savepoint, and ``CheckpointError`` for a missing
    savepoint or a source that cannot start at its end.
    """
    from panestream.spark.checkpoint.lineage import RestoredFrom
    from panestream.spark.savepoint.restore import savepoint_for
    from panestream.spark.savepoint.source_offsets import DELTA, KAFKA

    if loaded.savepoint is None:
        if loaded.allow_incomplete:
            raise JobError("--allow-incomplete says something of a savepoint: give --savepoint, too")
        return loaded, {}
    job = loaded.job
    if job.mode != "stream":
        raise JobError(f"{loaded.document.path}: a batch has no state: --savepoint is for streams")
    saved = savepoint_for(spark, loaded.savepoint, str(job.checkpoint))
    how: dict[str, Any] = {"savepoint": loaded.savepoint}
    if loaded.allow_incomplete:
        how["allow_incomplete"] = True
    if isinstance(saved, RestoredFrom) or not saved.positions:
        return loaded, how
    told = []
    # Spark numbers the sources of two streams in their order, starting with the left one.
    for position in saved.positions:
        if position.number >= len(job.streams):
            break
        where, stream = job.streams[position.number]
        options, source = saved.source_options(position.number), stream.source
        told.append(position.kind == DELTA and source.reads_table)
        if position.kind == KAFKA and source.kafka is not None:
            job = job.with_source(where, replace(source, kafka=replace(source.kafka, starting=options["startingOffsets"])))
        elif told[-1]:
            job = job.with_source(where, replace(source, options={**source.options, **options}))
    if all(told):
        # ``start`` cannot see that the sources already have these offsets.
        how["source_offsets"] = "job"
    return replace(loaded, job=job), how


def open_listeners(loaded: LoadedJob) -> list[ProgressListener]:
    """Open the listeners of ``[metrics]``; before Spark starts, a taken port raises a ``JobError`` that names the key."""
    asked = loaded.job.metrics if loaded.job.mode == "stream" else None
    found: list[ProgressListener] = []
    key = "port"
    try:
        if asked is not None and asked.port is not None:
            found.append(PrometheusMetrics(asked.port, address=asked.address))
        key = "json_lines"
        if asked is not None and asked.json_lines is not None:
            found.append(JsonLinesMetrics(asked.json_lines))
    except (OSError, ModuleNotFoundError) as error:
        close_listeners(found)
        place = loaded.place("metrics", key)
        place.note(str(error))
        place.finish()
    return found


def close_listeners(listeners: Sequence[ProgressListener]) -> None:
    """Release the listeners' ports."""
    for listener in listeners:
        if isinstance(listener, PrometheusMetrics):
            listener.close()
