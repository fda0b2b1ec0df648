"""The model of a whole job file, and its JSON Schema, with which editors complete keys and mark mistakes."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from panestream.engine.plan import FIRING_COLUMNS, OP_COLUMN, RESERVED
from panestream.engine.runtime.sides import SIDES
from panestream.jobs.aggregates import AggregateSection, aggregates
from panestream.jobs.functions import ArrowFunctionSection, FunctionSection, ProcessSection
from panestream.jobs.schema import (
    DocumentPlace,
    Section,
    array,
    boolean,
    choice,
    column,
    duration,
    integer,
    is_local,
    is_required,
    location,
    section,
    setting,
    spark_settings,
    table,
    table_name,
    text,
)
from panestream.jobs.sinks import Sinks
from panestream.jobs.streams import (
    AsOfJoinSection,
    EventTime,
    IntervalJoinSection,
    Join,
    ProcessingTime,
    Rules,
    SourceSection,
    Stream,
    Watermark,
)
from panestream.jobs.windows import ROLLING, FiringSection, WindowSection
from panestream.windowing.assigners.rolling import AS_OF
from panestream.windowing.fill import METHODS
from panestream.windowing.time import to_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class TopSection(Section):
    """``[top]``: keeps only some rows of each window, with their ``rank``.

    Attributes:
        n: number of rows.
        by: an output column. The rows with its largest values are kept.
    """

    n: int = setting(integer(1))
    by: str = setting(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FillSection(Section):
    """``[fill]``: also emits windows without rows, for each key that has had rows.

    Attributes:
        method: "zero" for counts and sums, "null", "last" for the values of the last window with rows, or "linear" between two.
        results: other methods for single results, by their names.
        max_gap: how long after its last window with rows a key is filled, by default forever.
        keys: a table of the catalog with the key columns, whose keys are filled even without rows. It is read at each start.
    """

    method: str = setting(choice(*METHODS))
    results: Mapping[str, str] = setting(table(text, choice(*METHODS)), {})
    max_gap: str | None = setting(duration(zero=False), None)
    keys: str | None = setting(table_name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSection(Section):
    """``[trigger]``: when micro-batches run. [firing] sets when windows fire.

    Attributes:
        available_now: reads all available data in micro-batches of the source's size, then ends. The default.
        once: reads all available data in one micro-batch, then ends.
        every: time between micro-batches of a query without end.
        fire_at_end: closes open windows after all available data. A checkpoint must be created with it.
    """

    available_now: bool | None = setting(boolean, None)
    once: bool | None = setting(boolean, None)
    every: str | None = setting(duration(), None)
    fire_at_end: bool = setting(boolean, False)

    def check(self, place: DocumentPlace) -> None:
        if self.fire_at_end and self.every is not None:
            place.at("fire_at_end").note("'every' runs without end: leave it out, or close windows by watermark.closing_after")
        if self.available_now and self.every is not None:
            place.at("every").note("'available_now' and 'every' exclude each other: keep one of them")
        if self.once and (self.available_now or self.every is not None):
            place.at("once").note("excludes 'available_now' and 'every': keep one of them")
        if self.available_now is False and self.every is None and not self.once:
            place.at("available_now").note("without it, set every = '10 seconds'")

    @property
    def spark(self) -> dict[str, Any]:
        if self.every is None:
            return {"once": True} if self.once else {"availableNow": True}
        return {"processingTime": f"{to_micros(self.every) // 1000} milliseconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(Section):
    """``[metrics]``: what a stream reports while it runs. A batch does not report metrics.

    Attributes:
        port: port of an HTTP endpoint for Prometheus, ``/metrics``, or 0 for any free port, which is printed.
        address: address of that endpoint, or "0.0.0.0" for all addresses, which containers need.
        json_lines: a file that gets a line of JSON for each micro-batch, relative to the folder of the job file.
    """

    port: int | None = setting(integer(0), None)
    address: str = setting(text, "127.0.0.1")
    json_lines: str | None = setting(location, None)

    def check(self, place: DocumentPlace) -> None:
        if self.port is None and self.json_lines is None:
            place.note("is empty. Give port = 9464 for Prometheus, or json_lines = 'a file'")
        if self.port is not None and self.port > 65535:
            place.at("port").note(f"{self.port} is too large for a port, the largest is 65535")
        if self.json_lines is not None and not is_local(self.json_lines):
            place.at("json_lines").note(f"must be a file of this machine, not {self.json_lines}")


OWN_FUNCTIONS = ("process", "apply", "apply_arrow")
"""The sections that name a user function."""

BY_TIME = ("interval_join", "asof_join")
"""The joins without windows."""

WITHOUT_WINDOWS = (*BY_TIME, "process")
"""The sections that process rows if there are no windows."""

FUNCTIONS_OF_ROWS = ("aggregate", *OWN_FUNCTIONS, "panes", "join", *BY_TIME)
"""The sections that process the rows of a window; a job has one of them."""

OF_TWO = (*SIDES, "join", *BY_TIME)
"""The sections of a job with two keyed streams."""

_HOMES: Mapping[str, type[Section]] = {
    "source": SourceSection,
    "join": Join,
    "interval_join": IntervalJoinSection,
    "asof_join": AsOfJoinSection,
    "event_time": EventTime,
    "watermark": Watermark,
    "window": WindowSection,
    "firing": FiringSection,
    "fill": FillSection,
    "top": TopSection,
    "trigger": TriggerSection,
    "metrics": Metrics,
}


_KEYS = [(each.name, home) for home, cls in _HOMES.items() for each in cls.fields()]
_COUNTS = Counter(name for name, _ in _KEYS)
_ELSEWHERE = {name: f"unknown key here; it belongs into [{home}]" for name, home in _KEYS if _COUNTS[name] == 1}
"""Errors for the keys of a single section at the top level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Section):
    """A whole job file.

    Attributes:
        name: name of the query in logs and in Spark's user interface, by default the name of the file.
        mode: "stream" or "batch".
        checkpoint: folder for the progress and state of a stream, by default next to the job file.
        key: columns that group the rows, or SQL with a name (``"lower(city) AS city"``). Without a key, all rows are one group.
        key_groups: parallelism of the state, fixed when the checkpoint is created. The default is 4, in a batch the cores.
        tasks: number of tasks of a stream that share the key groups, by default as many as run at a time if that is known.
        memory_limit: bytes of rows of a window or of a key group's micro-batch that a worker loads at once, by default 1 GiB.
        rows_per_pane: average number of rows of a key in a pane, if you know it. Without it, a batch may sample its files.
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

    elsewhere: ClassVar = _ELSEWHERE

    source: SourceSection | None = setting(section(SourceSection), None)
    left: Stream | None = setting(section(Stream), None)
    right: Stream | None = setting(section(Stream), None)
    event_time: EventTime | None = setting(section(EventTime), None)
    watermark: Watermark | None = setting(section(Watermark), None)
    processing_time: ProcessingTime | None = setting(section(ProcessingTime), None)
    rules: Rules | None = setting(section(Rules), None)
    window: WindowSection | None = setting(section(WindowSection), None)
    windows: Mapping[str, WindowSection] = setting(table(text, section(WindowSection)), {})
    firing: FiringSection | None = setting(section(FiringSection), None)
    fill: FillSection | None = setting(section(FillSection), None)
    aggregate: tuple[AggregateSection, ...] = setting(aggregates, ())
    panes: tuple[AggregateSection, ...] = setting(aggregates, ())
    join: Join | None = setting(section(Join), None)
    interval_join: IntervalJoinSection | None = setting(section(IntervalJoinSection), None)
    asof_join: AsOfJoinSection | None = setting(section(AsOfJoinSection), None)
    process: ProcessSection | None = setting(section(ProcessSection), None)
    apply: FunctionSection | None = setting(section(FunctionSection), None)
    apply_arrow: ArrowFunctionSection | None = setting(section(ArrowFunctionSection), None)
    top: TopSection | None = setting(section(TopSection), None)
    sinks: Sinks = setting(section(Sinks))
    trigger: TriggerSection = setting(section(TriggerSection), TriggerSection())
    metrics: Metrics | None = setting(section(Metrics), None)
    key: tuple[str, ...] = setting(array(column), ())
    key_groups: int | None = setting(integer(1), None)
    tasks: int | None = setting(integer(1), None)
    memory_limit: int | None = setting(integer(1_000_000), None)
    rows_per_pane: int | None = setting(integer(1), None)
    allowed_lateness: str | None = setting(duration(), None)
    with_firing: bool = setting(boolean, False)
    changelog: bool = setting(boolean, False)
    every_firing: bool = setting(boolean, False)
    keep: tuple[str, ...] | None = setting(array(text), None)
    mode: str = setting(choice("stream", "batch"), "stream")
    name: str | None = setting(text, None)
    checkpoint: str | None = setting(location, None)
    spark: Mapping[str, str] = setting(spark_settings, {})

    @staticmethod
    def needs(given: Mapping[str, Any]) -> Mapping[str, str]:
        two = next((name for name in OF_TWO if name in given), None)
        needed = ["source"] if two is None else [*SIDES]
        has_windows = "window" in given or "windows" in given
        if not has_windows and not any(name in given for name in WITHOUT_WINDOWS):
            needed.append("window")
        if not any(name in given for name in FUNCTIONS_OF_ROWS):
            needed.append("aggregate" if two is None else "join")
        if two is None and _of_event_time(given) and (has_windows or "process" not in given):
            needed += ["event_time", "watermark"]
        elif two is None and "event_time" in given:
            needed.append("watermark")
        hints = {
            "join": "the two streams are not joined. Give [join], [interval_join], [asof_join] or a function, such as [apply]"
        }
        if "source" in given:
            one = f"is missing. Jobs with two streams have [{two}] and jobs with one have [source]: keep one of them"
            hints |= {side: f"{side!r} {one}" for side in SIDES}
        return {name: hints.get(name, "") for name in needed}

    @property
    def streams(self) -> list[tuple[tuple[str, ...], Stream]]:
        """The streams with their paths in the file: () for a single stream, then its ``rules``; or ``left`` and ``right``."""
        two: list[tuple[tuple[str, ...], Stream]] = [
            ((side,), one) for side, one in zip(SIDES, (self.left, self.right), strict=True) if one is not None
        ]
        if two or self.source is None:
            return two
        every: list[tuple[tuple[str, ...], Job | Rules]] = [((), self)]
        if self.rules is not None:
            every.append((("rules",), self.rules))
        return [
            (
                where,
                Stream(
                    source=one.source,  # type: ignore[arg-type]
                    key=() if where else self.key,
                    event_time=one.event_time,
                    watermark=one.watermark,
                    processing_time=one.processing_time,
                ),
            )
            for where, one in every
        ]

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
    def without_windows(self) -> str | None:
        """The section that processes the rows if there are no windows, or None."""
        known = BY_TIME if self.every_window else WITHOUT_WINDOWS
        return next((name for name in known if getattr(self, name) is not None), None)

    @property
    def needs_event_time(self) -> bool:
        return self.without_windows in BY_TIME or any(spec.uses_event_time for _, spec in self.every_window)

    @property
    def function(self) -> tuple[str, FunctionSection] | None:
        """The user function, with the name of its section."""
        for name in OWN_FUNCTIONS:
            spec: FunctionSection | None = getattr(self, name)
            if spec is not None:
                return name, spec
        return None

    @property
    def made_columns(self) -> set[str]:
        """The columns of the results that users cannot name themselves."""
        columns = {*RESERVED, *(("window",) if self.windows else ()), *(SIDES if self.left is not None else ())}
        if self.window is not None and self.window.type == ROLLING:
            columns |= {AS_OF}
        if self.panes:
            columns |= {"rows", "tile"}
        if self.with_firing:
            columns |= {column.name for column in FIRING_COLUMNS}
        return columns | {OP_COLUMN.name} if self.changelog else columns


def _of_event_time(given: Mapping[str, Any]) -> bool:
    """Return whether an unchecked job seems to have an event-time window."""
    every = [given.get("window")]
    if isinstance(given.get("windows"), Mapping):
        every = list(given["windows"].values())
    tables = [spec for spec in every if isinstance(spec, Mapping)]
    free = [spec for spec in tables if spec.get("type") in ("count", "global") or spec.get("time") == "processing"]
    return len(free) < max(len(tables), 1)


ADDRESS = "https://json.schemastore.org/panestream-job.json"
"""The address by which other schemas refer to this one, where SchemaStore publishes it."""
ABOUT = "A windowed query over a stream or a batch for panestream run: source, event time, windows, aggregates and sinks."
DIALECT = "http://json-schema.org/draft-07/schema#"
"""The newest dialect that the language servers of both TOML and YAML support."""


def job_schema() -> dict[str, Any]:
    """Return the schema of a whole job file, which ``panestream schema`` prints.

    It is derived from the model that checks the files, so editors know every new key. It contains the rules between keys of one
    table (kinds of windows, formats of sinks); ``panestream explain`` checks the others.

    >>> job_schema()["definitions"]["TopSection"]["required"]
    ['n', 'by']
    """
    definitions: dict[str, Any] = {}
    top = _resolved({"$ref": Job}, definitions)
    about = {"title": "A job file of panestream", "description": ABOUT}
    return {"$schema": DIALECT, "$id": ADDRESS, **about, **top, "definitions": dict(sorted(definitions.items()))}


def key_descriptions(cls: type) -> dict[str, str]:
    """Return the description of each key from the docstrings of a section and its base classes."""
    attributes = [inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2] for base in reversed(cls.__mro__)]
    entries = [entry.strip().partition(": ") for text in attributes for entry in re.split(r"\n(?=    \S)", text)]
    return {name: " ".join(words.split()) for name, _, words in entries}


def _resolved(shape: Any, definitions: dict[str, Any]) -> Any:
    """Replace the classes in a shape by references, and add them to the definitions."""
    if isinstance(shape, Mapping):
        return {name: _resolved(each, definitions) for name, each in shape.items()}
    if isinstance(shape, list):
        return [_resolved(each, definitions) for each in shape]
    if not isinstance(shape, type):
        return shape
    if shape.__name__ not in definitions:
        definitions[shape.__name__] = None  # reserved: a shape may refer to itself
        made = _section(shape) if issubclass(shape, Section) else shape.shape  # type: ignore[attr-defined]
        definitions[shape.__name__] = _resolved(made, definitions)
    return f"#/definitions/{shape.__name__}"


def _section(cls: type[Section]) -> dict[str, Any]:
    words, fields = key_descriptions(cls), cls.fields()
    made: dict[str, Any] = {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n")[0],
        "properties": {each.name: _key(each, words.get(each.name)) for each in fields},
        "additionalProperties": False,
        "required": [each.name for each in fields if is_required(each)],
    }
    rules = _whole_job() if cls is Job else _kinds(cls, fields)
    return {**made, "allOf": rules} if rules else made


def _key(each: dataclasses.Field[Any], words: str | None) -> dict[str, Any]:
    shape = each.metadata["reader"].shape
    # Validators ignore all keywords next to a reference.
    made: dict[str, Any] = {"allOf": [shape]} if "$ref" in shape else dict(shape)
    if words:
        made["description"] = words
    if each.default not in (None, (), dataclasses.MISSING) and not isinstance(each.default, Section):
        made["default"] = each.default
    return made


def _kinds(cls: type[Section], fields: Sequence[dataclasses.Field[Any]]) -> list[dict[str, Any]]:
    """Return the rules of a section whose kinds have different keys. Any kind may state the default of another kind's key."""
    common = [each.name for each in fields if not cls.kinds_with(each.name)]
    stated: dict[str, Any] = {each.name: {"enum": [each.default]} for each in fields if isinstance(each.default, str | bool)}
    stated |= {each.name: {"maxProperties": 0} for each in fields if each.default_factory is dict}
    rules = []
    for kind in cls.kinds:
        needed, others = cls.keys_of(kind)
        unused = {name: shape for name, shape in stated.items() if name not in (*common, *needed, *others)}
        then = {
            "required": [*needed],
            "properties": {**unused, **cls.kind_shapes.get(kind, {})},
            "propertyNames": {"enum": [*common, *needed, *others, *unused]},
        }
        rules.append({"if": {"properties": {cls.kind_key: {"const": kind}}, "required": [cls.kind_key]}, "then": then})
    return rules


def _whole_job() -> list[dict[str, Any]]:
    both: dict[str, Any] = {"required": [*SIDES]}
    return [
        {"anyOf": [{"required": [name]} for name in ("window", "windows", *WITHOUT_WINDOWS)]},
        {"oneOf": [{"required": [name]} for name in FUNCTIONS_OF_ROWS]},
        {"oneOf": [{"required": ["source"]}, both]},
        *({"if": {"required": [name]}, "then": both} for name in OF_TWO),
        {"if": {"required": ["rules"]}, "then": {"required": ["source", "process"]}},
    ]
