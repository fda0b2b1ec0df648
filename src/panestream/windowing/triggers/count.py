"""Triggers by elements: that count them, or compare their values with the last fired one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.signatures import DELTA_TRIGGER, check_function
from panestream.windowing.state import ReducingStateDescriptor, ValueStateDescriptor
from panestream.windowing.triggers.base import NoEventTime, NoProcessingTime, OnMergeContext, TriggerContext, TriggerResult
from panestream.windowing.windows import Window

COUNT = ReducingStateDescriptor("count", add)
"""The number of elements since the last firing."""


def is_count(value: Any) -> bool:
    """Return whether ``value`` can be a number of elements."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True, slots=True, repr=False)
class CountTrigger(NoEventTime, NoProcessingTime):
    """Fires at every ``count``-th element (0 means 1); contents stay. Flink: ``CountTrigger``.

    The end of a time window does not fire, so an incomplete remainder is lost at cleanup. Merged sessions add their counts, so a
    firing may have more than ``count``.

    >>> CountTrigger.of(3)
    CountTrigger.of(3)
    """

    count: int

    def __post_init__(self) -> None:
        if not is_count(self.count):
            raise InvalidWindowError(f"CountTrigger counts elements: the count must be an integer >= 0, got {self.count!r}")

    @classmethod
    def of(cls, count: int) -> CountTrigger:
        """Fire when ``count`` elements have come since the last firing."""
        return cls(count)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        seen = ctx.get_partitioned_state(COUNT)
        seen.add(1)
        if seen.get() >= self.count:
            seen.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(COUNT)

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(COUNT).clear()

    def __repr__(self) -> str:
        return f"CountTrigger.of({self.count!r})"


DeltaFunction = Callable[[Any, Any], float]
"""The distance of the second element from the first. Flink: ``DeltaFunction``."""

LAST = ValueStateDescriptor("last-element")


@dataclass(frozen=True, slots=True, repr=False)
class DeltaTrigger(NoEventTime, NoProcessingTime):
    """Fires when an element differs by **more** than ``threshold`` from the last fired. Flink: ``DeltaTrigger``.

    The first element and the end of the window do not fire. Session windows are not supported.

    >>> DeltaTrigger.of(2.0, abs_difference := lambda old, new: abs(new - old)).threshold
    2.0
    """

    threshold: float
    delta_function: DeltaFunction

    def __post_init__(self) -> None:
        check_function(self.delta_function, DELTA_TRIGGER, error=InvalidWindowError)

    @classmethod
    def of(cls, threshold: float, delta_function: DeltaFunction) -> DeltaTrigger:
        """Fire when ``delta_function(last fired, new)`` is larger than ``threshold``."""
        return cls(threshold, delta_function)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        last = ctx.get_partitioned_state(LAST)
        known = last.value()
        if known is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self.delta_function(known, element) > self.threshold:
            last.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(LAST).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger.of({self.threshold!r}, {self.delta_function!r})"
