"""The layout of a picture: the points, bars, marks and lines of a trace, before anything is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

from panestream.insight.drawing import clock
from panestream.tracing.events import Fate, Firing, Trace, TracedWindow, same_key
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.windows import TimeWindow

MAX_POINTS = 400
"""With more rows than this, a picture shows counts instead of rows."""
MAX_LANES = 24
"""With more lanes than this, a picture shows counts instead of windows."""
MAX_KEYS = 8
"""The most keys that get lanes; a picture only counts the other keys."""
MAX_LABELLED = 16
"""With more rows than this, row values are not written."""
BINS = 60
"""Number of time cells for counts."""


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """One row. ``x`` is its event time (its arrival, if windows follow the clock), and ``y`` the number of rows before it."""

    number: int
    x: int
    y: int
    fate: Fate
    evicted: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One window. Bounds are None for global windows. ``until`` ends its allowed lateness, and ``parts`` were merged into it."""

    window: int
    lane: int
    start: int | None
    end: int | None
    until: int | None
    parts: tuple[tuple[int, int], ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """One firing, drawn on the bar of its window or of the window it merged into.

    Attributes:
        window, number: numbers of the window that fired and of the firing.
        x: the time of the timer, or of the element (the watermark, if that is later).
        text: the result, if it is short.
    """

    window: int
    number: int
    lane: int
    x: int
    which: str
    text: str


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of one key: the first, and how many."""

    key: Any
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Crowd:
    """Counts by kind (of firing, or ``"window"``) and cell number, which is the start of the cell divided by its width."""

    width: int
    cells: dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture of one trace.

    Attributes:
        points: the rows, empty if there are too many.
        crowd: otherwise, counts of rows by cell of time and arrival.
        rows: number of rows.
        bars, marks, lanes: windows, firings, and lanes of keys from the top, all empty if there are too many windows.
        windows: otherwise, the number of windows that end, and of firings, in each cell.
        watermarks: ``(y, x)`` if time had reached ``x`` after ``y`` rows. The end of time is kept as it is.
        left_out: keys without lanes. Their rows and windows are not shown.
        first, last: the times that span the picture.
        in_microseconds: whether times are microseconds since the epoch.
        is_event_time: whether rows are drawn at event time rather than the clock.
    """

    points: tuple[DrawnRow, ...]
    crowd: dict[str, dict[tuple[int, int], int]]
    rows: int
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    lanes: tuple[Lanes, ...]
    windows: Crowd | None
    watermarks: tuple[tuple[int, int], ...]
    left_out: tuple[Any, ...]
    first: int
    last: int
    title: str
    in_microseconds: bool
    is_event_time: bool

    @property
    def height(self) -> int:
        """Number of lanes."""
        return sum(lanes.count for lanes in self.lanes)


def layout(trace: Trace, span: tuple[int, int] | None = None) -> Layout:
    """Return the layout of a trace for a span of time, which by default is that of the trace."""
    found = [element.key for element in trace.elements] + [window.key for window in trace.windows]
    keys = list(dict.fromkeys(map(_one_nan, found)))
    ends = [window for window in trace.windows if window.merged_into is None]
    first, last = span or span_of(trace)
    lanes, places = _lanes(trace, ends, keys[:MAX_KEYS], last)
    # If windows are only counted, the windows of all keys are.
    crowded = sum(each.count for each in lanes) > MAX_LANES or len(ends) > MAX_POINTS
    left_out = () if crowded else tuple(keys[MAX_KEYS:])
    hidden = frozenset(left_out)
    elements = [element for element in trace.elements if _one_nan(element.key) not in hidden]
    many = len(elements) > MAX_POINTS
    evicted = {number for firing in trace.firings for number in (*firing.evicted_before, *firing.evicted_after)}
    times = _times(trace)
    labelled = len(elements) <= MAX_LABELLED
    points = tuple(
        DrawnRow(each.number, times[each.number], at, each.fate, each.number in evicted, _short(each.value) if labelled else "")
        for at, each in enumerate(elements)
    )
    return Layout(
        points=() if many else points,
        crowd=_counted(points, first, last) if many else {},
        rows=len(elements),
        bars=() if crowded else tuple(_bar(trace, window, places[window.number]) for window in ends if window.number in places),
        marks=() if crowded else tuple(_marks(trace, ends, places)),
        lanes=() if crowded else tuple(lanes),
        windows=_crowd(trace, ends, first, last) if crowded else None,
        watermarks=_reached(trace, [element.step for element in elements]),
        left_out=left_out,
        first=first,
        last=last,
        title=trace.description,
        in_microseconds=trace.in_microseconds,
        is_event_time=not by_clock(trace),
    )


def span_of(trace: Trace) -> tuple[int, int]:
    """Return the first and last time of rows and windows, which the watermark may exceed."""
    times = _times(trace)
    for window in trace.windows:
        if isinstance(window.window, TimeWindow) and window.merged_into is None:
            times += [window.window.start, min(window.window.end, MAX_TIMESTAMP)]
            times += [window.window.end + trace.allowed_lateness] if _stays(trace) else []
    moved = trace.clocks if by_clock(trace) else trace.watermarks
    times = times or [each.time for each in moved if each.time < MAX_TIMESTAMP] or [0]
    first, last = min(times), max(times)
    return (first, last) if first < last else (first - 1, last + 1)


def by_clock(trace: Trace) -> bool:
    """Return whether rows are drawn at arrival, as for windows of the clock, and for global windows if the clock advanced."""
    return not trace.is_event_time and bool(trace.clocks)


def _times(trace: Trace) -> list[int]:
    return [element.clock if by_clock(trace) else element.timestamp for element in trace.elements]


def _stays(trace: Trace) -> bool:
    return trace.is_event_time and trace.allowed_lateness > 0


def _one_nan(key: Any) -> Any:
    """Return the key with one shared NaN object, so that sets and dicts find it."""
    if isinstance(key, tuple):
        return tuple(map(_one_nan, key))
    return nan if isinstance(key, float) and isnan(key) else key


def _lanes(trace: Trace, ends: list[TracedWindow], keys: list[Any], last: int) -> tuple[list[Lanes], dict[int, int]]:
    """Assign lanes so that windows in a lane do not overlap. Return the lanes of each key, and the lane of each window number."""
    lanes, places, first = list[Lanes](), dict[int, int](), 0
    for key in keys:
        taken: list[int] = []  # when each lane becomes free
        for window in sorted((each for each in ends if same_key(each.key, key)), key=_order):
            bounds = window.window
            start, end = (bounds.start, bounds.end) if isinstance(bounds, TimeWindow) else (MIN_TIMESTAMP, last + 1)
            end += trace.allowed_lateness if _stays(trace) else 0
            lane = next((at for at, until in enumerate(taken) if until <= start), len(taken))
            taken[lane : lane + 1] = [end]
            places[window.number] = first + lane
        lanes.append(Lanes(key, first, max(len(taken), 1)))
        first += max(len(taken), 1)
    return lanes, places


def _order(window: TracedWindow) -> tuple[int, int, int]:
    bounds = window.window
    return (bounds.start, bounds.end, window.number) if isinstance(bounds, TimeWindow) else (MIN_TIMESTAMP, 0, window.number)


def _bar(trace: Trace, window: TracedWindow, lane: int) -> Bar:
    bounds, timed = window.window, isinstance(window.window, TimeWindow)
    parts = [trace.windows[number].window for number in _all_parts(trace, window) if not trace.windows[number].merged_from]
    return Bar(
        window=window.number,
        lane=lane,
        start=bounds.start if isinstance(bounds, TimeWindow) else None,
        end=bounds.end if isinstance(bounds, TimeWindow) else None,
        until=bounds.end + trace.allowed_lateness if isinstance(bounds, TimeWindow) and _stays(trace) else None,
        parts=tuple((part.start, part.end) for part in parts if timed and isinstance(part, TimeWindow)),
        is_open=window.cleared is None,
    )


def _all_parts(trace: Trace, window: TracedWindow) -> Iterable[int]:
    left = list(window.merged_from)
    while left:
        number = left.pop(0)
        yield number
        left += trace.windows[number].merged_from


def _marks(trace: Trace, ends: list[TracedWindow], places: dict[int, int]) -> Iterable[Mark]:
    for window in ends:
        if window.number in places:
            firings = [*window.firings, *(firing for part in _all_parts(trace, window) for firing in trace.windows[part].firings)]
            for firing in sorted(firings, key=lambda each: each.step):
                x, text = _place(trace, firing), _short(firing.results[0]) if len(firing.results) == 1 else ""
                yield Mark(firing.window, firing.number, places[window.number], x, firing.which, text)


def _place(trace: Trace, firing: Firing) -> int:
    """Return the time at which a firing is drawn, which is the end of time if the end of input caused it."""
    cause = firing.cause
    if cause.element is None:
        bounds = trace.windows[firing.window].window
        return bounds.end if isinstance(bounds, TimeWindow) and cause.time == bounds.max_timestamp() else cause.time
    if by_clock(trace):
        return firing.clock
    return max(cause.time, firing.watermark) if firing.which == "late" else cause.time


def _reached(trace: Trace, arrivals: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the times reached after given numbers of rows.

    There are none if only the end of input advanced time, or if the watermarks of several keys would make one line.
    """
    moved = trace.clocks if by_clock(trace) else trace.watermarks
    if moved and (moved[0].time >= MAX_TIMESTAMP or any(each.of != moved[0].of for each in moved)):
        return ()
    found, at = list[tuple[int, int]](), 0
    for each in moved:
        while at < len(arrivals) and arrivals[at] < each.step:
            at += 1
        found.append((at, each.time))
    return tuple(found)


def _counted(points: tuple[DrawnRow, ...], first: int, last: int) -> dict[str, dict[tuple[int, int], int]]:
    """Count rows by fate, and by cell of time and arrival."""
    wide, high = max((last - first) / BINS, 1), max(len(points) / (BINS // 2), 1)
    cells: dict[str, Counter[tuple[int, int]]] = {}
    for point in points:
        cells.setdefault(point.fate, Counter())[int((point.x - first) // wide), int(point.y // high)] += 1
    return {fate: dict(counts) for fate, counts in cells.items()}


def _crowd(trace: Trace, ends: list[TracedWindow], first: int, last: int) -> Crowd:
    """Count the windows that end in each cell of time, and the firings."""
    width = max(-(-(last - first) // BINS), 1)
    cells: dict[str, Counter[int]] = {"window": Counter()}
    for window in ends:
        end = window.window.end - 1 if isinstance(window.window, TimeWindow) else last
        cells["window"][min(end, last) // width] += 1
    for firing in trace.firings:
        bounds, at = trace.windows[firing.window].window, _place(trace, firing)
        at -= isinstance(bounds, TimeWindow) and at == bounds.end  # in the cell that counts its window
        cells.setdefault(firing.which, Counter())[min(max(at, first), last) // width] += 1
    return Crowd(width, {kind: dict(counts) for kind, counts in cells.items()})


def _short(value: Any) -> str:
    """Return the text of a value if it is short enough for a picture. A row with one column counts as its value."""
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 12 and text.isprintable() else ""


_S, _DAY = 1_000_000, 86_400_000_000
_NICE = (1, 2, 5)
_STEPS = (
    *(nice * 10**power for power in range(6) for nice in _NICE),
    *(_S * each for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)),
    *(_DAY * each for each in (1, 2, 7, 14, 28, 91, 182, 364, 3640, 36_400)),
)


def ticks(first: int, last: int, most: int, *, in_microseconds: bool) -> tuple[list[int], list[str], str]:
    """Return the positions of ticks, their labels, and the label part that all of them share for the axis.

    >>> ticks(0, 90_000_000, 4, in_microseconds=True)
    ([0, 30000000, 60000000, 90000000], ['00:00:00', '00:00:30', '00:01:00', '00:01:30'], '')
    >>> ticks(0, 23, 5, in_microseconds=False)
    ([0, 5, 10, 15, 20], ['0', '5', '10', '15', '20'], '')
    """
    length = last - first
    if not in_microseconds or not MIN_TIMESTAMP < first < last < MAX_TIMESTAMP:
        step = next(nice * 10**power for power in range(20) for nice in _NICE if length <= most * nice * 10**power)
        times = list(range(-(-first // step) * step, last + 1, step))
        return times, list(map(str, times)), ""
    step = next((each for each in _STEPS if length <= most * each), _STEPS[-1])
    times = list(range(-(-first // step) * step, last + 1, step))
    exact = min(step, _S) if step % (60 * _S) else step  # to the second unless the step is whole minutes
    # Examples count from the epoch, so their day is meaningless.
    from_the_epoch = abs(first) < _DAY and abs(last) < _DAY
    one_day = from_the_epoch or first // _DAY == (last - 1) // _DAY
    texts = [clock(time, exact, day=not one_day) for time in times]
    day = clock(first, _DAY) if one_day and not from_the_epoch and step < _DAY else ""
    return times, texts, day
