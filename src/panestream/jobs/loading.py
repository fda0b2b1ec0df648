"""Loads a job file with changes from the command line, and checks that its sections fit together."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from panestream.engine.runtime.sides import SIDES
from panestream.errors import JobError, did_you_mean
from panestream.jobs.document import MAX_DEPTH, MAX_VALUES, Document, load_document
from panestream.jobs.model import BY_TIME, FUNCTIONS_OF_ROWS, Job
from panestream.jobs.schema import CONTROL, DocumentPlace, InvalidValue, section
from panestream.jobs.streams import Stream
from panestream.jobs.windows import ALIGNED, EVEN, LOOK_BACK, ROLLING
from panestream.spark.places import file_place, is_below, is_hidden

if TYPE_CHECKING:
    from panestream.insight.report_recording import RunReport

_MAX_BITS, _MAX_NAME = 64, 200
"""Limits of integers and of key names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Changes of a job file by the command line; paths are relative to the working folder.

    ``output`` is a folder for the checkpoint and all file sinks (``main``, ``late``, ``invalid`` in it). ``savepoint`` is the
    state from which a stream with a new checkpoint starts. ``allow_incomplete`` permits new aggregates whose results do not
    show that they lack old rows, ``allow_non_restored_state`` to drop state of operators that the job does not have.
    """

    input: Path | None = None
    output: Path | None = None
    mode: str | None = None
    checkpoint: Path | None = None
    metrics_port: int | None = None
    savepoint: str | None = None
    allow_incomplete: bool = False
    allow_non_restored_state: bool = False


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A checked job with its document, so that later errors (such as a missing column) still point at a line."""

    job: Job
    document: Document
    savepoint: str | None = None
    """The savepoint to start from; used once, so the command names it and not the file."""
    allow_incomplete: bool = False
    allow_non_restored_state: bool = False
    report: RunReport | None = None

    def place(self, *where: str | int) -> DocumentPlace:
        return DocumentPlace(self.document, where)


def load_job(path: Path, overrides: Overrides | None = None) -> LoadedJob:
    """Read and check a job file after applying ``overrides``.

    The ``JobError`` has a line for each problem: ``file:line: path.of.key: problem; did you mean …?``
    """
    overrides = overrides or Overrides()
    document = load_document(path)
    _check_content(DocumentPlace(document))
    document = _overridden(document, overrides)
    place = DocumentPlace(document)
    try:
        job: Job = section(Job)(document.data, place)
    except InvalidValue:
        place.finish()
        raise JobError(f"{path}: not a job file") from None
    check_sections(job, place)
    place.finish()
    if job.name is None:
        job = replace(job, name=path.stem)
    if job.checkpoint is None and job.mode == "stream":
        # Without a checkpoint, a stream would start from scratch at every run and duplicate its output.
        job = replace(job, checkpoint=str((path.parent / f"{path.stem}.checkpoint").resolve()))
    return LoadedJob(job, document, overrides.savepoint, overrides.allow_incomplete, overrides.allow_non_restored_state)


def _check_content(place: DocumentPlace) -> None:
    """Raise ``JobError`` for values that no key accepts or errors cannot show, before they are copied or read."""
    ahead: list[tuple[DocumentPlace, object]] = [(place, place.document.data)]
    seen = 0
    while ahead:
        at, value = ahead.pop()
        seen += 1
        if seen + len(ahead) > MAX_VALUES:
            raise JobError(f"{place.document.path}: more than {MAX_VALUES:,} values are too many for a job file; is it the data?")
        if len(at.where) > MAX_DEPTH:
            line = at.document.line_of(at.where)
            raise JobError(f"{at.document.path}:{line}: nested too deeply for a job file (more than {MAX_DEPTH} levels)")
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            at.note(f"a number of {value.bit_length():,} bits is too large")
        elif isinstance(value, list):
            ahead += [(at.at(index), each) for index, each in enumerate(value)]
        elif isinstance(value, dict):
            for name, inside in value.items():
                if len(str(name)) > _MAX_NAME or CONTROL.search(str(name)):
                    at.at(str(name)).note("the name of a key is short, and without control characters")
                else:
                    ahead.append((at.at(str(name)), inside))
    place.finish()


