"""Base classes of assigners, and several kinds of windows over the same rows, distinguished by a label."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from panestream.errors import InvalidPlanError
from panestream.windowing.time import format_duration
from panestream.windowing.triggers.base import Trigger
from panestream.windowing.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from panestream.windowing.windows import TimeWindow, Window


class WindowAssigner(ABC):
    """Assigns elements to windows; subclasses are frozen dataclasses whose ``repr`` rebuilds them. Flink: ``WindowAssigner``.

    >>> import panestream as pst
    >>> @dataclass(frozen=True)
    ... class HourFromElement(WindowAssigner):
    ...     is_event_time = True
    ...     def assign_windows(self, element, timestamp, processing_time):
    ...         start = element * 3_600_000_000
    ...         return [pst.windows.TimeWindow(start, start + 3_600_000_000)]
    >>> harness = pst.testing.WindowTestHarness(HourFromElement(), reduce=max)
    >>> harness.process_element(2, "5 seconds")
    >>> harness.end_of_input()
    >>> harness.extract_output()[0].window
    TimeWindow(start=7200000000, end=10800000000)
    """

    columns_only: ClassVar[bool] = False
    """True if the windows of an element depend on other elements, so that the row operator cannot run them."""

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> Sequence[Window]:
        """Return the windows of an element in the order of handling, called once per element; times in microseconds."""

    @property
    @abstractmethod
    def is_event_time(self) -> bool:
        """True for event time, False for processing time. It determines windows, lateness and cleanup."""

    def get_default_trigger(self) -> Trigger:
        """Return the trigger of a plan without one, which fires at the end of the window."""
        return EventTimeTrigger.create() if self.is_event_time else ProcessingTimeTrigger.create()


class OneTimeAssigner(WindowAssigner):
    """Windows that depend on one time; their two subclasses differ in the class attribute ``is_event_time``."""

    @abstractmethod
    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        """Return the windows of an element at ``time``, in microseconds."""

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[TimeWindow, ...]:
        return self._windows_at(timestamp if self.is_event_time else processing_time, element)


def call_of(assigner: WindowAssigner, *lengths: int, offset: int = 0, more: str = "") -> str:
    """Return the call that creates an assigner: ``TumblingEventTimeWindows.of('1 day', offset='-8 hours')``."""
    parts = [repr(format_duration(length)) for length in lengths]
    if offset:
        parts.append(f"offset={format_duration(offset)!r}")
    return f"{type(assigner).__name__}.of({', '.join(parts)}{more})"


class MergingWindowAssigner(WindowAssigner):
    """Assigns elements to windows that may merge. Flink: ``MergingWindowAssigner``.

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
        """Return which windows merge; called for every element with the live windows of its key and the element's own.

        The distinct ``windows`` are ordered by start and end. Return pairs of a result and at least two windows that merge into
        it, or one and another result. A window may be in only one pair; others stay unchanged. Flink passes a callback instead.
        """


def merge_touching(windows: Sequence[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
    """Merge windows that overlap or touch, as sessions do; useful in ``merge_windows``.

    Examples:
        >>> from panestream.windowing.windows import TimeWindow
        >>> [merged for merged, _ in merge_touching([TimeWindow(0, 5), TimeWindow(5, 9), TimeWindow(20, 25)])]
        [TimeWindow(start=0, end=9)]
    """
    merged: list[tuple[TimeWindow, list[TimeWindow]]] = []
    for window in sorted(windows):
        if merged and merged[-1][0].intersects(window):
            result, members = merged[-1]
            merged[-1] = (result.cover(window), [*members, window])
        else:
            merged.append((window, [window]))
    return [(result, members) for result, members in merged if len(members) > 1]


def label_of(assigner: WindowAssigner) -> str:
    """Return the default label of windows: their size, and how often they begin or end.

    >>> from panestream.windowing.assigners import SlidingEventTimeWindows
    >>> label_of(SlidingEventTimeWindows.of("1 hour", "5 minutes"))
    '1 hour / 5 minutes'
    """
    size = getattr(assigner, "size", None)
    step = getattr(assigner, "slide", getattr(assigner, "step", None))
    if size is None:
        return repr(assigner)
    return format_duration(size) + (f" / {format_duration(step)}" if step is not None else "")


@dataclass(frozen=True, slots=True, repr=False)
class SeveralWindows(WindowAssigner):
    """Assigns each row to the windows of several assigners. Not in Flink, whose SQL needs a query for each.

    >>> from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
    >>> several = SeveralWindows.of({"hour": TumblingEventTimeWindows(60), "day": SlidingEventTimeWindows(1440, 60)})
    >>> several.labels
    ('hour', 'day')
    """

    labels: tuple[str, ...]
    assigners: tuple[WindowAssigner, ...]

    @classmethod
    def of(cls, windows: Mapping[str, WindowAssigner]) -> SeveralWindows:
        """Return windows by label, or raise InvalidPlanError for none, other objects, and mixed kinds of time."""
        for label, assigner in windows.items():
            if not isinstance(label, str) or not label or not isinstance(assigner, WindowAssigner):
                raise InvalidPlanError(
                    "windows needs labels and assigners, e.g. {'1h': TumblingEventTimeWindows.of('1 hour')}; "
                    f"got {label!r}: {assigner!r}"
                )
        if len({assigner.is_event_time for assigner in windows.values()}) != 1:
            raise InvalidPlanError(
                "several windows need at least one assigner, and all of event time or all of processing time; "
                f"got {list(windows.values())!r}"
            )
        return cls(tuple(windows), tuple(windows.values()))

    @property
    def is_event_time(self) -> bool:
        return self.assigners[0].is_event_time

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[Window, ...]:
        return tuple(
            window for assigner in self.assigners for window in assigner.assign_windows(element, timestamp, processing_time)
        )

    def __repr__(self) -> str:
        return f"SeveralWindows.of({dict(zip(self.labels, self.assigners, strict=True))!r})"
