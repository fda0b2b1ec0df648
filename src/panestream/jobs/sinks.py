"""``[sinks]`` of a job file: where outputs go. A new format is an entry in ``FORMATS``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from panestream.jobs.schema import (
    DocumentPlace,
    array,
    boolean,
    choice,
    identifier,
    integer,
    location,
    reads,
    section,
    spark_options,
    table_name,
    text,
)
from panestream.jobs.source import check_names

if TYPE_CHECKING:
    import panestream as pst


class Format(ABC):
    """A value of ``format``: ``needs`` is the key of its target or None, ``takes`` has the other keys.

    A sink ``by_key`` writes by key and window, which only the results have.
    """

    needs: str | None = None
    takes: tuple[str, ...] = ()
    by_key: bool = False

    @abstractmethod
    def told(self, sink: SinkSection) -> str:
        """Return the sink as one line of text."""

    @abstractmethod
    def made(self, sink: SinkSection, key: Sequence[str]) -> pst.sinks.Sink:
        """Return the library's sink; ``key`` is the key of the job."""


class _Files(Format):
    needs, takes = "path", ("options", "batches_per_folder")

    def told(self, sink: SinkSection) -> str:
        return f"{sink.path} ({sink.format})"

    def made(self, sink: SinkSection, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        shared = sink.batches_per_folder or 1
        return pst.FileSink(str(sink.path), format=sink.format, options=sink.options, batches_per_folder=shared)


class _Table(Format):
    """A table to which rows are appended."""

    needs = "table"
    takes: tuple[str, ...] = ("table_format", "options")

    def told(self, sink: SinkSection) -> str:
        return f"table {sink.table}"

    def made(self, sink: SinkSection, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        return pst.TableSink(str(sink.table), format=self.format_of(sink), options=sink.options)

    def format_of(self, sink: SinkSection) -> str | None:
        """Return the format of a newly created table, or None for the catalog's default."""
        return sink.table_format


class _TableOf(_Table):
    """A table whose ``format`` takes the place of ``table_format``."""

    takes = ("options",)

    def told(self, sink: SinkSection) -> str:
        return f"{super().told(sink)} ({sink.format})"

    def format_of(self, sink: SinkSection) -> str:
        return sink.format


class _Merge(Format):
    needs, takes, by_key = "table", ("table_format", "keys"), True

    def told(self, sink: SinkSection) -> str:
        return f"merged into table {sink.table}"

    def made(self, sink: SinkSection, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        return pst.MergeSink(str(sink.table), list(key if sink.keys is None else sink.keys), format=sink.table_format)


class _Kafka(Format):
    needs, takes = "topic", ("servers", "keys", "compacted", "options")

    def told(self, sink: SinkSection) -> str:
        return f"topic {sink.topic}"

    def made(self, sink: SinkSection, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        keys = list(key if sink.keys is None else sink.keys)
        return pst.KafkaSink(str(sink.servers), str(sink.topic), keys, compacted=bool(sink.compacted), options=sink.options)


class _Console(Format):
    def told(self, sink: SinkSection) -> str:
        return "console"

    def made(self, sink: SinkSection, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        return pst.ConsoleSink()


FORMATS: Mapping[str, Format] = {
    **dict.fromkeys(("parquet", "json", "csv", "orc"), _Files()),
    "table": _Table(),
    **dict.fromkeys(("delta", "iceberg"), _TableOf()),
    "merge": _Merge(),
    "kafka": _Kafka(),
    "console": _Console(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSection:
    """``[sinks.main]`` and the other outputs: where an output goes.

    Attributes:
        format: "parquet", "json", "csv" or "orc" (with ``path``), "kafka" (with ``servers`` and ``topic``), or "console". With
            ``table``, "delta", "iceberg" and "table" append, and "merge" replaces the row of a key and window.
        path: a folder, relative to the folder of the job file.
        batches_per_folder: number of micro-batches that share a folder of files, by default 1.
        table: ``table``, ``db.table`` or ``catalog.db.table``. "merge" needs a table that supports MERGE (Delta, Iceberg, Hudi).
        table_format: format of a table created by "table" or "merge", e.g. delta. The default is the catalog's.
        servers: servers of "kafka" as ``host:port``, separated by commas.
        topic: topic of "kafka".
        compacted: whether only the last record of a key counts in "kafka". Deletes of a changelog become tombstones.
        keys: key columns of "merge" and "kafka". The default is the job's key for results, and no key for late and invalid rows.
        options: options for Spark's writer, for files, "kafka" and tables that append.
    """

    format: str = field(metadata=reads(choice(*FORMATS)))
    path: str | None = field(default=None, metadata=reads(location))
    batches_per_folder: int | None = field(default=None, metadata=reads(integer(1)))
    table: str | None = field(default=None, metadata=reads(table_name))
    table_format: str | None = field(default=None, metadata=reads(identifier))
    servers: str | None = field(default=None, metadata=reads(text))
    topic: str | None = field(default=None, metadata=reads(text))
    compacted: bool | None = field(default=None, metadata=reads(boolean))
    keys: tuple[str, ...] | None = field(default=None, metadata=reads(array(text)))
    options: Mapping[str, str] = field(default_factory=dict, metadata=reads(spark_options))

    @property
    def kind(self) -> Format:
        return FORMATS[self.format]

    def check(self, place: DocumentPlace) -> None:
        for argument in ("path", "table", "topic"):
            given = getattr(self, argument) is not None
            if argument == self.kind.needs and not given:
                place.note(f"{argument!r} is missing: format {self.format!r} needs it")
            if given and argument != self.kind.needs:
                place.at(argument).note(f"format {self.format!r} takes no {argument!r}")
        if self.format == "kafka" and self.servers is None:
            place.note("'servers' is missing: where are the brokers, e.g. servers = 'localhost:9092'?")
        elif self.format == "kafka" and self.topic is not None:
            check_names(place, str(self.servers), "topic", [self.topic])
        for argument in ("batches_per_folder", "table_format", "keys", "servers", "compacted"):
            if getattr(self, argument) is not None and argument not in self.kind.takes:
                place.at(argument).note(f"is for {_that_take(argument)}, not for {self.format!r}")
        if self.options and "options" not in self.kind.takes:
            place.at("options").note(f"format {self.format!r} takes none")

    def recipe(self, key: Sequence[str] = ()) -> pst.sinks.Sink:
        """Return the library's sink; ``key`` is the job's, used to merge a table without its own ``keys``."""
        return self.kind.made(self, key)

    def __str__(self) -> str:
        return self.kind.told(self)


def _that_take(argument: str) -> str:
    names = [repr(name) for name, kind in FORMATS.items() if argument in kind.takes]
    return f"format{'s' if len(names) > 1 else ''} {' and '.join(names)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """``[sinks]``: main, and optional outputs for late rows and rows without event time, for each of two streams."""

    main: SinkSection = field(metadata=reads(section(SinkSection)))
    late: SinkSection | None = field(default=None, metadata=reads(section(SinkSection)))
    late_left: SinkSection | None = field(default=None, metadata=reads(section(SinkSection)))
    late_right: SinkSection | None = field(default=None, metadata=reads(section(SinkSection)))
    invalid: SinkSection | None = field(default=None, metadata=reads(section(SinkSection)))
    invalid_left: SinkSection | None = field(default=None, metadata=reads(section(SinkSection)))
    invalid_right: SinkSection | None = field(default=None, metadata=reads(section(SinkSection)))

    def items(self) -> list[tuple[str, SinkSection]]:
        """Return the configured sinks by output."""
        every = ((each.name, getattr(self, each.name)) for each in fields(self))
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
            target = (sink.path, sink.table, sink.topic, sink.servers)
            if any(target) and target in seen:
                place.at(tag).note(f"writes to the same place as sinks.{seen[target]}")
            seen[target] = tag
