"""The commonest windows by short names: functions that return the assigners."""

from __future__ import annotations

from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.assigners.cumulating import CumulatingEventTimeWindows, CumulatingProcessingTimeWindows
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.assigners.session import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.assigners.sliding import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from panestream.windowing.assigners.tumbling import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from panestream.windowing.time import Duration

__all__ = ["count", "cumulating", "session", "sliding", "tumbling"]


def tumbling(size: Duration, *, offset: Duration = "0 seconds", processing_time: bool = False) -> WindowAssigner:
    """Return windows of one size that do not overlap. Spark: ``F.window(ts, size)``; Flink: ``TumblingEventTimeWindows``.

    Args:
        size: the length of a window, e.g. ``"1 hour"`` or ``timedelta(hours=1)``.
        offset: how much later than the epoch windows begin; days begin at midnight of UTC+8 with ``"-8 hours"``.
        processing_time: whether windows follow the clock instead of the rows' event times.

    Raises:
        InvalidWindowError: ``size`` is not positive, or ``abs(offset) >= size``.

    >>> tumbling("1 hour")
    TumblingEventTimeWindows.of('1 hour')
    """
    kind = TumblingProcessingTimeWindows if processing_time else TumblingEventTimeWindows
    return kind.of(size, offset)


def sliding(size: Duration, slide: Duration, *, offset: Duration = "0 seconds", processing_time: bool = False) -> WindowAssigner:
    """Return windows of one size that begin every ``slide``. Spark: ``F.window(ts, size, slide)``.

    Args:
        size: the length of a window.
        slide: the distance from one window to the next.
        offset: how much later than the epoch windows begin.
        processing_time: whether windows follow the clock instead of the rows' event times.

    Raises:
        InvalidWindowError: ``size`` or ``slide`` is not positive, or ``abs(offset) >= slide``.

    >>> sliding("1 hour", "5 minutes")
    SlidingEventTimeWindows.of('1 hour', '5 minutes')
    """
    kind = SlidingProcessingTimeWindows if processing_time else SlidingEventTimeWindows
    return kind.of(size, slide, offset)


def cumulating(
    max_size: Duration, step: Duration, *, offset: Duration = "0 seconds", processing_time: bool = False
) -> WindowAssigner:
    """Return windows that begin together and grow by ``step``. Flink SQL: ``CUMULATE``.

    Args:
        max_size: the length of the longest window, after which the next ones begin.
        step: how much longer each window is than the one before.
        offset: how much later than the epoch windows begin.
        processing_time: whether windows follow the clock instead of the rows' event times.

    Raises:
        InvalidWindowError: a duration is not positive, or ``max_size`` is not a multiple of ``step``.

    >>> cumulating("1 day", "1 hour")
    CumulatingEventTimeWindows.of('1 day', '1 hour')
    """
    kind = CumulatingProcessingTimeWindows if processing_time else CumulatingEventTimeWindows
    return kind.of(max_size, step, offset)


def session(gap: Duration, *, processing_time: bool = False) -> WindowAssigner:
    """Return windows that end after ``gap`` without rows of the key. Spark: ``F.session_window(ts, gap)``.

    :class:`~panestream.EventTimeSessionWindows` has more: a gap from a column, a longest duration.

    Args:
        gap: how long a key must be silent.
        processing_time: whether windows follow the clock instead of the rows' event times.

    Raises:
        InvalidWindowError: ``gap`` is not positive.

    >>> session("30 minutes")
    EventTimeSessionWindows.with_gap('30 minutes')
    """
    kind = ProcessingTimeSessionWindows if processing_time else EventTimeSessionWindows
    return kind.with_gap(gap)


def count(size: int, slide: int | None = None) -> CountWindows:
    """Return windows of ``size`` rows of a key; with ``slide``, the last ``size`` rows after every ``slide`` rows.

    Args:
        size: the number of rows in a window. An incomplete rest at the end is not emitted.
        slide: after how many rows a window fires. The first firings have fewer than ``size`` rows.

    Raises:
        InvalidWindowError: a number is negative or not an integer.

    >>> count(100)
    CountWindows(size=100)
    """
    return CountWindows(size, slide)
