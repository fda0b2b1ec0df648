"""Tumbling windows of a fixed size, without gaps and overlaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import OneTimeAssigner, call_of
from panestream.windowing.assigners.stagger import WindowStagger
from panestream.windowing.time import Duration, check_micros, format_duration, to_micros
from panestream.windowing.windows import TimeWindow

Self = TypeVar("Self", bound="_Tumbling")


@dataclass(frozen=True, slots=True, repr=False)
class _Tumbling(OneTimeAssigner):
    size: int
    offset: int = 0
    stagger: WindowStagger = WindowStagger.ALIGNED

    def __post_init__(self) -> None:
        check_micros(f"{type(self).__name__}.of('1 hour')", self.size, self.offset)
        if self.size <= 0:
            raise InvalidWindowError(f"the size of a tumbling window must be positive, got {format_duration(self.size)!r}")
        if abs(self.offset) >= self.size:
            raise InvalidWindowError(
                f"the offset of a tumbling window must be smaller than its size: "
                f"offset {format_duration(self.offset)!r}, size {format_duration(self.size)!r}"
            )
        if not isinstance(self.stagger, WindowStagger):
            raise InvalidWindowError(
                f"the stagger of a tumbling window must be a WindowStagger such as WindowStagger.RANDOM, got {self.stagger!r}"
            )

    @classmethod
    def of(  # noqa: PYI019 - typing.Self came with 3.11
        cls: type[Self], size: Duration, offset: Duration = "0 seconds", stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> Self:
        """Return windows of ``size``, aligned to the epoch (UTC) plus ``offset`` (< ``size``), shifted by ``stagger``."""
        return cls(to_micros(size, "size"), to_micros(offset, "offset"), stagger)

    def staggered(self: Self, shift: int) -> Self:  # noqa: PYI019
        """Return the windows of one key group, shifted by the result of :meth:`WindowStagger.get_stagger_offset`."""
        return type(self)(self.size, (self.offset + shift) % self.size)

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        start = time - (time - self.offset) % self.size
        return (TimeWindow(start, start + self.size),)

    def __repr__(self) -> str:
        stagger = f", stagger={self.stagger!r}" if self.stagger is not WindowStagger.ALIGNED else ""
        return call_of(self, self.size, offset=self.offset, more=stagger)


@dataclass(frozen=True, slots=True, repr=False)
class TumblingEventTimeWindows(_Tumbling):
    """Windows ``[n*size + offset, (n+1)*size + offset)`` of event time. Flink: ``TumblingEventTimeWindows``.

    The constructor takes microseconds; :meth:`of` takes durations.

    >>> TumblingEventTimeWindows.of("1 day", offset="-8 hours")  # days of UTC+8
    TumblingEventTimeWindows.of('1 day', offset='-8 hours')
    """

    is_event_time = True


@dataclass(frozen=True, slots=True, repr=False)
class TumblingProcessingTimeWindows(_Tumbling):
    """Windows ``[n*size + offset, (n+1)*size + offset)`` of processing time. Flink: ``TumblingProcessingTimeWindows``.

    No row is late. A window fires once the clock has reached its end; the end of a bounded input does not fire it.

    >>> TumblingProcessingTimeWindows.of("10 seconds", stagger=WindowStagger.RANDOM)
    TumblingProcessingTimeWindows.of('10 seconds', stagger=WindowStagger.RANDOM)
    """

    is_event_time = False
