"""Session windows, whose rows are separated by less than a gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Context, Decimal
from typing import Any, TypeVar

from panestream.errors import InvalidWindowError, did_you_mean
from panestream.windowing.aggregates.base import Expression, text_of
from panestream.windowing.assigners.base import MergingWindowAssigner, OneTimeAssigner, merge_touching
from panestream.windowing.assigners.predicates import PredicateWindows
from panestream.windowing.foreign_names import ForeignNamesOfClass
from panestream.windowing.signatures import GAP, GAP_IN_UNITS, check_function
from panestream.windowing.time import Duration, format_duration, to_micros
from panestream.windowing.windows import TimeWindow

GapExtractor = Callable[[Any], int]
"""The gap after an element, in microseconds. Flink: ``SessionWindowTimeGapExtractor``."""

Self = TypeVar("Self", bound="_Session")


@dataclass(frozen=True, slots=True)
class _GapOf:
    function: Callable[[Any], Duration]

    def __call__(self, element: Any) -> int:
        return to_micros(self.function(element), "the session gap of an element")


UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
"""The units of numeric gaps, in microseconds."""
LONGEST_GAP = 2**62
"""In microseconds. A time and a gap together must fit int64."""
_EXACT = Context(prec=60)


@dataclass(frozen=True, slots=True)
class GapColumn:
    """A gap from a column or SQL expression ``expr``, so that no Python runs per row; ``unit`` is None for an interval."""

    expr: str
    unit: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expr, str) or not self.expr.strip():
            raise InvalidWindowError(
                f"the gap of sessions must be the name of a column, a SQL expression or a Column, not {self.expr!r}"
            )
        if self.unit is not None and self.unit not in UNITS:
            raise InvalidWindowError(f"unknown unit {self.unit!r} of the session gap; {did_you_mean(str(self.unit), UNITS)}")

    @property
    def label(self) -> str:
        """The name of the column with the gap in microseconds."""
        return f"session gap {self.expr} in {self.unit or 'intervals'}"

    def __call__(self, element: Any) -> int:
        """Return the gap of a row in microseconds, from the labelled column or else the user's; refuse invalid ones."""
        labelled = self.label in getattr(type(element), "columns", ())
        gap = element[self.label] if labelled else self._in_units(element[self.expr])
        if gap is None or not 0 < gap < LONGEST_GAP:
            shown = element[self.label if labelled else self.expr]
            raise InvalidWindowError(
                f"the session gap {self.expr!r} must be positive (and less than 140,000 years): it is "
                f"{'null' if shown is None else shown!r} in {element!r}"
            )
        found: int = gap
        return found

    def _in_units(self, gap: Any) -> int | None:
        """Return a column's gap in microseconds, truncated as in SQL, or None if it is null or not finite."""
        if gap is None or isinstance(gap, timedelta):
            return None if gap is None else gap // timedelta(microseconds=1)
        factor = UNITS[self.unit or "microseconds"]
        scaled = _EXACT.multiply(gap, factor) if isinstance(gap, Decimal) else gap * factor
        return int(scaled) if math.isfinite(scaled) else None


