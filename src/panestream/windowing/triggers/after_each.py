"""The composed trigger that uses several triggers in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition, check_several, node_of, nodes_of
from panestream.windowing.triggers.nodes import EvaluationContext, Node


@dataclass(frozen=True, slots=True, repr=False)
class AfterEach(Composition):
    """Fires like several triggers in turn: the next begins when the preceding one has finished. Beam: ``AfterEach``.

    It finishes with the last. When sessions merge, the furthest turn counts.

    >>> from panestream.windowing.triggers.after_count import AfterCount
    >>> from panestream.windowing.triggers.repeatedly import Repeatedly
    >>> AfterEach.of(AfterCount.of(1), Repeatedly.of(AfterCount.of(100)))
    AfterEach.of(AfterCount.of(1), Repeatedly.of(AfterCount.of(100)))
    """

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        check_several(self.triggers, "AfterEach")
        Composition.__post_init__(self)
        for trigger in self.triggers[:-1]:
            if not node_of(trigger, "").can_finish:
                raise InvalidWindowError(
                    f"AfterEach: {trigger!r} never finishes, so that what stands behind it never has its turn: put it last, or "
                    f"say until when, with OrFinally.of({trigger!r}, ...). (Flink's triggers and your own do not finish.)"
                )

    @classmethod
    def of(cls, *triggers: Trigger) -> AfterEach:
        """Fire as ``triggers`` do, one after another."""
        return cls(triggers)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    def node(self, place: str) -> Node:
        return _InTurn(place, *nodes_of(self.triggers, place))

    def __repr__(self) -> str:
        return f"AfterEach.of({', '.join(map(repr, self.triggers))})"


class _InTurn(Node):
    __slots__ = ("_turn",)

    def __init__(self, place: str, *children: Node) -> None:
        super().__init__(place, *children)
        self._turn = ReducingStateDescriptor(f"{place}turn", max)

    @property
    def can_finish(self) -> bool:
        return self.children[-1].can_finish

    def _present(self, now: EvaluationContext) -> Node:
        return self.children[now.reducing(self._turn).get() or 0]

    def element(self, element: Any, timestamp: int, now: EvaluationContext) -> None:
        self._present(now).element(element, timestamp, now)

    def is_ready(self, now: EvaluationContext) -> bool:
        return self._present(now).is_ready(now)

    def fire(self, now: EvaluationContext) -> bool:
        present = self._present(now)
        if not present.fire(now):
            return False
        if present is self.children[-1]:
            return True
        present.clear(now)
        turn = now.reducing(self._turn)
        turn.add((turn.get() or 0) + 1)
        self._present(now).begin(now)
        return False

    def begin(self, now: EvaluationContext) -> None:
        self._present(now).begin(now)

    def merge(self, now: EvaluationContext) -> None:
        now.merged(self._turn)
        self._present(now).merge(now)

    def reset(self, now: EvaluationContext) -> None:
        super().clear(now)
        now.reducing(self._turn).clear()
        self.begin(now)

    def clear(self, now: EvaluationContext) -> None:
        super().clear(now)
        now.reducing(self._turn).clear()
