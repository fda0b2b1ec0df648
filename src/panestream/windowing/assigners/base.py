"""What every assigner is: a recipe that says to which windows an element belongs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from panestream.windowing.time import format_duration
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from panestream.windowing.windows import TimeWindow, Window


class WindowAssigner(ABC):
    """Assigns elements to windows. Flink: ``WindowAssigner``.

    Subclasses are frozen dataclasses: equal when their parameters are, with a ``repr`` that rebuilds them.
    """

    columns_only: ClassVar[bool] = False
    """Whether an element alone does not say which windows it is in, so that the row operator cannot run them."""

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> Sequence[Window]:
        """The windows of one element, in the order in which they are handled. Called once per element.

        Args:
            element: the row itself, for assigners that look into it.
            timestamp: its event time, in engine units.
            processing_time: the clock, in engine units.
        """

    @property
    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether event time (True) or the clock (False) decides; decides also about lateness and cleanup."""

    def get_default_trigger(self) -> Trigger:
        """The trigger of a plan that names none: at the end of the window, by event time or by the clock."""
        return EventTimeTrigger.create() if self.is_event_time else ProcessingTimeTrigger.create()


class OneTimeAssigner(WindowAssigner):
    """Windows that follow from one time of each element: its event time, or the clock. What both kinds have in common.

    A kind of windows is written once; its two classes differ in ``is_event_time``, a class attribute, and in what they say.
    """

    @abstractmethod
    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        """The windows of an element at ``time``, in engine units."""

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[TimeWindow, ...]:
        return self._windows_at(timestamp if self.is_event_time else processing_time, element)


def call_of(assigner: WindowAssigner, *lengths: int, offset: int = 0, more: str = "") -> str:
    """How an assigner is written: ``TumblingEventTimeWindows.of('1 day', offset='-8 hours')``."""
    parts = [repr(format_duration(length)) for length in lengths]
    if offset:
        parts.append(f"offset={format_duration(offset)!r}")
    return f"{type(assigner).__name__}.of({', '.join(parts)}{more})"


class MergingWindowAssigner(WindowAssigner):
    """Assigns elements to windows that may grow together. Flink: ``MergingWindowAssigner``.

    >>> class NeighbourHours(MergingWindowAssigner):
    ...     "Whole hours; hours with data that follow each other are one window."
    ...
    ...     is_event_time = True
    ...
    ...     def assign_windows(self, element, timestamp, processing_time):
    ...         start = timestamp - timestamp % 3600
    ...         return [TimeWindow(start, start + 3600)]
    ...
    ...     def merge_windows(self, windows):
    ...         return merge_touching(windows)
    >>> NeighbourHours().merge_windows([TimeWindow(0, 3600), TimeWindow(3600, 7200), TimeWindow(9000, 12600)])
    [(TimeWindow(start=0, end=7200), [TimeWindow(start=0, end=3600), TimeWindow(start=3600, end=7200)])]
    """

    @abstractmethod
    def merge_windows(self, windows: Sequence[TimeWindow]) -> Iterable[tuple[TimeWindow, Sequence[TimeWindow]]]:
        """Which windows become one. Called for every element with the live windows of its key and the element's own.

        Args:
            windows: distinct, ordered by start and end.

        Returns:
            Pairs of a result and the windows that go into it (at least two, or one and another result). No window may be in two
            pairs; windows that are in none stay as they are. Flink hands in a callback instead.
        """


def merge_touching(windows: Sequence[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
    """Merges windows that overlap or touch: what sessions do, and a ready-made answer for ``merge_windows``."""
    merged: list[tuple[TimeWindow, list[TimeWindow]]] = []
    for window in sorted(windows):
        if merged and merged[-1][0].intersects(window):
            result, members = merged[-1]
            merged[-1] = (result.cover(window), [*members, window])
        else:
            merged.append((window, [window]))
    return [(result, members) for result, members in merged if len(members) > 1]
