"""Composed triggers that wait for rows, the clock or the end of the window, and the one that repeats another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import add
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.triggers.base import PurgingTrigger, Trigger, check_inner
from panestream.windowing.triggers.composition import Composition, EvaluationContext, Node, node_of
from panestream.windowing.triggers.count import CountTrigger, DeltaTrigger, is_count
from panestream.windowing.triggers.time import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
)


@dataclass(frozen=True, slots=True, repr=False)
class AfterCount(Composition):
    """Fires once, when ``count`` rows have come, or more if sessions merge. Beam: ``AfterCount``.

    By itself it drops later rows. ``Repeatedly.of(AfterCount.of(n))`` continues, and equals ``CountTrigger.of(n)``.

    >>> AfterCount.of(3)
    AfterCount.of(3)
    """

    count: int

    def __post_init__(self) -> None:
        if not is_count(self.count) or not self.count:
            raise InvalidWindowError(f"AfterCount counts rows: the count must be an integer >= 1, got {self.count!r}")
        Composition.__post_init__(self)

    @classmethod
    def of(cls, count: int) -> AfterCount:
        """Fire when ``count`` rows have come."""
        return cls(count)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return ()

    def node(self, place: str) -> Node:
        return _Counting(place, self.count)

    def __repr__(self) -> str:
        return f"AfterCount.of({self.count!r})"


class _Counting(Node):
    __slots__ = ("_count", "_seen")

    def __init__(self, place: str, count: int) -> None:
        super().__init__(place)
        self._count = count
        self._seen = ReducingStateDescriptor(f"{place}count", add)

    @property
    def can_finish(self) -> bool:
        return True

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        now.reducing(self._seen).add(1)

    def is_ready(self, now: EvaluationContext) -> bool:
        return (now.reducing(self._seen).get() or 0) >= self._count

    def fire(self, now: EvaluationContext) -> bool:
        return True

    def merge(self, now: EvaluationContext) -> None:
        now.merged(self._seen)

    def reset(self, now: EvaluationContext) -> None:
        now.reducing(self._seen).clear()

    def clear(self, now: EvaluationContext) -> None:
        self.reset(now)


@dataclass(frozen=True, slots=True, repr=False)
class AfterProcessingTime(Composition):
    """Fires once, a ``delay`` of processing time after the first row. Beam: ``AfterProcessingTime``.

    The first row is that of the window, or inside of :class:`Repeatedly`, ``early`` and ``late`` the first since the last firing.
    Spark uses the time of the micro-batch, and wakes up without new data. In a batch it does not fire, since its clock stops.

    >>> AfterProcessingTime.of("30 seconds")
    AfterProcessingTime.of('30 seconds')
    """

    delay: int

    def __post_init__(self) -> None:
        check_micros("AfterProcessingTime.of('30 seconds')", self.delay)
        if self.delay < 0:
            raise InvalidWindowError(
                f"the delay of AfterProcessingTime must not be negative, got {format_duration(self.delay)!r}"
            )
        Composition.__post_init__(self)

    @classmethod
    def of(cls, delay: Duration) -> AfterProcessingTime:
        """Fire ``delay`` after the first row."""
        return cls(to_micros(delay, "delay"))

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return ()

    @property
    def uses_processing_time(self) -> bool:
        return True

    def node(self, place: str) -> Node:
        return _Delayed(place, self.delay)

    def __repr__(self) -> str:
        return f"AfterProcessingTime.of({format_duration(self.delay)!r})"


class _Delayed(Node):
    __slots__ = ("_delay", "_due")

    def __init__(self, place: str, delay: int) -> None:
        super().__init__(place)
        self._delay = delay
        self._due = ReducingStateDescriptor(f"{place}due", min)

    @property
    def can_finish(self) -> bool:
        return True

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        due = now.reducing(self._due)
        if due.get() is None:
            due.add(now.clock + self._delay)
            self._wait(now)

    def _wait(self, now: EvaluationContext) -> None:
        due = now.reducing(self._due).get()
        if due is not None and due > now.clock:
            now.clock_timers.add(self.place, due - 1)  # a timer is called when the clock has passed it

    def is_ready(self, now: EvaluationContext) -> bool:
        due = now.reducing(self._due).get()
        return due is not None and due <= now.clock

    def fire(self, now: EvaluationContext) -> bool:
        return True

    def merge(self, now: EvaluationContext) -> None:
        now.merged(self._due)
        self._wait(now)

    def reset(self, now: EvaluationContext) -> None:
        now.reducing(self._due).clear()
        now.clock_timers.discard(self.place)

    def clear(self, now: EvaluationContext) -> None:
        self.reset(now)


@dataclass(frozen=True, slots=True, repr=False)
class Repeatedly(Composition):
    """Restarts another trigger whenever it has finished. Beam: ``Repeatedly``.

    >>> from panestream.triggers import AfterCount
    >>> Repeatedly.of(AfterCount.of(3))
    Repeatedly.of(AfterCount.of(3))
    """

    inner: Trigger

    @classmethod
    def of(cls, inner: Trigger) -> Repeatedly:
        """Fire whenever ``inner`` does, repeatedly."""
        return cls(inner)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.inner,)

    def node(self, place: str) -> Node:
        return Repeating(place, node_of(self.inner, f"{place}0."))

    def __repr__(self) -> str:
        return f"Repeatedly.of({self.inner!r})"


class Repeating(Node):
    """The node of :class:`Repeatedly`, and of ``early`` and ``late``, which repeat too."""

    __slots__ = ()

    @property
    def can_finish(self) -> bool:
        return False

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        self.children[0].element(element, timestamp, now)

    def is_ready(self, now: EvaluationContext) -> bool:
        return self.children[0].is_ready(now)

    def fire(self, now: EvaluationContext) -> bool:
        if self.children[0].fire(now):
            self.children[0].reset(now)
        return False


@dataclass(frozen=True, slots=True, repr=False)
class AfterWatermark(Composition):
    """Fires once, *on time*, when the watermark reaches the end of the window. Beam: ``AfterWatermark``.

    - Before the end it fires whenever ``early`` does, which starts again each time.
    - After the end it fires whenever ``late`` does, for rows within the allowed lateness. Without ``late`` it has finished, and
      later rows are dropped.
    - If a row opens a window that has already ended, it fires on time at once.
    - If sessions merge before their new end, it fires early and on time again, whatever had fired.

    >>> from panestream.triggers import AfterCount
    >>> AfterWatermark().early(AfterCount.of(100)).late(AfterCount.of(1))
    AfterWatermark().early(AfterCount.of(100)).late(AfterCount.of(1))
    """

    early_firings: Trigger | None = None
    late_firings: Trigger | None = None

    def early(self, trigger: Trigger) -> AfterWatermark:
        """Also fire before the end, whenever ``trigger`` does."""
        return replace(self, early_firings=_given(trigger, "early"))

    def late(self, trigger: Trigger) -> AfterWatermark:
        """Also fire after the end, whenever ``trigger`` does."""
        return replace(self, late_firings=_given(trigger, "late"))

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return tuple(part for part in (self.early_firings, self.late_firings) if part is not None)

    def node(self, place: str) -> Node:
        return _WatermarkNode(
            place, _repeating(self.early_firings, f"{place}early."), _repeating(self.late_firings, f"{place}late.")
        )

    def __repr__(self) -> str:
        early = "" if self.early_firings is None else f".early({self.early_firings!r})"
        late = "" if self.late_firings is None else f".late({self.late_firings!r})"
        return f"AfterWatermark(){early}{late}"


def _given(trigger: Trigger, what: str) -> Trigger:
    check_inner(trigger, f"AfterWatermark().{what}")
    return trigger


def _repeating(trigger: Trigger | None, place: str) -> Node | None:
    return None if trigger is None else Repeating(place, node_of(trigger, place))


class _WatermarkNode(Node):
    """It only stores that it has fired on time, which may be for a shorter session, or come before the next row."""

    __slots__ = ("_early", "_late", "_on_time")

    def __init__(self, place: str, early: Node | None, late: Node | None) -> None:
        super().__init__(place, *(node for node in (early, late) if node is not None))
        self._early = early
        self._late = late
        self._on_time = ReducingStateDescriptor(f"{place}on time", max)

    @property
    def can_finish(self) -> bool:
        return self._late is None

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        on_time = now.reducing(self._on_time)
        if on_time.get() is not None:
            if self._late is not None:
                self._late.element(element, timestamp, now)
                return
            on_time.clear()  # an outer trigger makes it fire again
        self._wait(now)
        if self._early is not None:
            self._early.element(element, timestamp, now)

    def _wait(self, now: EvaluationContext) -> None:
        if now.window.max_timestamp() > now.watermark:
            now.event_timers.add(self.place, now.window.max_timestamp())

    def is_ready(self, now: EvaluationContext) -> bool:
        if now.reducing(self._on_time).get() is not None:
            return self._late is not None and self._late.is_ready(now)
        over = now.watermark >= now.window.max_timestamp()
        return over or (self._early is not None and self._early.is_ready(now))

    def fire(self, now: EvaluationContext) -> bool:
        on_time = now.reducing(self._on_time)
        if on_time.get() is not None:
            assert self._late is not None  # noqa: S101 - it was ready
            return self._late.fire(now)
        if now.watermark < now.window.max_timestamp():
            assert self._early is not None  # noqa: S101 - it was ready
            return self._early.fire(now)
        on_time.add(1)
        if self._early is not None:
            self._early.clear(now)
        return self._late is None

    def begin(self, now: EvaluationContext) -> None:
        self._wait(now)
        if self._early is not None:
            self._early.begin(now)

    def merge(self, now: EvaluationContext) -> None:
        on_time = now.merged(self._on_time)
        if on_time.get() is not None and now.window.max_timestamp() > now.watermark:
            on_time.clear()  # a shorter session had ended
        if on_time.get() is None:
            self._wait(now)
            if self._early is not None:
                self._early.merge(now)
        elif self._late is not None:
            self._late.merge(now)

    def clear(self, now: EvaluationContext) -> None:
        super().clear(now)
        now.reducing(self._on_time).clear()
        now.event_timers.discard(self.place)


def fires_by_time(trigger: Trigger, *, event_time: bool) -> bool | None:
    """Return whether a window without further rows still fires by its end, or None if user code or a race of clocks decides.

    >>> fires_by_time(PurgingTrigger.of(CountTrigger.of(3)), event_time=True)
    False
    >>> fires_by_time(EventTimeTrigger.create(), event_time=True)
    True
    """
    if isinstance(trigger, PurgingTrigger):
        return fires_by_time(trigger.inner, event_time=event_time)
    if type(trigger) in (CountTrigger, DeltaTrigger, NeverTrigger, AfterCount):
        return False
    if isinstance(trigger, Repeatedly):
        return fires_by_time(trigger.inner, event_time=event_time)
    of_its_time = (
        (EventTimeTrigger, ContinuousEventTimeTrigger, AfterWatermark)
        if event_time
        else (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger)
    )
    # Any timer fires a timeout, including the window's last.
    return True if type(trigger) in (*of_its_time, ProcessingTimeoutTrigger) else None
