"""Whether aligned panes can run a query, and how; else why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from panestream.engine.aggregation import Aggregation
from panestream.engine.operators.panes.accumulating import AccumulatingOperation
from panestream.engine.operators.panes.early import HIDDEN, HIDDEN_TYPES, Interval
from panestream.engine.operators.panes.evicting import why_not_evicted
from panestream.engine.operators.panes.operation import PaneOperation
from panestream.engine.operators.panes.windowed_rows import OverRows
from panestream.engine.slicing import AlignedWindows, CumulatingWindows, PaneGrid, SlidingWindows
from panestream.errors import InvalidPlanError
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    SeveralWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)

if TYPE_CHECKING:
    from panestream.engine.planner import Windowing

_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
_CUMULATING = (CumulatingEventTimeWindows, CumulatingProcessingTimeWindows)


def why_not_panes(windowing: Windowing) -> list[str]:
    """Why windows cannot run as aligned panes of declared aggregates; empty where they can."""
    reasons = why_not_aligned(windowing.assigner)
    if windowing.evictor is not None:
        reasons.append("an evictor needs all elements")
    if windowing.exact_firings:
        reasons.append("exact firings were asked for")
    return reasons or _why_not_trigger(windowing)


def why_not_aligned(assigner: WindowAssigner) -> list[str]:
    """Why windows have no panes; empty where they have."""
    if isinstance(assigner, SeveralWindows):
        return [reason for one in assigner.assigners for reason in why_not_aligned(one)]
    if not isinstance(assigner, (*_TUMBLING, *_SLIDING, *_CUMULATING)):
        return [f"{type(assigner).__name__} are not aligned windows"]
    if getattr(assigner, "stagger", WindowStagger.ALIGNED) is not WindowStagger.ALIGNED:
        return ["staggered windows differ between key groups"]
    return []


def pane_grid(assigner: WindowAssigner) -> PaneGrid:
    """The panes under aligned windows."""
    assigners = assigner.assigners if isinstance(assigner, SeveralWindows) else (assigner,)
    return PaneGrid.of(*map(_aligned, assigners))


def aggregating_panes(
    windowing: Windowing, aggregates: Sequence[Aggregate], types: Mapping[str, pa.DataType], keys: pa.Schema
) -> PaneOperation:
    """The operation for windows of which :func:`why_not_panes` has nothing to say.

    Args:
        windowing: the windows.
        aggregates: the recipes.
        types: of the expressions that they take.
        keys: the key columns.

    Raises:
        InvalidPlanError: an aggregate does not take its type; a column is called as the label of several windows is.
    """
    if isinstance(windowing.assigner, SeveralWindows) and "window" in [*keys.names, *(one.name for one in aggregates)]:
        raise InvalidPlanError("results of several windows have a column 'window' with the label: rename the other one")
    interval = _interval(windowing)
    hidden = HIDDEN if interval is not None else ()
    aggregation = Aggregation.build([*aggregates, *hidden], {**types, **(HIDDEN_TYPES if hidden else {})}, keys)
    by_clock = not windowing.assigner.is_event_time
    again = bool(windowing.allowed_lateness) and not by_clock
    return PaneOperation(pane_grid(windowing.assigner), tuple(aggregates), aggregation, by_clock, interval, again)


def why_not_rows(windowing: Windowing) -> list[str]:
    """Why windows cannot run as panes of whole rows; empty where they can."""
    assigner = windowing.assigner
    if isinstance(assigner, SeveralWindows):
        return ["several windows in one query need declared aggregates"]
    reasons = why_not_panes(replace(windowing, evictor=None))
    reasons += why_not_evicted(windowing.evictor, windowing.allowed_lateness)
    if not reasons and not assigner.is_event_time:
        reasons = ["panes of whole rows know event time only"]
    if not reasons and _interval(windowing) is not None:
        reasons = [f"panes of whole rows fire at the end of the window, not as {windowing.trigger!r} says"]
    return reasons


def accumulating_panes(
    windowing: Windowing, function: OverRows, results: pa.Schema, rows: pa.Schema, keys: pa.Schema
) -> AccumulatingOperation:
    """The operation for windows of which :func:`why_not_rows` has nothing to say.

    Args:
        windowing: the windows.
        function: what sees the rows of each.
        results: the columns of what it returns, after keys and window.
        rows: the columns of the input.
        keys: the key columns.
    """
    return AccumulatingOperation(pane_grid(windowing.assigner), function, results, rows, keys, windowing.evictor)


def refuse_several(assigner: WindowAssigner, reasons: Sequence[str]) -> None:
    """Says no to several kinds of windows that panes cannot run: the row operator tells windows apart by bounds, not by labels.

    Raises:
        InvalidPlanError: there are several.
    """
    if isinstance(assigner, SeveralWindows):
        raise InvalidPlanError(f"several windows in one query run as aligned panes only, and cannot here: {'; '.join(reasons)}")


def _aligned(assigner: WindowAssigner) -> AlignedWindows:
    if isinstance(assigner, _TUMBLING):
        return SlidingWindows(assigner.size, assigner.size, assigner.offset)
    if isinstance(assigner, _SLIDING):
        return SlidingWindows(assigner.size, assigner.slide, assigner.offset)
    if isinstance(assigner, _CUMULATING):
        return CumulatingWindows(assigner.size, assigner.step, assigner.offset)
    raise TypeError(f"{assigner!r} has no panes")


def _why_not_trigger(windowing: Windowing) -> list[str]:
    trigger, by_clock = _trigger(windowing), not windowing.assigner.is_event_time
    purging = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    at_end = ProcessingTimeTrigger if by_clock else EventTimeTrigger
    continuous = ContinuousProcessingTimeTrigger if by_clock else ContinuousEventTimeTrigger
    if type(inner) not in (at_end, continuous):
        return [f"the trigger {trigger!r} looks at single rows, or at another time than its windows"]
    if purging and windowing.allowed_lateness and not by_clock:
        return ["a purging trigger fires every late row by itself"]
    if purging and isinstance(inner, continuous) and pane_grid(windowing.assigner).overlaps:
        return ["a purging trigger takes rows out of one of several overlapping windows"]
    return []


def _interval(windowing: Windowing) -> Interval | None:
    trigger = _trigger(windowing)
    purging = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if isinstance(inner, (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger)):
        return Interval(inner.interval, purging)
    return None


def _trigger(windowing: Windowing) -> Trigger:
    return windowing.trigger or windowing.assigner.get_default_trigger()


__all__ = [
    "accumulating_panes",
    "aggregating_panes",
    "pane_grid",
    "refuse_several",
    "why_not_aligned",
    "why_not_panes",
    "why_not_rows",
]