def _overridden(document: Document, overrides: Overrides) -> Document:
    data = copy.deepcopy(dict(document.data))
    if overrides.mode is not None:
        data["mode"] = overrides.mode
    if overrides.input is not None:
        if "left" in data or "right" in data:
            raise JobError(
                f"{document.path}: --input is for jobs with one source, but this job has two. Write the paths in the file"
            )
        source = data.setdefault("source", {})
        if isinstance(source, dict):
            source["path"] = str(overrides.input.resolve())
    if overrides.output is not None:
        sinks = data.get("sinks")
        every = sinks.items() if isinstance(sinks, dict) else ()
        files = [(tag, sink) for tag, sink in every if isinstance(sink, dict) and "path" in sink]
        if not files:
            raise JobError(f"{document.path}: --output is for sinks that write files, but this job does not have any")
        for tag, sink in files:
            sink["path"] = str((overrides.output / str(tag)).resolve())
        # A new output with the old checkpoint would contain only later results.
        data["checkpoint"] = str((overrides.output / "checkpoint").resolve())
    if overrides.checkpoint is not None:
        data["checkpoint"] = str(overrides.checkpoint.resolve())
    if overrides.metrics_port is not None:
        metrics = data.setdefault("metrics", {})
        if isinstance(metrics, dict):
            metrics["port"] = overrides.metrics_port
    return replace(document, data=data)


_OF_WINDOWS = (
    "window",
    "windows",
    "firing",
    "fill",
    "allowed_lateness",
    "with_firing",
    "changelog",
    "every_firing",
    "top",
    "keep",
)

_OF_TILES = tuple(kind for kind in ALIGNED if kind not in ("sliding", "cumulating"))
"""Kinds of windows whose slices can become tiles."""

_SIDE_BY_SIDE = "Put them side by side"


def check_sections(job: Job, place: DocumentPlace) -> None:
    """Note contradictions between sections that are valid by themselves."""
    given = [name for name in FUNCTIONS_OF_ROWS if getattr(job, name)]
    if len(given) > 1:
        place.at(given[1]).note(f"{given[0]!r} processes the rows already. Keep one of them")
    if job.left is None:
        for tag in ("late", "invalid"):
            both = [f"{tag}_{side}" for side in SIDES]
            _refuse(
                job.sinks,
                both,
                place.at("sinks"),
                "is for jobs with two streams, [left] and [right]"
                + ("" if tag == "late" and job.without_windows else f". With one stream write sinks.{tag}"),
            )
    else:
        _check_two(job, place)
    if job.rules is not None:
        _check_rules(job, place)
    elif job.sinks.invalid_rules is not None:
        place.at("sinks", "invalid_rules").note("is for jobs with [rules]")
    if job.without_windows is None:
        _check_windows(job, place)
    else:
        _check_no_windows(job, job.without_windows, place)
    if job.panes:
        _check_panes(job, place)
    _check_outputs(job, place)
    _check_processing_time(job, place)
    _check_closing(job, place)
    read = {(*where, "source"): one.source.path for where, one in job.streams if one.source.path and one.source.reads_files}
    _check_paths(place, read, {tag: sink.path for tag, sink in job.sinks.items() if sink.path}, job.checkpoint)
    for where, one in job.streams:
        _check_time(job, place, where, one)
        if job.mode == "stream" and one.source.reads_files and one.source.schema is None:
            place.at(*where, "source").note("'schema' is missing: a stream of files must know its columns beforehand")


def _refuse(section: object, names: Iterable[str], place: DocumentPlace, message: str) -> None:
    """Note that a section must not have some keys; ``{0}`` in the message is the key."""
    for name in names:
        if getattr(section, name):
            place.at(name).note(message.format(name))


def _check_time(job: Job, place: DocumentPlace, where: tuple[str, ...], stream: Stream) -> None:
    """Check that a required event time exists, and that rows without one have an output exactly if it is configured."""
    tag = "_".join(("invalid", *where))
    sink = getattr(job.sinks, tag)
    if stream.event_time is None:
        if where and job.needs_event_time:
            place.at(*where).note("'event_time' is missing")
        elif stream.watermark is not None:
            place.at(*where, "watermark").note("is about event time: it needs [event_time]")
        if job.allowed_lateness is not None and not where:
            place.at("allowed_lateness").note("is about event time: it needs [event_time]")
    elif stream.event_time.invalid == "side_output" and sink is None:
        place.at(*where, "event_time", "invalid").note(f"'side_output' needs a [sinks.{tag}] to put the rows")
    if sink is not None and (stream.event_time is None or stream.event_time.invalid == "fail"):
        place.at("sinks", tag).note(f"would stay empty: set {'.'.join((*where, 'event_time'))}.invalid = 'side_output'")


