"""``[sinks]`` of a job file: where outputs go. A new format is an entry in ``FORMATS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import panestream as pst
from panestream.errors import SinkError
from panestream.jobs.schema import (
    DocumentPlace,
    Section,
    array,
    boolean,
    choice,
    identifier,
    integer,
    location,
    section,
    setting,
    spark_options,
    table_name,
    text,
    undisclosed,
)
from panestream.jobs.streams import check_names


@dataclass(frozen=True, slots=True)
class Format:
    """A value of ``format``.

    Attributes:
        keys: its keys, as in :class:`Section`.
        text: pattern of the text about a sink.
        make: returns the library's sink for a section and key columns.
        by_key: whether it writes by key and window, which only the results have.
    """

    keys: str
    text: str
    make: Callable[[Any, list[str]], pst.sinks.Sink]
    by_key: bool = False


_FILES = Format(
    "path! batches_per_folder options",
    "{0.path} ({0.format})",
    lambda sink, _: pst.FileSink(
        sink.path, format=sink.format, options=sink.options, batches_per_folder=sink.batches_per_folder or 1
    ),
)
_TABLE_OF = Format(
    "table! options",
    "table {0.table} ({0.format})",
    lambda sink, _: pst.TableSink(sink.table, format=sink.format, options=sink.options),
)
FORMATS: Mapping[str, Format] = {
    **dict.fromkeys(("parquet", "json", "csv", "orc"), _FILES),
    "table": Format(
        "table! table_format options",
        "table {0.table}",
        lambda sink, _: pst.TableSink(sink.table, format=sink.table_format, options=sink.options),
    ),
    **dict.fromkeys(("delta", "iceberg"), _TABLE_OF),
    "merge": Format(
        "table! table_format keys",
        "merged into table {0.table}",
        lambda sink, keys: pst.MergeSink(sink.table, keys, format=sink.table_format),
        by_key=True,
    ),
    "kafka": Format(
        "servers! topic! keys compacted options",
        "topic {0.topic}",
        lambda sink, keys: pst.KafkaSink(sink.servers, sink.topic, keys, compacted=bool(sink.compacted), options=sink.options),
    ),
    "postgres": Format(
        "dsn! table! keys password_variable",
        "PostgreSQL table {0.table}",
        lambda sink, keys: pst.sinks.PostgresSink(sink.dsn, sink.table, keys=keys, password_variable=sink.password_variable),
        by_key=True,
    ),
    "redis": Format(
        "url! prefix! keys password_variable expire_seconds",
        "Redis keys {0.prefix}:*",
        lambda sink, keys: pst.sinks.RedisSink(
            sink.url, sink.prefix, keys=keys, password_variable=sink.password_variable, expire_seconds=sink.expire_seconds
        ),
        by_key=True,
    ),
    "console": Format("", "console", lambda *_: pst.ConsoleSink()),
}
_ADDRESS = undisclosed(text, "an address in one line, without a password")
_VARIABLE = undisclosed(identifier, "the name of an environment variable, such as DB_PASSWORD, not the password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSection(Section):
    """``[sinks.main]`` and the other outputs: where an output goes.

    Attributes:
        format: "parquet", "json", "csv" or "orc" (with ``path``), "kafka" (with ``servers`` and ``topic``), or "console". With
            ``table``, "delta", "iceberg" and "table" append, and "merge" replaces the row of a key and window. So do "postgres"
            (with ``dsn`` and ``table``) and "redis" (with ``url`` and ``prefix``).
        path: a folder, relative to the folder of the job file.
        batches_per_folder: number of micro-batches that share a folder of files, by default 1.
        table: ``table``, ``db.table`` or ``catalog.db.table``. "merge" needs a table that supports MERGE (Delta, Iceberg, Hudi).
        table_format: format of a table created by "table" or "merge", e.g. delta. The default is the catalog's.
        servers: servers of "kafka" as ``host:port``, separated by commas.
        topic: topic of "kafka".
        compacted: whether only the last record of a key counts in "kafka". Deletes of a changelog become tombstones.
        dsn: how to connect to PostgreSQL, without a password: ``host=db dbname=shop user=etl``.
        url: address of "redis", without a password: ``redis://cache:6379/0``.
        prefix: beginning of all keys of "redis".
        password_variable: the environment variable with the password of "postgres" or "redis".
        expire_seconds: how long a key of "redis" stays after its last change. By default it stays forever.
        keys: key columns of "merge", "kafka", "postgres" and "redis". The default is the job's key for results, and no key for
            late and invalid rows.
        options: options for Spark's writer, for files, "kafka" and tables that append.
    """

    kind_key = "format"
    kinds: ClassVar = {name: each.keys for name, each in FORMATS.items()}
    hints: ClassVar = {("kafka", "servers"): "'servers' is missing: where are the brokers, e.g. servers = 'localhost:9092'?"}

    format: str = setting(choice(*FORMATS))
    path: str | None = setting(location, None)
    batches_per_folder: int | None = setting(integer(1), None)
    table: str | None = setting(table_name, None)
    table_format: str | None = setting(identifier, None)
    servers: str | None = setting(text, None)
    topic: str | None = setting(text, None)
    compacted: bool | None = setting(boolean, None)
    dsn: str | None = setting(_ADDRESS, None)
    url: str | None = setting(_ADDRESS, None)
    prefix: str | None = setting(text, None)
    password_variable: str | None = setting(_VARIABLE, None)
    expire_seconds: int | None = setting(integer(1), None)
    keys: tuple[str, ...] | None = setting(array(text), None)
    options: Mapping[str, str] = setting(spark_options, {})

    @property
    def kind(self) -> Format:
        return FORMATS[self.format]

    def check(self, place: DocumentPlace) -> None:
        if self.format == "kafka" and self.servers is not None and self.topic is not None:
            check_names(place, self.servers, "topic", [self.topic])

    def check_library(self, place: DocumentPlace) -> None:
        if self.format in ("postgres", "redis"):
            try:
                self.recipe(["key"])
            except SinkError as error:
                place.note(str(error))

    def recipe(self, key: Sequence[str] = ()) -> pst.sinks.Sink:
        """Return the library's sink; ``key`` is the job's, used to merge a table without its own ``keys``."""
        return self.kind.make(self, list(key if self.keys is None else self.keys))

    def __str__(self) -> str:
        return self.kind.text.format(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks(Section):
    """``[sinks]``: main, and optional outputs for late rows and rows without event time, for each stream."""

    main: SinkSection = setting(section(SinkSection))
    late: SinkSection | None = setting(section(SinkSection), None)
    late_left: SinkSection | None = setting(section(SinkSection), None)
    late_right: SinkSection | None = setting(section(SinkSection), None)
    invalid: SinkSection | None = setting(section(SinkSection), None)
    invalid_left: SinkSection | None = setting(section(SinkSection), None)
    invalid_right: SinkSection | None = setting(section(SinkSection), None)
    invalid_rules: SinkSection | None = setting(section(SinkSection), None)

    def items(self) -> list[tuple[str, SinkSection]]:
        """Return the configured sinks by output."""
        every = ((each.name, getattr(self, each.name)) for each in self.fields())
        return [(tag, sink) for tag, sink in every if sink is not None]

    def recipes(self, key: Sequence[str]) -> dict[str, pst.sinks.Sink]:
        """Return the library's sinks by output; ``key`` is the job's, which only the rows of ``main`` have."""
        return {tag: sink.recipe(key if tag == "main" else ()) for tag, sink in self.items()}

    def check(self, place: DocumentPlace) -> None:
        for tag, sink in self.items():
            if sink.kind.by_key and tag != "main":
                place.at(tag, "format").note(f"{sink.format!r} is by key and window, which only the rows of sinks.main have")
            if sink.compacted and tag != "main" and not sink.keys:
                place.at(tag, "compacted").note("needs 'keys': the rows of this output have no window")
        seen: dict[tuple[str | None, ...], str] = {}
        for tag, sink in self.items():
            target = (sink.path, sink.table, sink.topic, sink.servers, sink.dsn, sink.url, sink.prefix)
            if any(target) and target in seen:
                place.at(tag).note(f"writes to the same place as sinks.{seen[target]}")
            seen[target] = tag
