"""The model of a job file: a dataclass for each section, and a reader that checks each key."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.engine.plan import FIRING_COLUMNS, OP_COLUMN, RESERVED
from panestream.engine.runtime.sides import SIDES
from panestream.jobs.aggregates import AggregateSection, aggregates
from panestream.jobs.functions import AnyFunctionSection, ArrowFunctionSection, FunctionSection, ProcessSection
from panestream.jobs.schema import (
    DocumentPlace,
    array,
    boolean,
    choice,
    column,
    duration,
    flat,
    integer,
    is_local,
    location,
    reads,
    section,
    table,
    text,
)
from panestream.jobs.sinks import Sinks
from panestream.jobs.source import SourceSection
from panestream.jobs.streams import EventTime, IntervalJoinSection, Join, ProcessingTime, Stream, Watermark
from panestream.jobs.trigger_options import FiringSection
from panestream.jobs.windows import WindowSection
from panestream.windowing.time import to_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class TopSection:
    """``[top]``: keeps only some rows of each window, with their ``rank``.

    Attributes:
        n: number of rows.
        by: an output column. The rows with its largest values are kept.
    """

    n: int = field(metadata=reads(integer(1)))
    by: str = field(metadata=reads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSection:
    """``[trigger]``: when micro-batches run. [firing] sets when windows fire.

    Attributes:
        available_now: reads all available data in micro-batches of the source's size, then ends. The default.
        once: reads all available data in one micro-batch, then ends.
        every: time between micro-batches of a query without end.
        fire_at_end: closes open windows after all available data. A checkpoint must be created with it.
    """

    available_now: bool | None = field(default=None, metadata=reads(boolean))
    once: bool | None = field(default=None, metadata=reads(boolean))
    every: str | None = field(default=None, metadata=reads(duration()))
    fire_at_end: bool = field(default=False, metadata=reads(boolean))

    def check(self, place: DocumentPlace) -> None:
        if self.fire_at_end and self.every is not None:
            place.at("fire_at_end").note("'every' runs without end: leave it out, or close windows by watermark.closing_after")
        if self.available_now and self.every is not None:
            place.at("every").note("'available_now' and 'every' exclude each other: keep one of them")
        if self.once and (self.available_now or self.every is not None):
            place.at("once").note("excludes 'available_now' and 'every': keep one of them")
        if self.available_now is False and self.every is None and not self.once:
            place.at("available_now").note("without it, say how often: every = '10 seconds'")

    @property
    def spark(self) -> dict[str, Any]:
        if self.every is None:
            return {"once": True} if self.once else {"availableNow": True}
        return {"processingTime": f"{to_micros(self.every) // 1000} milliseconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """``[metrics]``: what a stream reports while it runs. A batch does not report metrics.

    Attributes:
        port: port of an HTTP endpoint for Prometheus, ``/metrics``, or 0 for any free port, which is printed.
        address: address of that endpoint, or "0.0.0.0" for all addresses, which containers need.
        json_lines: a file that gets a line of JSON for each micro-batch, relative to the folder of the job file.
    """

    port: int | None = field(default=None, metadata=reads(integer(0)))
    address: str = field(default="127.0.0.1", metadata=reads(text))
    json_lines: str | None = field(default=None, metadata=reads(location))

    def check(self, place: DocumentPlace) -> None:
        if self.port is None and self.json_lines is None:
            place.note("is empty: say where, port = 9464 for Prometheus, or json_lines = 'a file'")
        if self.port is not None and self.port > 65535:
            place.at("port").note(f"there is no port {self.port}: they end at 65535")
        if self.json_lines is not None and not is_local(self.json_lines):
            place.at("json_lines").note(f"must be a file of this machine, not {self.json_lines}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A whole job file.

    Attributes:
        name: name of the query in logs and in Spark's user interface, by default the name of the file.
        mode: "stream" or "batch".
        checkpoint: folder for the progress and state of a stream, by default next to the job file.
        key: columns that group the rows, or SQL with a name (``"lower(city) AS city"``). Without a key, all rows are one group.
        key_groups: parallelism of the state, fixed when the checkpoint is created. The default is 4, in a batch the cores.
        tasks: number of tasks of a stream that share the key groups, by default as many as run at a time if that is known.
        memory_limit: bytes of rows of a window or of a key group's micro-batch that a worker loads at once, by default 1 GiB.
        allowed_lateness: how long event-time windows accept rows after their end, and fire again.
        with_firing: adds ``firing``, ``firing_number`` and ``is_last`` to each result, which identify the firing of its window.
        changelog: emits results as changes, with insert, update_before, update_after or delete in the column ``op``.
        every_firing: emits every single firing, as Flink does, instead of the last one of each micro-batch.
        keep: columns of a look-back's row that its result keeps in addition to the key, by default all.
        windows: several kinds of windows over the same rows, each as [windows.LABEL]. Results have the label in ``window``;
            look-backs add it to the names of their results.
        panes: as [aggregate], but emits tiles of the aggregates instead of their results.
        spark: settings of the Spark session, including ``master``.
    """

    source: SourceSection | None = field(default=None, metadata=reads(section(SourceSection)))
    left: Stream | None = field(default=None, metadata=reads(section(Stream)))
    right: Stream | None = field(default=None, metadata=reads(section(Stream)))
    event_time: EventTime | None = field(default=None, metadata=reads(section(EventTime)))
    watermark: Watermark | None = field(default=None, metadata=reads(section(Watermark)))
    processing_time: ProcessingTime | None = field(default=None, metadata=reads(section(ProcessingTime)))
    window: WindowSection | None = field(default=None, metadata=reads(section(WindowSection)))
    windows: Mapping[str, WindowSection] = field(default_factory=dict, metadata=reads(table(text, section(WindowSection))))
    firing: FiringSection | None = field(default=None, metadata=reads(section(FiringSection)))
    aggregate: tuple[AggregateSection, ...] = field(default=(), metadata=reads(aggregates))
    panes: tuple[AggregateSection, ...] = field(default=(), metadata=reads(aggregates))
    join: Join | None = field(default=None, metadata=reads(section(Join)))
    interval_join: IntervalJoinSection | None = field(default=None, metadata=reads(section(IntervalJoinSection)))
    process: ProcessSection | None = field(default=None, metadata=reads(section(ProcessSection)))
    apply: FunctionSection | None = field(default=None, metadata=reads(section(FunctionSection)))
    apply_arrow: ArrowFunctionSection | None = field(default=None, metadata=reads(section(ArrowFunctionSection)))
    top: TopSection | None = field(default=None, metadata=reads(section(TopSection)))
    sinks: Sinks = field(metadata=reads(section(Sinks)))
    trigger: TriggerSection = field(default_factory=TriggerSection, metadata=reads(section(TriggerSection)))
    metrics: Metrics | None = field(default=None, metadata=reads(section(Metrics)))
    key: tuple[str, ...] = field(default=(), metadata=reads(array(column)))
    key_groups: int | None = field(default=None, metadata=reads(integer(1)))
    tasks: int | None = field(default=None, metadata=reads(integer(1)))
    memory_limit: int | None = field(default=None, metadata=reads(integer(1_000_000)))
    allowed_lateness: str | None = field(default=None, metadata=reads(duration()))
    with_firing: bool = field(default=False, metadata=reads(boolean))
    changelog: bool = field(default=False, metadata=reads(boolean))
    every_firing: bool = field(default=False, metadata=reads(boolean))
    keep: tuple[str, ...] | None = field(default=None, metadata=reads(array(text)))
    mode: str = field(default="stream", metadata=reads(choice("stream", "batch")))
    name: str | None = field(default=None, metadata=reads(text))
    checkpoint: str | None = field(default=None, metadata=reads(location))
    spark: Mapping[str, str] = field(default_factory=dict, metadata=reads(flat("spark")))

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        """Return an error that names the section of a misplaced key, or None if no single section has the key."""
        inside = [each for each, fields in _SECTION_KEYS.items() if name in fields]
        return f"unknown key here; it belongs into [{inside[0]}]" if len(inside) == 1 else None

    @staticmethod
    def explain_missing(name: str, given: Mapping[str, Any]) -> str | None:
        """Return an error for a job of two streams that does not combine them, or that also has ``[source]``."""
        if name == "join":
            return "nothing says what becomes of the two streams: give [join], [interval_join] or a function, such as [apply]"
        if name not in SIDES or "source" not in given:
            return None
        there = next(f"[{word}]" for word in OF_TWO if word in given)
        return f"{name!r} is missing: {there} is of jobs of two streams, and [source] of those of one: keep one of them"

    @staticmethod
    def needs(given: Mapping[str, Any]) -> set[str]:
        """Return the required keys."""
        two = any(name in given for name in OF_TWO)
        needed = {*SIDES} if two else {"source"}
        if "window" not in given and "windows" not in given and "interval_join" not in given:
            needed.add("window")
        if not any(name in given for name in FUNCTIONS_OF_ROWS):
            needed.add("join" if two else "aggregate")
        if two:
            return needed
        if _of_event_time(given):
            needed |= {"event_time", "watermark"}
        return needed | ({"watermark"} if "event_time" in given else set())

    @property
    def streams(self) -> list[tuple[tuple[str, ...], Stream]]:
        """The streams with their paths in the file: () for a single stream, or ``left`` and ``right``."""
        two: list[tuple[tuple[str, ...], Stream]] = [
            ((side,), one) for side, one in zip(SIDES, (self.left, self.right), strict=True) if one is not None
        ]
        if two or self.source is None:
            return two
        own = {"event_time": self.event_time, "watermark": self.watermark, "processing_time": self.processing_time}
        return [((), Stream(source=self.source, key=self.key, **own))]  # type: ignore[arg-type]

    @property
    def keys(self) -> tuple[str, ...]:
        """The key of the results; with two streams the left one's."""
        return self.key if self.left is None else self.left.key

    def with_source(self, where: tuple[str, ...], source: SourceSection) -> Job:
        """Return the same job over another source; ``where`` is the path of its stream in :attr:`streams`."""
        if not where:
            return dataclasses.replace(self, source=source)
        (side,) = where
        return dataclasses.replace(self, **{side: dataclasses.replace(getattr(self, side), source=source)})

    @property
    def every_window(self) -> list[tuple[tuple[str, ...], WindowSection]]:
        """The kinds of windows with their paths in the file."""
        alone = [] if self.window is None else [(("window",), self.window)]
        return alone + [(("windows", label), spec) for label, spec in self.windows.items()]

    @property
    def needs_event_time(self) -> bool:
        return self.interval_join is not None or any(spec.uses_event_time for _, spec in self.every_window)

    @property
    def function(self) -> tuple[str, AnyFunctionSection] | None:
        """The user function, with the name of its section."""
        for name in OWN_FUNCTIONS:
            spec: AnyFunctionSection | None = getattr(self, name)
            if spec is not None:
                return name, spec
        return None

    @property
    def made_columns(self) -> set[str]:
        """The columns of the results that users cannot name themselves."""
        columns = {*RESERVED, *(("window",) if self.windows else ()), *(SIDES if self.left is not None else ())}
        if self.panes:
            columns |= {"rows", "tile"}
        if self.with_firing:
            columns |= {column.name for column in FIRING_COLUMNS}
        return columns | {OP_COLUMN.name} if self.changelog else columns