def _check_two(job: Job, place: DocumentPlace) -> None:
    """Check that per-stream keys are in the streams, and that both streams match."""
    left, right = (one for _, one in job.streams)
    own = ("source", "event_time", "watermark", "processing_time", "key")
    _refuse(job, own, place, "there are two streams, and each has its own: write left.{0} and right.{0}")
    _refuse(
        job.sinks,
        ("late", "invalid"),
        place.at("sinks"),
        "the rows of two streams differ: write sinks.{0}_left and sinks.{0}_right",
    )
    if len(left.key) != len(right.key):
        columns = f"{len(right.key)} column{'s' if len(right.key) != 1 else ''}"
        place.at("right", "key").note(f"has {columns}, left.key has {len(left.key)}: give both as many, in the same order")
    _check_same_times(job, place)
    closing = [where for where, one in job.streams if one.watermark and one.watermark.closing_after]
    if len(closing) == 1:
        place.at(*closing[0], "watermark", "closing_after").note("is about all input: give it to both streams, or to neither")
    joined = "join" if job.join is not None else job.without_windows
    if joined in ("join", *BY_TIME):
        _check_pairs(job, place, f"[{joined}] gives many")
    elif joined == "process":
        place.at("process").note("two streams meet in windows: write [window]. A small stream for all keys is called [rules]")


def _check_same_times(job: Job, place: DocumentPlace) -> None:
    """Check that both of two streams have the same kinds of times."""
    # If both need an event time, its absence has been noted already.
    for name in ("processing_time",) if job.needs_event_time else ("event_time", "processing_time"):
        lacking = [where for where, one in job.streams if getattr(one, name) is None]
        if len(lacking) == 1 and lacking[0]:
            place.at(*lacking[0]).note(f"has no [{name}], but the other stream does. Give it to both, or to neither")
        elif len(lacking) == 1:
            place.at("rules", name).note(f"the stream of [source] has no [{name}]. Give it to both, or to neither")


def _check_rules(job: Job, place: DocumentPlace) -> None:
    if job.left is not None:
        place.at("rules").note("are for jobs with one stream, [source]: leave out [left] and [right], or the rules")
        return
    if job.without_windows != "process":
        place.at("rules").note("need [process] without [window], with a KeyedBroadcastProcessFunction")
    if not job.key:
        place.at("rules").note("are for the rows of keys: 'key' is missing")
    _check_same_times(job, place)


def _check_pairs(job: Job, place: DocumentPlace, why: str) -> None:
    """Note keys and sinks that need one row for each key and window; joins emit several."""
    if job.join is not None:
        _refuse(job, ("changelog", "top"), place, "needs one row for each key and window, but a join has many. Leave it out")
    _check_appends(job, place, why)


def _check_appends(job: Job, place: DocumentPlace, why: str) -> None:
    """Note a sink that keeps one row of each key."""
    sink = job.sinks.main
    if sink.kind.by_key or sink.compacted:
        place.at("sinks", "main").note(f"keeps one row of each key, and {why}: append them, e.g. format = 'parquet' or 'table'")


def _check_no_windows(job: Job, name: str, place: DocumentPlace) -> None:
    lacks = f"but [{name}] does not have windows. Leave it out"
    if name == "process":
        lacks = "but there is no [window]. Leave it out, or write [window]"
        _refuse(job, ("rows_per_pane",), place, f"is about windows, {lacks}")
        _refuse(job.process, ("stateless",), place.at("process"), f"is for the rows of windows, {lacks}")
        _refuse(job.sinks, ("late",), place.at("sinks"), f"would stay empty: windows have late rows, {lacks}")
        _check_appends(job, place, "[process] without [window] may give many")
    _refuse(job, _OF_WINDOWS, place, f"is about windows, {lacks}")
    if job.trigger.fire_at_end:
        when = "a timer runs" if name == "process" else "a row without a partner comes"
        place.at("trigger", "fire_at_end").note(f"closes windows, {lacks} ({when} when the watermark has passed its time)")


