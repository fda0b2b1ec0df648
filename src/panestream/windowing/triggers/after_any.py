"""The composed trigger that waits for the first of several triggers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition, check_several, nodes_of
from panestream.windowing.triggers.nodes import EvaluationContext, Node


@dataclass(frozen=True, slots=True, repr=False)
class AfterAny(Composition):
    """Fires when any of several triggers does, and finishes when any has. Beam: ``AfterAny`` (``AfterFirst`` in Java).

    >>> from panestream.windowing.triggers.after_count import AfterCount
    >>> from panestream.windowing.triggers.after_processing_time import AfterProcessingTime
    >>> AfterAny.of(AfterCount.of(100), AfterProcessingTime.of("30 seconds"))
    AfterAny.of(AfterCount.of(100), AfterProcessingTime.of('30 seconds'))
    """

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        check_several(self.triggers, "AfterAny")
        Composition.__post_init__(self)

    @classmethod
    def of(cls, *triggers: Trigger) -> AfterAny:
        """Fire when any of ``triggers`` does."""
        return cls(triggers)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    def node(self, place: str) -> Node:
        return _First(place, *nodes_of(self.triggers, place))

    def __repr__(self) -> str:
        return f"AfterAny.of({', '.join(map(repr, self.triggers))})"


class _First(Node):
    __slots__ = ()

    @property
    def can_finish(self) -> bool:
        return any(child.can_finish for child in self.children)

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        for child in self.children:
            child.element(element, timestamp, now)

    def is_ready(self, now: EvaluationContext) -> bool:
        return any(child.is_ready(now) for child in self.children)

    def fire(self, now: EvaluationContext) -> bool:
        finished = [child.fire(now) for child in self.children if child.is_ready(now)]
        return any(finished)
