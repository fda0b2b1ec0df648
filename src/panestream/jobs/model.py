"""What a job file may say: one frozen dataclass per section, each key with the reader that checks it."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from panestream.errors import JobError, PanestreamError, did_you_mean
from panestream.jobs.aggregates import AggregateSpec, aggregates
from panestream.jobs.document import Document, load_document
from panestream.jobs.schema import (
    Place,
    Wrong,
    array,
    boolean,
    choice,
    duration,
    flat,
    identifier,
    integer,
    location,
    reads,
    scalar,
    section,
    shown,
    sql,
    table,
    table_name,
    text,
)
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from panestream.windowing.time import to_micros
from panestream.windowing.watermarks import WatermarkStrategy

FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Source formats that read files: they want a path and can be cut into micro-batches by ``files_per_batch``."""

RESERVED = frozenset({"window_start", "window_end", "rank", "batch_id", "pane", "rows"})
"""Output columns that panestream makes itself."""

LATENESS_LATER = "allowed lateness comes with a later version; for now, send late rows to [sinks.late] or raise watermark.delay"


def _schema(value: object, place: Place) -> str:
    """A DDL string, or a table of column = type, as a DDL string."""
    if isinstance(value, str):
        return sql(value, place)
    columns = table(text, text)(value, place)
    if not columns:
        place.wrong("has no columns")
    return ", ".join(f"`{column.replace('`', '``')}` {ddl}" for column, ddl in columns.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """``[source]``: where rows come from.

    Attributes:
        format: csv, json, parquet, orc, text, or any other format that Spark knows by name (kafka, rate, delta, …).
        path: file or folder; seen from the folder of the job file. May be a glob.
        schema: the columns as Spark DDL.
        header: whether CSV files begin with a line of names.
        files_per_batch: how many files a micro-batch takes at most.
        columns: derived columns as SQL, added in this order; later ones may use earlier ones.
        where: SQL filter, after the derived columns. Rows for which it is not true are not part of the job.
        options: passed on to Spark.
    """

    format: str = field(metadata=reads(identifier))
    path: str | None = field(default=None, metadata=reads(location))
    schema: str | None = field(default=None, metadata=reads(_schema))
    header: bool | None = field(default=None, metadata=reads(boolean))
    files_per_batch: int | None = field(default=None, metadata=reads(integer(1)))
    columns: Mapping[str, str] = field(default_factory=dict, metadata=reads(table(identifier, sql)))
    where: str | None = field(default=None, metadata=reads(sql))
    options: Mapping[str, str] = field(default_factory=dict, metadata=reads(table(text, scalar)))

    @property
    def reads_files(self) -> bool:
        """Whether rows come from files."""
        return self.format in FILE_FORMATS

    def check(self, place: Place) -> None:
        """What only shows when the keys are seen together."""
        if self.reads_files:
            if self.path is None:
                place.note(f"'path' is missing: format {self.format!r} reads files")
            if self.schema is None and self.format in ("csv", "json"):
                place.note(f"'schema' is missing: {self.format} files do not say the types of their columns")
        elif self.files_per_batch is not None:
            place.at("files_per_batch").note(f"is for files ({', '.join(FILE_FORMATS)}), not for format {self.format!r}")
        if self.header is not None and self.format != "csv":
            place.at("header").note(f"is for format 'csv', not for {self.format!r}")
        for own, option in (("header", "header"), ("files_per_batch", "maxFilesPerTrigger")):
            if getattr(self, own) is not None and option.lower() in {given.lower() for given in self.options}:
                place.at("options").note(f"{option!r} and source.{own} say the same: keep one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """``[event_time]``: when a row happened.

    Attributes:
        column: a column of timestamps; of strings, with ``format``; or of numbers since 1970-01-01 UTC, with ``unit``.
        format: a Spark datetime pattern.
        timezone: the zone of strings that name none, e.g. ``Asia/Shanghai``.
        unit: seconds, milliseconds or microseconds.
        invalid: what to do with rows whose event time is null or cannot be read: "fail", or "side_output" (to [sinks.invalid]).
    """

    column: str = field(metadata=reads(text))
    format: str | None = field(default=None, metadata=reads(text))
    timezone: str | None = field(default=None, metadata=reads(text))
    unit: str | None = field(default=None, metadata=reads(choice("seconds", "milliseconds", "microseconds")))
    invalid: str = field(default="fail", metadata=reads(choice("fail", "side_output")))

    def check(self, place: Place) -> None:
        """``format`` and ``unit`` exclude each other."""
        if self.format is not None and self.unit is not None:
            place.at("unit").note("'unit' is for numbers and 'format' for strings: keep one of them")
        if self.timezone is not None:
            if self.format is None:
                place.at("timezone").note("is for strings: it needs 'format'")
            elif not re.fullmatch(r"[A-Za-z0-9_+:/-]+", self.timezone):
                place.at("timezone").note(f"must be a zone such as 'Asia/Shanghai' or '+08:00', not {shown(self.timezone)}")

    @property
    def expression(self) -> str:
        """The event time as the library takes it: the column, or SQL that reads its strings (null where it cannot)."""
        if self.format is None:
            return self.column
        value, pattern = "`" + self.column.replace("`", "``") + "`", self.format
        if self.timezone is not None:
            # The zone goes into the text, so that the zone of the session does not matter.
            value, pattern = f"concat({value}, {_quoted(' ' + self.timezone)})", f"{self.format} VV"
        return f"CAST(try_to_timestamp({value}, {_quoted(pattern)}) AS TIMESTAMP)"


def _quoted(value: str) -> str:
    """``value`` as a SQL string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """``[watermark]``: how far event time has come.

    Attributes:
        strategy: "bounded" (by ``delay``), "monotonous", or "none".
        delay: how far rows may be behind the newest event time.
        per_partition: a column whose values each keep a watermark of their own.
        idleness: after how long without rows a partition stops holding the others back.
    """

    strategy: str = field(default="bounded", metadata=reads(choice("bounded", "monotonous", "none")))
    delay: str | None = field(default=None, metadata=reads(duration()))
    per_partition: str | None = field(default=None, metadata=reads(text))
    idleness: str | None = field(default=None, metadata=reads(duration(zero=False)))

    def check(self, place: Place) -> None:
        """``delay`` goes with "bounded" and only with it."""
        if self.strategy == "bounded" and self.delay is None:
            place.note("'delay' is missing: strategy 'bounded' must know how far rows may be behind, e.g. delay = '5 seconds'")
        if self.strategy != "bounded" and self.delay is not None:
            place.at("delay").note(f"is for strategy 'bounded', not for {self.strategy!r}")
        if self.strategy == "none" and (self.per_partition or self.idleness):
            place.at("strategy").note("'none' makes no watermarks: 'per_partition' and 'idleness' have no meaning")

    @property
    def recipe(self) -> WatermarkStrategy:
        """What the library calls it."""
        if self.strategy == "none":
            return WatermarkStrategy.no_watermarks()
        recipe = WatermarkStrategy.for_monotonous_timestamps()
        if self.strategy == "bounded":
            recipe = WatermarkStrategy.for_bounded_out_of_orderness(self.delay or "0 seconds")
        if self.per_partition is not None:
            recipe = recipe.per_partition(self.per_partition)
        return recipe if self.idleness is None else recipe.with_idleness(self.idleness)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """``[window]``: which spans of event time are put together.

    Attributes:
        type: "tumbling" or "sliding".
        size, slide, offset: durations; ``offset`` moves the windows against the epoch (UTC).
    """

    type: str = field(metadata=reads(choice("tumbling", "sliding")))
    size: str = field(metadata=reads(duration(zero=False)))
    slide: str | None = field(default=None, metadata=reads(duration(zero=False)))
    offset: str = field(default="0 seconds", metadata=reads(duration(negative=True)))

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        """A better answer for a key that is planned."""
        return LATENESS_LATER if name == "allowed_lateness" else None

    def check(self, place: Place) -> None:
        """``slide`` goes with "sliding" and only with it; the offset fits."""
        if self.type == "sliding" and self.slide is None:
            place.note("'slide' is missing: every how long does a sliding window begin?")
            return
        if self.type == "tumbling" and self.slide is not None:
            place.at("slide").note("a tumbling window has no slide; did you mean type = 'sliding'?")
            return
        try:
            _ = self.assigner
        except PanestreamError as error:
            place.note(str(error))

    @property
    def assigner(self) -> WindowAssigner:
        """What the library calls it."""
        if self.type == "sliding":
            return SlidingEventTimeWindows.of(self.size, self.slide or self.size, self.offset)
        return TumblingEventTimeWindows.of(self.size, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """``[top]``: of each window only the ``n`` rows with the largest ``by``, an output column of an aggregate."""

    n: int = field(metadata=reads(integer(1)))
    by: str = field(metadata=reads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """``[sinks.main]`` and its sisters: where an output goes.

    Attributes:
        format: parquet, json, csv or orc (with ``path``), table (with ``table``), or console.
        path: a folder; seen from the folder of the job file.
        table: ``table``, ``db.table`` or ``catalog.db.table``.
        table_format: the format of a table that is made anew, e.g. delta; default: Spark's.
    """

    format: str = field(metadata=reads(choice("parquet", "json", "csv", "orc", "table", "console")))
    path: str | None = field(default=None, metadata=reads(location))
    table: str | None = field(default=None, metadata=reads(table_name))
    table_format: str | None = field(default=None, metadata=reads(identifier))

    def check(self, place: Place) -> None:
        """Files want a path, tables a name."""
        wants = {"table": "table", "console": None}.get(self.format, "path")
        for argument in ("path", "table"):
            given = getattr(self, argument) is not None
            if argument == wants and not given:
                place.note(f"{argument!r} is missing: format {self.format!r} needs it")
            if given and argument != wants:
                place.at(argument).note(f"format {self.format!r} takes no {argument!r}")
        if self.table_format is not None and self.format != "table":
            place.at("table_format").note(f"is for format 'table', not for {self.format!r}")

    def __str__(self) -> str:
        if self.format == "console":
            return "console"
        return f"{self.path} ({self.format})" if self.path else f"table {self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """``[sinks]``: main, and for the rows that are late or have no event time, if they are wanted."""

    main: Sink = field(metadata=reads(section(Sink)))
    late: Sink | None = field(default=None, metadata=reads(section(Sink)))
    invalid: Sink | None = field(default=None, metadata=reads(section(Sink)))

    def items(self) -> list[tuple[str, Sink]]:
        """The sinks by output, those that are there."""
        every = (("main", self.main), ("late", self.late), ("invalid", self.invalid))
        return [(tag, sink) for tag, sink in every if sink is not None]

    def check(self, place: Place) -> None:
        """No two write to the same place."""
        seen: dict[tuple[str | None, str | None], str] = {}
        for tag, sink in self.items():
            target = (sink.path, sink.table)
            if target != (None, None) and target in seen:
                place.at(tag).note(f"writes to the same place as sinks.{seen[target]}")
            seen[target] = tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """``[trigger]``: when micro-batches run: all that is there and then end, or every so often without end."""

    available_now: bool | None = field(default=None, metadata=reads(boolean))
    every: str | None = field(default=None, metadata=reads(duration()))

    def check(self, place: Place) -> None:
        """One or the other."""
        if self.available_now and self.every is not None:
            place.at("every").note("'available_now' and 'every' exclude each other: keep one of them")
        if self.available_now is False and self.every is None:
            place.at("available_now").note("without it, say how often: every = '10 seconds'")

    @property
    def spark(self) -> dict[str, Any]:
        """The keyword arguments of Spark's ``trigger``."""
        if self.every is None:
            return {"availableNow": True}
        return {"processingTime": f"{to_micros(self.every) // 1000} milliseconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A whole job file.

    Attributes:
        name: how the query is called in logs and in Spark's user interface; default: the name of the file.
        mode: "stream" or "batch".
        checkpoint: the folder where a stream remembers how far it came.
        key: the columns by which rows are put together; none: one window for all.
        spark: settings of the Spark session; ``master`` among them.
    """

    source: Source = field(metadata=reads(section(Source)))
    event_time: EventTime = field(metadata=reads(section(EventTime)))
    watermark: Watermark = field(metadata=reads(section(Watermark)))
    window: WindowSpec = field(metadata=reads(section(WindowSpec)))
    aggregate: tuple[AggregateSpec, ...] = field(metadata=reads(aggregates))
    sinks: Sinks = field(metadata=reads(section(Sinks)))
    key: tuple[str, ...] = field(default=(), metadata=reads(array(text)))
    top: Top | None = field(default=None, metadata=reads(section(Top)))
    trigger: Trigger = field(default_factory=Trigger, metadata=reads(section(Trigger)))
    mode: str = field(default="stream", metadata=reads(choice("stream", "batch")))
    name: str | None = field(default=None, metadata=reads(text))
    checkpoint: str | None = field(default=None, metadata=reads(location))
    spark: Mapping[str, str] = field(default_factory=dict, metadata=reads(flat("spark")))

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        """A better answer for a key that is planned, or that stands at the wrong level."""
        if name == "allowed_lateness":
            return LATENESS_LATER
        inside = [each for each, fields in _SECTION_KEYS.items() if name in fields]
        return f"unknown key here; it belongs into [{inside[0]}]" if len(inside) == 1 else None

    def check(self, place: Place) -> None:
        """What only shows when the sections are seen together."""
        outputs = [each.name for each in self.aggregate]
        if self.top is not None and self.top.by not in outputs:
            place.at("top", "by").note(f"there is no output column {self.top.by!r}; {did_you_mean(self.top.by, outputs)}")
        for index, each in enumerate(self.key):
            if each in self.key[:index]:
                place.at("key", index).note(f"{each!r} is given twice")
        for each in outputs:
            if each in self.key or each in RESERVED:
                place.at("aggregate").note(f"the output has a column {each!r} of its own; give the aggregate another 'alias'")
        if self.event_time.invalid == "side_output" and self.sinks.invalid is None:
            place.at("event_time", "invalid").note("'side_output' needs a [sinks.invalid] to put the rows")
        if self.event_time.invalid == "fail" and self.sinks.invalid is not None:
            place.at("sinks", "invalid").note("would stay empty: set event_time.invalid = 'side_output'")
        if self.mode == "stream" and self.source.reads_files and self.source.schema is None:
            place.at("source").note("'schema' is missing: a stream of files must know its columns beforehand")


_SECTION_KEYS: Mapping[str, frozenset[str]] = {
    section_name: frozenset(each.name for each in dataclasses.fields(cls))
    for section_name, cls in (
        ("source", Source),
        ("event_time", EventTime),
        ("watermark", Watermark),
        ("window", WindowSpec),
        ("top", Top),
        ("trigger", Trigger),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the command line changes in a job file. Paths are seen from the working folder.

    Attributes:
        input: another ``source.path``.
        output: a folder for all sinks that write files (``main``, ``late``, ``invalid`` in it) and for the checkpoint.
        mode: "stream" or "batch".
        checkpoint: another checkpoint.
    """

    input: Path | None = None
    output: Path | None = None
    mode: str | None = None
    checkpoint: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A checked job and its file, so that errors that show later (a column that is not there) still point at a line."""

    job: Job
    document: Document

    def place(self, *where: str | int) -> Place:
        """A place to report problems to."""
        return Place(self.document, where)


def load_job(path: Path, overrides: Overrides | None = None) -> LoadedJob:
    """Reads and checks a job file.

    Args:
        path: a ``.toml``, ``.yaml`` or ``.yml`` file.
        overrides: what to change in it before it is checked.

    Raises:
        JobError: all that is wrong with it, a line each: ``file:line: path.of.key: what is wrong; did you mean …?``
    """
    document = _overridden(load_document(path), overrides or Overrides())
    place = Place(document)
    try:
        job: Job = section(Job)(document.data, place)
    except Wrong:
        place.finish()
        raise JobError(f"{path}: not a job file") from None
    if job.name is None:
        job = replace(job, name=path.stem)
    if job.checkpoint is None and job.mode == "stream":
        # A stream without a checkpoint would begin again at every start, and double its output.
        job = replace(job, checkpoint=str((path.parent / f"{path.stem}.checkpoint").resolve()))
    return LoadedJob(job, document)


def _overridden(document: Document, overrides: Overrides) -> Document:
    data = copy.deepcopy(dict(document.data))
    if overrides.mode is not None:
        data["mode"] = overrides.mode
    if overrides.input is not None:
        source = data.setdefault("source", {})
        if isinstance(source, dict):
            source["path"] = str(overrides.input.resolve())
    if overrides.output is not None:
        sinks = data.get("sinks")
        every = sinks.items() if isinstance(sinks, dict) else ()
        files = [(tag, sink) for tag, sink in every if isinstance(sink, dict) and "path" in sink]
        if not files:
            raise JobError(f"{document.path}: --output is for sinks that write files, and this job has none")
        for tag, sink in files:
            sink["path"] = str((overrides.output / str(tag)).resolve())
        # Another output with the old checkpoint would hold only what is new since then.
        data["checkpoint"] = str((overrides.output / "checkpoint").resolve())
    if overrides.checkpoint is not None:
        data["checkpoint"] = str(overrides.checkpoint.resolve())
    return replace(document, data=data)
