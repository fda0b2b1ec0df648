"""Which queries run as aligned panes of partial aggregates."""

from __future__ import annotations

from panestream.engine.aggregates import Aggregation
from panestream.engine.kernels.calendar_grid import calendar_grid
from panestream.engine.kernels.slicing import AlignedWindows, CumulatingWindows, EvenGrid, EvenWindows, PaneGrid, SlidingWindows
from panestream.engine.operators.panes.calendars import CALENDAR, calendar_windows
from panestream.engine.operators.panes.firing import HIDDEN, HIDDEN_TYPES, Interval
from panestream.engine.operators.panes.spec import PaneSpec
from panestream.engine.reduction import AT_EVERY_ROW
from panestream.engine.rule import PYTHON, Asked, DeclaredAggregates, Supported, Unsupported
from panestream.engine.window_spec import WindowSpec
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
_CUMULATING = (CumulatingEventTimeWindows, CumulatingProcessingTimeWindows)


def panes_rule(window: WindowSpec, asked: Asked) -> Supported | Unsupported | None:
    """Aligned windows of one kind or several over declared aggregates, that fire at their end or at an interval.

    It is the last rule: of what no other knows it says why panes do not run it.
    """
    reasons = why_not_panes(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append(PYTHON)
    if reasons or not isinstance(asked, DeclaredAggregates):
        return Unsupported(reasons)
    return Supported(_spec(window, asked))


def _spec(window: WindowSpec, asked: DeclaredAggregates) -> PaneSpec:
    aggregates, assigner = tuple(asked.aggregates), window.assigner
    if isinstance(assigner, SeveralWindows) and "window" in [*asked.keys.names, *(one.name for one in aggregates)]:
        raise InvalidPlanError("results of several windows have a column 'window' with the label: rename the other one")
    interval = interval_of(window)
    hidden = HIDDEN if interval is not None else ()
    aggregation = Aggregation.build([*aggregates, *hidden], {**asked.types, **(HIDDEN_TYPES if hidden else {})}, asked.keys)
    by_processing_time = not assigner.is_event_time
    again = bool(window.allowed_lateness) and not by_processing_time
    grid, at_every_row = pane_grid(assigner), _trigger(window) == AT_EVERY_ROW
    return PaneSpec(grid, aggregates, aggregation, by_processing_time, interval, again, at_every_row)


def why_not_panes(window: WindowSpec) -> list[str]:
    """Why windows cannot run as aligned panes of declared aggregates; empty where they can."""
    reasons = why_not_aligned(window.assigner)
    if window.evictor is not None:
        reasons.append("an evictor needs all elements")
    if window.every_firing:
        reasons.append("every firing was asked for")
    return reasons or _why_not_trigger(window)


def why_not_aligned(assigner: WindowAssigner) -> list[str]:
    """Why windows have no panes; empty where they have."""
    if isinstance(assigner, SeveralWindows):
        return [reason for one in assigner.assigners for reason in why_not_aligned(one)]
    if not isinstance(assigner, (*_TUMBLING, *_SLIDING, *_CUMULATING, *CALENDAR)):
        return [f"{type(assigner).__name__} are not aligned windows"]
    if getattr(assigner, "stagger", WindowStagger.ALIGNED) is not WindowStagger.ALIGNED:
        return ["staggered windows differ between key groups"]
    return []


def pane_grid(assigner: WindowAssigner) -> PaneGrid:
    """The panes under aligned windows."""
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


def _why_not_trigger(window: WindowSpec) -> list[str]:
    trigger, by_processing_time = _trigger(window), not window.assigner.is_event_time
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


def interval_of(window: WindowSpec) -> Interval | None:
    """The continuous trigger; None: windows fire at their end."""
    trigger = _trigger(window)
    purging = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if isinstance(inner, (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)):
        return Interval(inner.interval, purging)
    return None


def _trigger(window: WindowSpec) -> Trigger:
    return window.trigger or window.assigner.get_default_trigger()


__all__ = ["interval_of", "pane_grid", "panes_rule", "why_not_aligned", "why_not_panes"]
