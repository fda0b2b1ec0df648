"""The end of the last windows that may have rows, as every key group can derive it from the largest event time alone."""

from __future__ import annotations

from panestream.errors import InvalidPlanError
from panestream.windowing.assigners import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    LookBackWindows,
    PredicateWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import MAX_TIMESTAMP

_KNOWN = (CumulatingEventTimeWindows, EventTimeSessionWindows, LookBackWindows, SlidingEventTimeWindows, TumblingEventTimeWindows)


def last_instant(assigner: WindowAssigner, newest: int) -> int:
    """Return the last instant of all windows of rows up to ``newest``, in engine units.

    >>> last_instant(TumblingEventTimeWindows(60), 130), last_instant(EventTimeSessionWindows(30), 130)
    (179, 159)
    """
    if isinstance(assigner, SeveralWindows):
        return max(last_instant(one, newest) for one in assigner.assigners)
    if isinstance(assigner, PredicateWindows):
        # A row exactly one gap after the last row would still be in its window.
        return min(newest + (assigner.gap or 0), MAX_TIMESTAMP)
    if isinstance(assigner, LookBackWindows):
        return min(newest + assigner.following, MAX_TIMESTAMP)
    if isinstance(assigner, TumblingEventTimeWindows) and assigner.stagger is not WindowStagger.ALIGNED:
        # Every key group has its own windows, and by then all of them are over.
        return min(newest + assigner.size - 1, MAX_TIMESTAMP)
    # Windows may have gaps between them, and the newest row may be in a gap.
    return max((window.max_timestamp() for window in assigner.assign_windows(None, newest, 0)), default=newest)


def check_closable(assigner: WindowAssigner) -> None:
    """Raise InvalidPlanError for windows whose end is unknown beforehand, naming them and the way out."""
    for one in assigner.assigners if isinstance(assigner, SeveralWindows) else (assigner,):
        if isinstance(one, EventTimeSessionWindows) and not isinstance(one.gap, int):
            raise InvalidPlanError(
                f"fire_at_end: when sessions of {one!r} end, their rows alone say, and the watermark would have to know it "
                "beforehand: give them one gap (.with_gap), or let the last ones wait for the next rows"
            )
        if not isinstance(one, _KNOWN) and not (isinstance(one, PredicateWindows) and one.gap is not None):
            raise InvalidPlanError(
                "fire_at_end closes windows of event time whose end follows from the time of a row: tumbling, sliding and "
                "cumulating ones, look-backs, sessions of one gap, and windows by predicates with a gap, "
                f"not {one!r}: leave it out"
            )


__all__ = ["check_closable", "last_instant"]
