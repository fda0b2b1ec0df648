"""Tumbling windows: fixed size, no gap, no overlap."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.errors import InvalidWindowError
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.time import Duration, format_duration, to_micros
from panestream.windowing.windows import TimeWindow


@dataclass(frozen=True, slots=True, repr=False)
class TumblingEventTimeWindows(WindowAssigner):
    """Windows ``[n*size + offset, (n+1)*size + offset)`` of event time. Flink: ``TumblingEventTimeWindows``.

    The constructor takes engine units; :meth:`of` takes durations.

    >>> TumblingEventTimeWindows.of("1 day", offset="-8 hours")      # days of UTC+8
    TumblingEventTimeWindows.of('1 day', offset='-8 hours')
    """

    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise InvalidWindowError(f"the size of a tumbling window must be positive, got {format_duration(self.size)!r}")
        if abs(self.offset) >= self.size:
            raise InvalidWindowError(
                f"the offset of a tumbling window must be smaller than its size: "
                f"offset {format_duration(self.offset)!r}, size {format_duration(self.size)!r}"
            )

    @classmethod
    def of(cls, size: Duration, offset: Duration = "0 seconds") -> TumblingEventTimeWindows:
        """Windows of ``size``, aligned to the epoch (UTC) plus ``offset``.

        Raises:
            InvalidWindowError: ``size`` is not positive, or ``abs(offset) >= size``.
        """
        return cls(to_micros(size, "size"), to_micros(offset, "offset"))

    @property
    def is_event_time(self) -> bool:
        return True

    def assign_windows(self, element: object, timestamp: int, processing_time: int) -> tuple[TimeWindow, ...]:
        start = timestamp - (timestamp - self.offset) % self.size
        return (TimeWindow(start, start + self.size),)

    def __repr__(self) -> str:
        offset = f", offset={format_duration(self.offset)!r}" if self.offset else ""
        return f"{type(self).__name__}.of({format_duration(self.size)!r}{offset})"
