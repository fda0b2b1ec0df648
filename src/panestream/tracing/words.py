"""Texts for times, durations, keys and windows of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time

from panestream.pages.words import printable
from panestream.tracing.events import Firing, Trace
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration, iso
from panestream.windowing.windows import TimeWindow, Window

_MS = 1000
WHICH = {"early": "early", "on_time": "on time", "late": "late"}


class Words:
    """The notation of a trace's times: times of day if they are microseconds since the epoch, and plain numbers otherwise.

    >>> Words(in_microseconds=True).time(90_000_000), Words(in_microseconds=True).time(1_511_658_000_000_000)
    ('00:01:30', '2017-11-26 01:00:00')
    >>> Words(in_microseconds=False).window(TimeWindow(0, 10))
    '[0, 10)'
    """

    def __init__(self, *, in_microseconds: bool) -> None:
        self._in_microseconds = in_microseconds

    def time(self, time: int) -> str:
        """Return a time in UTC, without the day on the first day of the epoch, which examples use."""
        if time <= MIN_TIMESTAMP:
            return "the beginning of time"
        if time >= MAX_TIMESTAMP:
            return "the end of time"
        text = iso(time) if self._in_microseconds else None
        if text is None:
            return str(time)
        return text.removesuffix("Z").replace("T", " ").removeprefix("1970-01-01 ")

    def length(self, length: int) -> str:
        """Return a duration rounded up to the millisecond."""
        return format_duration(-(-length // _MS) * _MS) if self._in_microseconds else str(length)

    def window(self, window: Window) -> str:
        """Return a window's bounds."""
        return f"[{self.time(window.start)}, {self.time(window.end)})" if isinstance(window, TimeWindow) else "the global window"

    def cause(self, firing: Firing, trace: Trace) -> str:
        """Return what made a window fire."""
        cause, window = firing.cause, trace.windows[firing.window].window
        if cause.element is not None:
            return f"row {value(trace.elements[cause.element].value)} came"
        which = "watermark" if cause.kind == "event-time timer" else "clock"
        if isinstance(window, TimeWindow) and cause.time == window.max_timestamp():
            return f"the {which} passed its end"
        return f"the {which} passed {self.time(cause.time)}, where it had a timer"


def words_of(trace: Trace) -> Words:
    """Return the notation of a trace's times."""
    return Words(in_microseconds=trace.in_microseconds)


def value(found: object) -> str:
    """Return the text of a key, a row or a result.

    >>> value(datetime(2026, 1, 1, 10)), value("ann"), value((1, datetime(2026, 1, 1)))
    ('2026-01-01 10:00:00', "'ann'", '(1, 2026-01-01 00:00:00)')
    """
    return printable(_told(found))


def listed(found: Sequence[object]) -> str:
    """Return the texts of several values."""
    return printable(", ".join(map(_told, found)), 300)


def _told(found: object) -> str:
    """Return the ``repr`` with readable times, and rows by their columns."""
    if isinstance(found, (date, datetime, time)):
        return str(found)
    columns = getattr(found, "columns", None)
    if isinstance(found, tuple) and isinstance(columns, tuple) and len(columns) == len(found):
        return f"({', '.join(f'{name}={_told(each)}' for name, each in zip(columns, found, strict=True))})"
    if type(found) is tuple:
        return f"({', '.join(map(_told, found))}{',' if len(found) == 1 else ''})"
    if type(found) is list:
        return f"[{', '.join(map(_told, found))}]"
    if type(found) is dict:
        return f"{{{', '.join(f'{key!r}: {_told(each)}' for key, each in found.items())}}}"
    return repr(found)


__all__ = ["WHICH", "Words", "listed", "value", "words_of"]