def _check_panes(job: Job, place: DocumentPlace) -> None:
    """Check that tiles use event-time slices that do not overlap, without custom firing."""
    if job.windows:
        place.at("windows").note("the slices of one kind are enough for tiles: write [window]")
    elif job.window is not None and (job.window.type not in _OF_TILES or job.window.time != "event"):
        place.at("window", "type").note("tiles need slices of event time: tumbling or calendar windows with time = 'event'")
    elif job.window is not None and job.window.slide is not None:
        place.at("window", "slide").note("tiles do not overlap: leave it out")
    if job.firing is not None:
        place.at("firing").note("a tile is emitted when its slice ends, and again for late rows. Leave it out")
    _refuse(job, ("top", "every_firing"), place, "is about results, but tiles hold partial aggregates. Leave it out")


def _check_windows(job: Job, place: DocumentPlace) -> None:
    if job.window is not None and job.windows:
        place.at("windows", next(iter(job.windows))).note("[window] and [windows.LABEL] exclude each other: keep one of them")
    if job.left is not None:
        _check_windows_of_two(job, place)
    if job.fill is not None and (job.left is not None or not job.aggregate):
        place.at("fill").note("is for the aggregates of one stream, [aggregate]: leave it out")
    looking_back = [spec.type == LOOK_BACK for _, spec in job.every_window]
    if job.keep is not None and not any(looking_back):
        place.at("keep").note("is for look-backs, whose results belong to rows. Windows do not have a row")
    for where, spec in job.every_window if job.windows and not all(looking_back) else ():
        if spec.type not in ALIGNED:
            place.at(*where, "type").note(
                f"several windows share their panes: {', '.join(EVEN)}, windows of a calendar, not {spec.type}; or all are "
                "look_back"
            )
        if spec.time != job.every_window[0][1].time:
            place.at(*where, "time").note("several windows are all of event time, or all of processing time")
    if job.window is None and not job.windows:
        place.at("windows").note("is empty: give at least one [windows.LABEL]")
    kind = None if job.window is None else job.window.type
    if kind == "global" and job.firing is None:
        place.at("window", "type").note("a global window never fires by itself. Set a trigger in [firing]")
    if kind == "count" and job.firing is not None:
        place.at("firing").note("a count window fires by its count; did you mean window.type = 'global'?")


def _check_windows_of_two(job: Job, place: DocumentPlace) -> None:
    if job.windows:
        place.at("windows", next(iter(job.windows))).note("rows of two streams meet in one kind of windows: write [window]")
    kind = None if job.window is None else job.window.type
    if kind == "count":
        place.at("window", "type").note(
            "rows of two streams are not counted together; did you mean 'global', with trigger = 'count' in [firing]?"
        )
    if kind == ROLLING and job.join is not None:
        place.at("window", "type").note("rolling windows compute aggregates: write [[aggregate]] instead of [join]")
    if kind == LOOK_BACK:
        place.at("window", "type").note("looks back over one stream; of two, [interval_join] has the rows around each row")


def _check_outputs(job: Job, place: DocumentPlace) -> None:
    outputs = [each.name for each in job.aggregate]
    if job.top is not None and job.window is not None and job.window.type == ROLLING:
        place.at("top").note("ranks the keys of a window that fires, and rolling values change key by key: leave it out")
    elif job.top is not None and job.aggregate and job.top.by not in outputs:
        place.at("top", "by").note(f"there is no output column {job.top.by!r}; {did_you_mean(job.top.by, outputs)}")
    if job.top is not None:
        _refuse(
            job,
            ("with_firing", "changelog"),
            place,
            "cannot be combined with [top]: a top replaces the other results of its window",
        )
    _check_keys(job, place)
    taken = job.made_columns.union(job.keys)
    for each in outputs:
        if each in taken:
            place.at("aggregate").note(f"the output has a column {each!r} already. Give the aggregate another 'alias'")
    if "keys" in job.sinks.main.kind.keys.split() and job.sinks.main.keys is None:
        for each in job.keys:
            if not each.isidentifier():
                place.at("sinks", "main").note(f"'keys' is missing: what is the column of the key {each!r} called?")


def _check_keys(job: Job, place: DocumentPlace) -> None:
    taken = job.made_columns
    for where, stream in job.streams:
        seen: set[str] = set()
        for index, each in enumerate(stream.key):
            at = place.at(*where, "key", index)
            if each in seen:
                at.note(f"{each!r} is given twice")
            elif each in taken:
                at.note(f"the results have a column {each!r} already. Write '{each} AS my_{each}'")
            seen.add(each)


