"""What every assigner is: a recipe that says to which windows an element belongs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from panestream.windowing.windows import Window


class WindowAssigner(ABC):
    """Assigns elements to windows. Flink: ``WindowAssigner``.

    Subclasses are frozen dataclasses: equal when their parameters are, with a ``repr`` that rebuilds them.
    """

    @abstractmethod
    def assign_windows(self, element: object, timestamp: int, processing_time: int) -> Sequence[Window]:
        """The windows of one element, in the order in which they are handled.

        Args:
            element: the row itself, for assigners that look into it.
            timestamp: its event time, in engine units.
            processing_time: the clock, in engine units.
        """

    @property
    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether event time (True) or the clock (False) decides; decides also about lateness and cleanup."""
