"""Builds the windowed query of a checked job; messages of Spark and the library name the key and use the terms of job files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import panestream as pst
from panestream.errors import (
    InvalidEventTimeError,
    InvalidWindowError,
    JobError,
    PanestreamError,
    PanestreamWarning,
    did_you_mean,
)
from panestream.jobs.document import KeyPath
from panestream.jobs.functions import ArrowFunctionSection, LoadedFunction, ProcessSection, find
from panestream.jobs.loading import LoadedJob, check_clock
from panestream.jobs.model import Job
from panestream.jobs.schema import is_local
from panestream.jobs.streams import SourceSection, Stream
from panestream.spark.failures import first_sentence, of_spark
from panestream.spark.places import escaped
from panestream.spark.session import ship_module
from panestream.windowing.process_functions import KeyedBroadcastProcessFunction, KeyedProcessFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import panestream as pst
    from panestream.datastream.as_of_join import AsOfJoin
    from panestream.datastream.co_grouped import IntervalPairs

T = TypeVar("T")
W = TypeVar("W", "pst.datastream.WindowedStream", "IntervalPairs", "AsOfJoin")
Side = tuple[str, ...]
"""The path of a stream: () at the top level, or ``left``, ``right`` or ``rules``."""


def check_paths(loaded: LoadedJob) -> None:
    """Raise ``JobError`` if local input is missing: Spark takes seconds to start and reports it less clearly."""
    place = loaded.place()
    for where, stream in loaded.job.streams:
        path = stream.source.path
        # A glob may match later; Spark reports it otherwise.
        if path is None or not is_local(path) or not stream.source.reads_files or stream.source.is_pattern:
            continue
        if not Path(path).exists():
            place.at(*where, "source", "path").note(f"{path} does not exist")
    place.finish()


def build(loaded: LoadedJob, spark: SparkSession) -> pst.datastream.WindowedResult:
    """Return the windowed query of a job, not yet started; every ``JobError`` names its key."""
    job = loaded.job
    functions = find_function(loaded)
    keyed = [_keyed(loaded, where, one, spark) for where, one in job.streams]
    if functions is not None and functions.home is not None:
        ship_module(spark, functions.home)
    if job.without_windows == "process":
        return _processed(loaded, functions, *keyed)
    if job.without_windows is not None:
        return (_near_in_time if job.interval_join is not None else _as_of)(loaded, *keyed)
    windowed = _windowed(loaded, keyed)
    result = _computed(loaded, windowed, functions)
    if job.top is not None:
        largest = job.top
        result = _at_key(loaded, ("top",), partial(result.top, largest.n, by=largest.by))
    if job.with_firing:
        result = _at_key(loaded, ("with_firing",), result.with_firing)
    return _at_key(loaded, ("changelog",), result.changelog) if job.changelog else result


def find_function(loaded: LoadedJob) -> LoadedFunction | None:
    """Return the job's user function or None; raise ``JobError`` if it cannot be imported."""
    function = loaded.job.function
    if function is None:
        return None
    found = find(function[1], loaded.document.path.resolve().parent, loaded.place(function[0], "function"))
    if function[0] == "process":
        _check_process_function(loaded, found.value)
    return found


def _check_process_function(loaded: LoadedJob, function: object) -> None:
    """Raise ``JobError`` unless the function of ``[process]`` fits the windows, rules and trigger of the job."""
    job, place = loaded.job, loaded.place()
    at = place.at("process", "function")
    of_rows, of_rules = (isinstance(function, kind) for kind in (KeyedProcessFunction, KeyedBroadcastProcessFunction))
    if job.without_windows != "process":
        if of_rows or of_rules:
            at.note("receives rows one by one, without windows: leave out [window]")
    elif job.rules is not None and not of_rules:
        also = ". Or leave out [rules]" if of_rows else ""
        at.note(f"is not of a class that extends KeyedBroadcastProcessFunction, which receives [rules]{also}")
    elif job.rules is None and of_rules:
        at.note("extends KeyedBroadcastProcessFunction: its second stream is missing, [rules]")
    elif job.rules is None and not of_rows:
        at.note("is not of a class that extends KeyedProcessFunction. A function of the rows of a window needs a [window]")
    else:
        check_clock(job, place, uses_processing_time=bool(getattr(function, "uses_processing_time", False)))
    place.finish()