@dataclass(frozen=True, slots=True, repr=False)
class _Session(OneTimeAssigner, MergingWindowAssigner, metaclass=ForeignNamesOfClass):
    gap: int | GapColumn | GapExtractor

    def __post_init__(self) -> None:
        if isinstance(self.gap, int) and not 0 < self.gap < LONGEST_GAP:
            raise InvalidWindowError(
                f"the gap of a session must be positive (and less than 140,000 years), got {format_duration(self.gap)!r}"
            )
        if not isinstance(self.gap, int) and not callable(self.gap):
            raise InvalidWindowError(
                f"the constructor of sessions takes whole microseconds or a function, not {self.gap!r}: "
                f"write {type(self).__name__}.with_gap('30 minutes')"
            )
        if callable(self.gap) and not isinstance(self.gap, (_GapOf, GapColumn)):
            check_function(self.gap, GAP_IN_UNITS, error=InvalidWindowError)

    @classmethod
    def with_gap(cls: type[Self], gap: Duration) -> Self:  # noqa: PYI019 - typing.Self came with 3.11
        """Return sessions that end after ``gap`` without rows; raise InvalidWindowError if it is not positive."""
        return cls(to_micros(gap, "gap"))

    @classmethod
    def with_dynamic_gap(cls: type[Self], gap_of: Callable[[Any], Duration]) -> Self:  # noqa: PYI019
        """Return sessions that end when no row comes for the gap of their elements.

        ``gap_of`` is called with each element and returns a positive duration, e.g. ``"30 minutes"``; others fail the query. (The
        constructor takes a function that returns microseconds.) Raises InvalidWindowError if it does not take one argument.
        """
        check_function(gap_of, GAP, error=InvalidWindowError)
        return cls(_GapOf(gap_of))

    @classmethod
    def with_gap_column(cls: type[Self], expr: Expression, unit: str | None = None) -> Self:  # noqa: PYI019
        """Return sessions like :meth:`with_dynamic_gap` with the gap in a column, so the query runs on columns without Python.

        ``expr`` is a column, SQL or Column of an interval type (days to seconds, with days of 24 hours), or a number with a
        ``unit`` (``"seconds"``, ``"milliseconds"`` or ``"microseconds"``), truncated to whole microseconds. A row fails the query
        if its gap is null, NaN, not positive, or 140,000 years and more. Raises InvalidWindowError without expression, or for an
        unknown unit.

        >>> EventTimeSessionWindows.with_gap_column("if(mobile, 5, 30) * 60", unit="seconds")
        EventTimeSessionWindows.with_gap_column('if(mobile, 5, 30) * 60', 'seconds')
        """
        return cls(GapColumn(text_of(expr), unit))

    @property
    def longest(self) -> int | None:
        """The longest duration of a session in microseconds, or None without a limit."""
        return None

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        gap = self.gap
        if not isinstance(gap, int):
            gap = gap(element)
            if not hasattr(gap, "__index__"):
                raise InvalidWindowError(
                    f"the session gap of an element must be an integer, in engine units, got {gap!r} for {element!r}; "
                    "with_dynamic_gap() takes a function that returns durations"
                )
            if not 0 < gap < LONGEST_GAP:
                raise InvalidWindowError(
                    "the session gap of an element must be positive (and less than 140,000 years), "
                    f"got {format_duration(gap)!r} for {element!r}"
                )
        return (TimeWindow(time, time + gap),)

    def merge_windows(self, windows: Sequence[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
        return merge_touching(windows)

    def __repr__(self) -> str:
        if isinstance(self.gap, int):
            return f"{type(self).__name__}.with_gap({format_duration(self.gap)!r})"
        if isinstance(self.gap, GapColumn):
            unit = "" if self.gap.unit is None else f", {self.gap.unit!r}"
            return f"{type(self).__name__}.with_gap_column({self.gap.expr!r}{unit})"
        if isinstance(self.gap, _GapOf):
            return f"{type(self).__name__}.with_dynamic_gap({self.gap.function!r})"
        return f"{type(self).__name__}({self.gap!r})"


@dataclass(frozen=True, slots=True, repr=False)
class EventTimeSessionWindows(_Session):
    """Sessions of event time: an element's own window is ``[ts, ts + gap)``. Flink: ``EventTimeSessionWindows``.

    Windows that overlap **or touch** merge, so a distance of exactly the gap is one session. The end never moves back; the start
    may, if a late element still touches the session.

    >>> EventTimeSessionWindows.with_gap("30 minutes")
    EventTimeSessionWindows.with_gap('30 minutes')
    """

    is_event_time = True

    def max_duration(self, longest: Duration) -> EventTimeSessionWindows:
        """Return the same sessions, cut at every multiple of ``longest`` (positive) since the epoch (UTC).

        A session that continues past a cut ends there, even if it is short, and the next row begins another. So ``"1 day"`` ends
        sessions at midnight. The result depends on the rows alone, not on their order.

        >>> EventTimeSessionWindows.with_gap("30 minutes").max_duration("4 hours")
        EventTimeSessionWindows.with_gap('30 minutes').max_duration('4 hours')
        """
        return LimitedEventTimeSessionWindows(self.gap, to_micros(longest, "longest session"))

    def closed_by(self, end: Expression) -> PredicateWindows:
        """Return sessions that end after a row with a true ``end``, such as a logout; the next row begins another.

        ``end`` is a boolean SQL expression or Column. Such a session fires when the watermark has passed that row. Sessions on
        both sides never merge, since a row is late once the watermark has reached it. Raises InvalidWindowError for a gap per row
        or a longest duration.

        >>> EventTimeSessionWindows.with_gap("30 minutes").closed_by("action = 'logout'")
        PredicateWindows.of(end="action = 'logout'", gap='30 minutes')
        """
        if type(self) is not EventTimeSessionWindows or not isinstance(self.gap, int):
            raise InvalidWindowError(
                f"closed_by is for sessions of one gap (.with_gap), without max_duration; these are {self!r}"
            )
        return PredicateWindows(end=text_of(end), gap=self.gap)


@dataclass(frozen=True, slots=True, repr=False)
class LimitedEventTimeSessionWindows(EventTimeSessionWindows):
    """The result of :meth:`EventTimeSessionWindows.max_duration`, which does not merge windows across a cut. Not in Flink.

    >>> sessions = LimitedEventTimeSessionWindows(30, 100)
    >>> sessions.assign_windows(None, 90, 0)
    (TimeWindow(start=90, end=100),)
    """

    limit: int = 0

    def __post_init__(self) -> None:
        # Not super(), since a dataclass with slots is another class than super() without arguments uses.
        EventTimeSessionWindows.__post_init__(self)
        if self.limit <= 0:
            raise InvalidWindowError(f"the longest session must be positive, got {format_duration(self.limit)!r}")

    @property
    def longest(self) -> int | None:
        return self.limit

    def _windows_at(self, time: int, element: Any) -> tuple[TimeWindow, ...]:
        (window,) = EventTimeSessionWindows._windows_at(self, time, element)  # noqa: SLF001 - what super() would be
        return (TimeWindow(time, min(window.end, self._cut_after(time))),)

    def merge_windows(self, windows: Sequence[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
        lots: dict[int, list[TimeWindow]] = {}
        for window in windows:
            lots.setdefault(self._cut_after(window.start), []).append(window)
        return [merged for lot in lots.values() for merged in merge_touching(lot)]

    def _cut_after(self, time: int) -> int:
        return (time // self.limit + 1) * self.limit

    def __repr__(self) -> str:
        return f"{EventTimeSessionWindows(self.gap)!r}.max_duration({format_duration(self.limit)!r})"


@dataclass(frozen=True, slots=True, repr=False)
class ProcessingTimeSessionWindows(_Session):
    """Sessions of processing time; a distance of exactly the gap gives two. Flink: ``ProcessingTimeSessionWindows``.

    >>> ProcessingTimeSessionWindows.with_gap("30 seconds")
    ProcessingTimeSessionWindows.with_gap('30 seconds')
    """

    is_event_time = False
