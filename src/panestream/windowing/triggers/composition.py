"""The base class of composed triggers, and their nodes, each with its own timers and state in the window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import or_
from typing import Any

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.state import ReducingState, ReducingStateDescriptor, ValueState, ValueStateDescriptor
from panestream.windowing.triggers.base import OnMergeContext, PurgingTrigger, Trigger, TriggerContext, TriggerResult, check_inner
from panestream.windowing.triggers.time import ProcessingTimeoutTrigger
from panestream.windowing.windows import Window

EVENT_TIMERS = ValueStateDescriptor("event timers")
CLOCK_TIMERS = ValueStateDescriptor("clock timers")
"""By time: the places of the waiting nodes. A window has one timer for an instant, however many nodes wait for it."""


class TimerSet:
    """The nodes that wait for instants of one kind of time. A timer is deleted once no node waits for it."""

    __slots__ = ("_delete", "_register", "_state")

    def __init__(self, state: ValueState, register: Callable[[int], None], delete: Callable[[int], None]) -> None:
        self._state = state
        self._register = register
        self._delete = delete

    def add(self, place: str, time: int) -> None:
        """Let a node wait for an instant, if it does not yet."""
        known = self._state.value() or {}
        places = known.get(time, ())
        if place not in places:
            self._register(time)
            self._keep({**known, time: [*places, place]})

    def discard(self, place: str, time: int | None = None) -> None:
        """Stop a node from waiting for an instant, or with None for any."""
        known = self._state.value()
        if known is None:
            return
        left = {}
        for instant, places in known.items():
            others = [other for other in places if other != place] if time in (None, instant) else places
            if others:
                left[instant] = others
            else:
                self._delete(instant)
        self._keep(left)

    def take(self, time: int) -> list[str]:
        """Remove and return the places that waited for this instant, which has come."""
        known = dict(self._state.value() or {})
        places: list[str] = known.pop(time, [])
        if places:
            self._keep(known)
        return places

    def clear(self) -> None:
        """Delete all timers."""
        for time in self._state.value() or ():
            self._delete(time)
        self._state.clear()

    def _keep(self, waiting: dict[int, list[str]]) -> None:
        if waiting:
            self._state.update(waiting)
        else:
            self._state.clear()


class EvaluationContext:
    """A decision of a composed trigger: time, waiting nodes, and states. ``purges`` is set by nodes that drop the contents.

    While timers run, ``watermark`` and ``clock`` are the timer's time, so that a jump over many instants is processed in order.
    """

    __slots__ = ("_clock_timers", "_event_timers", "clock", "ctx", "purges", "watermark", "window")

    def __init__(self, ctx: TriggerContext, window: Window, *, watermark: int | None = None, clock: int | None = None) -> None:
        self.ctx = ctx
        self.window = window
        self.watermark = ctx.get_current_watermark() if watermark is None else watermark
        self.clock = ctx.get_current_processing_time() if clock is None else clock
        self.purges = False
        self._event_timers: TimerSet | None = None
        self._clock_timers: TimerSet | None = None

    @property
    def event_timers(self) -> TimerSet:
        if self._event_timers is None:
            ctx = self.ctx
            state = ctx.get_partitioned_state(EVENT_TIMERS)
            self._event_timers = TimerSet(state, ctx.register_event_time_timer, ctx.delete_event_time_timer)
        return self._event_timers

    @property
    def clock_timers(self) -> TimerSet:
        if self._clock_timers is None:
            ctx = self.ctx
            state = ctx.get_partitioned_state(CLOCK_TIMERS)
            self._clock_timers = TimerSet(state, ctx.register_processing_time_timer, ctx.delete_processing_time_timer)
        return self._clock_timers

    def reducing(self, descriptor: ReducingStateDescriptor) -> ReducingState:
        return self.ctx.get_partitioned_state(descriptor)

    def merged(self, descriptor: ReducingStateDescriptor) -> ReducingState:
        """Return a node's state, merged from the windows that merge."""
        ctx: Any = self.ctx
        ctx.merge_partitioned_state(descriptor)
        return self.reducing(descriptor)


class Node(ABC):
    """An immutable part of a composed trigger; its state is in the window, under names that begin with ``place``."""

    __slots__ = ("children", "place")

    def __init__(self, place: str, *children: Node) -> None:
        self.place = place
        self.children = children

    @property
    @abstractmethod
    def can_finish(self) -> bool:
        """True if the node may finish, and then never fires again."""

    @abstractmethod
    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        """Handle a row."""

    @abstractmethod
    def is_ready(self, now: EvaluationContext) -> bool:
        """Return whether this node wants the window to fire."""

    @abstractmethod
    def fire(self, now: EvaluationContext) -> bool:
        """Handle a firing for which the node was ready; return whether it has finished."""

    def timer(self, time: int, places: list[str], now: EvaluationContext, *, event_time: bool) -> None:
        """Handle an instant for which the nodes at ``places`` have waited."""
        for child in self.children:
            child.timer(time, places, now, event_time=event_time)

    def begin(self, now: EvaluationContext) -> None:
        """Start its turn, in a window that already has rows."""
        for child in self.children:
            child.begin(now)

    def merge(self, now: EvaluationContext) -> None:
        """Merge states and register timers after windows merged."""
        for child in self.children:
            child.merge(now)

    def reset(self, now: EvaluationContext) -> None:
        """Start again."""
        for child in self.children:
            child.reset(now)

    def clear(self, now: EvaluationContext) -> None:
        """Delete all state and timers."""
        for child in self.children:
            child.clear(now)


