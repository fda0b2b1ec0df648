"""The composed trigger that waits by processing time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition
from panestream.windowing.triggers.nodes import EvaluationContext, Node


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
