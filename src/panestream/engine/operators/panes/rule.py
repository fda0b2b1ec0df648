"""The aligned windows that run as panes, and why others do not."""

from __future__ import annotations

from panestream.engine.kernels.calendar_grid import (
    BusinessLine,
    EvenLine,
    Line,
    LineGrid,
    LineWindows,
    MonthLine,
    SoFarWindows,
    WallClock,
    ZonedGrid,
    ZonedWindows,
    calendar_grid,
)
from panestream.engine.kernels.panes import AlignedWindows, CumulatingWindows, EvenGrid, EvenWindows, PaneGrid, SlidingWindows
from panestream.engine.operators.panes.firing import Interval
from panestream.engine.plan import WindowQuery
from panestream.engine.rule import AT_EVERY_ROW
from panestream.windowing.assigners import (
    BusinessDays,
    BusinessHours,
    CalendarDays,
    CalendarHours,
    CalendarMonths,
    CalendarQuarters,
    CalendarWeeks,
    CalendarWindows,
    CalendarYears,
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import format_duration
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from panestream.windowing.zones import DAY

EVEN = (CalendarHours, CalendarDays, CalendarWeeks)
OF_MONTHS = (CalendarMonths, CalendarQuarters, CalendarYears)
OF_BUSINESS = (BusinessDays, BusinessHours)
CALENDAR = (*EVEN, *OF_MONTHS, *OF_BUSINESS)
_HOUR = DAY // 24


def calendar_windows(assigner: CalendarWindows) -> AlignedWindows:
    """Return the windows of an assigner that is one of :data:`CALENDAR`."""
    return ZonedWindows(_of_wall_clock(assigner), WallClock(assigner.rules))


def _of_wall_clock(one: CalendarWindows) -> AlignedWindows:
    every = one.every or one.count
    if isinstance(one, OF_BUSINESS):
        opens, closes = (one.opens, one.closes) if isinstance(one, BusinessHours) else (one.offset, one.offset + DAY)
        days = one.workdays, one.days_off
        return LineWindows(BusinessLine(*days, opens), BusinessLine(*days, closes, shift=1), one.count, every, gaps=True)
    if isinstance(one, OF_MONTHS):
        months = one.months * (1 if one.step is None else one.count)
        line: Line = MonthLine(months, one.phase, one.offset)
        return LineWindows(line, line, one.count, every) if one.step is None else SoFarWindows(line, _steps(one))
    assert isinstance(one, EVEN)  # noqa: S101 - there is no other
    unit = one.longest_unit
    if one.step is None:
        return SlidingWindows(one.count * unit, every * unit, one.begins_at)
    return SoFarWindows(EvenLine(one.count * unit, one.begins_at), _steps(one))


def _steps(one: CalendarWindows) -> Line:
    if one.step == "month":
        return MonthLine(1, 0, one.offset)
    width = _HOUR if one.step == "hour" else DAY
    return EvenLine(width, one.offset % width)


def described_panes(grid: PaneGrid) -> list[str]:
    """Return the lines of ``explain()`` about the panes of a grid."""
    if not isinstance(grid, EvenGrid):
        return [_of_calendar(grid)]
    if len(grid.windows) == 1 and grid.has_gaps:
        return [f"a pane for each window ({format_duration(grid.windows[0].longest)})"]
    if len(grid.edges) == 1:
        lengths = [one.longest // grid.period for one in grid.windows]
        most = " and ".join(str(length) for length in lengths)
        kept = f"{most} to a window" if len(lengths) == 1 else f"{most} to a window, shared"
        return [f"{format_duration(grid.period)} each, {kept}"]
    if len(grid.edges) == 2:
        first, second = format_duration(grid.edges[1]), format_duration(grid.period - grid.edges[1])
        if len(grid.windows) == 1:
            return [f"two to a slide, {first} and {second}, since the slide does not divide the size"]
        return [f"two every {format_duration(grid.period)}, {first} and {second}: one between any two edges of windows"]
    return [f"{len(grid.edges)} of unequal length every {format_duration(grid.period)}: one between any two edges of windows"]


def _of_calendar(grid: PaneGrid) -> str:
    if isinstance(grid, ZonedGrid):
        wall, most = grid.wall, f"at most {grid.longest} to a window"
        if isinstance(wall, LineGrid):
            return f"{wall.line.months} month{'s' if wall.line.months > 1 else ''} of the zone's calendar each, {most}"
        if isinstance(wall, EvenGrid) and len(wall.edges) == 1:
            return f"{format_duration(wall.period)} of the zone's clock each, {most}"
        return f"one between any two edges of windows on the zone's clock, {most}"
    return f"one between any two edges of windows, at most {grid.longest} to a window"


_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
_CUMULATING = (CumulatingEventTimeWindows, CumulatingProcessingTimeWindows)


def why_not_panes(window: WindowQuery) -> list[str]:
    """Return why windows cannot run as aligned panes of declared aggregates; empty if they can."""
    reasons = why_not_aligned(window.assigner)
    if window.evictor is not None:
        reasons.append("an evictor needs all elements")
    if window.every_firing:
        reasons.append("every firing was asked for")
    return reasons or _why_not_trigger(window)


def why_not_aligned(assigner: WindowAssigner) -> list[str]:
    """Return why windows do not have panes; empty if they do."""
    if isinstance(assigner, SeveralWindows):
        return [reason for one in assigner.assigners for reason in why_not_aligned(one)]
    if not isinstance(assigner, (*_TUMBLING, *_SLIDING, *_CUMULATING, *CALENDAR)):
        return [f"{type(assigner).__name__} are not aligned windows"]
    if getattr(assigner, "stagger", WindowStagger.ALIGNED) is not WindowStagger.ALIGNED:
        return ["staggered windows differ between key groups"]
    return []


def pane_grid(assigner: WindowAssigner) -> PaneGrid:
    """Return the panes of aligned windows."""
    assigners = assigner.assigners if isinstance(assigner, SeveralWindows) else (assigner,)
    windows = [_aligned(one) for one in assigners]
    even = [one for one in windows if isinstance(one, EvenWindows)]
    return EvenGrid.over(even) if len(even) == len(windows) else calendar_grid(windows)


def _aligned(assigner: WindowAssigner) -> AlignedWindows:
    if isinstance(assigner, CALENDAR):
        return calendar_windows(assigner)
    if isinstance(assigner, _TUMBLING):
        return SlidingWindows(assigner.size, assigner.size, assigner.offset)
    if isinstance(assigner, _SLIDING):
        return SlidingWindows(assigner.size, assigner.slide, assigner.offset)
    if isinstance(assigner, _CUMULATING):
        return CumulatingWindows(assigner.size, assigner.step, assigner.offset)
    raise TypeError(f"{assigner!r} has no panes")


def _why_not_trigger(window: WindowQuery) -> list[str]:
    trigger, by_processing_time = window.firing_trigger, not window.assigner.is_event_time
    purging = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    at_end = ProcessingTimeTrigger if by_processing_time else EventTimeTrigger
    continuous = ContinuousProcessingTimeTrigger if by_processing_time else ContinuousEventTimeTrigger
    if inner == AT_EVERY_ROW and not purging and not by_processing_time:
        return []
    if type(inner) not in (at_end, continuous):
        return [f"the trigger {trigger!r} looks at single rows, or at another time than its windows"]
    if purging and window.allowed_lateness and not by_processing_time:
        return ["a purging trigger fires every late row by itself"]
    if purging and isinstance(inner, continuous) and pane_grid(window.assigner).overlaps:
        return ["a purging trigger takes rows out of one of several overlapping windows"]
    return []


def interval_of(window: WindowQuery) -> Interval | None:
    """Return the continuous trigger, or None if windows fire at their end."""
    trigger = window.firing_trigger
    purging = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if isinstance(inner, (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)):
        return Interval(inner.interval, purging, inner.only_changed)
    return None
