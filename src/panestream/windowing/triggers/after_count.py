"""The composed trigger that counts rows."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition
from panestream.windowing.triggers.count import is_count
from panestream.windowing.triggers.nodes import EvaluationContext, Node


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
