"""Reduction of composed triggers: the plain trigger that fires the same windows with the same results and may run on columns.

The row operator always runs a composition as written, so that its stored state does not depend on the lateness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from panestream.engine.query import WindowSpec
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.triggers import (
    AfterCount,
    AfterWatermark,
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Repeatedly,
    Trigger,
)
from panestream.windowing.triggers.composition import Composition, all_parts

AT_EVERY_ROW = AfterWatermark().early(AfterCount(1)).late(AfterCount(1))
"""Fires at every row, early and late, and at the end. Not a trigger of Flink, but columns can run it once per micro-batch."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """The plain equivalent of a composed trigger (or :data:`AT_EVERY_ROW`), or None and the reason why nothing is equivalent."""

    trigger: Trigger | None
    why_not: str = ""

    def reasons(self, of_plain: Sequence[str]) -> Sequence[str]:
        """Return why no operator on columns runs the trigger, given why none runs the plain one."""
        if self.trigger is None:
            return [self.why_not]
        return [*of_plain, *([] if self.trigger == AT_EVERY_ROW else [f"the composed trigger is the same as {self.trigger!r}"])]


def reduction(window: WindowSpec) -> Reduction | None:
    """Return the reduction of a query's trigger, or None if the trigger is not a composition.

    >>> from panestream.windowing.assigners import TumblingEventTimeWindows
    >>> reduction(WindowSpec(TumblingEventTimeWindows.of("1 minute"), AfterWatermark())).trigger
    EventTimeTrigger.create()
    """
    trigger = window.firing_trigger
    discards = isinstance(trigger, PurgingTrigger)
    inner = trigger.inner if isinstance(trigger, PurgingTrigger) else trigger
    if not isinstance(inner, Composition):
        return None
    plain = _plain(inner, window)
    if isinstance(plain, str):
        return Reduction(None, f"{inner!r} does not come to a trigger of columns: {plain}")
    if discards and plain == AT_EVERY_ROW:
        return Reduction(None, "what fires at every row and discards gives every row by itself")
    return Reduction(PurgingTrigger.of(plain) if discards else plain)


def _plain(trigger: Trigger, window: WindowSpec) -> Trigger | str:
    """Return the plain trigger, or the reason why none is equivalent."""
    if isinstance(trigger, Repeatedly):
        return _repeated(trigger.inner, window)
    if not isinstance(trigger, AfterWatermark):
        return f"{type(trigger).__name__} is asked row by row"
    if not window.assigner.is_event_time or isinstance(window.assigner, GlobalWindows):
        return "the watermark says nothing of such windows"
    late, early = trigger.late_firings, trigger.early_firings
    # Without allowed lateness no row comes after the end.
    if window.allowed_lateness and late is None:
        return "it drops the rows that come within the allowed lateness; .late(AfterCount.of(1)) has each fire again"
    if window.allowed_lateness and not _at_every_row(late):
        return f"late firings of {late!r}, not at every row"
    return EventTimeTrigger.create() if early is None else _with_early(early)


def _with_early(early: Trigger) -> Trigger | str:
    if _at_every_row(early):
        return AT_EVERY_ROW
    early = early.inner if isinstance(early, Repeatedly) else early
    if type(early) is ContinuousEventTimeTrigger:
        return early
    clock = "the clock, while windows end by the watermark" if early.uses_processing_time else f"{early!r}"
    return f"early firings by {clock}"


def _repeated(inner: Trigger, window: WindowSpec) -> Trigger | str:
    while isinstance(inner, Repeatedly):
        inner = inner.inner
    if type(inner) is AfterCount:
        return CountTrigger(inner.count)
    if type(inner) is AfterWatermark and inner.late_firings is None:
        # A restarted trigger fires at every row after the end.
        return _plain(inner.late(AfterCount(1)), window)
    return f"{inner!r} is asked row by row" if isinstance(inner, Composition) else inner


def _at_every_row(trigger: Trigger | None) -> bool:
    while isinstance(trigger, Repeatedly):
        trigger = trigger.inner
    return trigger == AfterCount(1) or (type(trigger) is CountTrigger and trigger.count <= 1)


def reduced(window: WindowSpec) -> WindowSpec:
    """Return the windows with a composed trigger replaced by its plain equivalent, if it has one."""
    found = reduction(window)
    return window if found is None or found.trigger is None else replace(window, trigger=found.trigger)


def told(window: WindowSpec, *, columnar: bool) -> list[str]:
    """Return the lines of ``explain()`` about a composed trigger, which an operator on columns runs if ``columnar``."""
    found, lines = reduction(window), []
    if found is not None and columnar:
        same = "fires once a micro-batch, if rows came" if found.trigger == AT_EVERY_ROW else f"the same as {found.trigger!r}"
        lines.append(f"{window.firing_trigger!r}: {same}")
    outermost = next((part for part in all_parts(window.firing_trigger) if isinstance(part, Composition)), None)
    if outermost is not None and outermost.can_finish and (not columnar or window.allowed_lateness):
        lines.append("it may finish: rows that come for a window after its last firing are dropped, and not counted as late")
    return lines


__all__ = ["AT_EVERY_ROW", "Reduction", "reduced", "reduction", "told"]
