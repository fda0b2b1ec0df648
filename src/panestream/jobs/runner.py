"""From a checked job file to a running query."""

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
    """What the command line needs of Spark. Tests put another one in its place."""

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds what the job does; None: nowhere."""

    def explain(self) -> str:
        """The plan."""

    def guarantees(self) -> Mapping[str, str]:
        """How often a row arrives, by output: ``exactly once``, or ``at least once: `` and why."""

    def start(self, on_progress: Callable[[BatchProgress], Any]) -> Query:
        """Starts a stream."""

    def run_batch(self) -> None:
        """Runs a batch to its end."""


class SessionRunner:
    """Runs a job on a Spark session that is there.

    Args:
        loaded: the job.
        spark: the session.
        listeners: what is told of a stream's progress.
    """

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
        """For the report, where one is wanted; of what starts from a savepoint the rows are left as they are."""
        report = self.loaded.report
        return result if report is None else report.watch(result, times=self.loaded.savepoint is None)

    def _result(self) -> pst.datastream.WindowedResult:
        return build(self.loaded, self.spark)


class SparkRunner(SessionRunner, AbstractContextManager["SparkRunner"]):
    """Runs a job on a Spark session that it makes and ends.

    Args:
        loaded: the job.

    Raises:
        EnvironmentNotReadyError: Java is missing, or Spark is of a version that does not work.
    """

    def __init__(self, loaded: LoadedJob) -> None:
        check_paths(loaded)
        find_function(loaded)  # in vain rather before Spark is started than after
        listeners = open_listeners(loaded)
        try:
            self.session = QuietSession(f"panestream: {loaded.job.name}", loaded.job.spark)
        except BaseException:
            close_listeners(listeners)
            raise
        super().__init__(loaded, self.session.spark, listeners)

    def __exit__(self, *exception: object) -> None:
        try:
            # With it ends what brings events to the listeners, after the last one.
            self.session.__exit__(*exception)
        finally:
            close_listeners(self.listeners)


def from_savepoint(loaded: LoadedJob, spark: SparkSession) -> tuple[LoadedJob, dict[str, Any]]:
    """The job with sources that begin where the savepoint ends, and what ``start`` takes beside.

    Files need nothing, ``start`` leaves out those that were read. Where the checkpoint has gone on since, the savepoint is not
    read.

    Raises:
        JobError: the job is a batch; something is said of a savepoint, and none is given.
        CheckpointError: there is no such savepoint; the source cannot begin there.
    """
    from panestream.spark.savepoint.birth import Birth
    from panestream.spark.savepoint.positions import DELTA, KAFKA
    from panestream.spark.savepoint.taking_over import savepoint_for

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
    if isinstance(saved, Birth) or not saved.positions:
        return loaded, how
    told = []
    # Spark numbers the sources of two streams as they stand, the left one first.
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
        # They were just told, and it cannot be seen.
        how["source_offsets"] = "job"
    return replace(loaded, job=job), how


def open_listeners(loaded: LoadedJob) -> list[ProgressListener]:
    """What ``[metrics]`` asks for, before Spark is started: a port that is taken is told at once.

    Raises:
        JobError: it cannot be had; the error names the key.
    """
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
    """Gives back what they hold: a port."""
    for listener in listeners:
        if isinstance(listener, PrometheusMetrics):
            listener.close()
