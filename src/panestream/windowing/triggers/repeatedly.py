"""The composed trigger that never finishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition, node_of
from panestream.windowing.triggers.nodes import EvaluationContext, Node


@dataclass(frozen=True, slots=True, repr=False)
class Repeatedly(Composition):
    """Restarts another trigger whenever it has finished. Beam: ``Repeatedly``.

    >>> from panestream.windowing.triggers.after_count import AfterCount
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


__all__ = ["Repeatedly", "Repeating"]
