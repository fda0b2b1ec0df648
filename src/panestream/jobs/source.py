"""``[source]`` of a job file: where rows come from; ``[source.kafka]``: which topics, and how their records are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panestream.errors import InvalidPlanError
from panestream.jobs.schema import (
    Place,
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
"""Source formats that read files: they want a path and can be cut into micro-batches by ``files_per_batch``."""

TABLE_FORMATS: Mapping[str, str | None] = {
    "delta": "maxFilesPerTrigger",
    "iceberg": "streaming-max-files-per-micro-batch",
    "table": None,
}
"""Source formats that read a table, by path or by name; and the option by which a micro-batch takes so many files of it."""

_RECORD_FORMATS = ("json", "string", "binary", "none")


def check_names(place: Place, servers: str, key: str, topics: Sequence[str]) -> None:
    """Notes what can be no servers or no topics, where the job says so: the library would find it when Spark runs.

    Args:
        place: of the section.
        servers: its ``servers``.
        key: what it calls the topics.
        topics: their names.
    """
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
        servers: ``host:port``, several with commas.
        topics: their names; a single string with ``*`` is a pattern, e.g. ``clicks-.*``.
        value_format: "json", whose fields ``source.schema`` names; "string" or "binary", in the column ``kafka_value``; "none".
        key_format: the same of the key, in the column ``kafka_key``.
        key_schema: the fields of a key in JSON, as Spark DDL.
        starting: where a job without a checkpoint begins: "earliest", "latest", or offsets in Spark's JSON.
        records_per_batch: how many records a micro-batch takes at most.
        headers: whether to read headers, into ``kafka_headers``.
        idle_after: after how long without records a partition stops holding the others back, where [watermark] does not say.
        partitions: how many partitions each topic has: those without records hold the watermark back from the start, until idle.
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
        """Whether the topics are all that match a pattern."""
        return len(self.topics) == 1 and "*" in self.topics[0]

    def check(self, place: Place) -> None:
        """Servers and topics are some; keys in JSON have a schema, others none."""
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
        """What the library makes of it.

        Args:
            spark: the session.
            schema: of values in JSON.
            options: of Spark's source.
            invalid: whether there is an output for rows that cannot be read.
            batch: whether it is a batch.
        """
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
class Source:
    """``[source]``: where rows come from.

    Attributes:
        format: csv, json, parquet, orc, text; "delta" or "iceberg" (with ``table`` or ``path``), "table" (any of the catalog,
            with ``table``); "kafka", with [source.kafka]; or any other format that Spark knows by name.
        path: file or folder; seen from the folder of the job file. May be a glob. Or the folder of a table of Delta or Iceberg.
        table: ``table``, ``db.table`` or ``catalog.db.table``, which says its own columns. Where to begin, say ``options``:
            Delta's ``startingVersion``, Iceberg's ``stream-from-timestamp``; what a batch reads, ``versionAsOf``.
        schema: the columns as Spark DDL; of kafka the fields of a value in JSON.
        header: whether CSV files begin with a line of names.
        files_per_batch: how many files a micro-batch takes at most; of files, Delta and Iceberg.
        columns: derived columns as SQL, added in this order; later ones may use earlier ones.
        where: SQL filter, after the derived columns. Rows for which it is not true are not part of the job.
        select: the columns that the job has, or SQL with a name (``"ad AS shown"``), after ``where``; default: all.
        options: passed on to Spark.
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
        """Whether rows come from files."""
        return self.format in FILE_FORMATS

    @property
    def is_pattern(self) -> bool:
        """Whether the path is one, for Hadoop to match. A path that exists as it is written is not."""
        path = str(self.path)
        return bool(set(path) & set("*?[{")) and not (is_local(path) and Path(path).exists())

    @property
    def matches_nothing(self) -> bool:
        """Whether the path is a pattern, of this machine, which no file matches: some may come, or it is misspelled."""
        path = str(self.path)
        # Python's patterns know no braces.
        told = self.reads_files and is_local(path) and self.is_pattern and "{" not in path
        return told and not any(Path("/").glob(path[1:]))

    @property
    def reads_table(self) -> bool:
        """Whether rows come from a table, which says its own columns."""
        return self.format in TABLE_FORMATS

    @property
    def limit(self) -> str | None:
        """Spark's option for ``files_per_batch``; None: the format has none."""
        return "maxFilesPerTrigger" if self.reads_files else TABLE_FORMATS.get(self.format)

    def check(self, place: Place) -> None:
        """What only shows when the keys are seen together."""
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

    def _check_kafka(self, place: Place) -> None:
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

    def _check_table(self, place: Place) -> None:
        """A table has a name or a folder, and its own columns."""
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
