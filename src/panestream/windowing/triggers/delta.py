"""The trigger that compares values with the last fired one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from panestream.errors import InvalidWindowError
from panestream.windowing.signatures import DELTA_TRIGGER, check_function
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.triggers.base import TriggerContext, TriggerResult
from panestream.windowing.triggers.kinds import NoEventTime, NoProcessingTime
from panestream.windowing.windows import Window

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
