"""A trace: every element and what became of it, every window, every firing and what caused it, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, Literal

from panestream.windowing.windows import Window

Fate = Literal["taken", "late", "outside"]
"""What became of an element: windows took it; all its windows were closed; it lay in no window (and was not late)."""

Kind = Literal["element", "event-time timer", "processing-time timer"]
"""What made a trigger decide."""


@dataclass(frozen=True, slots=True)
class TracedElement:
    """One element.

    Attributes:
        number: the how-manieth it was to arrive, from 0.
        step: when it arrived; everything that happens has a step of its own, and steps only grow.
        key: its key.
        timestamp: its event time, in the unit of the trace.
        value: the element itself.
        watermark: how far event time had come when it arrived; ``MIN_TIMESTAMP`` before the first watermark.
        clock: how far processing time had come.
        closed: windows whose last instant was this or before were closed when it arrived; ``MIN_TIMESTAMP``: none.
        fate: what became of it.
        windows: numbers of the windows that took it; where one merged right away, of the one that it merged into.
        refused: the windows it was assigned to that were closed already; an element between windows may be late without any.
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


@dataclass(frozen=True, slots=True)
class Cause:
    """What made a window fire, or its contents go.

    Attributes:
        kind: an element came, or a timer ran.
        time: of the timer; of an element its event time.
        element: the number of the element that came; None: a timer ran.
    """

    kind: Kind
    time: int
    element: int | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """One firing of one window: its function was called.

    Attributes:
        window: the number of the window.
        number: the how-manieth of this window, from 0.
        step: when it was.
        which: ``"early"``, ``"on_time"`` or ``"late"``, as results on Spark are labelled.
        cause: what made the trigger fire.
        purged: whether the trigger had the contents go with it.
        elements: numbers of the elements in the window when it fired, in its order.
        evicted_before: those of them that the evictor took out before the function saw them.
        evicted_after: those that it took out afterwards.
        results: what was emitted.
        watermark: how far event time had come.
        clock: how far processing time had come.
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
    """One window of one key, from its first element until it went.

    A session that grows is merged into a new window each time: ``merged_into`` leads from one to the next.

    Attributes:
        number: of the window, in the order of opening.
        key: its key.
        window: its bounds.
        opened: the step at which it was opened.
        merged_from: numbers of the windows that went into it.
        merged_into: the number of the window that it went into; None: none.
        elements: numbers of all elements that it ever held, those of windows that merged into it included, in its order.
        firings: its own, in order; not those of windows that merged into it.
        purges: steps at which a trigger had its contents go without firing.
        cleared: the step at which it went since its time was over; None: it is there, or went into another one.
        cleared_watermark: the watermark then.
        cleared_clock: the clock then.
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
    """Event time or the clock went on.

    Attributes:
        step: when; what fires because of it has later steps.
        time: how far it came.
    """

    step: int
    time: int


@dataclass(frozen=True, slots=True)
class UnusableRow:
    """A row without an event time that can be used: no window is asked about it.

    Attributes:
        value: the row itself.
        refuses: whether the query fails since it is there; else it goes to the output for such rows.
    """

    value: Any
    refuses: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened to the rows and windows of one query.

    Attributes:
        elements: every element, in the order of arrival: the one with number ``n`` is ``elements[n]``.
        windows: every window, in the order of opening: number ``n`` is ``windows[n]``.
        watermarks: each time that event time went on.
        clocks: each time that processing time went on.
        is_event_time: whether windows end, and elements are late, by event time.
        allowed_lateness: how long after its end a window takes elements.
        in_microseconds: whether times are microseconds since the epoch; else they are whatever the user counts in.
        description: of the windows and their trigger, as ``repr`` shows them, for titles.
        unusable: rows without usable event time.
        missing: sentences on what is not known; empty: all is.
        watched: whether it was written down as it happened; False: it is made of a state, which knows what is there, and not how
            it came to be.
        merges: whether windows that meet become one, as sessions do.
        fires_by_time: whether a window to which no more rows come fires once more, at its end at the latest; None: unknown, code
            of the user's own decides.
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

    @property
    def firings(self) -> tuple[Firing, ...]:
        """Every firing of every window, in the order in which they happened."""
        return tuple(sorted((firing for window in self.windows for firing in window.firings), key=lambda firing: firing.step))

    def of_key(self, key: Any) -> Trace:
        """What happened to the rows and windows of one key; numbers count these alone, steps are as they were."""
        elements = [one for one in self.elements if same_key(one.key, key)]
        windows = [one for one in self.windows if same_key(one.key, key)]
        rows = {one.number: at for at, one in enumerate(elements)}
        kept = {one.number: at for at, one in enumerate(windows)}
        return replace(
            self,
            elements=tuple(
                replace(one, number=rows[one.number], windows=tuple(kept[window] for window in one.windows)) for one in elements
            ),
            windows=tuple(_renumbered(one, rows, kept) for one in windows),
        )

    @property
    def late(self) -> tuple[TracedElement, ...]:
        """Elements that were late."""
        return tuple(element for element in self.elements if element.fate == "late")


def same_key(one: Any, other: Any) -> bool:
    """Whether two keys are one: as Python has it, but NaN is NaN, as it is for Spark.

    >>> same_key((1, float("nan")), (1, float("nan"))), same_key(1, 2), same_key(None, None)
    (True, False, True)
    """
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_key, one, other))
    return bool(one == other) or (isinstance(one, float) and isinstance(other, float) and isnan(one) and isnan(other))


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
