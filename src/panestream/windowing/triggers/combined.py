"""Composed triggers of several triggers: all of them, the first of them, each in turn, or one until another ends it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import or_
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.state import ReducingStateDescriptor
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.composition import Composition, EvaluationContext, Node, check_several, node_of, nodes_of


@dataclass(frozen=True, slots=True, repr=False)
class _Several(Composition):
    """A trigger that is composed of any number of others."""

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        check_several(self.triggers, type(self).__name__)
        Composition.__post_init__(self)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    def __repr__(self) -> str:
        return f"{type(self).__name__}.of({', '.join(map(repr, self.triggers))})"


@dataclass(frozen=True, slots=True, repr=False)
class AfterAll(_Several):
    """Fires when each of several triggers is ready, and finishes when all of them have. Beam: ``AfterAll``.

    A trigger stays ready until it fires with the others, which do not wait for it once it has finished.

    >>> from panestream.triggers import AfterCount
    >>> from panestream.triggers import AfterProcessingTime
    >>> AfterAll.of(AfterCount.of(100), AfterProcessingTime.of("30 seconds"))
    AfterAll.of(AfterCount.of(100), AfterProcessingTime.of('30 seconds'))
    """

    @classmethod
    def of(cls, *triggers: Trigger) -> AfterAll:
        """Fire when all of ``triggers`` are ready."""
        return cls(triggers)

    def node(self, place: str) -> Node:
        return _Together(place, *nodes_of(self.triggers, place))


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


@dataclass(frozen=True, slots=True, repr=False)
class AfterAny(_Several):
    """Fires when any of several triggers does, and finishes when any has. Beam: ``AfterAny`` (``AfterFirst`` in Java).

    >>> from panestream.triggers import AfterCount
    >>> from panestream.triggers import AfterProcessingTime
    >>> AfterAny.of(AfterCount.of(100), AfterProcessingTime.of("30 seconds"))
    AfterAny.of(AfterCount.of(100), AfterProcessingTime.of('30 seconds'))
    """

    @classmethod
    def of(cls, *triggers: Trigger) -> AfterAny:
        """Fire when any of ``triggers`` does."""
        return cls(triggers)

    def node(self, place: str) -> Node:
        return _First(place, *nodes_of(self.triggers, place))


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


@dataclass(frozen=True, slots=True, repr=False)
class AfterEach(_Several):
    """Fires like several triggers in turn: the next begins when the preceding one has finished. Beam: ``AfterEach``.

    It finishes with the last. When sessions merge, the furthest turn counts.

    >>> from panestream.triggers import AfterCount
    >>> from panestream.triggers import Repeatedly
    >>> AfterEach.of(AfterCount.of(1), Repeatedly.of(AfterCount.of(100)))
    AfterEach.of(AfterCount.of(1), Repeatedly.of(AfterCount.of(100)))
    """

    def __post_init__(self) -> None:
        _Several.__post_init__(self)
        for trigger in self.triggers[:-1]:
            if not node_of(trigger, "").can_finish:
                raise InvalidWindowError(
                    f"AfterEach: {trigger!r} never finishes, so the triggers after it never start. Put it last, or limit it "
                    f"with OrFinally.of({trigger!r}, ...). (Triggers of Flink and user-defined triggers do not finish.)"
                )

    @classmethod
    def of(cls, *triggers: Trigger) -> AfterEach:
        """Fire as ``triggers`` do, one after another."""
        return cls(triggers)

    def node(self, place: str) -> Node:
        return _InTurn(place, *nodes_of(self.triggers, place))


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


@dataclass(frozen=True, slots=True, repr=False)
class OrFinally(Composition):
    """Fires as one trigger does, until another one fires too, which is the last firing. Beam: ``OrFinally``.

    >>> from panestream.triggers import AfterCount
    >>> from panestream.triggers import AfterWatermark
    >>> from panestream.triggers import Repeatedly
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


class _Until(_First):
    __slots__ = ()

    @property
    def can_finish(self) -> bool:
        return True

    def fire(self, now: EvaluationContext) -> bool:
        last = self.children[1].is_ready(now)
        return super().fire(now) or last
