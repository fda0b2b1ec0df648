"""The knowledge left in a query's state: open windows, stored rows, and how far time has advanced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panestream.engine.operators.as_of_join import AsOfSpec
from panestream.engine.operators.two_sides import TwoSidesSpec
from panestream.engine.plan import WindowPlan, stable_repr
from panestream.engine.runtime.sides import LEFT, SIDES
from panestream.engine.runtime.watermarks import ClosedWindows
from panestream.errors import InvalidPlanError
from panestream.tracing.events import Partners, TimeMoved, Trace, TracedElement, TracedWindow
from panestream.tracing.joins import JoinHistory, stored_row
from panestream.windowing.assigners import GlobalWindows, MergingWindowAssigner, WindowAssigner
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.assigners.rolling import RollingWindows
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.windows import TimeWindow, Window


@dataclass(frozen=True, slots=True)
class KnownWindow:
    """A window in the state, which still takes rows or will still fire.

    Attributes:
        label: its kind, if the query has several.
        rows: number of rows added or stored, or None if the operator does not count them.
        results: current aggregates, or None if a user function computes the results.
        contents: the data stored for such a function, as JSON text.
        firings: number of firings, or None if the state does not store it.
        last_firing: ``early``, ``on_time`` or ``late``.
        due: when it fires next without further rows, or None if nothing is due.
        closes: when it stops taking rows and is removed, or None for never.
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
    """A row stored for a whole-window function or an evictor. ``timestamp`` is None if neither the state nor the row has it."""

    key: Any
    timestamp: int | None
    value: Any
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class KnownState:
    """The requested part of a state.

    Attributes:
        plan: the query's plan, as stored in the state.
        where: a description of the state, such as ``the checkpoint /data/clicks after micro-batch 3``.
        windows, rows: the first of the requested windows and rows.
        window_count, row_count: their full number.
        watermark: the watermark, ``MIN_TIMESTAMP`` before the first one.
        clock: processing time, if windows follow it.
        closed: windows whose last instant is at or before this are closed for good.
        slowest: name and watermark of the source partition furthest behind, or None if there is one input.
        of_key: whether the watermark and closed windows are those of one key, since each key has its own.
        late_dropped: late rows dropped over all keys, or None if the state does not count them.
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
    of_key: bool = False

    @property
    def closed_now(self) -> int:
        """Windows whose last instant is at or before this refuse a row that comes now."""
        if not self.plan.assigner.is_event_time:
            return self.closed
        return ClosedWindows(self.plan.allowed_lateness, self.closed).at(self.watermark)


@dataclass(frozen=True, slots=True)
class WindowNow:
    """A window as it is now.

    The bounds of a session include the row in question. ``known`` has the window's entries in the state, one per key.
    """

    window: Window
    label: str | None
    known: tuple[KnownWindow, ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """The state's knowledge of rows with one event time.

    Attributes:
        windows: windows of such a row. None if other rows or user code decide, or if the query does not use windows.
        kept: stored rows with this time.
        is_late: whether such a row would be late now, or None if that is unknown.
        missing_lateness: the extra allowed lateness (or watermark delay) that would admit such a row now. None if the row is not
            late or if no lateness would help.
        partners: for a join by time, the partners of such a row of each side that are still in the state. Empty if they are
            final, because the state then drops the rows, or if the state covers several keys.
    """

    timestamp: int
    windows: tuple[WindowNow, ...] | None
    kept: tuple[KnownRow, ...]
    is_late: bool | None
    missing_lateness: int | None
    partners: tuple[Partners, ...] = ()


def trace_of_state(known: KnownState) -> Trace:
    """Turn a state into a trace for drawing, with stored rows, open windows and the time reached."""
    bounds = [(each.key, each.window) for each in known.windows]
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
    # The past is unknown. Time moves before all rows, so that the line shows the present time.
    plan, now = known.plan, -1
    return Trace(
        elements=tuple(elements),
        windows=tuple(windows),
        watermarks=(TimeMoved(now, known.watermark),) if known.watermark > MIN_TIMESTAMP else (),
        clocks=(TimeMoved(now, known.clock),) if known.clock is not None else (),
        is_event_time=plan.assigner.is_event_time,
        allowed_lateness=plan.allowed_lateness,
        description=f"{stable_repr(plan.assigner)}, as its state has them",
        missing=("Rows that the state does not keep, and firings: a state has its present content, but not its history.",),
        watched=False,
    )


def time_facts(known: KnownState, time: int, *, one_key: bool = False) -> TimeFacts:
    """Return the state's knowledge of rows at an event time; ``known`` covers one key if windows of a key merge.

    ``one_key`` is whether the caller selected a key, without nulls.
    """
    kept = tuple(row for row in known.rows if row.timestamp == time)
    by_time = known.plan.operator.capabilities.late_by_time
    if by_time is not None:
        late = known.watermark - time - by_time + 1
        own = _window_around(known, time)
        missing = late if late > 0 and known.watermark < MAX_TIMESTAMP else None
        return TimeFacts(time, own, kept, late > 0, missing, _partners(known, time) if one_key else ())
    found = _windows_of(known, time)
    if found is None:
        return TimeFacts(time, None, kept, None, None)
    closed = known.closed_now
    windows = tuple(_now(known, window, label) for label, window in found)
    if not known.plan.assigner.is_event_time:
        return TimeFacts(time, windows, kept, False, None)
    if not windows:
        # The row is between windows. It is late if time has passed it, and otherwise no window takes it.
        return TimeFacts(time, windows, kept, None, None)
    if any(each.is_open for each in windows):
        return TimeFacts(time, windows, kept, False, None)
    last = max(each.window.max_timestamp() for each in windows)
    missing = known.watermark - known.plan.allowed_lateness - last + 1
    by_watermark = known.watermark < MAX_TIMESTAMP and known.watermark - known.plan.allowed_lateness >= closed
    return TimeFacts(time, windows, kept, True, missing if by_watermark else None)


def _partners(known: KnownState, time: int) -> tuple[Partners, ...]:
    """Return the partners of rows with this time, if the state still has all of them."""
    join = known.plan.operator
    if not isinstance(join, TwoSidesSpec):
        return ()
    rows = [stored_row(join, row.timestamp, row.value) for row in known.rows if row.timestamp is not None]
    history = JoinHistory(join, rows)
    if isinstance(join, AsOfSpec):
        found = history.partners(LEFT, time)
        return (found,) if found.final_at > known.watermark else ()
    return tuple(history.partners(side, time) for side in SIDES) if time >= known.watermark else ()


def _window_around(known: KnownState, time: int) -> tuple[WindowNow, ...] | None:
    """Return the look-back of a row, which covers all look-backs of the query. None if other rows decide about its windows."""
    looks = look_backs_of(known.plan.assigner)
    if looks is None:
        return None
    start = time - max(look.size for look in looks.values())
    end = time + max(look.following for look in looks.values()) + 1
    return (_now(known, TimeWindow(start, end), None),)


def windows_now(known: KnownState, wanted: Window | tuple[int, int] | int) -> tuple[WindowNow, ...]:
    """Return the matching windows of the state. If none match, return the matching windows of the plan.

    ``wanted`` is the window, its bounds, or its start. If no window starts then, a start also matches windows that contain it.
    """
    if isinstance(wanted, Window):
        of_state = [each for each in known.windows if each.window == wanted]
        start = wanted.start if isinstance(wanted, TimeWindow) else None
    else:
        start = wanted[0] if isinstance(wanted, tuple) else wanted
        timed = [(each, each.window) for each in known.windows if isinstance(each.window, TimeWindow)]
        of_state = [each for each, window in timed if window.start == start]
        if isinstance(wanted, tuple):
            of_state = [each for each, window in timed if (window.start, window.end) == wanted]
        elif not of_state:
            of_state = [each for each, window in timed if window.start <= start < window.end]
    if of_state:
        same = dict.fromkeys((each.label, each.window) for each in of_state)
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
        there = [each for each in known.windows if isinstance(each.window, TimeWindow) and window.start <= each.window.start]
        found = tuple(each for each in there if isinstance(each.window, TimeWindow) and each.window.end <= window.end)
    elif isinstance(assigner, RollingWindows):
        # A row enters the current values of its key with its step.
        found = known.windows
    else:
        found = tuple(each for each in known.windows if each.window == window and each.label == label)
    return WindowNow(window, label, found, window.max_timestamp() > known.closed_now)


def _windows_of(known: KnownState, time: int) -> list[tuple[str | None, Window]] | None:
    """Return the windows of a row by kind, or None if the plan does not determine them."""
    assigner, clock = known.plan.assigner, known.clock or 0
    labels: Sequence[str | None] = assigner.labels if isinstance(assigner, SeveralWindows) else (None,)
    assigners: Iterable[WindowAssigner] = assigner.assigners if isinstance(assigner, SeveralWindows) else (assigner,)
    found = list[tuple[str | None, Window]]()
    for label, each in zip(labels, assigners, strict=True):
        try:
            windows = [each.step_of(time)] if isinstance(each, RollingWindows) else list(each.assign_windows(None, time, clock))
            if isinstance(each, MergingWindowAssigner):
                windows = _merged(each, windows, known)
        except Exception:  # noqa: BLE001 - a gap computed from the row, or user code that is missing: it may raise anything
            return None
        found += [(label, window) for window in windows]
    return found


def _merged(assigner: MergingWindowAssigner, windows: Sequence[Window], known: KnownState) -> list[Window]:
    """Return the windows that a row's own windows would merge into."""
    own = [window for window in windows if isinstance(window, TimeWindow)]
    there = [each.window for each in known.windows if isinstance(each.window, TimeWindow)]
    merged = [(into, parts) for into, parts in assigner.merge_windows([*own, *there]) if any(each in parts for each in own)]
    return [into for into, _ in merged] or list(own)


def follows_rows(plan: WindowPlan) -> bool:
    """Return whether windows depend on rows rather than time, as count windows and global windows do."""
    return isinstance(plan.assigner, GlobalWindows)


def check_key(plan: WindowPlan, *, given: bool) -> None:
    """Raise InvalidPlanError if no key is given and each has its own watermark, or windows merge.

    Sessions depend on the other rows of the key.
    """
    if plan.watermark.of_keys is not None and not given:
        raise InvalidPlanError(f"each key has its own watermark. Give key= (of the key columns {', '.join(plan.key_names)})")
    if isinstance(plan.assigner, MergingWindowAssigner) and plan.key_names and not given:
        raise InvalidPlanError(
            "the session of a row depends on the other sessions of its key. Give key= "
            f"(of the key columns {', '.join(plan.key_names)})"
        )
