"""Answers from a state: its knowledge of a window or of rows at an event time, and the questions it cannot answer."""

from __future__ import annotations

from typing import Any

from panestream.engine.operators.as_of_join import AsOfSpec
from panestream.engine.operators.two_sides import TwoSidesSpec
from panestream.errors import InvalidPlanError
from panestream.tracing.joins import JoinTexts, has_null
from panestream.tracing.of_state import KnownState, KnownWindow, TimeFacts, WindowNow, follows_rows, time_facts, windows_now
from panestream.tracing.texts import MAX_SHOWN, TraceTexts, many, printable, value
from panestream.tracing.why import ANY, Answer
from panestream.windowing.assigners.rolling import RollingWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Instant, instant
from panestream.windowing.windows import TimeWindow, Window

_WORDS = TraceTexts(in_microseconds=True)
_time = _WORDS.time
_TIMES = {1: "once", 2: "twice"}


def explain_state(
    known: KnownState, *, key: Any = ANY, at: Instant | None = None, window: Window | tuple[int, int] | Instant | None = None
) -> Answer:
    """Explain rows at an event time (``at``) or windows, whichever is given, from a state. Errors are as for ``why``."""
    if (at is None) == (window is None):
        raise InvalidPlanError(
            "a state does not record rows. Give either an event time (at=), to get its windows and whether it is late now, or a "
            "window (window=)"
        )
    of_key = "" if key is ANY else f" of key {value(key)}"
    if at is not None:
        facts = time_facts(known, instant(at, "the row's event time"), one_key=key is not ANY and not has_null(key))
        told = [
            _time_told(known, facts, of_key),
            *_partners_told(known, facts),
            *(_now_told(known, each) for each in (facts.windows or ())[:MAX_SHOWN]),
        ]
        return Answer((facts,), [*told, *_verdict(known, facts), _unknown(known, rows=True)])
    wanted = window if isinstance(window, (Window, tuple)) or window is None else instant(window, "the window's start")
    assert wanted is not None  # noqa: S101 - the check above leaves one of them
    found = windows_now(known, wanted)
    if not found:
        return Answer((), [_no_window(known, wanted, of_key), _unknown(known, rows=False)])
    told = [_now_told(known, each) for each in found[:MAX_SHOWN]]
    return Answer(found, [[f"Windows{of_key}, by {known.where}:", _reached(known)], *told, _unknown(known, rows=False)])


def _time_told(known: KnownState, facts: TimeFacts, of_key: str) -> list[str]:
    lines = [f"A row{of_key} with event time {_time(facts.timestamp)}, by {known.where}:", _reached(known)]
    if facts.windows is None:
        lines.append(_without_windows(known))
    elif not facts.windows:
        lines.append("It is between windows.")
    if facts.kept:
        which = "row with exactly this time is" if len(facts.kept) == 1 else "rows with exactly this time are"
        lines.append(
            f"{len(facts.kept)} {which} kept: {printable(', '.join(value(row.value) for row in facts.kept[:MAX_SHOWN]), 400)}."
        )
    return lines


def _without_windows(known: KnownState) -> str:
    """Return why the windows of a row are unknown."""
    if not known.plan.operator.capabilities.late_rows:
        return "There are no windows: a function gets each row when it comes. .user_state and .timers have its state and timers."
    if not known.plan.operator.capabilities.has_windows:
        around = "the rows of the other stream in the interval around it"
        joined = "one row of the other stream, by time" if isinstance(known.plan.operator, AsOfSpec) else around
        return f"This query does not have windows: a row joins {joined}."
    if known.plan.operator.capabilities.late_by_time is not None:
        return "The rows around it decide which window it would be in."
    return "Its windows depend on the row itself or on user code, which are not in the state."


def _partners_told(known: KnownState, facts: TimeFacts) -> list[list[str]]:
    join = known.plan.operator
    if not isinstance(join, TwoSidesSpec):
        return []
    texts = JoinTexts(join, _WORDS)
    return [
        [f"A {each.side} row of this time, by the rows so far:", *texts.partners(each, facts.timestamp, known.watermark)]
        for each in facts.partners
    ]


