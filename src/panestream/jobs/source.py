"""``[source]`` and ``[source.kafka]`` of a job file: the origin and format of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panestream.errors import InvalidPlanError
from panestream.jobs.schema import (
    DocumentPlace,
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
    reads,
    section,
    spark_options,
    sql,
    table_name,
    text,
)
from panestream.jobs.schema import table as table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import panestream as pst

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
class KafkaSource:
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

    servers: str = field(metadata=reads(text))
    topics: tuple[str, ...] = field(metadata=reads(array(text)))
    value_format: str = field(default="json", metadata=reads(choice(*_RECORD_FORMATS)))
    key_format: str = field(default="string", metadata=reads(choice(*_RECORD_FORMATS)))
    key_schema: str | None = field(default=None, metadata=reads(ddl))
    starting: str = field(default="earliest", metadata=reads(text))
    records_per_batch: int | None = field(default=None, metadata=reads(integer(1)))
    headers: bool = field(default=False, metadata=reads(boolean))
    idle_after: str = field(default="5 minutes", metadata=reads(duration(zero=False)))
    partitions: int | None = field(default=None, metadata=reads(integer(1)))

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
            place.at("partitions").note("is of topics that are named: a pattern names none")

    def stream(
        self, spark: SparkSession, schema: str | None, options: Mapping[str, str], *, invalid: bool, batch: bool
    ) -> pst.datastream.KafkaStream:
        """Return the library's Kafka stream; ``schema`` has the fields of JSON values, ``invalid`` adds unreadable rows."""
        import panestream as pst

        names: Any = self.topics[0] if self.pattern else self.topics
        return pst.from_kafka(
            spark,
            self.servers,
            names,
            schema=schema,
            value_format=self.value_format,
            key_format=self.key_format,
            key_schema=self.key_schema,
            malformed="side_output" if invalid else "fail",
            starting=self.starting,
            records_per_batch=self.records_per_batch,
            headers=self.headers,
            idle_after=self.idle_after,
            partitions=self.partitions,
            batch=batch,
            options=options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSection:
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

    format: str = field(metadata=reads(identifier))
    path: str | None = field(default=None, metadata=reads(location))
    table: str | None = field(default=None, metadata=reads(table_name))
    schema: str | None = field(default=None, metadata=reads(ddl))
    header: bool | None = field(default=None, metadata=reads(boolean))
    files_per_batch: int | None = field(default=None, metadata=reads(integer(1)))
    columns: Mapping[str, str] = field(default_factory=dict, metadata=reads(table_of(identifier, sql)))
    where: str | None = field(default=None, metadata=reads(sql))
    select: tuple[str, ...] | None = field(default=None, metadata=reads(array(column)))
    options: Mapping[str, str] = field(default_factory=dict, metadata=reads(spark_options))
    kafka: KafkaSource | None = field(default=None, metadata=reads(section(KafkaSource)))

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
            place.at("path").note("format 'table' takes no 'path': a table of the catalog has a name")
        if self.path is None and self.table is None:
            place.note(f"'table' is missing: format {self.format!r} needs it{'' if self.format == 'table' else ', or a path'}")
        if self.path is not None and self.table is not None:
            place.at("path").note("'table' and 'path' exclude each other: keep one of them")
        if self.schema is not None:
            place.at("schema").note(f"format {self.format!r} takes no 'schema': the table says its columns")
        if self.format == "iceberg" and "maxfilespertrigger" in {given.lower() for given in self.options}:
            place.at("options").note("Iceberg takes no 'maxFilesPerTrigger': write files_per_batch")

    def __str__(self) -> str:
        if self.kafka is not None:
            return f"topic {', '.join(self.kafka.topics)}"
        return self.path or (f"table {self.table}" if self.table is not None else self.format)
