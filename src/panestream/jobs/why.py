"""``panestream why``: why a row is missing, or what a window is waiting for, by a checkpoint or a savepoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panestream.errors import CheckpointError, JobError
from panestream.inspection.asked import asked_of
from panestream.inspection.values import iso
from panestream.jobs import inspecting
from panestream.jobs.json_output import json_text
from panestream.jobs.live import PipeConsole
from panestream.tracing.of_state import KnownRow, KnownState, KnownWindow, TimeFacts, WindowNow
from panestream.tracing.why import ANY
from panestream.tracing.why_state import explain_state
from panestream.windowing.instants import micros_of_text
from panestream.windowing.windows import TimeWindow, Window

ANSWER_FORMAT = 1
"""Raised when something of the JSON goes or means something else; what is added does not raise it."""


@dataclass(frozen=True)
class Question:
    """What was typed.

    Attributes:
        path: the checkpoint or savepoint.
        batch_id: after which micro-batch; None: the last.
        keys: ``column=value``, or the value.
        time, window: one of both: an event time, or the time at which a window starts.
        most: how many windows and kept rows are looked at.
        as_json: whether it is for machines.
        settings: of Spark.
    """

    path: str
    batch_id: int | None
    keys: Sequence[str]
    time: str | None
    window: str | None
    most: int
    as_json: bool
    settings: Mapping[str, str]


def answer(asked: Question, console: PipeConsole) -> None:
    """Asks the state, and prints what it knows.

    Raises:
        CheckpointError: there is no checkpoint, micro-batch or key column of what was typed.
        JobError: not one of ``--time`` and ``--window`` was given, or it is no time.
    """
    times = _times(asked)
    with console.status("starting Spark"):
        session = inspecting.make_session("panestream why", asked.settings)
    with session as spark, console.status(f"looking into {asked.path}"):
        state = inspecting.state_of(spark, asked.path, asked.batch_id)
        keys = asked_of(state.plan, asked.keys, (), asked.most).keys
        if asked.keys and len(keys) < len(state.plan.key_names):
            missing = [name for place, name in enumerate(state.plan.key_names) if place not in keys]
            raise CheckpointError(f"the key is not whole: --key {missing[0]}=VALUE is missing (null is written \\N)")
        known = state.known(keys, **times, most=asked.most)
    found = explain_state(known, key=_key_of(asked), **times)
    if not asked.as_json:
        console.print(str(found), markup=False, highlight=False, soft_wrap=False)
        return
    console.file.write(json_text(document_of(known, asked, found.facts, str(found)), default=str) + "\n")


def _times(asked: Question) -> dict[str, int]:
    given = {name: text for name, text in (("at", asked.time), ("window", asked.window)) if text is not None}
    if len(given) != 1:
        raise JobError("give --time TIME, the event time of a row, or --window TIME, when a window starts: one of both")
    ((name, text),) = given.items()
    try:
        return {name: micros_of_text(text)}
    except ValueError:
        option = "--time" if name == "at" else "--window"
        raise JobError(f"{option} {text!r} is no time as 2026-01-31T10:00 (UTC, or with its zone)") from None


def _key_of(asked: Question) -> Any:
    if not asked.keys:
        return ANY
    values = tuple(text.partition("=")[2] if "=" in text else text for text in asked.keys)
    return values[0] if len(values) == 1 else values


def document_of(known: KnownState, asked: Question, facts: Sequence[Any], text: str) -> dict[str, Any]:
    """The answer as JSON has it: times as ISO 8601 in UTC, lengths in seconds.

    Args:
        known: the state.
        asked: what was typed.
        facts: of the answer.
        text: the answer in words.
    """
    times = [one for one in facts if isinstance(one, TimeFacts)]
    windows = [now for one in times for now in one.windows or ()] or [one for one in facts if isinstance(one, WindowNow)]
    found: dict[str, Any] = {
        "format": ANSWER_FORMAT,
        "path": asked.path,
        "key": list(asked.keys),
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


__all__ = ["ANSWER_FORMAT", "Question", "answer", "document_of"]