def _verdict(known: KnownState, facts: TimeFacts) -> list[list[str]]:
    plan = known.plan
    if plan.operator.capabilities.late_by_time is not None:
        return [_verdict_by_time(known, facts, plan.operator.capabilities.late_by_time)]
    if not plan.operator.capabilities.late_rows:
        return [["Such a row is never late."]]
    if follows_rows(plan):
        return [["Such a row is never late: these windows are of no time."]]
    if not plan.assigner.is_event_time:
        return [
            ["Windows follow the clock: a row is in the windows of its arrival time, not of its event time, and is never late."]
        ]
    if facts.is_late is None:
        return []
    if not facts.is_late:
        return [["Such a row is taken, if it comes now."]]
    first = "Such a row is late, if it comes now: " + (
        "its window is closed." if len(facts.windows or ()) == 1 else "its windows are closed."
    )
    if facts.missing_lateness is None:
        return [
            [
                first,
                "No lateness brings them back: what was closed stays closed."
                if known.watermark < MAX_TIMESTAMP
                else "The input was at its end.",
            ]
        ]
    whole = _WORDS.length(facts.missing_lateness + plan.allowed_lateness)
    more = _WORDS.length(facts.missing_lateness)
    lines = [
        first,
        f"With an allowed lateness of {whole}, or a watermark that waits {more} longer, it would have been taken even now.",
    ]
    lines.append(_where_late(known))
    return [lines]


def _verdict_by_time(known: KnownState, facts: TimeFacts, past: int) -> list[str]:
    """Return the verdict if the watermark alone decides, independent of windows."""
    reached = f"the watermark has come to {_time(facts.timestamp + past)}."
    if not facts.is_late:
        return [f"Such a row is taken, if it comes now. It is late once {reached}"]
    lines = [f"Such a row is late, if it comes now: {reached}"]
    if facts.missing_lateness is None:
        return [*lines, "The input was at its end."]
    more = _WORDS.length(facts.missing_lateness)
    return [*lines, f"With a watermark that waits {more} longer, it would have been taken even now.", _where_late(known)]


def _where_late(known: KnownState) -> str:
    tags = known.plan.late_tags
    if tags:
        return f"Late rows go to the output {' or '.join(map(repr, tags))}: look for it there."
    counted = f" ({known.late_dropped:,} of all keys)" if known.late_dropped is not None else ""
    return f"Late rows are dropped and counted{counted}: .side_output_late_data(tag) sends them to a side output."


def _now_told(known: KnownState, each: WindowNow) -> list[str]:
    kind = f" ({each.label})" if each.label is not None else ""
    lines = [f"Window {_WORDS.window(each.window)}{kind} {_state_of(known, each)}"]
    if not each.known:
        if each.is_open:
            what = "no row has come for it, or its contents went (purge, evictor)"
            lines.append(f"Nothing of it is in the state: {what}.")
        else:
            lines.append(f"Its content, if rows came in time, is no longer in the state: {_was_in_results(known)}.")
        return lines
    if each.is_open and isinstance(known.plan.assigner, RollingWindows):
        lines.append("Rows that came for this step are not counted yet: they go in at its end.")
    with_keys = len(each.known) > 1
    for found in each.known[:MAX_SHOWN]:
        lines += _known_told(known, found, each.window, with_key=with_keys)
    if len(each.known) > MAX_SHOWN:
        lines.append(f"… and {many(len(each.known) - MAX_SHOWN, 'window')} of other keys: choose one key, or see .facts.")
    kept = [row for row in known.rows if any(found.window in row.windows for found in each.known)]
    if kept:
        rows = ", ".join(value(row.value) for row in kept[:MAX_SHOWN])
        lines.append(f"It keeps {many(len(kept), 'row')}: {printable(rows, 400)}{', …' if len(kept) > MAX_SHOWN else ''}.")
    return lines


def _was_in_results(known: KnownState) -> str:
    operator = known.plan.operator
    if operator.capabilities.evicts:
        return "it was given to the evictor when the window fired, and evicted rows were not in a result"
    if operator.capabilities.fires_by_time is False:
        return "rows that came after its last firing were in no result, since only rows make it fire"
    return "it was in the results when it fired" + ("" if operator.capabilities.fires_by_time else ", if its trigger had it fire")


def _state_of(known: KnownState, each: WindowNow) -> str:
    """Return whether the window is open, and until when."""
    plan, window = known.plan, each.window
    if not isinstance(window, TimeWindow):
        return "is open, without an end."
    by_clock = not plan.assigner.is_event_time
    which, lateness = ("clock", 0) if by_clock else ("watermark", plan.allowed_lateness)
    closes = window.max_timestamp() + lateness
    after = f", {_WORDS.length(lateness)} after its end" if lateness else ""
    if each.is_open:
        return f"is open: it takes rows until the {which} has come to {_time(closes)}{after}."
    return f"is closed since the {which} came to {_time(closes)}{after}."


