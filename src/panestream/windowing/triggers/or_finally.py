"""The composed trigger that another trigger ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition, node_of
from panestream.windowing.triggers.nodes import EvaluationContext, Node


@dataclass(frozen=True, slots=True, repr=False)
class OrFinally(Composition):
    """Fires as one trigger does, until another one fires too, which is the last firing. Beam: ``OrFinally``.

    >>> from panestream.windowing.triggers.after_count import AfterCount
    >>> from panestream.windowing.triggers.after_watermark import AfterWatermark
    >>> from panestream.windowing.triggers.repeatedly import Repeatedly
    >>> OrFinally.of(Repeatedly.of(AfterCount.of(100)), AfterWatermark())
    OrFinally.of(Repeatedly.of(AfterCount.of(100)), AfterWatermark())
    """

    main: Trigger
    until: Trigger

    @classmethod
    def of(cls, main: Trigger, until: Trigger) -> OrFinally:
        """Fire as ``main`` does, and for the last time when ``until`` does, or when ``main`` has finished."""
        return cls(main, until)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.main, self.until)

    def node(self, place: str) -> Node:
        return _Until(place, node_of(self.main, f"{place}0."), node_of(self.until, f"{place}1."))

    def __repr__(self) -> str:
        return f"OrFinally.of({self.main!r}, {self.until!r})"


class _Until(Node):
    __slots__ = ()

    @property
    def can_finish(self) -> bool:
        return True

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        for child in self.children:
            child.element(element, timestamp, now)

    def is_ready(self, now: EvaluationContext) -> bool:
        return any(child.is_ready(now) for child in self.children)

    def fire(self, now: EvaluationContext) -> bool:
        last = self.children[1].is_ready(now)
        finished = [child.fire(now) for child in self.children if child.is_ready(now)]
        return last or any(finished)
