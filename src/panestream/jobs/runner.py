"""Runs a checked job on Spark: its session, its listeners, and the report about the run."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import panestream as pst
from panestream.errors import JobError, PanestreamError
from panestream.jobs.building import build, check_paths, find_function
from panestream.jobs.loading import LoadedJob
from panestream.jobs.terminal import PipeConsole, PlainConsole
from panestream.metrics import JsonLinesMetrics, PrometheusMetrics
from panestream.spark.failures import first_sentence, of_spark
from panestream.spark.progress.listening import ProgressListener
from panestream.spark.progress.micro_batch import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panestream.insight.report_recording import RunReport

REMOTE = "spark.remote"
SessionOf = Callable[[str, Mapping[str, str]], AbstractContextManager["SparkSession"]]
"""Creates a session from the application name and Spark's settings: :class:`QuietSession`, or a test's replacement."""


class QuietSession(AbstractContextManager["SparkSession"]):
    """A temporary Spark session whose log goes to a file, which is named if Spark fails and otherwise deleted.

    The settings may include ``spark.master`` and ``spark.remote``. A missing Java or an unsupported version of Spark raises
    ``EnvironmentNotReadyError``.
    """

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        from panestream.spark.session import build_session, errors_into

        others = {each: value for each, value in settings.items() if each != "spark.master"}
        # Java and the Python workers inherit stderr; their messages would disrupt the output of the command.
        handle, log = tempfile.mkstemp(prefix="panestream-spark-", suffix=".log")
        self.log = Path(log)
        try:
            with errors_into(handle):
                self.spark = build_session(name, others, settings.get("spark.master"))
        except BaseException:
            self._tell_log()
            raise

    def __enter__(self) -> SparkSession:
        return self.spark

    def __exit__(self, *exception: object) -> None:
        try:
            self.spark.stop()
        finally:
            if isinstance(exception[1], Exception) and not isinstance(exception[1], PanestreamError):
                self._tell_log()
            else:
                self.log.unlink(missing_ok=True)

    def _tell_log(self) -> None:
        print(f"Spark's log is {self.log}", file=sys.stderr)


def settings_of(given: Sequence[str], remote: str | None = None) -> dict[str, str]:
    """Return the settings from ``--conf NAME=VALUE`` and ``--remote URL``; raise ``JobError`` for another form."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise JobError(f"--conf takes NAME=VALUE, as in --conf spark.driver.memory=4g, not {text!r}")
        found[name.strip()] = value
    return found | ({} if remote is None else {REMOTE: remote})


class SessionRunner:
    """Runs a job on an existing Spark session; ``listeners`` receive a stream's progress."""

    def __init__(self, loaded: LoadedJob, spark: SparkSession, listeners: Sequence[ProgressListener] = ()) -> None:
        self.loaded = loaded
        self.spark = spark
        self.listeners = [*listeners, *([] if loaded.report is None else [loaded.report])]

    @property
    def metrics_url(self) -> str | None:
        """The URL for Prometheus, or None without an endpoint."""
        return next((listener.url for listener in self.listeners if isinstance(listener, PrometheusMetrics)), None)

    def explain(self) -> str:
        """Return the plan."""
        return str(build(self.loaded, self.spark).explain())

    def guarantees(self) -> Mapping[str, str]:
        """Return the delivery guarantee of each output: ``exactly once``, or ``at least once: `` and the reason."""
        sinks = self.loaded.job.sinks.recipes(self.loaded.job.keys)
        return {tag: sink.guarantee(self.spark) for tag, sink in sinks.items()}

    def start(self, on_progress: Callable[[BatchProgress], Any]) -> pst.RunningQuery:
        """Start a stream."""
        job = self.loaded.job
        sinks: dict[str, Any] = {**job.sinks.recipes(job.keys)}
        for listener in self.listeners:
            self.spark.streams.addListener(listener)
        loaded, how = from_savepoint(self.loaded, self.spark)
        how |= {"checkpoint": str(job.checkpoint), "trigger": job.trigger.spark, "name": job.name, "on_progress": on_progress}
        how["fire_at_end"] = job.trigger.fire_at_end
        return self._watched(build(loaded, self.spark)).start(outputs=sinks, **how)

    def run_batch(self) -> None:
        """Run a batch to its end."""
        job = self.loaded.job
        self._watched(build(self.loaded, self.spark)).run(outputs=job.sinks.recipes(job.keys))

    def _watched(self, result: pst.datastream.WindowedResult) -> pst.datastream.WindowedResult:
        """Record rows for the report, if there is one; without row times if the job starts from a savepoint."""
        report = self.loaded.report
        return result if report is None else report.watch(result, times=self.loaded.savepoint is None)


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

    allowed = [name for name in ("allow_incomplete", "allow_non_restored_state") if getattr(loaded, name)]
    if loaded.savepoint is None:
        if allowed:
            raise JobError(f"--{allowed[0].replace('_', '-')} needs --savepoint")
        return loaded, {}
    job = loaded.job
    if job.mode != "stream":
        raise JobError(f"{loaded.document.path}: --savepoint is for streams, but a batch does not have state")
    saved = savepoint_for(spark, loaded.savepoint, str(job.checkpoint))
    how: dict[str, Any] = {"savepoint": loaded.savepoint, **dict.fromkeys(allowed, True)}
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


