"""The two kinds of windows: a time span, and the global window."""

from __future__ import annotations

from dataclasses import dataclass

from panestream.windowing.time import MAX_TIMESTAMP, time_text


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow:
    """The half-open span ``[start, end)``, in microseconds since the epoch; ``str`` shows UTC times. Flink: ``TimeWindow``.

    >>> window = TimeWindow(1_511_658_000_000_000, 1_511_661_600_000_000)
    >>> print(window)
    [2017-11-26 01:00:00, 2017-11-26 02:00:00)
    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last instant of the window, ``end - 1``. The window fires when the watermark reaches it."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the two overlap **or touch**: sessions at a distance of exactly the gap are one, as in Flink."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    def __str__(self) -> str:
        return f"[{time_text(self.start)}, {time_text(self.end)})"


@dataclass(frozen=True, slots=True, order=True)
class GlobalWindow:
    """The one window that contains everything and never ends. Flink: ``GlobalWindow``.

    Examples:
        >>> GlobalWindow() == GlobalWindow()
        True
    """

    def max_timestamp(self) -> int:
        """Return the end of time, which only the final watermark reaches."""
        return MAX_TIMESTAMP


Window = TimeWindow | GlobalWindow
"""The window of a function or trigger."""


__all__ = [
    "GlobalWindow",
    "TimeWindow",
    "Window",
]
