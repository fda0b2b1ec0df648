"""From a checked job file to a running query: the only module here that knows panestream's Python interface and Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from panestream.errors import InvalidWindowError, JobError, PanestreamError, did_you_mean
from panestream.jobs.document import KeyPath
from panestream.jobs.functions import ArrowFunctionSection, Found, ProcessSection, find
from panestream.jobs.loading import LoadedJob
from panestream.jobs.savepoints import from_savepoint
from panestream.jobs.schema import is_local
from panestream.jobs.sessions import QuietSession
from panestream.jobs.source import Source
from panestream.metrics import JsonLinesMetrics, PrometheusMetrics
from panestream.spark.progress.listening import ProgressListener
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.reasons import first_sentence, of_spark
from panestream.spark.shipping import ship_module

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import panestream as pst

T = TypeVar("T")


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
        sinks = self.loaded.job.sinks.recipes(self.loaded.job.key)
        return {tag: sink.guarantee(self.spark) for tag, sink in sinks.items()}

    def start(self, on_progress: Callable[[BatchProgress], Any]) -> Query:
        job = self.loaded.job
        sinks: dict[str, Any] = {**job.sinks.recipes(job.key)}
        for listener in self.listeners:
            self.spark.streams.addListener(listener)
        loaded, how = from_savepoint(self.loaded, self.spark)
        how |= {"checkpoint": str(job.checkpoint), "trigger": job.trigger.spark, "name": job.name, "on_progress": on_progress}
        how["close_at_end"] = job.trigger.close_at_end
        return self._watched(build(loaded, self.spark)).start(**how, **sinks)

    def run_batch(self) -> None:
        job = self.loaded.job
        self._watched(self._result()).run(**job.sinks.recipes(job.key))

    def _watched(self, result: pst.WindowedResult) -> pst.WindowedResult:
        """For the report, where one is wanted; of what starts from a savepoint the rows are left as they are."""
        report = self.loaded.report
        return result if report is None else report.watch(result, times=self.loaded.savepoint is None)

    def _result(self) -> pst.WindowedResult:
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


def check_paths(loaded: LoadedJob) -> None:
    """Looks for local input before Spark is started, which takes seconds and then says it less clearly.

    Raises:
        JobError: the input is not there.
    """
    path = loaded.job.source.path
    # A glob may match only later; Spark says so itself if it never does.
    if path is None or not is_local(path) or not loaded.job.source.reads_files or set(path) & set("*?[{"):
        return
    if not Path(path).exists():
        place = loaded.place("source", "path")
        place.note(f"there is nothing at {path}")
        place.finish()


def read_source(loaded: LoadedJob, spark: SparkSession) -> pst.DataStream:
    """The rows of ``[source]``: read, with the derived columns, filtered.

    Raises:
        JobError: Spark refuses the source, the schema or a SQL text; the error names the key.
    """
    stream = _read(loaded, spark)
    df, source = stream.df, loaded.job.source
    for name, expression in source.columns.items():
        df = _asked(loaded, ("source", "columns", name), partial(_with_column, df, name, expression))
    where = source.where
    if where is not None:
        df = _asked(loaded, ("source", "where"), partial(_filtered, df, where))
    return replace(stream, df=df)


def _read(loaded: LoadedJob, spark: SparkSession) -> pst.DataStream:
    import panestream as pst

    source, streaming = loaded.job.source, loaded.job.mode == "stream"
    schema, kafka = source.schema, source.kafka
    if kafka is not None:
        event_time = loaded.job.event_time
        invalid = event_time is not None and event_time.invalid == "side_output"
        ask = partial(kafka.stream, spark, schema, source.options, invalid=invalid, batch=not streaming)
        return _asked(loaded, ("source", "kafka"), ask)
    options = dict(source.options)
    if source.header is not None:
        options["header"] = "true" if source.header else "false"
    if streaming and source.files_per_batch is not None and source.limit is not None:
        options[source.limit] = str(source.files_per_batch)
    reader: Any = (spark.readStream if streaming else spark.read).options(**options)
    if source.table is None:
        reader = reader.format(source.format)
    if schema is not None:
        reader = _asked(loaded, ("source", "schema"), lambda: reader.schema(schema))
    path = stream_path(source) if streaming else source.path
    if source.table is not None:
        df: DataFrame = _asked(loaded, ("source", "table"), lambda: _analysed(reader.table(source.table)))
    else:
        df = _asked(loaded, ("source",), lambda: reader.load() if path is None else reader.load(path))
    return pst.stream(df)


def _with_column(df: DataFrame, name: str, expression: str) -> DataFrame:
    from pyspark.sql import functions as F

    return _analysed(df.withColumn(name, F.expr(expression)))


def _filtered(df: DataFrame, where: str) -> DataFrame:
    from pyspark.sql import functions as F

    from panestream.spark.kafka.records import filtered

    return _analysed(filtered(df, F.expr(where)))


def _analysed(df: DataFrame) -> DataFrame:
    """Spark Connect looks at a query only when somebody asks for its columns."""
    _ = df.columns
    return df


def _asked(loaded: LoadedJob, where: KeyPath, ask: Callable[[], T]) -> T:
    """What ``ask`` returns; what Spark or the library says against it becomes an error about the key ``where``."""
    from panestream.spark.asking import asking

    try:
        with asking():
            return ask()
    except JobError:
        raise
    except Exception as error:
        ours = isinstance(error, PanestreamError)
        if not ours and not of_spark(error):
            raise
        window = loaded.job.window
        if isinstance(error, InvalidWindowError) and window is not None and window.gap_column is not None:
            where = ("window", "gap_column")  # its type is looked at where the inputs of aggregates are
        place = loaded.place(*where)
        place.note(str(error).removeprefix(f"{where[-1]}: ") if ours else f"Spark refuses it: {first_sentence(error)}")
        place.finish()
        raise


def stream_path(source: Source) -> str:
    """The path of a stream of files. Spark wants a folder or a glob there; a single file becomes a glob that matches only it."""
    path = str(source.path)
    if not source.reads_files or not is_local(path) or not Path(path).is_file():
        return path
    name = Path(path).name
    # A glob must have a wildcard to be one: [c] matches the letter c.
    return str(Path(path).with_name(f"[{name[0]}]{name[1:]}"))


def build(loaded: LoadedJob, spark: SparkSession) -> pst.WindowedResult:
    """The windowed query of a job, not yet started.

    Raises:
        JobError: a key names a column that the source does not have, or asks for what the library or Spark refuses; a function
            cannot be imported. The error names the key.
    """
    job = loaded.job
    functions = find_function(loaded)
    stream = read_source(loaded, spark)
    _check_columns(loaded, stream.df.columns)
    check_zone(loaded, spark)
    windowed = _windowed(loaded, stream)
    if functions is not None and functions.home is not None:
        ship_module(spark, functions.home)
    result = _computed(loaded, windowed, functions)
    if job.top is not None:
        largest = job.top
        result = _asked(loaded, ("top",), partial(result.top, largest.n, by=largest.by))
    if job.with_firing:
        result = _asked(loaded, ("with_firing",), result.with_firing)
    return _asked(loaded, ("changelog",), result.changelog) if job.changelog else result


def find_function(loaded: LoadedJob) -> Found | None:
    """The user's own function, if the job has one.

    Raises:
        JobError: it cannot be imported.
    """
    function = loaded.job.function
    if function is None:
        return None
    return find(function[1], loaded.document.path.resolve().parent, loaded.place(function[0], "function"))


def _windowed(loaded: LoadedJob, stream: pst.DataStream) -> pst.WindowedStream:
    """The rows of the source in their windows."""
    import panestream as pst

    job = loaded.job
    if job.event_time is not None and job.watermark is not None:
        column, unit, strategy = job.event_time.expression, job.event_time.unit, job.watermark.recipe
        timed = stream.assign_timestamps
        stream = _asked(loaded, ("event_time",), lambda: timed(column, strategy, unit=unit))
        if job.event_time.invalid == "side_output":
            stream = stream.side_output_invalid("invalid")
    if job.processing_time is not None:
        taken = partial(stream.processing_time_from, job.processing_time.column, unit=job.processing_time.unit)
        stream = _asked(loaded, ("processing_time",), taken)
    keyed = _asked(loaded, ("key",), partial(stream.key_by, *job.key)) if job.key else pst.KeyedStream(stream, ())
    if job.window is None:
        labelled = {label: spec.assigner for label, spec in job.windows.items()}
        windowed = _asked(loaded, ("windows",), lambda: keyed.windows(labelled))
    elif job.window.type == "count":
        windowed = keyed.count_window(*job.window.counts)
    else:
        windowed = _asked(loaded, ("window",), partial(keyed.window, job.window.assigner))
    if job.firing is not None:
        windowed = _asked(loaded, ("firing",), partial(windowed.trigger, job.firing.recipe))
    if job.allowed_lateness is not None:
        windowed = windowed.allowed_lateness(job.allowed_lateness)
    if job.sinks.late is not None:
        windowed = windowed.side_output_late_data("late")
    if job.key_groups is not None:
        windowed = _asked(loaded, ("key_groups",), partial(windowed.key_groups, job.key_groups))
    if job.tasks is not None:
        windowed = _asked(loaded, ("tasks",), partial(windowed.tasks, job.tasks))
    if job.memory_limit is not None:
        windowed = windowed.memory_limit(job.memory_limit)
    return windowed.exact_firings() if job.exact_firings else windowed


def _computed(loaded: LoadedJob, windowed: pst.WindowedStream, found: Found | None) -> pst.WindowedResult:
    """What becomes of the rows of a window."""
    function = loaded.job.function
    if function is None or found is None:
        recipes = [each.recipe for each in loaded.job.aggregate]
        keep = loaded.job.keep
        return _asked(loaded, ("aggregate",), lambda: windowed.aggregate(*recipes, keep=keep))
    name, spec = function
    value, where = found.value, (name,)
    if isinstance(spec, ArrowFunctionSection):
        return _asked(loaded, where, lambda: windowed.apply_arrow(value, spec.schema, all_windows=spec.all_windows))
    if isinstance(spec, ProcessSection):
        return _asked(loaded, where, lambda: windowed.process(value, spec.schema, stateless=spec.stateless))
    return _asked(loaded, where, lambda: windowed.apply(value, spec.schema))


def _check_columns(loaded: LoadedJob, columns: Sequence[str]) -> None:
    """Column names that are not there are found here, where the line of the job file is known."""
    job, place = loaded.job, loaded.place()
    wanted: list[tuple[KeyPath, str]] = []
    if job.event_time is not None:
        wanted.append((("event_time", "column"), job.event_time.column))
    if job.processing_time is not None:
        wanted.append((("processing_time", "column"), job.processing_time.column))
    wanted += [((*path, "gap_column"), spec.gap_column) for path, spec in job.every_window if spec.gap_column is not None]
    wanted += [(("key", index), each) for index, each in enumerate(job.key)]
    if job.watermark is not None and job.watermark.per_partition is not None:
        wanted.append((("watermark", "per_partition"), job.watermark.per_partition))
    # Spark's names do not care about case.
    known = {column.lower() for column in columns}
    for where, column in wanted:
        # Whatever is not a plain word is a SQL expression, and Spark's to judge.
        if column.isidentifier() and column.lower() not in known:
            place.at(*where).note(f"the source has no column {column!r}; {did_you_mean(column, columns)}")
    place.finish()


def check_zone(loaded: LoadedJob, spark: SparkSession) -> None:
    """Asks Spark for the zone of event times: one that it does not know would make every row invalid.

    Raises:
        JobError: it does not know it.
    """
    event_time = loaded.job.event_time
    if event_time is None or event_time.timezone is None:
        return
    from pyspark.sql import functions as F

    probe = F.try_to_timestamp(F.lit(f"2000-01-01 00:00 {event_time.timezone}"), F.lit("yyyy-MM-dd HH:mm VV"))
    where = ("event_time", "timezone")
    if _asked(loaded, where, spark.range(1).select(probe.isNull()).collect)[0][0]:
        place = loaded.place(*where)
        place.note(f"Spark knows no time zone {event_time.timezone!r}")
        place.finish()
