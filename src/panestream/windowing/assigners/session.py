"""Session windows: what belongs together because no gap lies between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import MergingWindowAssigner, merge_touching
from panestream.windowing.time import Duration, format_duration, to_micros
from panestream.windowing.windows import TimeWindow

GapExtractor = Callable[[Any], int]
"""The gap that follows an element, in engine units. Flink: ``SessionWindowTimeGapExtractor``."""

Self = TypeVar("Self", bound="_Session")


@dataclass(frozen=True, slots=True)
class _GapOf:
    """Makes engine units of what the user's function returns."""

    function: Callable[[Any], Duration]

    def __call__(self, element: Any) -> int:
        return to_micros(self.function(element), "the session gap of an element")


@dataclass(frozen=True, slots=True, repr=False)
class _Session(MergingWindowAssigner):
    gap: int | GapExtractor

    def __post_init__(self) -> None:
        if isinstance(self.gap, int) and self.gap <= 0:
            raise InvalidWindowError(f"the gap of a session must be positive, got {format_duration(self.gap)!r}")
        if not isinstance(self.gap, int) and not callable(self.gap):
            raise InvalidWindowError(f"the gap of a session is a number of engine units or a function, not {self.gap!r}")

    @classmethod
    def with_gap(cls: type[Self], gap: Duration) -> Self:  # noqa: PYI019 - typing.Self came with 3.11
        """A session ends when nothing comes for ``gap``.

        Raises:
            InvalidWindowError: ``gap`` is not positive.
        """
        return cls(to_micros(gap, "gap"))

    @classmethod
    def with_dynamic_gap(cls: type[Self], gap_of: Callable[[Any], Duration]) -> Self:  # noqa: PYI019
        """A session ends when nothing comes for the gap that its elements ask for.

        Args:
            gap_of: called with each element; returns a duration, e.g. ``"30 minutes"``. One that is not positive fails the
                query. The constructor takes a function that returns engine units instead.
        """
        return cls(_GapOf(gap_of))

    def _window(self, element: Any, time: int) -> tuple[TimeWindow, ...]:
        gap = self.gap
        if not isinstance(gap, int):
            gap = gap(element)
            if gap <= 0:
                raise InvalidWindowError(
                    f"the session gap of an element must be positive, got {format_duration(gap)!r} for {element!r}"
                )
        return (TimeWindow(time, time + gap),)

    def merge_windows(self, windows: Sequence[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
        return merge_touching(windows)

    def __repr__(self) -> str:
        if isinstance(self.gap, int):
            return f"{type(self).__name__}.with_gap({format_duration(self.gap)!r})"
        if isinstance(self.gap, _GapOf):
            return f"{type(self).__name__}.with_dynamic_gap({self.gap.function!r})"
        return f"{type(self).__name__}({self.gap!r})"


@dataclass(frozen=True, slots=True, repr=False)
class EventTimeSessionWindows(_Session):
    """Sessions of event time: an element's own window is ``[ts, ts + gap)``. Flink: ``EventTimeSessionWindows``.

    Windows that overlap **or touch** merge: a distance of exactly the gap is one session. The end never moves back; the
    start may, by an element that comes late but still touches the session.

    >>> EventTimeSessionWindows.with_gap("30 minutes")
    EventTimeSessionWindows.with_gap('30 minutes')
    """

    @property
    def is_event_time(self) -> bool:
        return True

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[TimeWindow, ...]:
        return self._window(element, timestamp)


@dataclass(frozen=True, slots=True, repr=False)
class ProcessingTimeSessionWindows(_Session):
    """Sessions of the clock. Flink: ``ProcessingTimeSessionWindows``.

    When the clock stands at a session's end the session has just fired: a distance of exactly the gap gives two.

    >>> ProcessingTimeSessionWindows.with_gap("30 seconds")
    ProcessingTimeSessionWindows.with_gap('30 seconds')
    """

    @property
    def is_event_time(self) -> bool:
        return False

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> tuple[TimeWindow, ...]:
        return self._window(element, processing_time)