OWN_FUNCTIONS = ("process", "apply", "apply_arrow")
"""The sections that name a user function."""

FUNCTIONS_OF_ROWS = ("aggregate", *OWN_FUNCTIONS, "panes", "join", "interval_join")
"""The sections that process the rows of a window; a job has one of them."""

OF_TWO = (*SIDES, "join", "interval_join")


def _of_event_time(given: Mapping[str, Any]) -> bool:
    """Return whether an unchecked job seems to have an event-time window."""
    every = [given.get("window")]
    if isinstance(given.get("windows"), Mapping):
        every = list(given["windows"].values())
    tables = [spec for spec in every if isinstance(spec, Mapping)]
    free = [spec for spec in tables if spec.get("type") in ("count", "global") or spec.get("time") == "processing"]
    return len(free) < max(len(tables), 1)


_SECTION_KEYS: Mapping[str, frozenset[str]] = {
    section_name: frozenset(each.name for each in dataclasses.fields(cls))
    for section_name, cls in (
        ("source", SourceSection),
        ("join", Join),
        ("interval_join", IntervalJoinSection),
        ("event_time", EventTime),
        ("watermark", Watermark),
        ("window", WindowSection),
        ("firing", FiringSection),
        ("top", TopSection),
        ("trigger", TriggerSection),
        ("metrics", Metrics),
    )
}