def _check_closing(job: Job, place: DocumentPlace) -> None:
    if job.mode == "batch" and job.trigger.fire_at_end:
        place.at("trigger", "fire_at_end").note("a batch closes all windows at its end: leave it out")
    for where, one in job.streams if job.mode == "stream" else ():
        if one.watermark is None or one.watermark.closing_after is None:
            continue
        at = place.at(*where, "watermark", "closing_after")
        if one.processing_time is not None:
            at.note("needs the clock, but [processing_time] reads the clock from rows. Leave out one")
        elif job.trigger.every is None and not job.trigger.fire_at_end:
            at_end = "" if job.without_windows else ". In a query that ends, trigger.fire_at_end = true closes the windows"
            at.note(f"needs a query that keeps running, trigger.every = '10 seconds'{at_end}")


def _check_processing_time(job: Job, place: DocumentPlace) -> None:
    if job.without_windows == "process":
        return  # only its function says whether it uses timers of the clock
    uses_processing_time = any(spec.time == "processing" for _, spec in job.every_window) or bool(
        job.firing and job.firing.uses_processing_time
    )
    for where in [] if uses_processing_time else [where for where, one in job.streams if one.processing_time is not None]:
        place.at(*where, "processing_time").note("nothing here is of processing time: set time = 'processing' in [window]")
    check_clock(job, place, uses_processing_time=uses_processing_time)


def check_clock(job: Job, place: DocumentPlace, *, uses_processing_time: bool) -> None:
    """Note a query that would wait for the clock and never end."""
    has_clock = any(one.processing_time is not None for _, one in job.streams)
    if uses_processing_time and not has_clock and job.mode == "stream" and "availableNow" in job.trigger.spark:
        what = "timers" if job.without_windows else "windows"
        place.at("trigger").note(
            f"{what} that wait for the clock keep a query running. Set every = '1 second' and stop it yourself, or once = true, "
            "or read the clock from a column, [processing_time]"
        )


def _check_paths(
    place: DocumentPlace, sources: Mapping[tuple[str, ...], str], sinks: Mapping[str, str], checkpoint: str | None
) -> None:
    """Note a sink or checkpoint within the input, and folders inside one another.

    ``sources`` are file paths or patterns by the path of their key; ``sinks`` are folders by output.
    """
    written: dict[tuple[str, ...], str] = {("sinks", tag): file_place(path) for tag, path in sinks.items()}
    if checkpoint is not None:
        written[("checkpoint",)] = file_place(checkpoint)
    for where, folder in written.items():
        for source, path in sources.items():
            if _is_read(path, folder):
                place.at(*where).note(
                    f"is inside of the input of {_dotted(source)} ({path}), so the job would read its own output. {_SIDE_BY_SIDE}"
                )
            elif is_below(file_place(path), folder):
                place.at(*where).note(
                    f"is a folder that contains {_dotted(source)} ({path}): readers of one would find files of the other. "
                    f"{_SIDE_BY_SIDE}"
                )
    known = list(written.items())
    for position, (where, folder) in enumerate(known):
        for other, there in known[:position]:
            if is_below(folder, there) or is_below(there, folder):
                place.at(*where).note(
                    f"and {_dotted(other)} are nested: readers of the outer folder would find files of the inner folder. "
                    f"{_SIDE_BY_SIDE}"
                )


def _is_read(path: str, folder: str) -> bool:
    """Return whether a file source at ``path``, which may be a pattern, reads the files of a folder.

    >>> _is_read("/in", "file:/in/out"), _is_read("/in/*.csv", "file:/in/out"), _is_read("/in/*", "file:/in/out")
    (True, False, True)
    >>> _is_read("/in[1]", "file:/in[1]/out"), _is_read("/in[1]", "file:/in1/out")
    (True, True)
    >>> _is_read("/in", "file:/in/_out"), _is_read("/in", "file:/in2")
    (False, False)
    """
    pattern, parts = file_place(path).split("/"), folder.split("/")
    matched = (part == one or fnmatchcase(part, one) for part, one in zip(parts, pattern, strict=False))
    if len(parts) < len(pattern) or not all(matched):
        return False
    return not is_hidden("/".join(parts[len(pattern) :]))


def _dotted(where: tuple[str, ...]) -> str:
    return ".".join(where)
