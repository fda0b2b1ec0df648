"""The streams of a job file: their sources, times and watermarks, ``[left]`` and ``[right]``, and the joins of their rows."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import panestream as pst
from panestream.engine.operators.as_of_join import BACKWARD, DIRECTIONS
from panestream.engine.runtime.sides import HOWS, INNER, LEFT_OUTER, OF_PAIRS, join_called
from panestream.errors import InvalidPlanError
from panestream.jobs.schema import (
    DocumentPlace,
    Reader,
    Section,
    array,
    boolean,
    choice,
    column,
    ddl,
    duration,
    identifier,
    integer,
    is_local,
    location,
    name_like,
    pattern,
    section,
    setting,
    shown,
    spark_options,
    sql,
    table_name,
    text,
)
from panestream.jobs.schema import table as table_of
from panestream.windowing.time import to_micros
from panestream.windowing.watermarks import WatermarkStrategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Source formats that read files: they need a path, and ``files_per_batch`` splits them into micro-batches."""

TABLE_FORMATS: Mapping[str, str | None] = {
    "delta": "maxFilesPerTrigger",
    "iceberg": "streaming-max-files-per-micro-batch",
    "table": None,
}
"""Source formats that read a table by path or name, with the option that limits the files of a micro-batch."""

_RECORD_FORMATS = ("json", "string", "binary", "none")