def _keyed(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> pst.datastream.KeyedStream:
    stream = _read_stream(loaded, where, one, spark)
    if not one.key:
        return pst.datastream.KeyedStream(stream, ())
    return _at_key(loaded, (*where, "key"), partial(stream.key_by, *one.key))


def _windowed(loaded: LoadedJob, streams: Sequence[pst.datastream.KeyedStream]) -> pst.datastream.WindowedStream:
    job = loaded.job
    keyed: Any = streams[0]
    if len(streams) > 1:
        left, right = streams
        # Streams that cannot be combined usually have different keys.
        keyed = _at_key(loaded, ("right", "key"), partial(left.join if job.join is not None else left.co_group, right))
    windowed: pst.datastream.WindowedStream
    if job.window is None:
        labelled = {label: spec.assigner for label, spec in job.windows.items()}
        windowed = _at_key(loaded, ("windows",), lambda: keyed.windows(labelled))
    elif job.window.type == "count":
        windowed = keyed.count_window(*job.window.counts)
    else:
        windowed = _at_key(loaded, ("window",), partial(keyed.window, job.window.assigner))
    if job.firing is not None:
        windowed = _at_key(loaded, ("firing",), partial(windowed.trigger, job.firing.recipe))
    if job.fill is not None:
        own = job.fill
        session = keyed.source.df.sparkSession
        keys = None if own.keys is None else _at_key(loaded, ("fill", "keys"), lambda: _analysed(session.table(own.keys)))
        windowed = _at_key(loaded, ("fill",), partial(windowed.fill, own.method, own.results, max_gap=own.max_gap, keys=keys))
    if job.allowed_lateness is not None:
        windowed = windowed.allowed_lateness(job.allowed_lateness)
    windowed = _spread(loaded, windowed)
    return windowed.options(every_firing=True) if job.every_firing else windowed


def _spread(loaded: LoadedJob, windowed: W) -> W:
    """Set the options shared by windows and joins without windows: the late output and the distribution of the work."""
    job: Any = loaded.job
    if job.sinks.late is not None or job.sinks.late_left is not None or job.sinks.late_right is not None:
        windowed = _at_key(loaded, ("sinks",), partial(windowed.side_output_late_data, "late"))
    for name, value in _options(job).items():
        windowed = _at_key(loaded, (name,), partial(windowed.options, **{name: value}))
    return windowed


def _options(job: Job) -> dict[str, Any]:
    """Return the options of the library that the job sets."""
    known = ("key_groups", "tasks", "memory_limit", "rows_per_pane")
    return {name: getattr(job, name) for name in known if getattr(job, name) is not None}


def _processed(
    loaded: LoadedJob,
    function: LoadedFunction | None,
    keyed: Any,
    rules: Any = None,
) -> pst.datastream.WindowedResult:
    """Return the results of a process function over rows without windows, and over the rows of ``rules`` if there are some."""
    spec: Any = loaded.job.process
    value: Any = None if function is None else function.value
    rows = keyed if rules is None else _at_key(loaded, ("rules",), lambda: keyed.connect(rules.source))
    ask: Callable[[], pst.datastream.WindowedResult] = partial(rows.process, value, spec.schema, **_options(loaded.job))
    return _at_key(loaded, ("process",), ask)


def _near_in_time(
    loaded: LoadedJob, left: pst.datastream.KeyedStream, right: pst.datastream.KeyedStream
) -> pst.datastream.WindowedResult:
    spec: Any = loaded.job.interval_join
    where = ("interval_join",)
    near = _at_key(loaded, ("right", "key"), partial(left.interval_join, right))
    pairs = _at_key(loaded, where, partial(near.between, spec.lower, spec.upper))
    pairs = pairs.lower_bound_exclusive() if spec.lower_exclusive else pairs
    pairs = pairs.upper_bound_exclusive() if spec.upper_exclusive else pairs
    pairs = _spread(loaded, pairs)
    return _at_key(loaded, where, partial(pairs.pairs, spec.how, suffixes=spec.suffixes))


def _as_of(
    loaded: LoadedJob, left: pst.datastream.KeyedStream, right: pst.datastream.KeyedStream
) -> pst.datastream.WindowedResult:
    spec: Any = loaded.job.asof_join
    options = {"direction": spec.direction, "tolerance": spec.tolerance, "deletes": spec.deletes}
    at = ("asof_join", "deletes") if spec.deletes is not None else ("right", "key")
    joined = _spread(loaded, _at_key(loaded, at, partial(left.asof_join, right, **options)))
    return _at_key(loaded, ("asof_join",), partial(joined.pairs, spec.how, suffixes=spec.suffixes))


def _computed(
    loaded: LoadedJob, windowed: pst.datastream.WindowedStream, found: LoadedFunction | None
) -> pst.datastream.WindowedResult:
    job: Any = loaded.job
    function = job.function
    if job.join is not None:
        how, suffixes = job.join.how, job.join.suffixes
        pairs: Callable[..., pst.datastream.WindowedResult] = windowed.pairs  # type: ignore[attr-defined]
        return _at_key(loaded, ("join",), partial(pairs, how, suffixes=suffixes))
    if job.panes:
        return _at_key(loaded, ("panes",), lambda: windowed.panes(*(each.recipe for each in job.panes)))
    if function is None or found is None:
        recipes = [each.recipe for each in loaded.job.aggregate]
        kept = windowed if loaded.job.keep is None else windowed.keep(*loaded.job.keep)
        return _at_key(loaded, ("aggregate",), lambda: kept.aggregate(*recipes))
    name, spec = function
    value, where = found.value, (name,)
    if isinstance(spec, ArrowFunctionSection):
        return _at_key(loaded, where, lambda: windowed.apply_arrow(value, spec.schema, all_windows=spec.all_windows))
    if isinstance(spec, ProcessSection):
        return _at_key(loaded, where, lambda: windowed.process(value, spec.schema, stateless=spec.stateless))
    return _at_key(loaded, where, lambda: windowed.apply(value, spec.schema))


def _read_stream(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> pst.datastream.DataStream:
    """Return a stream with derived columns, filter, selection and times."""
    stream, source = _read_source(loaded, where, one, spark), one.source
    df = stream.df
    for name, expression in source.columns.items():
        df = _at_key(loaded, (*where, "source", "columns", name), partial(_with_column, df, name, expression))
    if source.where is not None:
        df = _at_key(loaded, (*where, "source", "where"), partial(_filtered, df, source.where))
    if source.select is not None:
        df = _at_key(loaded, (*where, "source", "select"), partial(_selected, df, source.select))
    _check_columns(loaded, where, one, df.columns)
    _check_zone(loaded, where, one, spark)
    return _timed(loaded, where, one, replace(stream, df=df))


def _read_source(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> pst.datastream.DataStream:
    source, streaming = one.source, loaded.job.mode == "stream"
    schema, kafka = source.schema, source.kafka
    if kafka is not None:
        event_time = one.event_time
        invalid = event_time is not None and event_time.invalid == "side_output"
        ask = partial(kafka.stream, spark, schema, source.options, invalid=invalid, batch=not streaming)
        return _at_key(loaded, (*where, "source", "kafka"), ask)
    options = dict(source.options)
    if source.header is not None:
        options["header"] = "true" if source.header else "false"
    if streaming and source.files_per_batch is not None and source.limit is not None:
        options[source.limit] = str(source.files_per_batch)
    reader: Any = (spark.readStream if streaming else spark.read).options(**options)
    if source.table is None:
        reader = reader.format(source.format)
    if schema is not None:
        reader = _at_key(loaded, (*where, "source", "schema"), lambda: reader.schema(schema))
    path = spark_path(source, streaming=streaming)
    if source.table is not None:
        df: DataFrame = _at_key(loaded, (*where, "source", "table"), lambda: _analysed(reader.table(source.table)))
    else:
        df = _at_key(loaded, (*where, "source"), lambda: reader.load() if path is None else reader.load(path))
    return pst.stream(df)


def _with_column(df: DataFrame, name: str, expression: str) -> DataFrame:
    from pyspark.sql import functions as F

    return _analysed(df.withColumn(name, F.expr(expression)))


def _filtered(df: DataFrame, where: str) -> DataFrame:
    from pyspark.sql import functions as F

    from panestream.spark.kafka.source import filtered

    return _analysed(filtered(df, F.expr(where)))


def _selected(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    from panestream.spark.columns import column_of
    from panestream.spark.kafka.source import ARRIVAL, MALFORMED, SOURCE

    chosen = [column_of(df, one, "select") for one in columns]
    wanted = df.select(*chosen).columns
    # The position columns give a record's partition and order; MALFORMED marks unreadable records.
    own = [name for name in (*ARRIVAL, SOURCE, MALFORMED) if name in df.columns and name not in wanted]
    return _analysed(df.select(*chosen, *own))


def _analysed(df: DataFrame) -> DataFrame:
    """Force the analysis now: Spark Connect delays it until a query's columns are read."""
    _ = df.columns
    return df


def _at_key(loaded: LoadedJob, where: KeyPath, ask: Callable[[], T]) -> T:
    """Return the result of ``ask``; convert refusals by Spark or the library to errors about the key ``where``."""
    from panestream.spark.compat import silence_analysis_errors

    try:
        with silence_analysis_errors():
            return ask()
    except JobError:
        raise
    except Exception as error:
        ours = isinstance(error, PanestreamError)
        if not ours and not of_spark(error):
            raise
        window = loaded.job.window
        if isinstance(error, InvalidWindowError) and window is not None and window.gap_column is not None:
            where = ("window", "gap_column")  # the library checks its type together with the aggregate inputs
        place = loaded.place(*where)
        said = in_job_words(str(error).removeprefix(f"{where[-1]}: ").removeprefix("pairs: ")) if ours else first_sentence(error)
        place.note(said if ours else f"Spark refuses it: {said}")
        place.finish()
        raise


def spark_path(source: SourceSection, *, streaming: bool) -> str | None:
    """Return the path for Spark's readers.

    They treat every path as a pattern, so existing paths are escaped. A stream needs a folder or pattern, so a single file
    becomes a pattern that matches only this file.
    """
    path = source.path
    if path is None or not source.reads_files or source.is_pattern or not is_local(path):
        return path
    pattern = escaped(path)
    if not streaming or pattern != path or not Path(path).is_file():
        return pattern
    name = Path(path).name
    # A pattern needs a wildcard: [c] matches the letter c.
    return str(Path(path).with_name(f"[{name[0]}]{name[1:]}"))


def _timed(loaded: LoadedJob, where: Side, one: Stream, stream: pst.datastream.DataStream) -> pst.datastream.DataStream:
    if one.event_time is not None and one.watermark is not None:
        column, unit, strategy = one.event_time.expression, one.event_time.unit, one.watermark.recipe
        timed = stream.assign_timestamps
        stream = _at_key(loaded, (*where, "event_time"), lambda: timed(column, strategy, unit=unit))
        if one.event_time.invalid == "side_output":
            stream = stream.side_output_invalid("_".join(("invalid", *where)))
    if one.processing_time is not None:
        taken = partial(stream.processing_time_from, one.processing_time.column, unit=one.processing_time.unit)
        stream = _at_key(loaded, (*where, "processing_time"), taken)
    return stream


def _check_columns(loaded: LoadedJob, where: Side, one: Stream, columns: Sequence[str]) -> None:
    """Note unknown column names here, where the lines of the job file are known."""
    wanted: list[tuple[KeyPath, str]] = []
    if one.event_time is not None:
        wanted.append(((*where, "event_time", "column"), one.event_time.column))
    if one.processing_time is not None:
        wanted.append(((*where, "processing_time", "column"), one.processing_time.column))
    if not where:
        every = loaded.job.every_window
        wanted += [((*path, "gap_column"), spec.gap_column) for path, spec in every if spec.gap_column is not None]
    wanted += [((*where, "key", index), each) for index, each in enumerate(one.key)]
    if one.watermark is not None and one.watermark.per_partition is not None:
        wanted.append(((*where, "watermark", "per_partition"), one.watermark.per_partition))
    # Spark's column names are case-insensitive.
    known, place = {column.lower() for column in columns}, loaded.place()
    for path, column in wanted:
        # Anything but a plain word is a SQL expression, which Spark checks.
        if column.isidentifier() and column.lower() not in known:
            source = f"{'.'.join((*where, 'source'))}" if where else "the source"
            place.at(*path).note(f"{source} has no column {column!r}; {did_you_mean(column, columns)}")
    place.finish()


def _check_zone(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> None:
    """Raise ``JobError`` if Spark does not know the time zone, which would make the event times of all rows invalid."""
    zone = None if one.event_time is None else one.event_time.timezone
    if zone is None:
        return
    from pyspark.sql import functions as F

    probe = F.try_to_timestamp(F.lit(f"2000-01-01 00:00 {zone}"), F.lit("yyyy-MM-dd HH:mm VV"))
    path = (*where, "event_time", "timezone")
    if _at_key(loaded, path, spark.range(1).select(probe.isNull()).collect)[0][0]:
        place = loaded.place(*path)
        place.note(f"Spark does not have the time zone {zone!r}")
        place.finish()


WORDS: Mapping[str, str] = {
    "with .side_output_invalid(tag)": "with event_time.invalid = 'side_output' and a [sinks.invalid]",
    "keep them with .side_output_late_data('late') and start(late=...)": "keep them in a [sinks.late]",
    "more delay of the watermark, .allowed_lateness(...)": "more watermark.delay, or allowed_lateness",
    " (Shown once for each start; the counts of every micro-batch are in query.recent_progress.)": "",
}
"""Phrases of the library's messages, with their equivalents in a job file."""

FORMS: Mapping[str, str] = {
    r"\.key_by\('(.*?)'\)": r"key = '\1'",
    r"\.pairs\(suffixes=\('', '_right'\)\), or rename one before pst\.stream\(df\), df\.withColumnRenamed\((.*?), \.\.\.\)": (
        r"right_suffix = '_right', or rename one by source.select"
    ),
    r"[Rr]ename it before pst\.stream\(df\)": "Rename it by source.select",
}
"""Patterns of phrases with variable parts, with their equivalents in a job file."""


def in_job_words(text: str) -> str:
    """Translate a message of the library for the author of a job file.

    >>> in_job_words("Filter such rows out, or route them to an output with .side_output_invalid(tag)")
    "Filter such rows out, or route them to an output with event_time.invalid = 'side_output' and a [sinks.invalid]"
    """
    for python, job in WORDS.items():
        text = text.replace(python, job)
    for python, job in FORMS.items():
        text = re.sub(python, job, text)
    return text


@contextmanager
def translate_messages(loaded: LoadedJob, tell: Callable[[str], object]) -> Generator[None]:
    """Pass warnings to ``tell`` while a job runs; raise a ``JobError`` at the key for rows without a usable event time."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: object) -> None:
        if issubclass(category, PanestreamWarning):
            tell(in_job_words(str(message)))
        else:
            shown(message, category, *where)  # type: ignore[arg-type]

    with warnings.catch_warnings():
        warnings.simplefilter("always", PanestreamWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        try:
            yield
        except InvalidEventTimeError as error:
            # With two streams, the error names the column but not the side.
            place = loaded.place("event_time") if loaded.job.left is None else loaded.place()
            place.note(in_job_words(str(error)))
            place.finish()
            raise
