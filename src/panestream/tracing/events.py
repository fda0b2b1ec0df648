"""The trace: all elements, windows and firings in order with their causes, and the history of one row or window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any, Literal

from panestream.windowing.windows import TimeWindow, Window

if TYPE_CHECKING:
    from panestream.engine.operators.two_sides import TwoSidesSpec

Fate = Literal["taken", "late", "outside"]
"""The outcome of an element: windows took it, all its windows were closed, or it was in no window (and was not late)."""

Kind = Literal["element", "event-time timer", "processing-time timer"]
"""The kind of event on which a trigger decided."""


@dataclass(frozen=True, slots=True)
class TracedElement:
    """An element and its outcome.

    Attributes:
        number: position in the order of arrival, from 0.
        step: when it arrived. Each event has its own step, and steps only grow.
        timestamp: event time, in the unit of the trace.
        watermark: the watermark on arrival (``MIN_TIMESTAMP`` before the first one).
        clock: processing time on arrival.
        closed: windows whose last instant was at or before this were closed on arrival (``MIN_TIMESTAMP`` if none were).
        windows: numbers of the windows that took it. A window that merged immediately is replaced by the merged window.
        refused: windows it was assigned to that were already closed. An element between windows can be late without any.
        side: its stream in a join by time, or None.
        deletes: whether it deletes the value of its key in an as-of join.
    """

    number: int
    step: int
    key: Any
    timestamp: int
    value: Any
    watermark: int
    clock: int
    closed: int
    fate: Fate
    windows: tuple[int, ...]
    refused: tuple[Window, ...] = ()
    side: str | None = None
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """The timer or element (``element`` is its number) that made a window fire or lose its contents, with its time."""

    kind: Kind
    time: int
    element: int | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """One call of a window's function.

    Attributes:
        window: number of the window.
        number: position among the firings of this window, from 0.
        which: ``"early"``, ``"on_time"`` or ``"late"``, the labels of results on Spark.
        purged: whether the trigger also purged the contents.
        elements: numbers of the elements in the window when it fired, in window order.
        evicted_before, evicted_after: numbers of the elements that the evictor removed before and after the call.
        watermark, clock: event time and processing time of the call.
    """

    window: int
    number: int
    step: int
    which: str
    cause: Cause
    purged: bool
    elements: tuple[int, ...]
    evicted_before: tuple[int, ...]
    evicted_after: tuple[int, ...]
    results: tuple[Any, ...]
    watermark: int
    clock: int

    @property
    def seen(self) -> tuple[int, ...]:
        """Numbers of the elements that the function saw."""
        gone = set(self.evicted_before)
        return tuple(number for number in self.elements if number not in gone)


@dataclass(frozen=True, slots=True)
class TracedWindow:
    """One window of one key, from its first element until it is cleared.

    A growing session is merged into a new window each time, and ``merged_into`` links one to the next.

    Attributes:
        number: position in the order of opening.
        opened: step at which it was opened.
        merged_from: numbers of the windows that were merged into it.
        merged_into: number of the window that it was merged into, or None.
        elements: numbers of all elements it ever held, in window order, including elements of windows merged into it.
        firings: its own firings in order, without firings of windows merged into it.
        purges: steps at which a trigger purged it without firing.
        cleared: step at which its time was over and it was removed. None if it is still open or was merged.
        cleared_watermark, cleared_clock: watermark and clock at that step.
    """

    number: int
    key: Any
    window: Window
    opened: int
    merged_from: tuple[int, ...] = ()
    merged_into: int | None = None
    elements: tuple[int, ...] = ()
    firings: tuple[Firing, ...] = ()
    purges: tuple[int, ...] = ()
    cleared: int | None = None
    cleared_watermark: int | None = None
    cleared_clock: int | None = None


@dataclass(frozen=True, slots=True)
class TimeMoved:
    """An advance of event time or processing time to ``time``. Firings that it causes have later steps.

    ``of`` has the key whose watermark advanced, if each key has its own, and is empty otherwise.
    """

    step: int
    time: int
    of: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class UnusableRow:
    """A row without usable event time. If ``refuses`` is set, it fails the query. If not, it goes to the output for such rows."""

    value: Any
    refuses: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """The history of the rows and windows of one query.

    Attributes:
        elements: all elements in order of arrival. ``elements[n]`` has number ``n``.
        windows: all windows in order of opening. ``windows[n]`` has number ``n``.
        watermarks: all advances of event time.
        clocks: all advances of processing time.
        is_event_time: whether windows end, and elements are late, by event time.
        allowed_lateness: how long a window takes elements after its end.
        in_microseconds: whether times are microseconds since the epoch. If not, they are in a unit of the user's choice.
        description: ``repr`` of the windows, their trigger and evictor, for titles.
        unusable: rows without a usable event time.
        missing: sentences that name what is unknown, empty if everything is known.
        watched: whether events were recorded as they happened. If False, the trace was built from a state, without history.
        merges: whether windows that meet become one, as sessions do.
        fires_by_time: whether a window that gets no further rows fires once more, by its end. None if user code decides.
        join: the join by time, which does not have windows, or None.

    Examples:
        >>> import panestream as pst
        >>> minutes = pst.TumblingEventTimeWindows.of("1 minute")
        >>> harness = pst.testing.WindowTestHarness(minutes, reduce=max, traced=True)
        >>> harness.process_element(3, "5 seconds", key="ann")
        >>> harness.end_of_input()
        >>> [element.value for element in harness.trace().elements]
        [3]
    """

    elements: tuple[TracedElement, ...]
    windows: tuple[TracedWindow, ...]
    watermarks: tuple[TimeMoved, ...] = ()
    clocks: tuple[TimeMoved, ...] = ()
    is_event_time: bool = True
    allowed_lateness: int = 0
    in_microseconds: bool = True
    description: str = ""
    unusable: tuple[UnusableRow, ...] = ()
    missing: tuple[str, ...] = field(default=())
    watched: bool = True
    merges: bool = False
    fires_by_time: bool | None = None
    join: TwoSidesSpec | None = None

    @property
    def firings(self) -> tuple[Firing, ...]:
        """All firings of all windows, in the order in which they happened."""
        return tuple(sorted((firing for window in self.windows for firing in window.firings), key=lambda firing: firing.step))

    def of_key(self, key: Any) -> Trace:
        """Return the trace of one key. Numbers count within the key, and steps are unchanged."""
        elements = [each for each in self.elements if same_key(each.key, key)]
        windows = [each for each in self.windows if same_key(each.key, key)]
        rows = {each.number: at for at, each in enumerate(elements)}
        kept = {each.number: at for at, each in enumerate(windows)}
        return replace(
            self,
            elements=tuple(
                replace(each, number=rows[each.number], windows=tuple(kept[window] for window in each.windows))
                for each in elements
            ),
            windows=tuple(_renumbered(each, rows, kept) for each in windows),
            watermarks=self.watermarks_of(key),
        )

    def watermarks_of(self, key: Any) -> tuple[TimeMoved, ...]:
        """Return the advances of event time that concern a key."""
        return tuple(moved for moved in self.watermarks if all(same_key(each, key) for each in moved.of))

    @property
    def late(self) -> tuple[TracedElement, ...]:
        """The late elements."""
        return tuple(element for element in self.elements if element.fate == "late")


def same_key(each: Any, other: Any) -> bool:
    """Return whether Python considers two keys equal, except that NaN equals NaN, as in Spark.

    >>> same_key((1, float("nan")), (1, float("nan"))), same_key(1, 2), same_key(None, None)
    (True, False, True)
    """
    if isinstance(each, tuple) and isinstance(other, tuple):
        return len(each) == len(other) and all(map(same_key, each, other))
    return bool(each == other) or (isinstance(each, float) and isinstance(other, float) and isnan(each) and isnan(other))


def _renumbered(window: TracedWindow, rows: Mapping[int, int], windows: Mapping[int, int]) -> TracedWindow:
    def of(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(rows[number] for number in numbers)

    firings = tuple(
        replace(
            firing,
            window=windows[firing.window],
            cause=replace(firing.cause, element=None if firing.cause.element is None else rows[firing.cause.element]),
            elements=of(firing.elements),
            evicted_before=of(firing.evicted_before),
            evicted_after=of(firing.evicted_after),
        )
        for firing in window.firings
    )
    return replace(
        window,
        number=windows[window.number],
        merged_from=tuple(windows[number] for number in window.merged_from),
        merged_into=None if window.merged_into is None else windows[window.merged_into],
        elements=of(window.elements),
        firings=firings,
    )


@dataclass(frozen=True, slots=True)
class RowInWindow:
    """The history of a row in one of the windows that took it.

    Attributes:
        windows: the window that took it, followed by the windows that it merged into.
        seen_in: firings whose function saw the row.
        evicted_in: firing at which the evictor removed it, or None.
        purged: step at which the trigger purged the window's contents with the row, or None.
        is_open: whether the last of the windows is still open.
    """

    windows: tuple[TracedWindow, ...]
    seen_in: tuple[Firing, ...]
    evicted_in: Firing | None
    purged: int | None
    is_open: bool


@dataclass(frozen=True, slots=True)
class JoinRow:
    """A row of one side. ``deletes`` is true for a right row that deletes the value of its key."""

    side: str
    timestamp: int
    value: Any
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Partners:
    """The partners of a row, among the rows of its key that are known.

    Attributes:
        side: the side of the row.
        rows: the partners, in order of time.
        refused: for an as-of join, the right row that would be the partner if it were nearer, or if it did not delete.
        final_at: the watermark at which no other partner can come.
    """

    side: str
    rows: tuple[JoinRow, ...]
    refused: JoinRow | None
    final_at: int


@dataclass(frozen=True, slots=True)
class RowFacts:
    """The history of one row.

    Attributes:
        closed_at: for a late row, the watermark that closed the last of its windows. None if it is not late or was in no window.
        missing_lateness: the extra allowed lateness (or watermark delay) that would have kept a late row, or None as above.
        partners: the partners in a join by time, or None if the row does not take part in one.
        missed: late rows that would be partners.
    """

    element: TracedElement
    windows: tuple[RowInWindow, ...]
    closed_at: int | None = None
    missing_lateness: int | None = None
    partners: Partners | None = None
    missed: tuple[JoinRow, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """The history of one window.

    Attributes:
        window: its final form. For a merged window, this is the window it merged into.
        parts: windows merged into it, directly or indirectly, in order of opening.
        firings: firings of the window and its parts, in order.
        late: rows of the window that came after it had closed.
    """

    window: TracedWindow
    parts: tuple[TracedWindow, ...]
    firings: tuple[Firing, ...]
    late: tuple[TracedElement, ...]
    is_open: bool


def row_facts(trace: Trace, element: TracedElement) -> RowFacts:
    """Return the history of one row."""
    taken = tuple(_in_window(trace, element, number) for number in element.windows)
    if element.fate != "late" or not element.refused:
        return RowFacts(element, taken)
    last = max(window.max_timestamp() for window in element.refused)
    closing = last + trace.allowed_lateness
    passed = [moved.time for moved in trace.watermarks_of(element.key) if moved.step < element.step and moved.time >= closing]
    return RowFacts(element, taken, passed[0] if passed else element.watermark, element.watermark - closing + 1)


def _in_window(trace: Trace, element: TracedElement, number: int) -> RowInWindow:
    chain = _chain(trace, number)
    firings = [firing for window in chain for firing in window.firings if firing.step > element.step]
    seen = tuple(firing for firing in firings if element.number in firing.seen)
    evicted = [each for each in firings if element.number in (*each.evicted_before, *each.evicted_after)]
    until = evicted[0].step if evicted else chain[-1].cleared
    purges = [step for window in chain for step in window.purges] + [each.step for each in firings if each.purged]
    after = sorted(step for step in purges if step > element.step and (until is None or step < until))
    return RowInWindow(chain, seen, evicted[0] if evicted else None, after[0] if after else None, chain[-1].cleared is None)


def window_facts(trace: Trace, window: TracedWindow) -> WindowFacts:
    """Return the history of one window, including the windows merged into it."""
    parts = tuple(sorted(_parts(trace, window), key=lambda part: part.number))
    firings = sorted((firing for each in (*parts, window) for firing in each.firings), key=lambda firing: firing.step)
    late = tuple(element for element in trace.elements if element.refused and _came_too_late(trace, element, window))
    return WindowFacts(window, parts, tuple(firings), late, window.cleared is None)


def _came_too_late(trace: Trace, element: TracedElement, window: TracedWindow) -> bool:
    """Return whether a row belongs to a window that was closed when the row came."""
    if not same_key(element.key, window.key) or window.cleared is None or window.cleared > element.step:
        return False
    return any(_would_meet(refused, window.window, merges=trace.merges) for refused in element.refused)


def _would_meet(refused: Window, window: Window, *, merges: bool) -> bool:
    """Return whether the windows are equal or, if windows merge, overlap. (Cumulating windows overlap too, but do not merge.)"""
    if merges and isinstance(refused, TimeWindow) and isinstance(window, TimeWindow):
        return refused.intersects(window)
    return refused == window


def _chain(trace: Trace, number: int) -> tuple[TracedWindow, ...]:
    """Return a window and the windows it merged into."""
    chain = [trace.windows[number]]
    while (into := chain[-1].merged_into) is not None:
        chain.append(trace.windows[into])
    return tuple(chain)


def end_of(trace: Trace, window: TracedWindow) -> TracedWindow:
    """Return the window that a window finally merged into, or the window itself if it did not merge."""
    return _chain(trace, window.number)[-1]


def _parts(trace: Trace, window: TracedWindow) -> Iterator[TracedWindow]:
    for number in window.merged_from:
        yield from _parts(trace, trace.windows[number])
        yield trace.windows[number]