def check_names(place: DocumentPlace, servers: str, key: str, topics: Sequence[str]) -> None:
    """Note invalid servers and topics before Spark runs; ``key`` is the section's key that holds the topics."""
    from panestream.spark.kafka.source import check_servers, check_topic

    asked: list[tuple[str, Callable[[object], None], str]] = [("servers", check_servers, servers)]
    for name, check, value in [*asked, *((key, check_topic, topic) for topic in topics)]:
        try:
            check(value)
        except InvalidPlanError as error:
            place.at(name).note(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(Section):
    """``[source.kafka]``: for ``format = "kafka"``.

    Attributes:
        servers: ``host:port``, separated by commas.
        topics: topic names. A single string with ``*`` is a pattern, e.g. ``clicks-.*``.
        value_format: "json" (with the fields of ``source.schema``), "string" or "binary" (as ``kafka_value``), or "none".
        key_format: as ``value_format``, for the key (as ``kafka_key``).
        key_schema: fields of a JSON key, as Spark DDL.
        starting: start of a job without a checkpoint, "earliest", "latest" or offsets in Spark's JSON.
        records_per_batch: maximum number of records of a micro-batch.
        headers: whether to read headers, into ``kafka_headers``.
        idle_after: time without records after which a partition no longer holds the others back, unless [watermark] sets it.
        partitions: number of partitions of each topic. Those without records hold the watermark back from the start, until idle.
    """

    servers: str = setting(text)
    topics: tuple[str, ...] = setting(array(text))
    value_format: str = setting(choice(*_RECORD_FORMATS), "json")
    key_format: str = setting(choice(*_RECORD_FORMATS), "string")
    key_schema: str | None = setting(ddl, None)
    starting: str = setting(text, "earliest")
    records_per_batch: int | None = setting(integer(1), None)
    headers: bool = setting(boolean, False)
    idle_after: str = setting(duration(zero=False), "5 minutes")
    partitions: int | None = setting(integer(1), None)

    @property
    def pattern(self) -> bool:
        return len(self.topics) == 1 and "*" in self.topics[0]

    def check(self, place: DocumentPlace) -> None:
        check_names(place, self.servers, "topics", () if self.pattern else self.topics)
        if self.key_format == "json" and self.key_schema is None:
            place.note("'key_schema' is missing: a key in JSON does not say the types of its fields")
        if self.key_format != "json" and self.key_schema is not None:
            place.at("key_schema").note(f"is for key_format 'json', not for {self.key_format!r}")
        if self.partitions is not None and self.pattern:
            place.at("partitions").note("is for named topics, not for a pattern")

    def stream(
        self, spark: SparkSession, schema: str | None, options: Mapping[str, str], *, invalid: bool, batch: bool
    ) -> pst.datastream.KafkaStream:
        """Return the library's Kafka stream; ``schema`` has the fields of JSON values, ``invalid`` adds unreadable rows."""
        names: Any = self.topics[0] if self.pattern else self.topics
        own = ("value_format", "key_format", "key_schema", "starting", "records_per_batch", "headers", "idle_after", "partitions")
        given: dict[str, Any] = {name: getattr(self, name) for name in own}
        malformed: Any = "side_output" if invalid else "fail"
        return pst.from_kafka(
            spark, self.servers, names, schema=schema, malformed=malformed, batch=batch, options=options, **given
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSection(Section):
    """``[source]``: the origin of the rows.

    Attributes:
        format: "csv", "json", "parquet", "orc" or "text", "delta" or "iceberg" (with ``table`` or ``path``), "table" (any table
            of the catalog, with ``table``), "kafka" (with [source.kafka]), or any other format name of Spark.
        path: file, folder or glob, relative to the folder of the job file, or the folder of a Delta or Iceberg table.
        table: ``table``, ``db.table`` or ``catalog.db.table``, which defines the columns. ``options`` set the start (Delta's
            ``startingVersion``, Iceberg's ``stream-from-timestamp``) and the version that a batch reads (``versionAsOf``).
        schema: columns as Spark DDL, or the fields of a JSON value in Kafka.
        header: whether CSV files start with a line of names.
        files_per_batch: maximum number of files of a micro-batch, for files, Delta and Iceberg.
        columns: derived columns as SQL, added in this order. Later ones may use earlier ones.
        where: SQL filter, after the derived columns. The job ignores rows that do not match.
        select: columns of the job after ``where``, or SQL with a name (``"ad AS shown"``). The default is all columns.
        options: options for Spark.
    """

    format: str = setting(identifier)
    path: str | None = setting(location, None)
    table: str | None = setting(table_name, None)
    schema: str | None = setting(ddl, None)
    header: bool | None = setting(boolean, None)
    files_per_batch: int | None = setting(integer(1), None)
    columns: Mapping[str, str] = setting(table_of(identifier, sql), {})
    where: str | None = setting(sql, None)
    select: tuple[str, ...] | None = setting(array(column), None)
    options: Mapping[str, str] = setting(spark_options, {})
    kafka: KafkaSource | None = setting(section(KafkaSource), None)

    @property
    def reads_files(self) -> bool:
        return self.format in FILE_FORMATS

    @property
    def is_pattern(self) -> bool:
        """Whether Hadoop treats the path as a pattern, which excludes a path that exists literally."""
        path = str(self.path)
        return bool(set(path) & set("*?[{")) and not (is_local(path) and Path(path).exists())

    @property
    def matches_nothing(self) -> bool:
        """Whether the path is a local pattern that does not match a file yet; it may be misspelled."""
        path = str(self.path)
        # Python's patterns do not support braces.
        told = self.reads_files and is_local(path) and self.is_pattern and "{" not in path
        return told and not any(Path("/").glob(path[1:]))

    @property
    def reads_table(self) -> bool:
        return self.format in TABLE_FORMATS

    @property
    def limit(self) -> str | None:
        """Spark's option for ``files_per_batch``, or None if the format does not have one."""
        return "maxFilesPerTrigger" if self.reads_files else TABLE_FORMATS.get(self.format)

    def check(self, place: DocumentPlace) -> None:
        if self.reads_table:
            self._check_table(place)
        elif self.table is not None:
            place.at("table").note(f"is for formats {', '.join(map(repr, TABLE_FORMATS))}, not for {self.format!r}")
        if self.reads_files:
            if self.path is None:
                place.note(f"'path' is missing: format {self.format!r} reads files")
            if self.schema is None and self.format in ("csv", "json"):
                place.note(f"'schema' is missing: {self.format} files do not say the types of their columns")
        elif self.files_per_batch is not None and self.limit is None:
            known = ", ".join((*FILE_FORMATS, *(name for name, limit in TABLE_FORMATS.items() if limit)))
            place.at("files_per_batch").note(f"is for files ({known}), not for format {self.format!r}")
        if self.select is not None and not self.select:
            place.at("select").note("is empty: name the columns, or leave it out for all")
        if self.header is not None and self.format != "csv":
            place.at("header").note(f"is for format 'csv', not for {self.format!r}")
        self._check_kafka(place)
        for own, option in (("header", "header"), ("files_per_batch", self.limit or "maxFilesPerTrigger")):
            if getattr(self, own) is not None and option.lower() in {given.lower() for given in self.options}:
                place.at("options").note(f"{option!r} and source.{own} say the same: keep one of them")

    def _check_kafka(self, place: DocumentPlace) -> None:
        if (self.format == "kafka") != (self.kafka is not None):
            if self.kafka is None:
                place.note("[source.kafka] is missing: it says the servers and topics of format 'kafka'")
            else:
                place.at("kafka").note(f"is for format 'kafka', not for {self.format!r}")
        elif self.kafka is not None:
            if self.path is not None:
                place.at("path").note("is for files: kafka has topics, in [source.kafka]")
            if (self.kafka.value_format == "json") != (self.schema is not None):
                place.note(
                    "'schema' is missing: it has the fields of values in JSON"
                    if self.schema is None
                    else f"'schema' is for values in JSON, not for value_format {self.kafka.value_format!r}"
                )

    def _check_table(self, place: DocumentPlace) -> None:
        if self.format == "table" and self.path is not None:
            place.at("path").note("format 'table' does not support 'path': name a table of the catalog")
        if self.path is None and self.table is None:
            place.note(f"'table' is missing: format {self.format!r} needs it{'' if self.format == 'table' else ', or a path'}")
        if self.path is not None and self.table is not None:
            place.at("path").note("'table' and 'path' exclude each other: keep one of them")
        if self.schema is not None:
            place.at("schema").note(f"format {self.format!r} does not support 'schema': the table defines its columns")
        if self.format == "iceberg" and "maxfilespertrigger" in {given.lower() for given in self.options}:
            place.at("options").note("Iceberg does not support 'maxFilesPerTrigger': write files_per_batch")

    def __str__(self) -> str:
        if self.kafka is not None:
            return f"topic {', '.join(self.kafka.topics)}"
        return self.path or (f"table {self.table}" if self.table is not None else self.format)


_OF_JOB = (
    "window",
    "windows",
    "firing",
    "aggregate",
    "process",
    "apply",
    "apply_arrow",
    "join",
    "interval_join",
    "asof_join",
    "trigger",
)
_OFFSET = re.compile(r"Z|(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{2}){0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime(Section):
    """``[event_time]``: the time at which a row happened.

    Attributes:
        column: a column of timestamps, of strings (with ``format``) or of numbers since 1970-01-01 UTC (with ``unit``).
        format: a Spark datetime pattern.
        timezone: zone of strings without one, e.g. ``Asia/Shanghai``.
        unit: seconds, milliseconds or microseconds.
        invalid: treatment of rows whose event time is null or unreadable, "fail" or "side_output" (to [sinks.invalid]).
    """

    column: str = setting(column)
    format: str | None = setting(pattern, None)
    timezone: str | None = setting(text, None)
    unit: str | None = setting(choice("seconds", "milliseconds", "microseconds"), None)
    invalid: str = setting(choice("fail", "side_output"), "fail")

    def check(self, place: DocumentPlace) -> None:
        if self.format is not None and self.unit is not None:
            place.at("unit").note("'unit' is for numbers and 'format' for strings: keep one of them")
        if self.timezone is not None:
            if self.format is None:
                place.at("timezone").note("is for strings: it needs 'format'")
            elif not re.fullmatch(r"[A-Za-z0-9_+:/-]+", self.timezone):
                place.at("timezone").note(f"must be a zone such as 'Asia/Shanghai' or '+08:00', not {shown(self.timezone)}")
            elif (unknown := unknown_zone(self.timezone)) is not None:
                place.at("timezone").note(unknown)

    @property
    def expression(self) -> str:
        """The column, or SQL that parses its strings to timestamps, null for strings that do not match."""
        if self.format is None:
            return self.column
        value, pattern = "`" + self.column.replace("`", "``") + "`", self.format
        if self.timezone is not None:
            # The zone becomes part of the text, so that the zone of the session does not matter.
            value, pattern = f"concat({value}, {_quoted(' ' + self.timezone)})", f"{self.format} VV"
        return f"CAST(try_to_timestamp({value}, {_quoted(pattern)}) AS TIMESTAMP)"


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unknown_zone(name: str) -> str | None:
    """Return the error for a time zone name; None if it is valid or this machine lacks a zone database (Spark has its own).

    >>> unknown_zone("Asia/Shanghai"), unknown_zone("+08:00"), unknown_zone("UTC+8")
    (None, None, None)
    >>> unknown_zone("Asia/Shangai")
    "there is no time zone 'Asia/Shangai'; did you mean 'Asia/Shanghai'?"
    """
    if _OFFSET.fullmatch(name):
        return None
    known = zoneinfo.available_timezones()
    if name in known or not known:
        return None
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else "write one such as 'Asia/Shanghai', 'UTC' or '+08:00'"
    return f"there is no time zone {name!r}; {hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark(Section):
    """``[watermark]``: the progress of event time.

    Attributes:
        strategy: "bounded" (by ``delay``), "monotonous", or "none".
        delay: maximum delay of rows relative to the newest event time.
        per_partition: a column that has a separate watermark for each of its values.
        per_key: gives each key its own watermark, which is never further behind that of the stream than this event time.
        idleness: time without rows after which a partition no longer holds the others back.
        max_ahead: rows further ahead than this are treated as rows without event time.
        max_ahead_of: reference for ``max_ahead``, the "clock" of Spark (live data) or the other "rows" (old data).
        closing_after: time without any input after which the watermark follows the clock. Needs ``trigger.every``.
    """

    strategy: str = setting(choice("bounded", "monotonous", "none"), "bounded")
    delay: str | None = setting(duration(), None)
    per_partition: str | None = setting(column, None)
    per_key: str | None = setting(duration(zero=False), None)
    idleness: str | None = setting(duration(zero=False), None)
    max_ahead: str | None = setting(duration(), None)
    max_ahead_of: str | None = setting(choice("clock", "rows"), None)
    closing_after: str | None = setting(duration(zero=False), None)

    def check(self, place: DocumentPlace) -> None:
        if self.strategy == "bounded" and self.delay is None:
            place.note("'delay' is missing: strategy 'bounded' must know how far rows may be behind, e.g. delay = '5 seconds'")
        if self.strategy != "bounded" and self.delay is not None:
            place.at("delay").note(f"is for strategy 'bounded', not for {self.strategy!r}")
        own = [name for name in ("per_partition", "per_key", "idleness") if getattr(self, name) is not None]
        if self.strategy == "none" and own:
            place.at("strategy").note(f"strategy 'none' does not have watermarks: leave out {' and '.join(map(repr, own))}")
        if self.closing_after is not None and to_micros(self.closing_after) % 1000:
            place.at("closing_after").note(f"must be whole milliseconds, as Spark's clock is, not {shown(self.closing_after)}")
        if self.strategy == "none" and self.closing_after is not None:
            place.at("closing_after").note("moves the watermark, but strategy 'none' does not have one")
        if self.max_ahead_of is not None and self.max_ahead is None:
            place.at("max_ahead_of").note("needs max_ahead, e.g. max_ahead = '1 hour'")

    @property
    def recipe(self) -> WatermarkStrategy:
        recipe = WatermarkStrategy.for_monotonous_timestamps()
        if self.strategy == "none":
            recipe = WatermarkStrategy.no_watermarks()
        if self.strategy == "bounded":
            recipe = WatermarkStrategy.for_bounded_out_of_orderness(self.delay or "0 seconds")
        if self.per_partition is not None:
            recipe = recipe.per_partition(self.per_partition)
        if self.per_key is not None:
            recipe = recipe.per_key(self.per_key)
        if self.idleness is not None:
            recipe = recipe.with_idleness(self.idleness)
        if self.closing_after is not None:
            recipe = recipe.closing_after(self.closing_after)
        return recipe if self.max_ahead is None else recipe.max_ahead(self.max_ahead, of=self.max_ahead_of or "clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingTime(Section):
    """``[processing_time]``: takes the clock from a column, e.g. the time a row was received, instead of from Spark.

    Attributes:
        column: a column of timestamps or of numbers since 1970-01-01 UTC (with ``unit``), or SQL.
        unit: seconds, milliseconds or microseconds.
    """

    column: str = setting(column)
    unit: str | None = setting(choice("seconds", "milliseconds", "microseconds"), None)


suffix = name_like(re.compile(r"\w+", re.ASCII), "letters, digits and underscores", "letters, digits and underscores")


def kind_of_join(*known: str) -> Reader:
    """Return a reader of join types; for a name from Spark or Flink, the error gives the name used here."""

    def explain(word: str) -> str | None:
        kind = join_called(word)
        if kind is None or kind in known:
            return kind and f"is not known; it is called {kind!r} here"
        return f"is of joins in windows, [join]; here there are {', '.join(map(repr, known))}"

    return choice(*known, explain=explain)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimedRows(Section):
    """The rows of one of two streams and their times.

    Attributes:
        source: as [source].
        event_time: as [event_time].
        watermark: as [watermark]. The smaller watermark of the two streams counts.
        processing_time: as [processing_time].
    """

    elsewhere: ClassVar = {name: f"unknown key here; it applies to both streams: write [{name}]" for name in _OF_JOB}

    source: SourceSection = setting(section(SourceSection))
    event_time: EventTime | None = setting(section(EventTime), None)
    watermark: Watermark | None = setting(section(Watermark), None)
    processing_time: ProcessingTime | None = setting(section(ProcessingTime), None)

    @staticmethod
    def needs(given: Mapping[str, Any]) -> Mapping[str, str]:
        return {"watermark": ""} if "event_time" in given else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules(_TimedRows):
    """``[rules]``: a second, small stream for [process] without windows. Every key receives all of its rows."""

    elsewhere: ClassVar = {**_TimedRows.elsewhere, "key": "unknown key here: every key receives every rule"}

    def check(self, place: DocumentPlace) -> None:
        if self.watermark is not None and self.watermark.per_key is not None:
            place.at("watermark", "per_key").note("is for the rows of keys, and rules have no key: leave it out")
        if self.watermark is not None and self.watermark.idleness is None and self.watermark.strategy != "none":
            place.at("watermark").note(
                "silent rules would hold the watermark back: set strategy = 'none', or when they are idle, idleness = '1 minute'"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(_TimedRows):
    """``[left]`` and ``[right]``: one of two streams, with its rows, time and key.

    Attributes:
        key: columns on which the streams are joined, or SQL with a name. Both sides have the same number and types of
            columns. Results use the left names.
    """

    key: tuple[str, ...] = setting(array(column))

    def check(self, place: DocumentPlace) -> None:
        if not self.key:
            place.at("key").note("is empty: rows of two streams meet by a key")


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfBoth(Section):
    """A section whose results have columns of both streams.

    Attributes:
        left_suffix: suffix of a left column if the right stream has a column of the same name.
        right_suffix: suffix of a right column if the left stream has a column of the same name.
    """

    left_suffix: str | None = setting(suffix, None)
    right_suffix: str | None = setting(suffix, None)

    @property
    def suffixes(self) -> tuple[str, str]:
        """The suffixes of left and right columns."""
        return self.left_suffix or "", self.right_suffix or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_OfBoth):
    """``[join]``: pairs each left row with each right row of the same key and window.

    Attributes:
        how: "inner", or "left", "right" or "full", which also emit rows of that side (or both) without a partner. "left_semi" and
            "left_anti" emit the left rows with or without a partner. May be changed on an existing checkpoint.
    """

    how: str = setting(kind_of_join(*HOWS), "inner")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinSection(_OfBoth):
    """``[interval_join]``: pairs each left row with the right rows around its time, without windows.

    Attributes:
        lower: start of the interval relative to the time of the left row, e.g. "-1 hour" for an hour before it.
        upper: end of the interval relative to the time of the left row, e.g. "0 seconds" for this time.
        lower_exclusive: whether a row exactly at the lower bound is excluded.
        upper_exclusive: whether a row exactly at the upper bound is excluded.
        how: "inner", or "left", "right" or "full", which also emit rows of that side (or both) without a partner. An existing
            checkpoint cannot change it.
    """

    lower: str = setting(duration(negative=True))
    upper: str = setting(duration(negative=True))
    lower_exclusive: bool = setting(boolean, False)
    upper_exclusive: bool = setting(boolean, False)
    how: str = setting(kind_of_join(*OF_PAIRS), "inner")

    def check(self, place: DocumentPlace) -> None:
        lower, upper = to_micros(self.lower), to_micros(self.upper)
        if lower > upper:
            place.at("lower").note(f"{self.lower!r} is after the upper bound, {self.upper!r}. Swap them")
        elif lower + self.lower_exclusive > upper - self.upper_exclusive:
            place.at("lower").note("the interval is empty. Include its bounds, or move one")


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfJoinSection(_OfBoth):
    """``[asof_join]``: joins each left row with the right row nearest to its time, without windows.

    Attributes:
        direction: "backward" for the newest right row at or before the time of the left row, "forward" for the first at or after
            it, "nearest" for the nearer of both.
        tolerance: the largest distance in time, inclusive. Without it every distance is near enough.
        deletes: a SQL condition over the right stream. From the event time of a right row that meets it,
            its key has no value.
        how: "inner", or "left", which also emits left rows without a partner. An existing checkpoint cannot change it.
    """

    direction: str = setting(choice(*DIRECTIONS), BACKWARD)
    tolerance: str | None = setting(duration(), None)
    deletes: str | None = setting(sql, None)
    how: str = setting(kind_of_join(INNER, LEFT_OUTER), INNER)

    def check(self, place: DocumentPlace) -> None:
        if self.deletes is not None and self.direction != BACKWARD:
            place.at("deletes").note(
                f"is about values that are valid from their time on: leave it out, or take direction = {BACKWARD!r}"
            )
