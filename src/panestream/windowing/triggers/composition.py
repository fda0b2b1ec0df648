"""The base class of composed triggers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.triggers.base import OnMergeContext, Trigger, TriggerContext, TriggerResult, check_inner
from panestream.windowing.triggers.nodes import EvaluationContext, LeafTrigger, Node
from panestream.windowing.triggers.purging import PurgingTrigger
from panestream.windowing.triggers.timeout import ProcessingTimeoutTrigger
from panestream.windowing.windows import Window

FINISHED = ReducingStateDescriptor("finished", min)
"""1 if the trigger has finished, or 0. A merged window has finished if all its parts had."""


@dataclass(frozen=True, slots=True, repr=False)
class Composition(Trigger):
    """A trigger that combines others, as in Apache Beam.

    After every row, and at each instant for which one of its parts has waited, it decides once whether the window fires. A part
    that fires may have *finished*. When the whole has finished, the window never fires again, and later rows are dropped.
    """

    _node: Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for part in self.parts:
            check_part(part, type(self).__name__)
        object.__setattr__(self, "_node", self.node(""))

    @property
    @abstractmethod
    def parts(self) -> tuple[Trigger, ...]:
        """The combined triggers."""

    @abstractmethod
    def node(self, place: str) -> Node:
        """Return the node that implements it, at a place in a composition."""

    @property
    def can_finish(self) -> bool:
        """True if the window may stop firing at some time."""
        return self._node.can_finish

    @property
    def uses_processing_time(self) -> bool:
        return any(part.uses_processing_time for part in self.parts)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        if self._has_finished(ctx):
            return TriggerResult.PURGE
        now = EvaluationContext(ctx, window)
        self._node.element(element, timestamp, now)
        return self._decided(now)

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return self._on_timer(time, EvaluationContext(ctx, window, watermark=time), event_time=True)

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        # A timer is called when the clock has passed it.
        return self._on_timer(time, EvaluationContext(ctx, window, clock=time + 1), event_time=False)

    def _on_timer(self, time: int, now: EvaluationContext, *, event_time: bool) -> TriggerResult:
        places = (now.event_timers if event_time else now.clock_timers).take(time)
        if not places:
            return TriggerResult.CONTINUE  # another timer, such as the window's cleanup timer
        self._node.timer(time, places, now, event_time=event_time)
        return self._decided(now)

    def _decided(self, now: EvaluationContext) -> TriggerResult:
        if not self._node.is_ready(now):
            return TriggerResult.PURGE if now.purges else TriggerResult.CONTINUE
        if self._node.fire(now):
            self._finish(now)
            return TriggerResult.FIRE_AND_PURGE  # contents are not needed after the last firing
        return TriggerResult.FIRE_AND_PURGE if now.purges else TriggerResult.FIRE

    def _has_finished(self, ctx: TriggerContext) -> bool:
        if not self.can_finish:
            return False
        finished = ctx.get_partitioned_state(FINISHED)
        if finished.get() is None:
            finished.add(0)  # so that merging with a finished window does not finish this one
        return bool(finished.get())

    def _finish(self, now: EvaluationContext) -> None:
        self._node.clear(now)
        finished = now.reducing(FINISHED)
        finished.clear()
        finished.add(1)

    def can_merge(self) -> bool:
        return all(part.can_merge() for part in self.parts)

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        now = EvaluationContext(ctx, window)
        if not self.can_finish or now.merged(FINISHED).get() != 1:
            self._node.merge(now)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        now = EvaluationContext(ctx, window)
        self._node.clear(now)
        now.reducing(FINISHED).clear()


def node_of(trigger: Trigger, place: str) -> Node:
    """Return the node of a trigger at a place in a composition."""
    return trigger.node(place) if isinstance(trigger, Composition) else LeafTrigger(place, trigger)


def nodes_of(triggers: tuple[Trigger, ...], place: str) -> list[Node]:
    """Return the nodes of several triggers, at numbered places."""
    return [node_of(trigger, f"{place}{number}.") for number, trigger in enumerate(triggers)]


def check_part(part: object, outer: str) -> None:
    """Check that an object can be a part of a composition, i.e. a trigger that does not purge."""
    check_inner(part, outer)
    if isinstance(part, PurgingTrigger):
        raise InvalidWindowError(
            f"{part!r} inside of {outer}: whether firings accumulate or discard is said once, of the whole trigger. Write "
            f"PurgingTrigger.of(...) around it, and leave it out inside: {part.inner!r}"
        )


def check_several(triggers: object, outer: str) -> None:
    """Raise InvalidWindowError unless it is a tuple with at least one element."""
    if not isinstance(triggers, tuple) or not triggers:
        raise InvalidWindowError(
            f"{outer} wants triggers, e.g. {outer}.of(AfterCount.of(100), AfterWatermark()); got {triggers!r}"
        )


def all_parts(trigger: Trigger) -> Iterator[Trigger]:
    """Yield a trigger and all its inner triggers.

    >>> from panestream.windowing.triggers.count import CountTrigger
    >>> list(all_parts(PurgingTrigger.of(CountTrigger.of(3))))
    [PurgingTrigger.of(CountTrigger.of(3)), CountTrigger.of(3)]
    """
    yield trigger
    parts = trigger.parts if isinstance(trigger, Composition) else ()
    if isinstance(trigger, (PurgingTrigger, ProcessingTimeoutTrigger)):
        parts = (trigger.inner,)
    for part in parts:
        yield from all_parts(part)


__all__ = ["Composition", "all_parts", "check_part", "check_several", "node_of", "nodes_of"]
