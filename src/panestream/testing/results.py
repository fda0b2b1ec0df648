"""The output of a harness. Times are integers; a ``repr`` shows them as times if they are microseconds."""

from __future__ import annotations

from typing import Any, NamedTuple

from panestream.tracing.texts import TraceTexts
from panestream.windowing.windows import Window

_WORDS = TraceTexts(in_microseconds=True)


class WindowResult(NamedTuple):
    """A result with its key, its window, and its timestamp (the last instant of the window).

    Examples:
        >>> import panestream as pst
        >>> harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max)
        >>> harness.process_element(3, "5 seconds", key="ann")
        >>> harness.end_of_input()
        >>> result = harness.extract_output()[0]
        >>> result.key, result.value
        ('ann', 3)
    """

    key: Any
    window: Window
    value: Any
    timestamp: int


class LateElement(NamedTuple):
    """A late element with its key and event time.

    Examples:
        >>> import panestream as pst
        >>> minutes = pst.TumblingEventTimeWindows.of("1 minute")
        >>> harness = pst.testing.WindowTestHarness(minutes, reduce=max, side_output_late_data=True)
        >>> harness.process_watermark("1 minute")
        >>> harness.process_element(3, "5 seconds", key="ann")
        >>> harness.extract_late_elements()
        [LateElement(key='ann', timestamp=00:00:05, value=3)]
    """

    key: Any
    timestamp: int
    value: Any


class _TimedResult(WindowResult):
    __slots__ = ()

    def __repr__(self) -> str:
        window, time = _WORDS.window(self.window), _WORDS.time(self.timestamp)
        return f"WindowResult(key={self.key!r}, window={window}, value={self.value!r}, timestamp={time})"


class _TimedLateElement(LateElement):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"LateElement(key={self.key!r}, timestamp={_WORDS.time(self.timestamp)}, value={self.value!r})"


def window_result(key: Any, window: Window, value: Any, timestamp: int, *, in_microseconds: bool) -> WindowResult:
    """Return a result whose ``repr`` shows times if they are in microseconds."""
    return (_TimedResult if in_microseconds else WindowResult)(key, window, value, timestamp)


def late_element(key: Any, timestamp: int, value: Any, *, in_microseconds: bool) -> LateElement:
    """Return a late element whose ``repr`` shows its time if it is in microseconds."""
    return (_TimedLateElement if in_microseconds else LateElement)(key, timestamp, value)


__all__ = ["LateElement", "WindowResult", "late_element", "window_result"]
