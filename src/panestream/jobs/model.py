"""What a job file may say: one frozen dataclass per section, each key with the reader that checks it."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from panestream.engine.plan import FIRING_COLUMNS, OP_COLUMN, RESERVED
from panestream.errors import JobError, did_you_mean
from panestream.jobs.aggregates import AggregateSection, aggregates
from panestream.jobs.document import Document, load_document
from panestream.jobs.functions import ArrowFunctionSection, FunctionSection
from panestream.jobs.schema import (
    Place,
    Wrong,
    array,
    boolean,
    choice,
    ddl,
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
from panestream.jobs.windows import ALIGNED, Firing, WindowSection
from panestream.jobs.zones import unknown_zone
from panestream.windowing.time import to_micros
from panestream.windowing.watermarks import WatermarkStrategy

_OPTIONS = table(text, scalar)
FILE_FORMATS = ("csv", "json", "parquet", "orc", "text")
"""Source formats that read files: they want a path and can be cut into micro-batches by ``files_per_batch``."""


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
    schema: str | None = field(default=None, metadata=reads(ddl))
    header: bool | None = field(default=None, metadata=reads(boolean))
    files_per_batch: int | None = field(default=None, metadata=reads(integer(1)))
    columns: Mapping[str, str] = field(default_factory=dict, metadata=reads(table(identifier, sql)))
    where: str | None = field(default=None, metadata=reads(sql))
    options: Mapping[str, str] = field(default_factory=dict, metadata=reads(_OPTIONS))

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
            elif (unknown := unknown_zone(self.timezone)) is not None:
                place.at("timezone").note(unknown)

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
        max_ahead: rows further ahead than that are as rows without event time.
        max_ahead_of: of what: "clock" (Spark's, for live data), or "rows" (the others, for data of the past).
    """

    strategy: str = field(default="bounded", metadata=reads(choice("bounded", "monotonous", "none")))
    delay: str | None = field(default=None, metadata=reads(duration()))
    per_partition: str | None = field(default=None, metadata=reads(text))
    idleness: str | None = field(default=None, metadata=reads(duration(zero=False)))
    max_ahead: str | None = field(default=None, metadata=reads(duration()))
    max_ahead_of: str | None = field(default=None, metadata=reads(choice("clock", "rows")))

    def check(self, place: Place) -> None:
        """``delay`` goes with "bounded" and only with it."""
        if self.strategy == "bounded" and self.delay is None:
            place.note("'delay' is missing: strategy 'bounded' must know how far rows may be behind, e.g. delay = '5 seconds'")
        if self.strategy != "bounded" and self.delay is not None:
            place.at("delay").note(f"is for strategy 'bounded', not for {self.strategy!r}")
        if self.strategy == "none" and (self.per_partition or self.idleness):
            place.at("strategy").note("'none' makes no watermarks: 'per_partition' and 'idleness' have no meaning")
        if self.max_ahead_of is not None and self.max_ahead is None:
            place.at("max_ahead_of").note("says of what 'max_ahead' is: how far is missing, e.g. max_ahead = '1 hour'")

    @property
    def recipe(self) -> WatermarkStrategy:
        """What the library calls it."""
        recipe = WatermarkStrategy.for_monotonous_timestamps()
        if self.strategy == "none":
            recipe = WatermarkStrategy.no_watermarks()
        if self.strategy == "bounded":
            recipe = WatermarkStrategy.for_bounded_out_of_orderness(self.delay or "0 seconds")
        if self.per_partition is not None:
            recipe = recipe.per_partition(self.per_partition)
        if self.idleness is not None:
            recipe = recipe.with_idleness(self.idleness)
        return recipe if self.max_ahead is None else recipe.max_ahead(self.max_ahead, of=self.max_ahead_of or "clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingTime:
    """``[processing_time]``: takes the clock from a column (when each row was received, say) instead of from Spark.

    Attributes:
        column: a column of timestamps, or of numbers since 1970-01-01 UTC, with ``unit``; or SQL.
        unit: seconds, milliseconds or microseconds.
    """

    column: str = field(metadata=reads(text))
    unit: str | None = field(default=None, metadata=reads(choice("seconds", "milliseconds", "microseconds")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """``[top]``: of each window only some rows, with their ``rank``.

    Attributes:
        n: how many.
        by: an output column; those with the largest.
    """

    n: int = field(metadata=reads(integer(1)))
    by: str = field(metadata=reads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """``[sinks.main]`` and its sisters: where an output goes.

    Attributes:
        format: "parquet", "json", "csv" or "orc" (with ``path``); "table", which appends, or "merge", which replaces the row of a
            key and window (both with ``table``); or "console".
        path: a folder; seen from the folder of the job file.
        table: ``table``, ``db.table`` or ``catalog.db.table``. For "merge" one that knows MERGE: Delta, Iceberg, Hudi.
        table_format: the format of a table that is made anew, e.g. delta; default: Spark's.
        keys: of "merge": the key columns of the results; default: the job's.
        options: of files and of "table": passed on to Spark's writer.
    """

    format: str = field(metadata=reads(choice("parquet", "json", "csv", "orc", "table", "merge", "console")))
    path: str | None = field(default=None, metadata=reads(location))
    table: str | None = field(default=None, metadata=reads(table_name))
    table_format: str | None = field(default=None, metadata=reads(identifier))
    keys: tuple[str, ...] | None = field(default=None, metadata=reads(array(text)))
    options: Mapping[str, str] = field(default_factory=dict, metadata=reads(_OPTIONS))

    def check(self, place: Place) -> None:
        """Files want a path, tables a name."""
        wants = {"table": "table", "merge": "table", "console": None}.get(self.format, "path")
        for argument in ("path", "table"):
            given = getattr(self, argument) is not None
            if argument == wants and not given:
                place.note(f"{argument!r} is missing: format {self.format!r} needs it")
            if given and argument != wants:
                place.at(argument).note(f"format {self.format!r} takes no {argument!r}")
        if self.table_format is not None and self.table is None:
            place.at("table_format").note(f"is for formats 'table' and 'merge', not for {self.format!r}")
        if self.keys is not None and self.format != "merge":
            place.at("keys").note(f"is for format 'merge', not for {self.format!r}")
        if self.options and self.format in ("merge", "console"):
            place.at("options").note(f"format {self.format!r} takes none")

    def __str__(self) -> str:
        if self.format == "console":
            return "console"
        if self.path is not None:
            return f"{self.path} ({self.format})"
        return f"{'merged into ' if self.format == 'merge' else ''}table {self.table}"


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
        for tag, sink in self.items():
            if sink.format == "merge" and tag != "main":
                place.at(tag, "format").note("'merge' is by key and window, which only the rows of sinks.main have")
        seen: dict[tuple[str | None, str | None], str] = {}
        for tag, sink in self.items():
            target = (sink.path, sink.table)
            if target != (None, None) and target in seen:
                place.at(tag).note(f"writes to the same place as sinks.{seen[target]}")
            seen[target] = tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """``[trigger]``: when micro-batches run. (When windows fire is said in [firing].)

    Attributes:
        available_now: takes all that is there, in micro-batches of the source's size, then ends; the default.
        once: takes all that is there in one micro-batch, then ends.
        every: how often, without end.
    """

    available_now: bool | None = field(default=None, metadata=reads(boolean))
    once: bool | None = field(default=None, metadata=reads(boolean))
    every: str | None = field(default=None, metadata=reads(duration()))

    def check(self, place: Place) -> None:
        """One of them."""
        if self.available_now and self.every is not None:
            place.at("every").note("'available_now' and 'every' exclude each other: keep one of them")
        if self.once and (self.available_now or self.every is not None):
            place.at("once").note("excludes 'available_now' and 'every': keep one of them")
        if self.available_now is False and self.every is None and not self.once:
            place.at("available_now").note("without it, say how often: every = '10 seconds'")

    @property
    def spark(self) -> dict[str, Any]:
        """The keyword arguments of Spark's ``trigger``."""
        if self.every is None:
            return {"once": True} if self.once else {"availableNow": True}
        return {"processingTime": f"{to_micros(self.every) // 1000} milliseconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A whole job file.

    Attributes:
        name: how the query is called in logs and in Spark's user interface; default: the name of the file.
        mode: "stream" or "batch".
        checkpoint: the folder where a stream remembers how far it came; default: beside the job file.
        key: the columns by which rows are put together, or SQL with a name (``"lower(city) AS city"``); none: one window for all.
        key_groups: the parallelism of the state, fixed when the checkpoint is born; default: the cores.
        allowed_lateness: how long windows of event time take rows after their end, and fire again.
        with_firing: adds ``firing``, ``firing_number`` and ``is_last`` to the results: which firing of its window a row is from.
        changelog: makes the results changes, with the column ``op``: insert, update_before, update_after, delete.
        exact_firings: every single firing, as Flink would emit it, instead of the last one of each micro-batch.
        windows: several kinds of windows over the same rows, each as [windows.LABEL]; results have the label in ``window``.
        spark: settings of the Spark session; ``master`` among them.
    """

    source: Source = field(metadata=reads(section(Source)))
    event_time: EventTime | None = field(default=None, metadata=reads(section(EventTime)))
    watermark: Watermark | None = field(default=None, metadata=reads(section(Watermark)))
    processing_time: ProcessingTime | None = field(default=None, metadata=reads(section(ProcessingTime)))
    window: WindowSection | None = field(default=None, metadata=reads(section(WindowSection)))
    windows: Mapping[str, WindowSection] = field(default_factory=dict, metadata=reads(table(text, section(WindowSection))))
    firing: Firing | None = field(default=None, metadata=reads(section(Firing)))
    aggregate: tuple[AggregateSection, ...] = field(default=(), metadata=reads(aggregates))
    process: FunctionSection | None = field(default=None, metadata=reads(section(FunctionSection)))
    apply: FunctionSection | None = field(default=None, metadata=reads(section(FunctionSection)))
    apply_arrow: ArrowFunctionSection | None = field(default=None, metadata=reads(section(ArrowFunctionSection)))
    top: Top | None = field(default=None, metadata=reads(section(Top)))
    sinks: Sinks = field(metadata=reads(section(Sinks)))
    trigger: Trigger = field(default_factory=Trigger, metadata=reads(section(Trigger)))
    key: tuple[str, ...] = field(default=(), metadata=reads(array(text)))
    key_groups: int | None = field(default=None, metadata=reads(integer(1)))
    allowed_lateness: str | None = field(default=None, metadata=reads(duration()))
    with_firing: bool = field(default=False, metadata=reads(boolean))
    changelog: bool = field(default=False, metadata=reads(boolean))
    exact_firings: bool = field(default=False, metadata=reads(boolean))
    mode: str = field(default="stream", metadata=reads(choice("stream", "batch")))
    name: str | None = field(default=None, metadata=reads(text))
    checkpoint: str | None = field(default=None, metadata=reads(location))
    spark: Mapping[str, str] = field(default_factory=dict, metadata=reads(flat("spark")))

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        """A better answer for a key that stands at the wrong level."""
        inside = [each for each, fields in _SECTION_KEYS.items() if name in fields]
        return f"unknown key here; it belongs into [{inside[0]}]" if len(inside) == 1 else None

    @staticmethod
    def needs(given: Mapping[str, Any]) -> set[str]:
        """What must be there beside the rest: windows, what to do with them, and an event time where windows are of it."""
        found = set()
        if "window" not in given and "windows" not in given:
            found.add("window")
        if not any(name in given for name in FUNCTIONS_OF_ROWS):
            found.add("aggregate")
        if _of_event_time(given):
            found |= {"event_time", "watermark"}
        return found | ({"watermark"} if "event_time" in given else set())

    @property
    def every_window(self) -> list[tuple[tuple[str, ...], WindowSection]]:
        """The kinds of windows, and where each is said."""
        one = [] if self.window is None else [(("window",), self.window)]
        return one + [(("windows", label), spec) for label, spec in self.windows.items()]

    @property
    def function(self) -> tuple[str, FunctionSection | ArrowFunctionSection] | None:
        """The user's own function, and the section it is from."""
        for name in FUNCTIONS_OF_ROWS[1:]:
            spec: FunctionSection | ArrowFunctionSection | None = getattr(self, name)
            if spec is not None:
                return name, spec
        return None

    @property
    def made_columns(self) -> set[str]:
        """The columns of the results that nobody may call his own."""
        columns = {*RESERVED, *(("window",) if self.windows else ())}
        if self.with_firing:
            columns |= {column.name for column in FIRING_COLUMNS}
        return columns | {OP_COLUMN.name} if self.changelog else columns

    def check(self, place: Place) -> None:
        """What only shows when the sections are seen together."""
        self._check_windows(place)
        self._check_outputs(place)
        self._check_clock(place)
        given = [name for name in FUNCTIONS_OF_ROWS if getattr(self, name)]
        if len(given) > 1:
            place.at(given[1]).note(f"{given[0]!r} says already what becomes of the rows of a window: keep one of them")
        if self.event_time is None:
            for name in ("watermark", "allowed_lateness"):
                if getattr(self, name) is not None:
                    place.at(name).note("is about event time: it needs [event_time]")
        elif self.event_time.invalid == "side_output" and self.sinks.invalid is None:
            place.at("event_time", "invalid").note("'side_output' needs a [sinks.invalid] to put the rows")
        if self.sinks.invalid is not None and (self.event_time is None or self.event_time.invalid == "fail"):
            place.at("sinks", "invalid").note("would stay empty: set event_time.invalid = 'side_output'")
        if self.mode == "stream" and self.source.reads_files and self.source.schema is None:
            place.at("source").note("'schema' is missing: a stream of files must know its columns beforehand")

    def _check_windows(self, place: Place) -> None:
        if self.window is not None and self.windows:
            place.at("windows", next(iter(self.windows))).note(
                "[window] and [windows.LABEL] exclude each other: keep one of them"
            )
        for where, spec in self.every_window if self.windows else ():
            if spec.type not in ALIGNED:
                place.at(*where, "type").note(f"several windows share their panes: {', '.join(ALIGNED)}, not {spec.type}")
            if spec.time != self.every_window[0][1].time:
                place.at(*where, "time").note("several windows are all of event time, or all of processing time")
        if self.window is None and not self.windows:
            place.at("windows").note("is empty: give at least one [windows.LABEL]")
        kind = None if self.window is None else self.window.type
        if kind == "global" and self.firing is None:
            place.at("window", "type").note("a global window never fires by itself: say when in [firing]")
        if kind == "count" and self.firing is not None:
            place.at("firing").note("a count window fires by its count; did you mean window.type = 'global'?")

    def _check_outputs(self, place: Place) -> None:
        outputs = [each.name for each in self.aggregate]
        if self.top is not None and self.aggregate and self.top.by not in outputs:
            place.at("top", "by").note(f"there is no output column {self.top.by!r}; {did_you_mean(self.top.by, outputs)}")
        for name in ("with_firing", "changelog"):
            if self.top is not None and getattr(self, name):
                place.at(name).note("does not go with [top]: a window's top is all there is of it")
        for index, each in enumerate(self.key):
            if each in self.key[:index]:
                place.at("key", index).note(f"{each!r} is given twice")
            elif each in self.made_columns:
                place.at("key", index).note(f"the results have a column {each!r} of their own: write '{each} AS my_{each}'")
        for each in outputs:
            if each in self.key or each in self.made_columns:
                place.at("aggregate").note(f"the output has a column {each!r} of its own; give the aggregate another 'alias'")
        if self.sinks.main.format == "merge" and self.sinks.main.keys is None:
            for each in self.key:
                if not each.isidentifier():
                    place.at("sinks", "main").note(f"'keys' is missing: what is the column of the key {each!r} called?")

    def _check_clock(self, place: Place) -> None:
        by_clock = any(spec.time == "processing" for _, spec in self.every_window) or bool(
            self.firing and self.firing.uses_processing_time
        )
        if self.processing_time is not None and not by_clock:
            place.at("processing_time").note("nothing here is of processing time: set time = 'processing' in [window]")
        waits = by_clock and self.processing_time is None and self.mode == "stream"
        if waits and "availableNow" in self.trigger.spark:
            place.at("trigger").note(
                "windows that wait for the clock keep a query running: say how often, every = '1 second', and stop it yourself; "
                "or once = true; or take the clock from a column, [processing_time]"
            )


FUNCTIONS_OF_ROWS = ("aggregate", "process", "apply", "apply_arrow")
"""The sections that say what becomes of the rows of a window: a job has one of them."""


def _of_event_time(given: Mapping[str, Any]) -> bool:
    """Whether some window of an unchecked job is of event time, as far as one can see."""
    every = [given.get("window")]
    if isinstance(given.get("windows"), Mapping):
        every = list(given["windows"].values())
    tables = [spec for spec in every if isinstance(spec, Mapping)]
    free = [spec for spec in tables if spec.get("type") in ("count", "global") or spec.get("time") == "processing"]
    return len(free) < max(len(tables), 1)


_SECTION_KEYS: Mapping[str, frozenset[str]] = {
    section_name: frozenset(each.name for each in dataclasses.fields(cls))
    for section_name, cls in (
        ("source", Source),
        ("event_time", EventTime),
        ("watermark", Watermark),
        ("window", WindowSection),
        ("firing", Firing),
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
