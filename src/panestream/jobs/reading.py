"""The rows of a job's streams with their times; and what Spark says against a job, told with the line of its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from panestream.errors import InvalidWindowError, JobError, PanestreamError, did_you_mean
from panestream.jobs.document import KeyPath
from panestream.jobs.loading import LoadedJob
from panestream.jobs.schema import is_local
from panestream.jobs.source import Source
from panestream.jobs.streams import Stream
from panestream.jobs.words import in_job_words
from panestream.spark.places import escaped
from panestream.spark.reasons import first_sentence, of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import panestream as pst

T = TypeVar("T")
Side = tuple[str, ...]
"""Where a stream is said: at the top, or in [left] or [right]."""


def check_paths(loaded: LoadedJob) -> None:
    """Looks for local input before Spark is started, which takes seconds and then says it less clearly.

    Raises:
        JobError: the input is not there.
    """
    place = loaded.place()
    for where, stream in loaded.job.streams:
        path = stream.source.path
        # A glob may match only later; Spark says so itself if it never does.
        if path is None or not is_local(path) or not stream.source.reads_files or stream.source.is_pattern:
            continue
        if not Path(path).exists():
            place.at(*where, "source", "path").note(f"there is nothing at {path}")
    place.finish()


def read_stream(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> pst.datastream.DataStream:
    """The rows of a stream: read, with the derived columns, filtered, those columns that are wanted; with their times.

    Args:
        loaded: the job.
        where: of the stream, as ``Job.streams`` has it.
        one: the stream.
        spark: the session.

    Raises:
        JobError: Spark refuses the source, the schema or a SQL text; a column is not there. The error names the key.
    """
    stream, source = _read(loaded, where, one, spark), one.source
    df = stream.df
    for name, expression in source.columns.items():
        df = asked(loaded, (*where, "source", "columns", name), partial(_with_column, df, name, expression))
    if source.where is not None:
        df = asked(loaded, (*where, "source", "where"), partial(_filtered, df, source.where))
    if source.select is not None:
        df = asked(loaded, (*where, "source", "select"), partial(_selected, df, source.select))
    _check_columns(loaded, where, one, df.columns)
    _check_zone(loaded, where, one, spark)
    return _timed(loaded, where, one, replace(stream, df=df))


def _read(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> pst.datastream.DataStream:
    import panestream as pst

    source, streaming = one.source, loaded.job.mode == "stream"
    schema, kafka = source.schema, source.kafka
    if kafka is not None:
        event_time = one.event_time
        invalid = event_time is not None and event_time.invalid == "side_output"
        ask = partial(kafka.stream, spark, schema, source.options, invalid=invalid, batch=not streaming)
        return asked(loaded, (*where, "source", "kafka"), ask)
    options = dict(source.options)
    if source.header is not None:
        options["header"] = "true" if source.header else "false"
    if streaming and source.files_per_batch is not None and source.limit is not None:
        options[source.limit] = str(source.files_per_batch)
    reader: Any = (spark.readStream if streaming else spark.read).options(**options)
    if source.table is None:
        reader = reader.format(source.format)
    if schema is not None:
        reader = asked(loaded, (*where, "source", "schema"), lambda: reader.schema(schema))
    path = spark_path(source, streaming=streaming)
    if source.table is not None:
        df: DataFrame = asked(loaded, (*where, "source", "table"), lambda: _analysed(reader.table(source.table)))
    else:
        df = asked(loaded, (*where, "source"), lambda: reader.load() if path is None else reader.load(path))
    return pst.stream(df)


def _with_column(df: DataFrame, name: str, expression: str) -> DataFrame:
    from pyspark.sql import functions as F

    return _analysed(df.withColumn(name, F.expr(expression)))


def _filtered(df: DataFrame, where: str) -> DataFrame:
    from pyspark.sql import functions as F

    from panestream.spark.kafka.records import filtered

    return _analysed(filtered(df, F.expr(where)))


def _selected(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    from panestream.spark.columns import column_of
    from panestream.spark.kafka.records import ARRIVAL, MALFORMED, SOURCE

    chosen = [column_of(df, one, "select") for one in columns]
    wanted = df.select(*chosen).columns
    # By where a record lies its partition is told, and the order of rows; and by what could not be read that it could not.
    own = [name for name in (*ARRIVAL, SOURCE, MALFORMED) if name in df.columns and name not in wanted]
    return _analysed(df.select(*chosen, *own))


def _analysed(df: DataFrame) -> DataFrame:
    """Spark Connect looks at a query only when somebody asks for its columns."""
    _ = df.columns
    return df


def asked(loaded: LoadedJob, where: KeyPath, ask: Callable[[], T]) -> T:
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
        said = in_job_words(str(error).removeprefix(f"{where[-1]}: ").removeprefix("pairs: ")) if ours else first_sentence(error)
        place.note(said if ours else f"Spark refuses it: {said}")
        place.finish()
        raise


def spark_path(source: Source, *, streaming: bool) -> str | None:
    """Return the path as Spark's readers take it.

    They take every path for a pattern, so a path that exists is escaped. A stream wants a folder or a pattern: a single file
    becomes a pattern that matches only this file.
    """
    path = source.path
    if path is None or not source.reads_files or source.is_pattern or not is_local(path):
        return path
    pattern = escaped(path)
    if not streaming or pattern != path or not Path(path).is_file():
        return pattern
    name = Path(path).name
    # A pattern must have a wildcard to be one: [c] matches the letter c.
    return str(Path(path).with_name(f"[{name[0]}]{name[1:]}"))


def _timed(loaded: LoadedJob, where: Side, one: Stream, stream: pst.datastream.DataStream) -> pst.datastream.DataStream:
    """The rows with their event time, watermark and clock."""
    if one.event_time is not None and one.watermark is not None:
        column, unit, strategy = one.event_time.expression, one.event_time.unit, one.watermark.recipe
        timed = stream.assign_timestamps
        stream = asked(loaded, (*where, "event_time"), lambda: timed(column, strategy, unit=unit))
        if one.event_time.invalid == "side_output":
            stream = stream.side_output_invalid("_".join(("invalid", *where)))
    if one.processing_time is not None:
        taken = partial(stream.processing_time_from, one.processing_time.column, unit=one.processing_time.unit)
        stream = asked(loaded, (*where, "processing_time"), taken)
    return stream


def _check_columns(loaded: LoadedJob, where: Side, one: Stream, columns: Sequence[str]) -> None:
    """Column names that are not there are found here, where the line of the job file is known."""
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
    # Spark's names do not care about case.
    known, place = {column.lower() for column in columns}, loaded.place()
    for path, column in wanted:
        # Whatever is not a plain word is a SQL expression, and Spark's to judge.
        if column.isidentifier() and column.lower() not in known:
            source = f"{'.'.join((*where, 'source'))}" if where else "the source"
            place.at(*path).note(f"{source} has no column {column!r}; {did_you_mean(column, columns)}")
    place.finish()


def _check_zone(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> None:
    """Asks Spark for the zone of event times: one that it does not know would make every row invalid.

    Raises:
        JobError: it does not know it.
    """
    zone = None if one.event_time is None else one.event_time.timezone
    if zone is None:
        return
    from pyspark.sql import functions as F

    probe = F.try_to_timestamp(F.lit(f"2000-01-01 00:00 {zone}"), F.lit("yyyy-MM-dd HH:mm VV"))
    path = (*where, "event_time", "timezone")
    if asked(loaded, path, spark.range(1).select(probe.isNull()).collect)[0][0]:
        place = loaded.place(*path)
        place.note(f"Spark knows no time zone {zone!r}")
        place.finish()


__all__ = ["asked", "check_paths", "read_stream", "spark_path"]
