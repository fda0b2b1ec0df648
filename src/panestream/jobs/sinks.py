"""``[sinks]`` of a job file: where outputs go. A new format is an entry in ``FORMATS``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from panestream.jobs.schema import (
    Place,
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
    """A value of ``format``: which keys go with it, and what the library makes of them.

    Attributes:
        needs: the key that must be there, which says the place; None: it has none.
        takes: the keys that may be there.
        by_key: whether it writes by key and window, which only the results have.
    """

    needs: str | None = None
    takes: tuple[str, ...] = ()
    by_key: bool = False

    @abstractmethod
    def told(self, sink: Sink) -> str:
        """The sink in a line."""

    @abstractmethod
    def made(self, sink: Sink, key: Sequence[str]) -> pst.sinks.Sink:
        """The library's sink; ``key`` is the job's."""


class _Files(Format):
    needs, takes = "path", ("options", "batches_per_folder")

    def told(self, sink: Sink) -> str:
        return f"{sink.path} ({sink.format})"

    def made(self, sink: Sink, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        shared = sink.batches_per_folder or 1
        return pst.FileSink(str(sink.path), format=sink.format, options=sink.options, batches_per_folder=shared)


class _Table(Format):
    """A table that is appended to."""

    needs = "table"
    takes: tuple[str, ...] = ("table_format", "options")

    def told(self, sink: Sink) -> str:
        return f"table {sink.table}"

    def made(self, sink: Sink, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        return pst.TableSink(str(sink.table), format=self.format_of(sink), options=sink.options)

    def format_of(self, sink: Sink) -> str | None:
        """The format of a table that is made anew; None: the catalog's default."""
        return sink.table_format


class _TableOf(_Table):
    """The same, where the name of the format says what "table" has in ``table_format``."""

    takes = ("options",)

    def told(self, sink: Sink) -> str:
        return f"{super().told(sink)} ({sink.format})"

    def format_of(self, sink: Sink) -> str:
        return sink.format


class _Merge(Format):
    needs, takes, by_key = "table", ("table_format", "keys"), True

    def told(self, sink: Sink) -> str:
        return f"merged into table {sink.table}"

    def made(self, sink: Sink, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        return pst.MergeSink(str(sink.table), list(key if sink.keys is None else sink.keys), format=sink.table_format)


class _Kafka(Format):
    needs, takes = "topic", ("servers", "keys", "compacted", "options")

    def told(self, sink: Sink) -> str:
        return f"topic {sink.topic}"

    def made(self, sink: Sink, key: Sequence[str]) -> pst.sinks.Sink:
        import panestream as pst

        keys = list(key if sink.keys is None else sink.keys)
        return pst.KafkaSink(str(sink.servers), str(sink.topic), keys, compacted=bool(sink.compacted), options=sink.options)


class _Console(Format):
    def told(self, sink: Sink) -> str:
        return "console"

    def made(self, sink: Sink, key: Sequence[str]) -> pst.sinks.Sink:
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
class Sink:
    """``[sinks.main]`` and its sisters: where an output goes.

    Attributes:
        format: "parquet", "json", "csv" or "orc" (with ``path``); "delta", "iceberg" or "table" (of any kind), which append, or
            "merge", which replaces the row of a key and window (all with ``table``); "kafka" (with
            ``servers`` and ``topic``); or "console".
        path: a folder; seen from the folder of the job file.
        batches_per_folder: of files: how many micro-batches share a folder; default: 1.
        table: ``table``, ``db.table`` or ``catalog.db.table``. For "merge" one that knows MERGE: Delta, Iceberg, Hudi.
        table_format: of "table" and "merge": the format of a table that is made anew, e.g. delta; default: the catalog's.
        servers: of "kafka": ``host:port``, several with commas.
        topic: of "kafka": its name.
        compacted: of "kafka": whether the last record of a key is what counts; of a changelog, deletes become tombstones.
        keys: of "merge" and "kafka": the key columns; default: of the results the job's, of late and invalid rows none.
        options: of files, of tables that are appended to, and of "kafka": passed on to Spark's writer.
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
        """What its format is."""
        return FORMATS[self.format]

    def check(self, place: Place) -> None:
        """Files want a path, tables and topics a name."""
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
        """What the library calls it; ``key`` is the job's, by which a table is merged that names no others."""
        return self.kind.made(self, key)

    def __str__(self) -> str:
        return self.kind.told(self)


def _that_take(argument: str) -> str:
    names = [repr(name) for name, kind in FORMATS.items() if argument in kind.takes]
    return f"format{'s' if len(names) > 1 else ''} {' and '.join(names)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """``[sinks]``: main, and for the rows that are late or have no event time, if they are wanted; of two streams for each."""

    main: Sink = field(metadata=reads(section(Sink)))
    late: Sink | None = field(default=None, metadata=reads(section(Sink)))
    late_left: Sink | None = field(default=None, metadata=reads(section(Sink)))
    late_right: Sink | None = field(default=None, metadata=reads(section(Sink)))
    invalid: Sink | None = field(default=None, metadata=reads(section(Sink)))
    invalid_left: Sink | None = field(default=None, metadata=reads(section(Sink)))
    invalid_right: Sink | None = field(default=None, metadata=reads(section(Sink)))

    def items(self) -> list[tuple[str, Sink]]:
        """The sinks by output, those that are there."""
        every = ((each.name, getattr(self, each.name)) for each in fields(self))
        return [(tag, sink) for tag, sink in every if sink is not None]

    def recipes(self, key: Sequence[str]) -> dict[str, pst.sinks.Sink]:
        """The library's sinks by output; ``key`` is the job's, which the rows of ``main`` have."""
        return {tag: sink.recipe(key if tag == "main" else ()) for tag, sink in self.items()}

    def check(self, place: Place) -> None:
        """No two write to the same place."""
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
