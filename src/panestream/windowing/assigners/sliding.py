"""Sliding windows of a fixed size, with a new window every slide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import OneTimeAssigner, call_of
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.windows import TimeWindow

Self = TypeVar("Self", bound="_Sliding")


@dataclass(frozen=True, slots=True, repr=False)
class _Sliding(OneTimeAssigner):
    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        check_micros(f"{type(self).__name__}.of('1 hour', '5 minutes')", self.size, self.slide, self.offset)
        if self.size <= 0 or self.slide <= 0:
            raise InvalidWindowError(
                f"size and slide of a sliding window must be positive, got size {format_duration(self.size)!r}, "
                f"slide {format_duration(self.slide)!r}"
            )
        if abs(self.offset) >= self.slide:
            raise InvalidWindowError(
                f"the offset of a sliding window must be smaller than its slide: "
                f"offset {format_duration(self.offset)!r}, slide {format_duration(self.slide)!r}"
            )

    @classmethod
    def of(  # noqa: PYI019 - typing.Self came with 3.11
        cls: type[Self], size: Duration, slide: Duration, offset: Duration = "0 seconds"
    ) -> Self:
        """Return windows of positive ``size``, one every ``slide``, aligned to the epoch (UTC) plus ``offset`` (< ``slide``)."""
        return cls(to_micros(size, "size"), to_micros(slide, "slide"), to_micros(offset, "offset"))

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        last = time - (time - self.offset) % self.slide
        # Newest start first, as in Flink. The order is visible when one element fires several windows at once.
        return tuple(TimeWindow(start, start + self.size) for start in range(last, time - self.size, -self.slide))

    def __repr__(self) -> str:
        return call_of(self, self.size, self.slide, offset=self.offset)


@dataclass(frozen=True, slots=True, repr=False)
class SlidingEventTimeWindows(_Sliding):
    """Windows ``[n*slide + offset, n*slide + offset + size)`` of event time. Flink: ``SlidingEventTimeWindows``.

    If ``slide > size``, rows in the gaps are in no window. The constructor takes microseconds; :meth:`of` takes durations.

    >>> SlidingEventTimeWindows.of("1 hour", "5 minutes")
    SlidingEventTimeWindows.of('1 hour', '5 minutes')
    """

    is_event_time = True


@dataclass(frozen=True, slots=True, repr=False)
class SlidingProcessingTimeWindows(_Sliding):
    """Windows ``[n*slide + offset, n*slide + offset + size)`` of processing time. Flink: ``SlidingProcessingTimeWindows``.

    >>> SlidingProcessingTimeWindows.of("10 seconds", "5 seconds")
    SlidingProcessingTimeWindows.of('10 seconds', '5 seconds')
    """

    is_event_time = False
