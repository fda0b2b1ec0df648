"""What a job file may say: a dataclass for each section, each key with the reader that checks it, and all of them together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.engine.plan import FIRING_COLUMNS, OP_COLUMN, RESERVED
from panestream.engine.runtime.sides import SIDES
from panestream.errors import did_you_mean
from panestream.jobs.aggregates import AggregateSection, aggregates
from panestream.jobs.apart import check_apart
from panestream.jobs.functions import AnyFunctionSection, ArrowFunctionSection, FunctionSection, ProcessSection
from panestream.jobs.schema import (
    Place,
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
from panestream.jobs.source import Source
from panestream.jobs.streams import IntervalJoin, Join, Stream
from panestream.jobs.times import EventTime, ProcessingTime, Watermark
from panestream.jobs.windows import ALIGNED, EVEN, LOOK_BACK, Firing, WindowSection
from panestream.windowing.time import to_micros


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
class Trigger:
    """``[trigger]``: when micro-batches run. (When windows fire is said in [firing].)

    Attributes:
        available_now: takes all that is there, in micro-batches of the source's size, then ends; the default.
        once: takes all that is there in one micro-batch, then ends.
        every: how often, without end.
        close_at_end: closes open windows when all that is there has been read; for a checkpoint that is begun so.
    """

    available_now: bool | None = field(default=None, metadata=reads(boolean))
    once: bool | None = field(default=None, metadata=reads(boolean))
    every: str | None = field(default=None, metadata=reads(duration()))
    close_at_end: bool = field(default=False, metadata=reads(boolean))

    def check(self, place: Place) -> None:
        """One of them."""
        if self.close_at_end and self.every is not None:
            place.at("close_at_end").note("'every' runs without end: leave it out, or close windows by watermark.closing_after")
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
class Metrics:
    """``[metrics]``: what a stream does, for others to read while it runs. Of a batch nothing is told.

    Attributes:
        port: of an HTTP endpoint for Prometheus, ``/metrics``; 0: any that is free, which is told.
        address: on which address it listens; "0.0.0.0" for all, as containers need it.
        json_lines: a file that gets a line of JSON for each micro-batch; seen from the folder of the job file.
    """

    port: int | None = field(default=None, metadata=reads(integer(0)))
    address: str = field(default="127.0.0.1", metadata=reads(text))
    json_lines: str | None = field(default=None, metadata=reads(location))

    def check(self, place: Place) -> None:
        """Something must be asked for."""
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
        name: how the query is called in logs and in Spark's user interface; default: the name of the file.
        mode: "stream" or "batch".
        checkpoint: the folder where a stream remembers how far it came; default: beside the job file.
        key: the columns by which rows are put together, or SQL with a name (``"lower(city) AS city"``); none: one window for all.
        key_groups: the parallelism of the state, fixed when the checkpoint is born; default: 4; of a batch the cores.
        tasks: how many tasks of a stream take the key groups in turns; default: as many as run at a time, where that is known.
        memory_limit: how many bytes of rows a worker takes into memory at once, of a window or of a key group's micro-batch;
            default: 1 GiB.
        allowed_lateness: how long windows of event time take rows after their end, and fire again.
        with_firing: adds ``firing``, ``firing_number`` and ``is_last`` to the results: which firing of its window a row is from.
        changelog: makes the results changes, with the column ``op``: insert, update_before, update_after, delete.
        exact_firings: every single firing, as Flink would emit it, instead of the last one of each micro-batch.
        keep: of look-backs: the columns of the row that its result has, besides the key; default: all.
        windows: several kinds of windows over the same rows, each as [windows.LABEL]; results have the label in ``window``, of
            look-backs behind their names.
        panes: as [aggregate]: tiles of these aggregates, in place of their results.
        spark: settings of the Spark session; ``master`` among them.
    """

    source: Source | None = field(default=None, metadata=reads(section(Source)))
    left: Stream | None = field(default=None, metadata=reads(section(Stream)))
    right: Stream | None = field(default=None, metadata=reads(section(Stream)))
    event_time: EventTime | None = field(default=None, metadata=reads(section(EventTime)))
    watermark: Watermark | None = field(default=None, metadata=reads(section(Watermark)))
    processing_time: ProcessingTime | None = field(default=None, metadata=reads(section(ProcessingTime)))
    window: WindowSection | None = field(default=None, metadata=reads(section(WindowSection)))
    windows: Mapping[str, WindowSection] = field(default_factory=dict, metadata=reads(table(text, section(WindowSection))))
    firing: Firing | None = field(default=None, metadata=reads(section(Firing)))
    aggregate: tuple[AggregateSection, ...] = field(default=(), metadata=reads(aggregates))
    panes: tuple[AggregateSection, ...] = field(default=(), metadata=reads(aggregates))
    join: Join | None = field(default=None, metadata=reads(section(Join)))
    interval_join: IntervalJoin | None = field(default=None, metadata=reads(section(IntervalJoin)))
    process: ProcessSection | None = field(default=None, metadata=reads(section(ProcessSection)))
    apply: FunctionSection | None = field(default=None, metadata=reads(section(FunctionSection)))
    apply_arrow: ArrowFunctionSection | None = field(default=None, metadata=reads(section(ArrowFunctionSection)))
    top: Top | None = field(default=None, metadata=reads(section(Top)))
    sinks: Sinks = field(metadata=reads(section(Sinks)))
    trigger: Trigger = field(default_factory=Trigger, metadata=reads(section(Trigger)))
    metrics: Metrics | None = field(default=None, metadata=reads(section(Metrics)))
    key: tuple[str, ...] = field(default=(), metadata=reads(array(column)))
    key_groups: int | None = field(default=None, metadata=reads(integer(1)))
    tasks: int | None = field(default=None, metadata=reads(integer(1)))
    memory_limit: int | None = field(default=None, metadata=reads(integer(1_000_000)))
    allowed_lateness: str | None = field(default=None, metadata=reads(duration()))
    with_firing: bool = field(default=False, metadata=reads(boolean))
    changelog: bool = field(default=False, metadata=reads(boolean))
    exact_firings: bool = field(default=False, metadata=reads(boolean))
    keep: tuple[str, ...] | None = field(default=None, metadata=reads(array(text)))
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
    def explain_missing(name: str, given: Mapping[str, Any]) -> str | None:
        """A better answer where a job has the source of one stream beside one of two."""
        if name not in SIDES or "source" not in given:
            return None
        there = next(f"[{word}]" for word in OF_TWO if word in given)
        return f"{name!r} is missing: {there} is of jobs of two streams, and [source] of those of one: keep one of them"

    @staticmethod
    def needs(given: Mapping[str, Any]) -> set[str]:
        """What must be there beside the rest: rows, windows, what to do with them, and an event time where windows are of it."""
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
        """Where rows come from, and where each is said: one stream, of the top of the file, or the left and the right one."""
        two: list[tuple[tuple[str, ...], Stream]] = [
            ((side,), one) for side, one in zip(SIDES, (self.left, self.right), strict=True) if one is not None
        ]
        if two or self.source is None:
            return two
        own = {"event_time": self.event_time, "watermark": self.watermark, "processing_time": self.processing_time}
        return [((), Stream(source=self.source, key=self.key, **own))]  # type: ignore[arg-type]

    @property
    def keys(self) -> tuple[str, ...]:
        """The key of the results: of two streams that of the left."""
        return self.key if self.left is None else self.left.key

    def with_source(self, where: tuple[str, ...], source: Source) -> Job:
        """The same job over another source.

        Args:
            where: of the stream, as :attr:`streams` has it.
            source: of that stream.
        """
        if not where:
            return dataclasses.replace(self, source=source)
        (side,) = where
        return dataclasses.replace(self, **{side: dataclasses.replace(getattr(self, side), source=source)})

    @property
    def every_window(self) -> list[tuple[tuple[str, ...], WindowSection]]:
        """The kinds of windows, and where each is said."""
        alone = [] if self.window is None else [(("window",), self.window)]
        return alone + [(("windows", label), spec) for label, spec in self.windows.items()]

    @property
    def function(self) -> tuple[str, AnyFunctionSection] | None:
        """The user's own function, and the section it is from."""
        for name in OWN_FUNCTIONS:
            spec: AnyFunctionSection | None = getattr(self, name)
            if spec is not None:
                return name, spec
        return None

    @property
    def made_columns(self) -> set[str]:
        """The columns of the results that nobody may call his own."""
        columns = {*RESERVED, *(("window",) if self.windows else ()), *(SIDES if self.left is not None else ())}
        if self.panes:
            columns |= {"rows", "tile"}
        if self.with_firing:
            columns |= {column.name for column in FIRING_COLUMNS}
        return columns | {OP_COLUMN.name} if self.changelog else columns

    def check(self, place: Place) -> None:
        """What only shows when the sections are seen together."""
        given = [name for name in FUNCTIONS_OF_ROWS if getattr(self, name)]
        if len(given) > 1:
            place.at(given[1]).note(f"{given[0]!r} says already what becomes of the rows of a window: keep one of them")
        if self.left is None:
            for tag in _OUTPUTS_OF_TWO:
                if getattr(self.sinks, tag) is not None:
                    alone = tag.partition("_")[0]
                    place.at("sinks", tag).note(f"is of two streams, [left] and [right]; of one it is sinks.{alone}")
        else:
            self._check_two(place)
        if self.interval_join is None:
            self._check_windows(place)
        else:
            self._check_no_windows(place)
        if self.panes:
            self._check_panes(place)
        self._check_outputs(place)
        self._check_processing_time(place)
        self._check_closing(place)
        read = {(*where, "source"): one.source.path for where, one in self.streams if one.source.path and one.source.reads_files}
        check_apart(place, read, {tag: sink.path for tag, sink in self.sinks.items() if sink.path}, self.checkpoint)
        for where, one in self.streams:
            self._check_time(place, where, one)
            if self.mode == "stream" and one.source.reads_files and one.source.schema is None:
                place.at(*where, "source").note("'schema' is missing: a stream of files must know its columns beforehand")

    def _check_time(self, place: Place, where: tuple[str, ...], stream: Stream) -> None:
        """An event time that is needed is there, and so is an output for rows without one, where they are to go there."""
        tag = "_".join(("invalid", *where))
        sink = getattr(self.sinks, tag)
        if stream.event_time is None:
            if where and (self.interval_join is not None or any(spec.uses_event_time for _, spec in self.every_window)):
                place.at(*where).note("'event_time' is missing")
            elif stream.watermark is not None:
                place.at(*where, "watermark").note("is about event time: it needs [event_time]")
            if self.allowed_lateness is not None and not where:
                place.at("allowed_lateness").note("is about event time: it needs [event_time]")
        elif stream.event_time.invalid == "side_output" and sink is None:
            place.at(*where, "event_time", "invalid").note(f"'side_output' needs a [sinks.{tag}] to put the rows")
        if sink is not None and (stream.event_time is None or stream.event_time.invalid == "fail"):
            place.at("sinks", tag).note(f"would stay empty: set {'.'.join((*where, 'event_time'))}.invalid = 'side_output'")

    def _check_two(self, place: Place) -> None:
        """What is said of each stream is said there, and the two go together."""
        left, right = (one for _, one in self.streams)
        for name in ("source", "event_time", "watermark", "processing_time", "key"):
            if getattr(self, name):
                place.at(name).note(f"there are two streams, and each has its own: write left.{name} and right.{name}")
        for tag in ("late", "invalid"):
            if getattr(self.sinks, tag) is not None:
                place.at("sinks", tag).note(f"the rows of two streams differ: write sinks.{tag}_left and sinks.{tag}_right")
        if len(left.key) != len(right.key):
            place.at("right", "key").note(
                f"has {len(right.key)} columns, left.key has {len(left.key)}: give both as many, in the same order"
            )
        for name in ("event_time", "processing_time"):
            lacking = [side for side in SIDES if getattr(getattr(self, side), name) is None]
            if len(lacking) == 1:
                place.at(*lacking).note(f"has no [{name}], and the other stream has one: give it to both, or to neither")
        closing = [where for where, one in self.streams if one.watermark and one.watermark.closing_after]
        if len(closing) == 1:
            place.at(*closing[0], "watermark", "closing_after").note("is about all input: give it to both streams, or to neither")
        if self.join is not None or self.interval_join is not None:
            self._check_pairs(place, "join" if self.join is not None else "interval_join")

    def _check_pairs(self, place: Place, name: str) -> None:
        """Nothing wants one row for each key and window."""
        for key in ("changelog", "top"):
            if getattr(self, key) and self.join is not None:
                place.at(key).note("is of one row for each key and window, and a join has many: leave it out")
        sink = self.sinks.main
        if sink.kind.by_key or sink.compacted:
            place.at("sinks", "main").note(
                f"keeps one row of each key, and [{name}] gives many: append them, e.g. format = 'parquet' or 'table'"
            )

    def _check_no_windows(self, place: Place) -> None:
        for name in _OF_WINDOWS:
            if getattr(self, name):
                place.at(name).note("is about windows, and [interval_join] has none: leave it out")
        if self.trigger.close_at_end:
            place.at("trigger", "close_at_end").note(
                "closes windows, and [interval_join] has none: leave it out (a row without a partner comes when the "
                "watermark has passed its interval)"
            )

    def _check_panes(self, place: Place) -> None:
        """Tiles are of slices of time that do not overlap, when they are over."""
        if self.windows:
            place.at("windows").note("the slices of one kind are enough for tiles: write [window]")
        elif self.window is not None and (self.window.type not in OF_TILES or self.window.time != "event"):
            place.at("window", "type").note(
                "tiles are of slices of event time: tumbling windows, or those of a calendar, with time = 'event'"
            )
        elif self.window is not None and self.window.slide is not None:
            place.at("window", "slide").note("tiles do not overlap: leave it out")
        if self.firing is not None:
            place.at("firing").note("a tile goes out when its slice is over, and again for late rows: leave it out")
        for name in ("top", "exact_firings"):
            if getattr(self, name):
                place.at(name).note("is of results, and a tile holds what aggregates keep: leave it out")

    def _check_windows(self, place: Place) -> None:
        if self.window is not None and self.windows:
            place.at("windows", next(iter(self.windows))).note(
                "[window] and [windows.LABEL] exclude each other: keep one of them"
            )
        if self.left is not None:
            self._check_windows_of_two(place)
        looking_back = [spec.type == LOOK_BACK for _, spec in self.every_window]
        if self.keep is not None and not any(looking_back):
            place.at("keep").note("is for look-backs, whose results are of rows: a window has no row of its own")
        for where, spec in self.every_window if self.windows and not all(looking_back) else ():
            if spec.type not in ALIGNED:
                place.at(*where, "type").note(
                    f"several windows share their panes: {', '.join(EVEN)}, windows of a calendar, not {spec.type}; or all are "
                    "look_back"
                )
            if spec.time != self.every_window[0][1].time:
                place.at(*where, "time").note("several windows are all of event time, or all of processing time")
        if self.window is None and not self.windows:
            place.at("windows").note("is empty: give at least one [windows.LABEL]")
        kind = None if self.window is None else self.window.type
        if kind == "global" and self.firing is None:
            place.at("window", "type").note("a global window never fires by itself: say when in [firing]")
        if kind == "count" and self.firing is not None:
            place.at("firing").note("a count window fires by its count; did you mean window.type = 'global'?")

    def _check_windows_of_two(self, place: Place) -> None:
        if self.windows:
            place.at("windows").note("rows of two streams meet in one kind of windows: write [window]")
        kind = None if self.window is None else self.window.type
        if kind == "count":
            place.at("window", "type").note(
                "rows of two streams are not counted together; did you mean 'global', with trigger = 'count' in [firing]?"
            )
        if kind == LOOK_BACK:
            place.at("window", "type").note("looks back over one stream; of two, [interval_join] has the rows around each row")

    def _check_outputs(self, place: Place) -> None:
        outputs = [each.name for each in self.aggregate]
        if self.top is not None and self.aggregate and self.top.by not in outputs:
            place.at("top", "by").note(f"there is no output column {self.top.by!r}; {did_you_mean(self.top.by, outputs)}")
        for name in ("with_firing", "changelog"):
            if self.top is not None and getattr(self, name):
                place.at(name).note("does not go with [top]: a window's top is all there is of it")
        self._check_keys(place)
        for each in outputs:
            if each in self.keys or each in self.made_columns:
                place.at("aggregate").note(f"the output has a column {each!r} of its own; give the aggregate another 'alias'")
        if "keys" in self.sinks.main.kind.takes and self.sinks.main.keys is None:
            for each in self.keys:
                if not each.isidentifier():
                    place.at("sinks", "main").note(f"'keys' is missing: what is the column of the key {each!r} called?")

    def _check_keys(self, place: Place) -> None:
        for where, stream in self.streams:
            for index, each in enumerate(stream.key):
                at = place.at(*where, "key", index)
                if each in stream.key[:index]:
                    at.note(f"{each!r} is given twice")
                elif each in self.made_columns:
                    at.note(f"the results have a column {each!r} of their own: write '{each} AS my_{each}'")

    def _check_closing(self, place: Place) -> None:
        if self.mode == "batch" and self.trigger.close_at_end:
            place.at("trigger", "close_at_end").note("a batch closes all windows at its end: leave it out")
        for where, one in self.streams if self.mode == "stream" else ():
            if one.watermark is None or one.watermark.closing_after is None:
                continue
            at = place.at(*where, "watermark", "closing_after")
            if one.processing_time is not None:
                at.note("goes by the clock, which [processing_time] takes from rows: leave out one")
            elif self.trigger.every is None and not self.trigger.close_at_end:
                at.note(
                    "waits for silence in a query that runs on: trigger.every = '10 seconds'; of one that ends, "
                    "trigger.close_at_end = true closes the windows"
                )

    def _check_processing_time(self, place: Place) -> None:
        uses_processing_time = any(spec.time == "processing" for _, spec in self.every_window) or bool(
            self.firing and self.firing.uses_processing_time
        )
        given = [where for where, one in self.streams if one.processing_time is not None]
        for where in () if uses_processing_time else given:
            place.at(*where, "processing_time").note("nothing here is of processing time: set time = 'processing' in [window]")
        waits = uses_processing_time and not given and self.mode == "stream"
        if waits and "availableNow" in self.trigger.spark:
            place.at("trigger").note(
                "windows that wait for the clock keep a query running: say how often, every = '1 second', and stop it yourself; "
                "or once = true; or take the clock from a column, [processing_time]"
            )


OWN_FUNCTIONS = ("process", "apply", "apply_arrow")
"""The sections that name a function of the user's own."""

FUNCTIONS_OF_ROWS = ("aggregate", *OWN_FUNCTIONS, "panes", "join", "interval_join")
"""The sections that say what becomes of the rows of a window: a job has one of them."""

OF_TWO = (*SIDES, "join", "interval_join")
"""The sections of jobs with two streams."""

_OUTPUTS_OF_TWO = tuple(f"{tag}_{side}" for tag in ("late", "invalid") for side in SIDES)
"""The outputs that only these have."""

_OF_WINDOWS = ("window", "windows", "firing", "allowed_lateness", "with_firing", "changelog", "exact_firings", "top", "keep")
"""The keys that say something of windows."""

OF_TILES = tuple(kind for kind in ALIGNED if kind not in ("sliding", "cumulating"))
"""Kinds of windows that are slices for tiles."""


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
        ("join", Join),
        ("interval_join", IntervalJoin),
        ("event_time", EventTime),
        ("watermark", Watermark),
        ("window", WindowSection),
        ("firing", Firing),
        ("top", Top),
        ("trigger", Trigger),
        ("metrics", Metrics),
    )
}
