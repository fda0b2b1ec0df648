"""What the state of a query still knows of a window, or of a row's time: windows as they stand, kept rows, how far time is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.runtime.watermarks import Closing
from panestream.errors import InvalidPlanError
from panestream.tracing.events import TimeMoved, Trace, TracedElement, TracedWindow
from panestream.windowing.assigners import GlobalWindows, MergingWindowAssigner, WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.windows import TimeWindow, Window


@dataclass(frozen=True, slots=True)
class KnownWindow:
    """A window that is in the state: it still takes rows, or will fire.

    Attributes:
        key: its key.
        window: its bounds.
        label: its kind, where the query has several.
        rows: how many went in, or are kept; None: the operator does not count them.
        results: the aggregates as they stand; None: a function of the user's makes them.
        contents: what such a function keeps, as JSON text.
        firings: how often it has fired; None: the state does not keep that.
        last_firing: the last one: ``early``, ``on_time`` or ``late``.
        due: when it fires next if no row comes; None: nothing is due.
        closes: when it takes no more rows, and goes; None: never.
    """

    key: Any
    window: Window
    label: str | None = None
    rows: int | None = None
    results: Mapping[str, Any] | None = None
    contents: str | None = None
    firings: int | None = None
    last_firing: str | None = None
    due: int | None = None
    closes: int | None = None


@dataclass(frozen=True, slots=True)
class KnownRow:
    """A row that is kept, for a function of whole windows or for an evictor.

    Attributes:
        key: its key.
        timestamp: its event time; None: it is not kept, and the row has no column that says it.
        value: the row.
        windows: those that hold it.
    """

    key: Any
    timestamp: int | None
    value: Any
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class KnownState:
    """What a state holds of what was asked for.

    Attributes:
        plan: the query's, as the state tells it.
        where: what it is the state of, for people: ``the checkpoint /data/clicks after micro-batch 3``.
        windows, rows: those that were asked for, the first ones of them.
        window_count, row_count: how many there are.
        watermark: how far event time has come; ``MIN_TIMESTAMP``: nowhere yet.
        clock: how far processing time has come, where windows follow it.
        closed: windows whose last instant is this or before are closed for good.
        slowest: the source partition whose watermark is the furthest behind, and that watermark; None: there is one input.
        late_dropped: how many late rows were dropped so far, of all keys; None: the state does not count them.
    """

    plan: WindowPlan
    where: str
    windows: tuple[KnownWindow, ...]
    rows: tuple[KnownRow, ...]
    window_count: int
    row_count: int
    watermark: int = MIN_TIMESTAMP
    clock: int | None = None
    closed: int = MIN_TIMESTAMP
    slowest: tuple[str, int | None] | None = None
    late_dropped: int | None = None

    @property
    def closed_now(self) -> int:
        """Windows whose last instant is this or before take no row that comes now."""
        if not self.plan.assigner.is_event_time:
            return self.closed
        return Closing(self.plan.allowed_lateness, self.closed).at(self.watermark)


@dataclass(frozen=True, slots=True)
class WindowNow:
    """A window as it is now.

    Attributes:
        window: its bounds; of a session that of the rows that came, with those that the row that is asked about would add.
        label: its kind, where the query has several.
        known: what the state has of it, one for each key; empty: nothing.
        is_open: whether it takes rows.
    """

    window: Window
    label: str | None
    known: tuple[KnownWindow, ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """What the state knows of rows with an event time.

    Attributes:
        timestamp: the event time.
        windows: those in which such a row would be; None: other rows or user code decide that, or there are no windows.
        kept: rows with this time that the state keeps.
        is_late: whether such a row, if it came now, would be late; None: unknown.
        missing_lateness: how much more allowed lateness (or delay of the watermark) would have it taken now; None: it is not
            late, or no lateness does it any more.
    """

    timestamp: int
    windows: tuple[WindowNow, ...] | None
    kept: tuple[KnownRow, ...]
    is_late: bool | None
    missing_lateness: int | None


def trace_of_state(known: KnownState) -> Trace:
    """What is in a state, to be drawn: rows that are kept, windows that are open, how far time is."""
    bounds = [(one.key, one.window) for one in known.windows]
    by_bounds: dict[tuple[Any, Any], list[int]] = {}
    for number, (key, window) in enumerate(bounds):
        by_bounds.setdefault((repr(key), window), []).append(number)
    timed = [(row, row.timestamp) for row in known.rows if row.timestamp is not None]
    elements = [
        TracedElement(
            number=number,
            step=number,
            key=row.key,
            timestamp=time,
            value=row.value,
            watermark=MIN_TIMESTAMP,
            clock=time,
            closed=MIN_TIMESTAMP,
            fate="taken",
            windows=tuple(at for window in row.windows for at in by_bounds.get((repr(row.key), window), ())),
        )
        for number, (row, time) in enumerate(timed)
    ]
    held: dict[int, list[int]] = {}
    for element in elements:
        for at in element.windows:
            held.setdefault(at, []).append(element.number)
    windows = [
        TracedWindow(number, key, window, 0, elements=tuple(held.get(number, ()))) for number, (key, window) in enumerate(bounds)
    ]
    # Before all rows: when they came, and how far time was then, is unknown; the line says where it is now.
    plan, now = known.plan, -1
    return Trace(
        elements=tuple(elements),
        windows=tuple(windows),
        watermarks=(TimeMoved(now, known.watermark),) if known.watermark > MIN_TIMESTAMP else (),
        clocks=(TimeMoved(now, known.clock),) if known.clock is not None else (),
        is_event_time=plan.assigner.is_event_time,
        allowed_lateness=plan.allowed_lateness,
        description=f"{stable_repr(plan.assigner)}, as its state has them",
        missing=("Rows that the state does not keep, and firings: a state knows what is there, and not how it came to be.",),
        watched=False,
    )


def time_facts(known: KnownState, time: int) -> TimeFacts:
    """What the state knows of rows with an event time.

    Args:
        known: the state, of one key if windows of a key merge.
        time: the event time.
    """
    kept = tuple(row for row in known.rows if row.timestamp == time)
    by_time = known.plan.operator.capabilities.late_by_time
    if by_time is not None:
        late = known.watermark - time - by_time + 1
        own = _window_around(known, time)
        missing = late if late > 0 and known.watermark < MAX_TIMESTAMP else None
        return TimeFacts(time, own, kept, late > 0, missing)
    found = _windows_of(known, time)
    if found is None:
        return TimeFacts(time, None, kept, None, None)
    closed = known.closed_now
    windows = tuple(_now(known, window, label) for label, window in found)
    if not known.plan.assigner.is_event_time:
        return TimeFacts(time, windows, kept, False, None)
    if not windows:
        # Between windows: late if time has passed it, else nobody's.
        return TimeFacts(time, windows, kept, None, None)
    if any(one.is_open for one in windows):
        return TimeFacts(time, windows, kept, False, None)
    last = max(one.window.max_timestamp() for one in windows)
    missing = known.watermark - known.plan.allowed_lateness - last + 1
    by_watermark = known.watermark < MAX_TIMESTAMP and known.watermark - known.plan.allowed_lateness >= closed
    return TimeFacts(time, windows, kept, True, missing if by_watermark else None)


def _window_around(known: KnownState, time: int) -> tuple[WindowNow, ...] | None:
    """The look-back of a row, which covers all look-backs of the query. None if other rows decide about its windows."""
    looks = look_backs_of(known.plan.assigner)
    if looks is None:
        return None
    start = time - max(look.size for look in looks.values())
    end = time + max(look.following for look in looks.values()) + 1
    return (_now(known, TimeWindow(start, end), None),)


def windows_now(known: KnownState, wanted: Window | tuple[int, int] | int) -> tuple[WindowNow, ...]:
    """The windows that are meant: those that the state has, else what the plan says of where they would be.

    Args:
        known: the state.
        wanted: the window, its bounds, or the time at which it starts (if none starts there: a time that it holds).
    """
    if isinstance(wanted, Window):
        of_state = [one for one in known.windows if one.window == wanted]
        start = wanted.start if isinstance(wanted, TimeWindow) else None
    else:
        start = wanted[0] if isinstance(wanted, tuple) else wanted
        timed = [(one, one.window) for one in known.windows if isinstance(one.window, TimeWindow)]
        of_state = [one for one, window in timed if window.start == start]
        if isinstance(wanted, tuple):
            of_state = [one for one, window in timed if (window.start, window.end) == wanted]
        elif not of_state:
            of_state = [one for one, window in timed if window.start <= start < window.end]
    if of_state:
        same = dict.fromkeys((one.label, one.window) for one in of_state)
        return tuple(_now(known, window, label) for label, window in same)
    planned = [] if start is None or isinstance(known.plan.assigner, MergingWindowAssigner) else _windows_of(known, start) or []
    meant = [(label, window) for label, window in planned if _is_meant(window, wanted)]
    return tuple(
        _now(known, window, label) for label, window in meant or ([] if isinstance(wanted, (tuple, Window)) else planned)
    )


def _is_meant(window: Window, wanted: Window | tuple[int, int] | int) -> bool:
    if not isinstance(window, TimeWindow) or isinstance(wanted, Window):
        return window == wanted
    return (window.start, window.end) == wanted if isinstance(wanted, tuple) else window.start == wanted


def _now(known: KnownState, window: Window, label: str | None) -> WindowNow:
    assigner = known.plan.assigner
    if isinstance(assigner, MergingWindowAssigner) and isinstance(window, TimeWindow):
        there = [one for one in known.windows if isinstance(one.window, TimeWindow) and window.start <= one.window.start]
        found = tuple(one for one in there if isinstance(one.window, TimeWindow) and one.window.end <= window.end)
    else:
        found = tuple(one for one in known.windows if one.window == window and one.label == label)
    return WindowNow(window, label, found, window.max_timestamp() > known.closed_now)


def _windows_of(known: KnownState, time: int) -> list[tuple[str | None, Window]] | None:
    """The windows of a row, by kind, as far as the plan knows them; None: it does not."""
    assigner, clock = known.plan.assigner, known.clock or 0
    labels: Sequence[str | None] = assigner.labels if isinstance(assigner, SeveralWindows) else (None,)
    assigners: Iterable[WindowAssigner] = assigner.assigners if isinstance(assigner, SeveralWindows) else (assigner,)
    found = list[tuple[str | None, Window]]()
    for label, one in zip(labels, assigners, strict=True):
        try:
            windows = list(one.assign_windows(None, time, clock))
            if isinstance(one, MergingWindowAssigner):
                windows = _merged(one, windows, known)
        except Exception:  # noqa: BLE001 - a gap from the row, or code of the user's own that is not here: whatever it raises
            return None
        found += [(label, window) for window in windows]
    return found


def _merged(assigner: MergingWindowAssigner, windows: Sequence[Window], known: KnownState) -> list[Window]:
    """The windows that a row's would become part of."""
    own = [window for window in windows if isinstance(window, TimeWindow)]
    there = [one.window for one in known.windows if isinstance(one.window, TimeWindow)]
    merged = [(into, parts) for into, parts in assigner.merge_windows([*own, *there]) if any(one in parts for one in own)]
    return [into for into, _ in merged] or list(own)


def follows_rows(plan: WindowPlan) -> bool:
    """Whether windows are of no time: count windows, global windows."""
    return isinstance(plan.assigner, GlobalWindows)


def check_key(plan: WindowPlan, *, given: bool) -> None:
    """Sessions are those of a key.

    Raises:
        InvalidPlanError: none was given.
    """
    if isinstance(plan.assigner, MergingWindowAssigner) and plan.key_names and not given:
        raise InvalidPlanError(
            "which session a row would be in depends on those of its key: give key= "
            f"(of the key columns {', '.join(plan.key_names)})"
        )


__all__ = [
    "KnownRow",
    "KnownState",
    "KnownWindow",
    "TimeFacts",
    "WindowNow",
    "check_key",
    "follows_rows",
    "time_facts",
    "trace_of_state",
    "windows_now",
]