class LeafTrigger(Node):
    """A trigger that is not composed. Once ready, it stays ready until the composition fires, and it never finishes."""

    __slots__ = ("_said", "_trigger")

    def __init__(self, place: str, trigger: Trigger) -> None:
        super().__init__(place)
        self._trigger = trigger
        self._said = ReducingStateDescriptor(f"{place}said", or_)

    @property
    def can_finish(self) -> bool:
        return False

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        self._hear(self._trigger.on_element(element, timestamp, now.window, GuestContext(now, self.place)), now)

    def timer(self, time: int, places: list[str], now: EvaluationContext, *, event_time: bool) -> None:
        if self.place in places:
            call = self._trigger.on_event_time if event_time else self._trigger.on_processing_time
            self._hear(call(time, now.window, GuestContext(now, self.place)), now)

    def _hear(self, result: TriggerResult, now: EvaluationContext) -> None:
        if not isinstance(result, TriggerResult):
            raise InvalidPlanError(f"{self._trigger!r} returned {result!r}: its callbacks return a TriggerResult")
        if result.is_fire():
            now.reducing(self._said).add(int(result))
        elif result.is_purge():
            now.purges = True

    def is_ready(self, now: EvaluationContext) -> bool:
        return now.reducing(self._said).get() is not None

    def fire(self, now: EvaluationContext) -> bool:
        said = now.reducing(self._said)
        now.purges |= TriggerResult(said.get()).is_purge()
        said.clear()
        return False

    def merge(self, now: EvaluationContext) -> None:
        now.merged(self._said)
        self._trigger.on_merge(now.window, GuestContext(now, self.place))

    def reset(self, now: EvaluationContext) -> None:
        self.clear(now)

    def clear(self, now: EvaluationContext) -> None:
        self._trigger.clear(now.window, GuestContext(now, self.place))
        now.reducing(self._said).clear()
        now.event_timers.discard(self.place)
        now.clock_timers.discard(self.place)


class GuestContext:
    """The :class:`OnMergeContext` of a guest, with separate states and timers in the window."""

    __slots__ = ("_now", "_place")

    def __init__(self, now: EvaluationContext, place: str) -> None:
        self._now = now
        self._place = place

    def get_current_watermark(self) -> int:
        return self._now.ctx.get_current_watermark()

    def get_current_processing_time(self) -> int:
        return self._now.ctx.get_current_processing_time()

    def register_event_time_timer(self, time: int) -> None:
        self._now.event_timers.add(self._place, time)

    def register_processing_time_timer(self, time: int) -> None:
        self._now.clock_timers.add(self._place, time)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete only the guest's timer, since others may wait for the same instant."""
        self._now.event_timers.discard(self._place, time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._now.clock_timers.discard(self._place, time)

    def get_partitioned_state(self, descriptor: Any) -> Any:
        return self._now.ctx.get_partitioned_state(placed(descriptor, self._place))

    def merge_partitioned_state(self, descriptor: ReducingStateDescriptor) -> None:
        ctx: Any = self._now.ctx
        merging: OnMergeContext = ctx
        merging.merge_partitioned_state(placed(descriptor, self._place))


def placed(descriptor: Any, place: str) -> Any:
    """Return a descriptor with a place as the prefix of its name.

    >>> placed(ValueStateDescriptor("last"), "early.")
    ValueStateDescriptor(name='early.last', ttl=None)
    """
    try:
        return _known(descriptor, place)
    except TypeError:  # a function that cannot be hashed
        return replace(descriptor, name=place + descriptor.name)


@lru_cache(maxsize=1024)
def _known(descriptor: Any, place: str) -> Any:
    # Each new descriptor reads the signature of its reduce function, which would be the most expensive part of a call.
    return replace(descriptor, name=place + descriptor.name)


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
            f"{part!r} inside of {outer}: only the whole trigger can accumulate or discard firings. Write "
            f"PurgingTrigger.of(...) around it, and leave it out inside: {part.inner!r}"
        )


def check_several(triggers: object, outer: str) -> None:
    """Raise InvalidWindowError unless it is a tuple with at least one element."""
    if not isinstance(triggers, tuple) or not triggers:
        raise InvalidWindowError(
            f"{outer} needs triggers, e.g. {outer}.of(AfterCount.of(100), AfterWatermark()); got {triggers!r}"
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
