"""The composed trigger that waits for all of several triggers."""

from __future__ import annotations

from dataclasses import dataclass
from operator import or_
from typing import Any

from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition, check_several, nodes_of
from panestream.windowing.triggers.nodes import EvaluationContext, Node


@dataclass(frozen=True, slots=True, repr=False)
class AfterAll(Composition):
    """Fires when each of several triggers is ready, and finishes when all of them have. Beam: ``AfterAll``.

    A trigger stays ready until it fires with the others, which do not wait for it once it has finished.

    >>> from panestream.windowing.triggers.after_count import AfterCount
    >>> from panestream.windowing.triggers.after_processing_time import AfterProcessingTime
    >>> AfterAll.of(AfterCount.of(100), AfterProcessingTime.of("30 seconds"))
    AfterAll.of(AfterCount.of(100), AfterProcessingTime.of('30 seconds'))
    """

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        check_several(self.triggers, "AfterAll")
        Composition.__post_init__(self)

    @classmethod
    def of(cls, *triggers: Trigger) -> AfterAll:
        """Fire when all of ``triggers`` are ready."""
        return cls(triggers)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    def node(self, place: str) -> Node:
        return _Together(place, *nodes_of(self.triggers, place))

    def __repr__(self) -> str:
        return f"AfterAll.of({', '.join(map(repr, self.triggers))})"


class _Together(Node):
    """The finished children are bits of a number; merging windows combine their bits."""

    __slots__ = ("_done",)

    def __init__(self, place: str, *children: Node) -> None:
        super().__init__(place, *children)
        self._done = ReducingStateDescriptor(f"{place}done", or_)

    @property
    def can_finish(self) -> bool:
        return all(child.can_finish for child in self.children)

    def _others(self, now: EvaluationContext) -> list[tuple[int, Node]]:
        """Return the children that have not finished, with their bits."""
        done = now.reducing(self._done).get() or 0
        return [(1 << number, child) for number, child in enumerate(self.children) if not done >> number & 1]

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        for _, child in self._others(now):
            child.element(element, timestamp, now)

    def is_ready(self, now: EvaluationContext) -> bool:
        return all(child.is_ready(now) for _, child in self._others(now))

    def fire(self, now: EvaluationContext) -> bool:
        done = now.reducing(self._done)
        for bit, child in self._others(now):
            if child.fire(now):
                child.clear(now)
                done.add(bit)
        return not self._others(now)

    def merge(self, now: EvaluationContext) -> None:
        now.merged(self._done)
        for _, child in self._others(now):
            child.merge(now)

    def reset(self, now: EvaluationContext) -> None:
        super().reset(now)
        now.reducing(self._done).clear()

    def clear(self, now: EvaluationContext) -> None:
        super().clear(now)
        now.reducing(self._done).clear()
