"""``panestream inspect``, ``why``, ``savepoint`` and ``compact``: commands on checkpoints, savepoints and outputs."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panestream.engine.explain import listed
from panestream.engine.inspection.filters import parse_filter
from panestream.engine.inspection.summary import Summary
from panestream.engine.plan import stable_repr
from panestream.errors import CheckpointError, JobError
from panestream.insight.inspect_json import render_json
from panestream.insight.inspect_page import render_page
from panestream.insight.inspect_text import render_text
from panestream.jobs.runner import QuietSession, SessionOf, check_writable
from panestream.jobs.terminal import PipeConsole, json_text
from panestream.spark.savepoint.inspectable_state import CheckpointState
from panestream.spark.savepoint.manifest import is_savepoint
from panestream.spark.savepoint.read import read_checkpoint
from panestream.spark.savepoint.saved import Savepoint, read_savepoint, take
from panestream.spark.sinks.compacting import compact as compact_folder
from panestream.spark.sinks.compaction import Compaction
from panestream.tracing.of_state import KnownRow, KnownState, KnownWindow, TimeFacts, WindowNow
from panestream.tracing.why import ANY
from panestream.tracing.why_state import explain_state
from panestream.windowing.time import iso, micros_of_text
from panestream.windowing.windows import TimeWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

make_session: SessionOf = QuietSession
"""Creates the session; tests replace it."""

ANSWER_FORMAT = 1
"""The version of the JSON answer, raised if a field disappears or changes its meaning; new fields do not raise it."""


@contextmanager
def _started(command: str, settings: Mapping[str, str], console: PipeConsole) -> Generator[SparkSession]:
    with console.status("starting Spark"):
        session = make_session(f"panestream {command}", settings)
    with session as spark:
        yield spark


@dataclass(frozen=True)
class Inspection:
    """The options of ``panestream inspect``.

    ``batch_id`` None is the last micro-batch, ``page`` the HTML file to write. ``operator`` None is every operator, or only the
    last in JSON, in a page, and with ``keys`` or ``windows``, which another operator may not have.
    """

    path: str
    batch_id: int | None
    keys: Sequence[str]
    windows: Sequence[str]
    most: int
    as_json: bool
    page: Path | None
    settings: Mapping[str, str]
    operator: str | None = None

    @property
    def shows_every_operator(self) -> bool:
        return not (self.operator or self.as_json or self.page or self.keys or self.windows)


def inspect(inspection: Inspection, console: PipeConsole) -> None:
    """Print the content of a checkpoint or savepoint.

    Raise ``CheckpointError`` if it, the micro-batch, the operator, a key column or a window does not exist, and ``JobError`` if
    the page cannot be written.
    """
    if inspection.page is not None:
        check_writable(inspection.page)
    summaries, operators = _summaries(inspection, console)
    summary = list(summaries.values())[-1]
    if inspection.page is not None:
        inspection.page.write_text(render_page(summary), "utf-8")
    if inspection.as_json:
        several = {"operators": list(operators)} if len(operators) > 1 else {}
        console.file.write(json_text(render_json(summary) | several) + "\n")
        return
    if inspection.page is not None:
        console.titled("page  ", str(inspection.page))
        return
    for name, summary in summaries.items():
        if len(operators) > 1:
            console.titled("operator  ", f"{name}, of {listed(operators)}")
        for each in render_text(summary, console):
            console.print(each)


def _summaries(inspection: Inspection, console: PipeConsole) -> tuple[dict[str, Summary], Sequence[str]]:
    """Return the summary of each operator to show, by its name, and the names of all operators."""
    path, batch_id = inspection.path, inspection.batch_id
    with _started("inspect", inspection.settings, console) as spark, console.status(f"looking into {path}"):
        state = _state_of(spark, path, batch_id, inspection.operator)
        states = {inspection.operator or state.operators[-1]: state}
        if inspection.shows_every_operator:
            states = {name: _state_of(spark, path, batch_id, name) for name in state.operators[:-1]} | states
        how: dict[str, Any] = {"keys": inspection.keys, "windows": inspection.windows, "most": inspection.most}
        return {name: each.summary(**how) for name, each in states.items()}, state.operators


def _state_of(spark: SparkSession, path: str, batch_id: int | None, operator: str | None) -> CheckpointState | Savepoint:
    """Return the state of a checkpoint or savepoint; raise ``JobError`` if a savepoint is given a ``batch_id``."""
    if not is_savepoint(spark, path):
        return read_checkpoint(spark, path, batch_id, operator=operator)
    if batch_id is not None:
        raise JobError(f"{path} is a savepoint, which is of one micro-batch: leave --batch out")
    return read_savepoint(spark, path, operator=operator)


@dataclass(frozen=True)
class Question:
    """The options of ``panestream why``.

    Exactly one of ``time`` (of a row) and ``window`` (its start) is set. ``batch_id`` None is the last micro-batch. ``keys`` are
    ``column=value`` or values. ``most`` limits the windows and stored rows to examine.
    """

    path: str
    batch_id: int | None
    keys: Sequence[str]
    time: str | None
    window: str | None
    most: int
    as_json: bool
    settings: Mapping[str, str]
    operator: str | None = None


def why(question: Question, console: PipeConsole) -> None:
    """Print why a row is missing, or why a window has not fired.

    Raise ``CheckpointError`` if the checkpoint, micro-batch or key column does not exist, and ``JobError`` unless exactly one of
    ``--time`` and ``--window`` has a valid time.
    """
    times = _times(question)
    with _started("why", question.settings, console) as spark, console.status(f"looking into {question.path}"):
        state = _state_of(spark, question.path, question.batch_id, question.operator)
        keys = parse_filter(state.plan, question.keys, (), question.most).keys
        if question.keys and len(keys) < len(state.plan.key_names):
            missing = [name for place, name in enumerate(state.plan.key_names) if place not in keys]
            raise CheckpointError(f"the key is not whole: --key {missing[0]}=VALUE is missing (null is written \\N)")
        known = state.known(keys, **times, most=question.most)
    found = explain_state(known, key=_key_of(question), **times)
    if not question.as_json:
        console.print(str(found), markup=False, highlight=False, soft_wrap=False)
        return
    console.file.write(json_text(_answer(known, question, found.facts, str(found)), default=str) + "\n")


def _times(question: Question) -> dict[str, int]:
    given = {name: text for name, text in (("at", question.time), ("window", question.window)) if text is not None}
    if len(given) != 1:
        raise JobError("give --time TIME, the event time of a row, or --window TIME, when a window starts: one of both")
    ((name, text),) = given.items()
    try:
        return {name: micros_of_text(text)}
    except ValueError:
        option = "--time" if name == "at" else "--window"
        raise JobError(f"{option} {text!r} is not a time such as 2026-01-31T10:00 (UTC, or with its zone)") from None


def _key_of(question: Question) -> Any:
    if not question.keys:
        return ANY
    values = tuple(text.partition("=")[2] if "=" in text else text for text in question.keys)
    return values[0] if len(values) == 1 else values


def _answer(known: KnownState, question: Question, facts: Sequence[Any], text: str) -> dict[str, Any]:
    """Return the answer as JSON, with times as ISO 8601 in UTC and lengths in seconds; ``text`` is the answer in words."""
    times = [one for one in facts if isinstance(one, TimeFacts)]
    windows = [now for one in times for now in one.windows or ()] or [one for one in facts if isinstance(one, WindowNow)]
    found: dict[str, Any] = {
        "format": ANSWER_FORMAT,
        "path": question.path,
        "key": list(question.keys),
        "watermark": iso(known.watermark),
        "clock": iso(known.clock),
        "closed": iso(known.closed_now),
        "late_dropped": known.late_dropped,
        "windows": [_window(one) for one in windows],
    }
    for one in times:
        missing = one.missing_lateness
        found |= {
            "time": iso(one.timestamp),
            "late_now": one.is_late,
            "missing_lateness": None if missing is None else missing / 1e6,
            "late_rows_go_to": known.plan.late_tag,
            "kept": [_row(row) for row in one.kept],
        }
    return {**found, "text": text}


def _window(one: WindowNow) -> dict[str, Any]:
    return {**_bounds(one.window), "kind": one.label, "open": one.is_open, "state": [_known(known) for known in one.known]}


def _known(one: KnownWindow) -> dict[str, Any]:
    return {
        "key": one.key,
        **_bounds(one.window),
        "rows": one.rows,
        "results": one.results,
        "contents": one.contents,
        "firings": one.firings,
        "last_firing": one.last_firing,
        "due": iso(one.due),
        "closes": iso(one.closes),
    }


def _row(one: KnownRow) -> dict[str, Any]:
    value = one.value.asDict() if hasattr(one.value, "asDict") else one.value
    return {"time": iso(one.timestamp), "row": value, "windows": [_bounds(window) for window in one.windows]}


def _bounds(window: Window) -> dict[str, str | None]:
    if isinstance(window, TimeWindow):
        return {"start": iso(window.start), "end": iso(window.end)}
    return {"start": None, "end": None}


def savepoint(checkpoint: str, folder: str, batch_id: int | None, settings: Mapping[str, str], console: PipeConsole) -> None:
    """Write and print a savepoint of the state after ``batch_id``, where None is the last micro-batch.

    Raise ``CheckpointError`` if the checkpoint or micro-batch does not exist, or the folder is not empty.
    """
    with _started("savepoint", settings, console) as spark, console.status(f"looking into {checkpoint}") as status:
        taken = take(spark, checkpoint, folder, batch_id, status.update)
    _print(_savepoint_lines(taken, folder), console)


def _savepoint_lines(saved: Savepoint, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the content of a savepoint as (title, text)."""
    manifest = saved.manifest
    yield "savepoint", folder
    yield "checkpoint", f"{manifest.checkpoint}, after micro-batch {manifest.batch_id}"
    for name in saved.operators:
        of_operator = saved.operator(name).manifest
        if len(saved.operators) > 1:
            yield "operator", name
        yield "windows", stable_repr(of_operator.plan.assigner)
        yield "key", listed(of_operator.plan.key_names) or "none"
        yield "key groups", str(of_operator.groups)
        yield "rows", ", ".join(f"{name} {rows:,}" for name, rows in of_operator.tables.items())
    yield "versions", ", ".join(f"{name} {version}" for name, version in manifest.versions.items())


def compact(path: str, file_bytes: int, grace: float, settings: Mapping[str, str], console: PipeConsole) -> None:
    """Compact the folder of a file sink and print a summary; replaced files stay for ``grace`` seconds.

    Raise ``SinkError`` if the folder cannot be compacted, or if another compaction is running there.
    """
    with _started("compact", settings, console) as spark, console.status(f"putting the files of {path} together"):
        done = compact_folder(spark, path, file_bytes=file_bytes, grace_seconds=grace)
    _print(compaction_lines(done), console)


def compaction_lines(done: Compaction) -> Iterator[tuple[str, str]]:
    """Yield the summary of a compaction as (title, text)."""
    yield "folders", f"{done.folders:,}"
    yield "files", f"{done.files_before:,} -> {done.files_after:,}"
    yield "rows", f"{done.rows:,}"
    if done.left:
        yield "left", f"{done.left:,} that changed meanwhile: run it again"


def _print(titled: Iterable[tuple[str, str]], console: PipeConsole) -> None:
    for title, text in titled:
        console.titled(f"{title:<12}", text)