def _known_told(known: KnownState, each: KnownWindow, asked: Window, *, with_key: bool) -> list[str]:
    who = f"Of key {value(each.key)}: " if with_key else ""
    if each.window != asked:
        who += f"{_WORDS.window(each.window)} is open, and the row would join it: "
    rows = "It has rows" if each.rows is None else f"{many(each.rows, 'row')} {_came(known, each)}"
    if each.results:
        as_they_stand = ", ".join(f"{name}={value(found)}" for name, found in each.results.items())
        rows += f"; results so far: {printable(as_they_stand, 400)}"
    elif each.contents:
        rows += f"; what its function keeps: {printable(each.contents, 400)}"
    return [f"{who}{rows}.", f"{_fired(each)}{_due(known, each)}"]


def _came(known: KnownState, each: KnownWindow) -> str:
    if not known.plan.operator.capabilities.evicts:
        return "went in"
    return f"{'is' if each.rows == 1 else 'are'} in it, of those that came and were not evicted"


def _fired(known: KnownWindow) -> str:
    if known.firings is None:
        return ""
    if known.firings == 0:
        return "It has not fired. "
    last = f", the last time {known.last_firing.replace('_', ' ')}" if known.last_firing else ""
    return f"It has fired {_TIMES.get(known.firings, f'{known.firings:,} times')}{last}. "


def _due(known: KnownState, each: KnownWindow) -> str:
    by_event_time = known.plan.assigner.is_event_time
    if each.due is None:
        passed = by_event_time and isinstance(each.window, TimeWindow) and known.watermark >= each.window.max_timestamp()
        return f"Nothing is due{': the watermark has passed its end' if passed else ''}; only a further row makes it fire."
    which = "watermark" if by_event_time else "clock"
    if known.plan.operator.capabilities.fires_by_time is None:
        return f"Its trigger is called when the {which} comes to {_time(each.due)}, and says whether it fires then."
    held = ""
    if known.slowest is not None and by_event_time:
        held = f" Source partition {printable(known.slowest[0])!r} is the furthest behind, {_maybe(known.slowest[1])}."
    return f"It fires when the {which} comes to {_time(each.due)}.{held}"


def _no_window(known: KnownState, wanted: Any, of_key: str) -> list[str]:
    which = f"that starts at or holds {_time(wanted)}" if isinstance(wanted, int) else value(wanted)
    lines = [f"No window {which}{of_key} is in {known.where}, and the plan does not have one there.", _reached(known)]
    if known.windows:
        there = ", ".join(_WORDS.window(window.window) for window in known.windows[:MAX_SHOWN])
        more = ", …" if known.window_count > MAX_SHOWN else ""
        lines.append(f"Open are {there}{more}.")
    return lines


def _unknown(known: KnownState, *, rows: bool) -> list[str]:
    """Return what cannot be known any longer."""
    lines = ["Not in the state:"]
    join = isinstance(known.plan.operator, TwoSidesSpec)
    if rows and known.row_count == 0 and not join:
        lines.append("If such a row has come: it keeps aggregates of open windows, but not their rows.")
    if rows and join:
        lines.append("Partners that are final: trace the same query over the rows as a batch. For partners so far give key=.")
    if known.plan.operator.capabilities.evicts:
        lines.append("If the evictor removed such a row: evicted rows leave no trace.")
    if rows:
        lines.append("If an earlier row was late: late rows leave no trace.")
    if not join:
        what = "The content of closed windows, and the reasons and times of firings"
        lines.append(f"{what}: trace the same query over the rows as a batch.")
    if known.window_count > len(known.windows) or known.row_count > len(known.rows):
        windows = f"{len(known.windows):,} of {many(known.window_count, 'window')}"
        rows_of = f"{len(known.rows):,} of {many(known.row_count, 'kept row')}"
        lines.append(f"Only {windows} and {rows_of} were read: choose one key, or raise most=.")
    return lines


def _reached(known: KnownState) -> str:
    if known.plan.assigner.is_event_time or follows_rows(known.plan):
        if known.watermark <= MIN_TIMESTAMP:
            return "The watermark is not set yet."
        if known.watermark >= MAX_TIMESTAMP:
            return "The watermark is at the end of time: the input was at its end."
        return f"The watermark{' of the key' if known.of_key else ''} is at {_time(known.watermark)}."
    return f"The clock had come to {_maybe(known.clock)}."


def _maybe(time: int | None) -> str:
    return "nowhere yet" if time is None else f"at {_time(time)}"
