"""Texts for numbers, times and names, and for the keys, rows and windows of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time

from panestream.tracing.events import Firing, Trace
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration, iso, time_text
from panestream.windowing.windows import TimeWindow, Window

_S = 1_000_000
_UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
MAX_SHOWN = 20
"""The most rows or windows described in words; ``.facts`` has all."""
MAX_LENGTH = 120
"""The most characters shown of keys, labels and results that users wrote."""


def moment(micros: int | None) -> str:
    """Return a time in UTC, rounded to the second, or ``-`` for None. Rounding shows the last instant of a window as its end.

    >>> moment(1_511_658_000_000_000), moment(1_511_657_999_999_999), moment(None)
    ('2017-11-26 01:00:00', '2017-11-26 01:00:00', '-')
    """
    return watermark_text(None if micros is None else (micros + _S // 2) // _S * _S)


def watermark_text(micros: int | None) -> str:
    """Return a watermark in UTC to the microsecond, as answers to ``why`` show it, or ``-`` for None.

    >>> watermark_text(1_511_657_999_999_999), watermark_text(1_511_658_000_000_000), watermark_text(None)
    ('2017-11-26 00:59:59.999999', '2017-11-26 01:00:00', '-')
    """
    text = iso(micros)
    return "-" if text is None else text.removesuffix("Z").replace("T", " ")


def span(micros: int | None) -> str:
    """Return a duration in its two largest units.

    >>> span(400_000), span(75_000_000), span(-3_600_000_000), span(90_061_000_000), span(None)
    ('0.4 s', '1 min 15 s', '-1 h', '1 d 1 h', '-')
    """
    if micros is None:
        return "-"
    if abs(micros) < 10 * _S:
        return f"{micros / _S:.1f} s".replace(".0 s", " s")
    rest, parts = round(abs(micros) / _S), list[str]()
    for name, unit in _UNITS:
        count, rest = divmod(rest, unit)
        if parts and not count:
            break
        if count:
            parts.append(f"{count:,} {name}")
        if len(parts) == 2:
            break
    return ("-" if micros < 0 else "") + " ".join(parts)


def size(count: int) -> str:
    """Return a number of bytes with its unit.

    >>> size(999), size(1_234_567)
    ('999 B', '1.2 MB')
    """
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.95 or unit == "TB":
            break
        amount /= 1000
    return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"


def number(count: int | None) -> str:
    """Return a count, or ``?`` if it is unknown."""
    return "?" if count is None else f"{count:,}"


def many(count: int, what: str) -> str:
    """Return a count with a noun.

    >>> many(1, "window"), many(1200, "window")
    ('1 window', '1,200 windows')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def printable(text: str, longest: int = MAX_LENGTH) -> str:
    r"""Return user text made harmless for terminals and pages, with invisible characters escaped.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in cut)


def behind(later: int | None, earlier: int | None) -> int | None:
    """Return how much later the first time is, or None if one is unknown."""
    return None if later is None or earlier is None else later - earlier


_MS = 1000
WHICH = {"early": "early", "on_time": "on time", "late": "late"}


class TraceTexts:
    """The notation of a trace's times: times of day if they are microseconds since the epoch, and plain numbers otherwise.

    >>> TraceTexts(in_microseconds=True).time(90_000_000), TraceTexts(in_microseconds=True).time(1_511_658_000_000_000)
    ('00:01:30', '2017-11-26 01:00:00')
    >>> TraceTexts(in_microseconds=False).window(TimeWindow(0, 10))
    '[0, 10)'
    """

    def __init__(self, *, in_microseconds: bool) -> None:
        self._in_microseconds = in_microseconds

    def time(self, time: int) -> str:
        """Return a time in UTC, without the day on the first day of the epoch, which examples use."""
        if not self._in_microseconds and MIN_TIMESTAMP < time < MAX_TIMESTAMP:
            return str(time)
        return time_text(time).removeprefix("1970-01-01 ")

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


def texts_of(trace: Trace) -> TraceTexts:
    """Return the notation of a trace's times."""
    return TraceTexts(in_microseconds=trace.in_microseconds)


def value(found: object) -> str:
    """Return the text of a key, a row or a result.

    >>> value(datetime(2026, 1, 1, 10)), value("ann"), value((1, datetime(2026, 1, 1)))
    ('2026-01-01 10:00:00', "'ann'", '(1, 2026-01-01 00:00:00)')
    """
    return printable(_text(found))


def listed(found: Sequence[object]) -> str:
    """Return the texts of several values."""
    return printable(", ".join(map(_text, found)), 300)


def _text(found: object) -> str:
    """Return the ``repr`` with readable times, and rows by their columns."""
    if isinstance(found, (date, datetime, time)):
        return str(found)
    columns = getattr(found, "columns", None)
    if isinstance(found, tuple) and isinstance(columns, tuple) and len(columns) == len(found):
        return f"({', '.join(f'{name}={_text(each)}' for name, each in zip(columns, found, strict=True))})"
    if type(found) is tuple:
        return f"({', '.join(map(_text, found))}{',' if len(found) == 1 else ''})"
    if type(found) is list:
        return f"[{', '.join(map(_text, found))}]"
    if type(found) is dict:
        return f"{{{', '.join(f'{key!r}: {_text(each)}' for key, each in found.items())}}}"
    return repr(found)
