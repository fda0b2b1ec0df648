"""Answers from a trace: why a row is in its windows or in none, and why a window emitted its results."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Protocol, cast

from panestream.errors import InvalidPlanError
from panestream.tracing.events import (
    Firing,
    RowFacts,
    RowInWindow,
    Trace,
    TracedElement,
    TracedWindow,
    UnusableRow,
    WindowFacts,
    end_of,
    row_facts,
    same_key,
    window_facts,
)
from panestream.tracing.joins import JoinTexts, join_facts
from panestream.tracing.texts import MAX_SHOWN, WHICH, listed, many, texts_of, value
from panestream.windowing.time import MIN_TIMESTAMP, Instant, instant
from panestream.windowing.windows import TimeWindow, Window

ANY: Any = type("Any", (), {"__repr__": lambda _: "ANY"})()
"""The default that matches every key, since None is a valid key."""


class Answer:
    """An answer that can be printed, shown in a notebook, or read from :attr:`facts`.

    Attributes:
        facts: one entry for each requested row or window. For a state, :class:`TimeFacts` or :class:`WindowNow`.
    """

    def __init__(self, facts: tuple[Any, ...], paragraphs: list[list[str]]) -> None:
        self.facts = facts
        self._paragraphs = paragraphs

    def __str__(self) -> str:
        return "\n\n".join("\n  ".join(lines) for lines in self._paragraphs)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        shown = []
        for first, *rest in self._paragraphs:
            items = "".join(f"<li>{escape(line)}</li>" for line in rest)
            shown.append(f"<p>{escape(first)}</p>" + (f"<ul>{items}</ul>" if items else ""))
        return "".join(shown)


def explain(
    trace: Trace,
    *,
    key: Any = ANY,
    row: Any = ANY,
    at: Instant | None = None,
    window: Window | tuple[int, int] | Instant | None = None,
) -> Answer:
    """Explain rows or windows of a trace, with the arguments and errors of :func:`why`."""
    if not trace.watched:
        raise InvalidPlanError(
            "a trace of a state has its content for drawings, but not the fate of rows. Query the state, pst.tools.why(state, "
            "...)"
        )
    if window is None:
        time = None if at is None else instant(at, "the row's event time")
        rows = [each for each in trace.elements if _is_meant(each, key, row, time)]
        if isinstance(row, Mapping):
            _check_names(trace, row)
        # Rows without event time can be selected only by their contents.
        unusable = [each for each in trace.unusable if row is not ANY and time is None and _is_row(each.value, row)]
        return _explain_rows(trace, rows, unusable)
    if row is not ANY or at is not None:
        raise InvalidPlanError("ask for rows (row=, at=) or for windows (window=), not for both at once")
    if not isinstance(window, (Window, tuple)):
        window = instant(window, "the window's start")
    found = [each for each in trace.windows if (key is ANY or same_key(each.key, key)) and _is_window(each.window, window)]
    ends = {end_of(trace, each).number: end_of(trace, each) for each in found}
    return _explain_windows(trace, list(ends.values()), window)


# ---------------------------------------------------------------- which


def _is_meant(element: TracedElement, key: Any, row: Any, at: int | None) -> bool:
    if (key is not ANY and not same_key(element.key, key)) or (at is not None and element.timestamp != at):
        return False
    return row is ANY or _is_row(element.value, row)


def _is_row(found: Any, row: Any) -> bool:
    if callable(row):
        return bool(row(found))
    if isinstance(row, Mapping):
        return all(_named(found, name) == wanted for name, wanted in row.items())
    return bool(found == row)


def _named(row: Any, name: Any) -> Any:
    """Return a column of a row, or ANY if the row lacks it."""
    return row.get(name, ANY) if isinstance(row, Mapping) else getattr(row, str(name), ANY)


def _check_names(trace: Trace, wanted: Mapping[Any, Any]) -> None:
    """Reject columns that no row has, since the answer would otherwise be that the row does not exist."""
    rows = [*(each.value for each in trace.elements), *(each.value for each in trace.unusable)]
    unknown = [name for name in wanted if rows and all(_named(row, name) is ANY for row in rows)]
    if unknown:
        raise InvalidPlanError(f"no row has a column {unknown[0]!r}; a row looks like this: {value(rows[0])}")


def _is_window(window: Window, wanted: Any) -> bool:
    if isinstance(wanted, Window):
        return window == wanted
    if not isinstance(window, TimeWindow):
        return False
    return (window.start, window.end) == wanted if isinstance(wanted, tuple) else window.start == wanted


# ---------------------------------------------------------------- words


def _explain_rows(trace: Trace, elements: list[TracedElement], unusable: list[UnusableRow]) -> Answer:
    rows = join_facts(trace, elements) if trace.join else tuple(row_facts(trace, element) for element in elements)
    facts: tuple[RowFacts | UnusableRow, ...] = (*rows, *unusable)
    if not facts:
        keys = {value(element.key): None for element in trace.elements}
        of = ", ".join(list(keys)[:MAX_SHOWN])
        there = f"{many(len(trace.elements), 'row')} came, of the keys {of}" if keys else "no row came"
        lines = [f"No such row: {there}."]
        if trace.unusable:
            lines.append(f"{many(len(trace.unusable), 'row')} without a usable event time came, too: row= finds them.")
        lines.append("This excludes rows that were filtered out before the windows, and rows of other keys.")
        return Answer(facts, [lines, *_missing(trace)])
    told = [_unusable_told(fact) if isinstance(fact, UnusableRow) else _row_told(trace, fact) for fact in facts[:MAX_SHOWN]]
    return Answer(facts, [*told, *_rest(len(facts), "rows"), *_missing(trace)])


def _unusable_told(row: UnusableRow) -> list[str]:
    then = (
        "It makes the query fail. .side_output_invalid(tag) sends such rows to a side output."
        if row.refuses
        else "It goes to the output for invalid rows."
    )
    which = "does not have a usable event time (null, unreadable, or further ahead than max_ahead allows)"
    return [f"Row {value(row.value)} {which}: it is not in a window.", then]


def _row_told(trace: Trace, facts: RowFacts) -> list[str]:
    element, words = facts.element, texts_of(trace)
    if not trace.is_event_time:
        when = f"when the clock was {words.time(element.clock)}"
    elif element.watermark <= MIN_TIMESTAMP:
        when = "before any watermark"
    else:
        when = f"when the watermark was {words.time(element.watermark)}"
    which = f"Row {value(element.value)} of key {value(element.key)}, event time {words.time(element.timestamp)}"
    if trace.join is not None:
        reached = trace.watermarks[-1].time if trace.watermarks else MIN_TIMESTAMP
        return [f"{which}, came from the {element.side} stream, {when}.", *JoinTexts(trace.join, words).row(facts, reached)]
    lines = [f"{which}, came as number {element.number + 1}, {when}."]
    if element.fate == "outside":
        return [*lines, "It is between windows, so it counts only in the metric `outside`."]
    if element.fate == "late":
        return [*lines, *_late_told(trace, facts)]
    for each in facts.windows:
        lines += _in_window_told(trace, each)
    if element.refused:
        closed = ", ".join(words.window(window) for window in element.refused[:MAX_SHOWN])
        more = ", …" if len(element.refused) > MAX_SHOWN else ""
        lines.append(f"It came too late for {closed}{more}: closed when it came.")
    return lines


def _late_told(trace: Trace, facts: RowFacts) -> list[str]:
    words, refused = texts_of(trace), facts.element.refused
    if facts.closed_at is None or facts.missing_lateness is None:
        return ["It was late, and it is between windows: it would not have been in a window in time either."]
    last = max(refused, key=lambda window: window.max_timestamp())
    waits = f", {words.length(trace.allowed_lateness)} after its end" if trace.allowed_lateness else ""
    whole = words.length(facts.missing_lateness + trace.allowed_lateness)
    which = "its window" if len(refused) == 1 else f"the last of its {len(refused)} windows"
    closed, more = words.time(facts.closed_at), words.length(facts.missing_lateness)
    return [
        f"It was late: {which}, {words.window(last)}, had closed{waits} when the watermark came to {closed}.",
        f"An allowed lateness of {whole}, or a watermark that waits {more} longer, would have kept it.",
    ]


def _in_window_told(trace: Trace, each: RowInWindow) -> list[str]:
    words, (first, *later) = texts_of(trace), each.windows
    became = f", which became {words.window(later[-1].window)} as more rows came" if later else ""
    lines = [f"{words.window(first.window)} took it{became}."]
    lines += [f"It is in {_firing_told(trace, firing)}" for firing in each.seen_in]
    if each.evicted_in is not None:
        which = "before" if each.evicted_in.step not in [firing.step for firing in each.seen_in] else "after"
        lines.append(f"The evictor took it out {which} the function was called for firing {each.evicted_in.number + 1}.")
    elif each.purged is not None and each.purged not in [firing.step for firing in each.seen_in]:
        lines.append("The trigger had the window's contents go without firing (purge), and the row with them.")
    if not each.seen_in and each.evicted_in is None and each.purged is None:
        what = "has not fired since" if each.is_open else "never fired again before it went"
        lines.append(f"The window {what}: the row is in no result" + (" yet." if each.is_open else "."))
        if each.is_open:
            lines += _next_firing(trace, each.windows[-1])
    return lines


def _next_firing(trace: Trace, of: TracedWindow) -> list[str]:
    """Return when an open window fires at the latest without further rows, as far as that is known."""
    words, window = texts_of(trace), of.window
    if trace.fires_by_time is False:
        return ["Time does not make it fire: only a further row may."]
    if not isinstance(window, TimeWindow) or trace.fires_by_time is None:
        return []
    which, moved = ("watermark", trace.watermarks_of(of.key)) if trace.is_event_time else ("clock", trace.clocks)
    until = window.max_timestamp() if trace.is_event_time else window.end
    now = moved[-1].time if moved else MIN_TIMESTAMP
    reached = f"it is at {words.time(now)}" if moved else "it is not set yet"
    return [] if now >= until else [f"It fires when the {which} comes to {words.time(until)}, at the latest; {reached}."]


def _firing_told(trace: Trace, firing: Firing) -> str:
    words = texts_of(trace)
    gone = f", {len(firing.evicted_before)} evicted before" if firing.evicted_before else ""
    purged = "; its contents went with it" if firing.purged else ""
    results = listed(firing.results) if firing.results else "nothing"
    of = f"of {words.window(trace.windows[firing.window].window)}"
    return (
        f"firing {firing.number + 1} {of} ({WHICH[firing.which]}), since {words.cause(firing, trace)}: "
        f"{many(len(firing.seen), 'row')}{gone}, gave {results}{purged}."
    )


def _explain_windows(trace: Trace, windows: list[TracedWindow], asked: Any) -> Answer:
    facts = tuple(window_facts(trace, window) for window in windows)
    if not facts:
        return Answer(facts, [_no_window(trace, asked), *_missing(trace)])
    told = [_window_told(trace, fact) for fact in facts[:MAX_SHOWN]]
    return Answer(facts, [*told, *_rest(len(facts), "windows"), *_missing(trace)])


def _no_window(trace: Trace, asked: Any) -> list[str]:
    words = texts_of(trace)
    there = [
        f"{words.window(window.window)} of {value(window.key)}"
        for window in trace.windows[:MAX_SHOWN]
        if window.merged_into is None
    ]
    which = f"that starts at {words.time(asked)}" if isinstance(asked, int) else value(asked)
    lines = [f"No window {which} was ever opened: no row came for it in time."]
    return [*lines, f"There were {', '.join(there)}{', …' if len(trace.windows) > MAX_SHOWN else ''}."] if there else lines


def _window_told(trace: Trace, facts: WindowFacts) -> list[str]:
    words, window = texts_of(trace), facts.window
    rows = ", ".join(value(trace.elements[number].value) for number in window.elements[:MAX_SHOWN])
    more = ", …" if len(window.elements) > MAX_SHOWN else ""
    lines = [
        f"Window {words.window(window.window)} of key {value(window.key)}.",
        f"It took {many(len(window.elements), 'row')}: {rows}{more}." if window.elements else "It took no rows.",
    ]
    if facts.parts:
        parts = ", ".join(words.window(part.window) for part in facts.parts[-MAX_SHOWN:])
        lines.append(f"It grew out of {many(len(facts.parts), 'window')}: {parts}.")
    firings = [_firing_told(trace, firing) for firing in facts.firings[:MAX_SHOWN]]
    lines += [f"{told[0].upper()}{told[1:]}" for told in firings]
    lines += [f"… and {len(facts.firings) - MAX_SHOWN} firings more."] if len(facts.firings) > MAX_SHOWN else []
    if not facts.firings:
        lines.append("It has not fired." if facts.is_open else "It went without having fired.")
    lines += (
        [f"The trigger had its contents go without firing (purge), {many(len(window.purges), 'time')}."] if window.purges else []
    )
    lines.append(_end_told(trace, facts))
    if facts.late:
        late = listed([element.value for element in facts.late[:MAX_SHOWN]])
        more = ", …" if len(facts.late) > MAX_SHOWN else ""
        lines.append(f"{many(len(facts.late), 'row')} came when it was closed: {late}{more}.")
    return lines


def _end_told(trace: Trace, facts: WindowFacts) -> str:
    words, window = texts_of(trace), facts.window
    if facts.is_open:
        if not isinstance(window.window, TimeWindow):
            return "It is open, without an end."
        until = window.window.max_timestamp() + (trace.allowed_lateness if trace.is_event_time else 0)
        return f"It is open, until the {'watermark' if trace.is_event_time else 'clock'} has passed {words.time(until)}."
    which, time = ("watermark", window.cleared_watermark) if trace.is_event_time else ("clock", window.cleared_clock)
    assert time is not None  # noqa: S101 - a cleared window has its time
    return f"It went when the {which} came to {words.time(time)}."


def _rest(count: int, what: str) -> list[list[str]]:
    return [[f"… and {count - MAX_SHOWN} {what} more: .facts has all."]] if count > MAX_SHOWN else []


def _missing(trace: Trace) -> list[list[str]]:
    return [["Unknown:", *trace.missing]] if trace.missing else []


class Traceable(Protocol):
    """A source of traces: a harness made with ``traced=True``, the result of a query over a batch, or a checkpoint."""

    def trace(self) -> Trace:
        """Return the trace."""


class Answering(Protocol):
    """A source that answers without a trace because it lacks a history, such as a state."""

    def why(
        self, *, key: Any = ANY, at: Instant | None = None, window: Window | tuple[int, int] | Instant | None = None
    ) -> Answer:
        """Return the answer."""


class TraceableByKey:
    """A source that can trace one key without reading the other keys, which may be very many."""

    def trace(self, *, key: Any = ANY) -> Trace:
        """Return the trace of one key."""
        raise NotImplementedError


def trace_of(source: Trace | Traceable, key: Any = ANY) -> Trace:
    """Return the trace of a source, only of ``key`` if the source can do that. Raise InvalidPlanError if it lacks a trace."""
    if isinstance(source, Trace):
        return source
    if not callable(getattr(source, "trace", None)):
        raise InvalidPlanError(
            f"{type(source).__name__} does not have a trace. Give a WindowTestHarness(..., traced=True), the result of a query "
            f"over a "
            "batch DataFrame, a checkpoint, or a trace"
        )
    if key is not ANY and isinstance(source, TraceableByKey):
        return source.trace(key=key)
    return source.trace()


def why(
    source: Trace | Traceable | Answering,
    *,
    key: Any = ANY,
    row: Any = ANY,
    at: Instant | None = None,
    window: Window | tuple[int, int] | Instant | None = None,
) -> Answer:
    """Explain which windows took rows and which results contain them or, with ``window``, the results of windows.

    The answer about a row lists the windows that took it, their later history, and the firings it was in with their causes. For a
    late row it gives the watermark that closed the window, and the lateness that would have kept the row. The answer about a
    window lists its rows, firings, merged parts, time of removal, and rows that came too late. Flink does not offer this.

    A checkpoint or savepoint does not store the history of rows. For an event time (``at``) or a window, it reports the windows
    of that time, whether they are open, their contents and due times, whether such a row is late now, and the open questions.

    Args:
        source: a trace, or something that can be traced. This is a :class:`~panestream.testing.WindowTestHarness` made with
            ``traced=True``, the result of a query over a batch DataFrame (up to 100,000 rows, of the key if one is given, see
            :meth:`WindowedResult.trace`), or a checkpoint or savepoint (``pst.state.read_checkpoint``,
            ``pst.state.read_savepoint``).
        key: only rows and windows of this key.
        row: the row itself, a predicate on rows, or a dict of column values.
        at: the row's event time, as text such as ``"2026-01-31 10:04"`` (UTC, or with its zone), a ``datetime`` with a zone, a
            duration since the epoch (``"90 seconds"``), or an integer.
        window: the window, ``(start, end)``, or the time at which it starts. Excludes ``row`` and ``at``.

    Returns:
        The answer, as text if printed, as paragraphs in a notebook, and as data in ``.facts``. If nothing matches, it names the
        existing rows or windows.

    Raises:
        InvalidPlanError: if the source cannot be traced, if rows and windows are requested together, if ``row`` is given for a
            state, or if a time lacks a zone.
        InvalidDurationError: if a time cannot be parsed.
        CheckpointError: if the key does not fit the key columns of a state.

    >>> import panestream as pst
    >>> minutes = pst.TumblingEventTimeWindows.of("1 minute")
    >>> harness = pst.testing.WindowTestHarness(minutes, reduce=max, traced=True)
    >>> harness.process_element(7, "10 seconds", key="ann")
    >>> harness.process_watermark("1 minute")
    >>> pst.tools.why(harness, window="0 seconds")
    Window [00:00:00, 00:01:00) of key 'ann'.
      It took 1 row: 7.
      Firing 1 of [00:00:00, 00:01:00) (on time), since the watermark passed its end: 1 row, gave 7.
      It went when the watermark came to 00:01:00.
    """
    if isinstance(source, Trace) or not callable(getattr(source, "why", None)):
        trace = trace_of(cast("Trace | Traceable", source), key)
        # Spark has selected the rows of the key, because Spark decides which keys are equal (a list, a time without zone, NaN).
        left = ANY if isinstance(source, TraceableByKey) else key
        return explain(trace, key=left, row=row, at=at, window=window)
    if row is not ANY:
        raise InvalidPlanError("a state does not record rows. Give the row's event time (at=) and key, or a window")
    return cast("Answering", source).why(key=key, at=at, window=window)
