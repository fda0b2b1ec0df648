"""Short functions for the most common assigners."""

from __future__ import annotations

from collections.abc import Mapping

from panestream.windowing.assigners.aligned import (
    CumulatingEventTimeWindows,
    CumulatingProcessingTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.assigners.rolling import RollingWindows
from panestream.windowing.assigners.session import EventTimeSessionWindows, ProcessingTimeSessionWindows
from panestream.windowing.time import Duration


def tumbling(size: Duration, *, offset: Duration = "0 seconds", processing_time: bool = False) -> WindowAssigner:
    """Return windows of one size that do not overlap. Spark: ``F.window(ts, size)``; Flink: ``TumblingEventTimeWindows``.

    Args:
        size: the length of a window, e.g. ``"1 hour"`` or ``timedelta(hours=1)``.
        offset: the delay of windows relative to the epoch, e.g. ``"-8 hours"`` for days from midnight in UTC+8.
        processing_time: whether windows follow the clock instead of the rows' event times.

    Raises InvalidWindowError if ``size`` is not positive, or ``abs(offset) >= size``.

    >>> tumbling("1 hour")
    TumblingEventTimeWindows.of('1 hour')
    """
    kind = TumblingProcessingTimeWindows if processing_time else TumblingEventTimeWindows
    return kind.of(size, offset)


def sliding(size: Duration, slide: Duration, *, offset: Duration = "0 seconds", processing_time: bool = False) -> WindowAssigner:
    """Return windows of ``size`` that begin every ``slide``. Spark: ``F.window(ts, size, slide)``.

    ``offset`` and ``processing_time`` are as for :func:`tumbling`. Raises InvalidWindowError if ``size`` or ``slide`` is not
    positive, or ``abs(offset) >= slide``.

    >>> sliding("1 hour", "5 minutes")
    SlidingEventTimeWindows.of('1 hour', '5 minutes')
    """
    kind = SlidingProcessingTimeWindows if processing_time else SlidingEventTimeWindows
    return kind.of(size, slide, offset)


def cumulating(
    max_size: Duration, step: Duration, *, offset: Duration = "0 seconds", processing_time: bool = False
) -> WindowAssigner:
    """Return windows that begin together and grow by ``step`` up to ``max_size``: the day so far. Flink SQL: ``CUMULATE``.

    ``offset`` and ``processing_time`` are as for :func:`tumbling`. Raises InvalidWindowError if a duration is not positive, or
    ``max_size`` is not a multiple of ``step``.

    >>> cumulating("1 day", "1 hour")
    CumulatingEventTimeWindows.of('1 day', '1 hour')
    """
    kind = CumulatingProcessingTimeWindows if processing_time else CumulatingEventTimeWindows
    return kind.of(max_size, step, offset)


def session(gap: Duration, *, processing_time: bool = False) -> WindowAssigner:
    """Return windows that end after ``gap`` (positive) without rows of the key. Spark: ``F.session_window(ts, gap)``.

    Two rows at a distance of exactly ``gap`` are in one session, as in Flink. ``window_end`` is the last row's time plus ``gap``.

    ``processing_time`` is as for :func:`tumbling`. :class:`~panestream.EventTimeSessionWindows` has more options.

    >>> session("30 minutes")
    EventTimeSessionWindows.with_gap('30 minutes')
    """
    kind = ProcessingTimeSessionWindows if processing_time else EventTimeSessionWindows
    return kind.with_gap(gap)


def count(size: int, slide: int | None = None) -> CountWindows:
    """Return windows of ``size`` rows of a key; with ``slide``, the last ``size`` rows after every ``slide`` rows.

    An incomplete remainder is not emitted, and with ``slide`` the first firings have fewer rows. Both must be integers >= 0.

    >>> count(100)
    CountWindows(size=100)
    """
    return CountWindows(size, slide)


def rolling(windows: Mapping[str, Duration | None], *, every: Duration) -> RollingWindows:
    """Return windows that end now: the last hour, the last day, ever. Results have a row when a value of a key changes.

    Args:
        windows: the length of each window by its label, e.g. ``{"1h": "1 hour", "24h": "24 hours", "ever": None}``. None means
            all time.
        every: the step of time at which rows enter and leave. It must divide all lengths.

    Raises InvalidWindowError if a length is not a positive multiple of ``every``.

    >>> rolling({"1h": "1 hour"}, every="1 minute")
    RollingWindows.of({'1h': '1 hour'}, every='1 minute')
    """
    return RollingWindows.of(windows, every=every)