@contextmanager
def reported(loaded: LoadedJob, page: Path | None, told: Sequence[tuple[str, str]], console: PipeConsole) -> Generator[LoadedJob]:
    """Record the run of a job, and write the report page at its end, even after a failure.

    A page that cannot be written raises ``JobError`` before the run, but is only a warning after it. ``told`` are titles and
    texts that describe the run.
    """
    if page is None:
        yield loaded
        return
    from panestream.insight.report import DONE
    from panestream.insight.report_recording import RunReport, shown_settings, versions

    check_writable(page)
    _check_beside(page)
    report = RunReport()
    run, job = report.run, loaded.job
    run.name = job.name or page.stem
    run.told += [("job file", str(loaded.document.path)), *told, ("versions", versions())]
    run.checkpoint = str(job.checkpoint) if job.mode == "stream" else ""
    try:
        yield replace(loaded, report=report)
    except BaseException as error:
        run.outcome, run.error = _ended_by(error)
        raise
    else:
        run.outcome = DONE
    finally:
        run.settings = [*run.settings, *shown_settings({name: str(value) for name, value in job.spark.items()})]
        _write(report, page, console)


def check_writable(page: Path) -> None:
    """Raise ``JobError`` if the page cannot be written, before Spark starts, which takes seconds."""
    if page.is_dir() or not page.parent.is_dir():
        why = "it is a folder" if page.is_dir() else f"there is no folder {page.parent}"
        raise JobError(f"the page {page} cannot be written: {why}")


def _check_beside(page: Path) -> None:
    """Test with a temporary file whether the folder is writable: the page is written there and then moved to its place."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{page.name}.", dir=page.parent)
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise JobError(f"the page {page} cannot be written: {error.strerror or error}") from error


def _ended_by(error: BaseException) -> tuple[str, str]:
    from panestream.insight.report import FAILED, STOPPED

    if isinstance(error, (typer.Exit, KeyboardInterrupt)):
        # After Ctrl-C, or because nobody reads the output.
        return STOPPED, ""
    said = first_sentence(error) if isinstance(error, Exception) and of_spark(error) else str(error)
    return FAILED, f"{type(error).__name__}: {said}"


def _write(report: RunReport, page: Path, console: PipeConsole) -> None:
    try:
        report.write(page)
    except Exception as error:  # noqa: BLE001 - a page is not worth a run
        said = f"the report {page} could not be written: {error}"
        PlainConsole(stderr=True).titled("warning: ", said, style="bold yellow")
    else:
        console.titled("report  ", str(page))
