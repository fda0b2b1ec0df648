"""The history of one row or one window, derived from a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panestream.tracing.events import Firing, Trace, TracedElement, TracedWindow, same_key
from panestream.windowing.windows import TimeWindow, Window


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
class RowFacts:
    """The history of one row.

    Attributes:
        closed_at: for a late row, the watermark that closed the last of its windows. None if it is not late or was in no window.
        missing_lateness: the extra allowed lateness (or watermark delay) that would have kept a late row, or None as above.
    """

    element: TracedElement
    windows: tuple[RowInWindow, ...]
    closed_at: int | None = None
    missing_lateness: int | None = None


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
    passed = [moved.time for moved in trace.watermarks if moved.step < element.step and moved.time >= closing]
    return RowFacts(element, taken, passed[0] if passed else element.watermark, element.watermark - closing + 1)


def _in_window(trace: Trace, element: TracedElement, number: int) -> RowInWindow:
    chain = _chain(trace, number)
    firings = [firing for window in chain for firing in window.firings if firing.step > element.step]
    seen = tuple(firing for firing in firings if element.number in firing.seen)
    evicted = [one for one in firings if element.number in (*one.evicted_before, *one.evicted_after)]
    until = evicted[0].step if evicted else chain[-1].cleared
    purges = [step for window in chain for step in window.purges] + [one.step for one in firings if one.purged]
    after = sorted(step for step in purges if step > element.step and (until is None or step < until))
    return RowInWindow(chain, seen, evicted[0] if evicted else None, after[0] if after else None, chain[-1].cleared is None)


def window_facts(trace: Trace, window: TracedWindow) -> WindowFacts:
    """Return the history of one window, including the windows merged into it."""
    parts = tuple(sorted(_parts(trace, window), key=lambda part: part.number))
    firings = sorted((firing for one in (*parts, window) for firing in one.firings), key=lambda firing: firing.step)
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


__all__ = ["RowFacts", "RowInWindow", "WindowFacts", "end_of", "row_facts", "window_facts"]
