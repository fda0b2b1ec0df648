"""The composed trigger that waits for the end of the window, with firings before and after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.triggers.base import Trigger, check_inner
from panestream.windowing.triggers.composition import Composition, node_of
from panestream.windowing.triggers.nodes import EvaluationContext, Node
from panestream.windowing.triggers.repeatedly import Repeating


@dataclass(frozen=True, slots=True, repr=False)
class AfterWatermark(Composition):
    """Fires once, *on time*, when the watermark reaches the end of the window. Beam: ``AfterWatermark``.

    - Before the end it fires whenever ``early`` does, which starts again each time.
    - After the end it fires whenever ``late`` does, for rows within the allowed lateness. Without ``late`` it has finished, and
      later rows are dropped.
    - If a row opens a window that has already ended, it fires on time at once.
    - If sessions merge before their new end, it fires early and on time again, whatever had fired.

    >>> from panestream.windowing.triggers.after_count import AfterCount
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
