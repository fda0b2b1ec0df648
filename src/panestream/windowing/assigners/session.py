"""Session windows: what belongs together because no gap lies between."""

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
"""The gap that follows an element, in engine units. Flink: ``SessionWindowTimeGapExtractor``."""

Self = TypeVar("Self", bound="_Session")


@dataclass(frozen=True, slots=True)
class _GapOf:
    """Makes engine units of what the user's function returns."""

    function: Callable[[Any], Duration]

    def __call__(self, element: Any) -> int:
        return to_micros(self.function(element), "the session gap of an element")


UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
"""The units of gaps that are numbers, in microseconds."""
LONGEST_GAP = 2**62
"""In engine units; a time and a gap together must fit int64."""
_EXACT = Context(prec=60)


@dataclass(frozen=True, slots=True)
class GapColumn:
    """A gap that every row brings along, in a column or by a SQL expression: known before the query runs, so it needs no Python.

    Attributes:
        expr: the column's name, or SQL over the columns.
        unit: of numbers; None where the column is an interval.
    """

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
        """What the column is called that holds the gap in engine units."""
        return f"session gap {self.expr} in {self.unit or 'intervals'}"

    def __call__(self, element: Any) -> int:
        """The gap of one row, in engine units: from the labelled column if there is one, else from the one users named.

        Raises:
            InvalidWindowError: it is null, no number, not positive, or too long.
        """
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
        """What a column holds in engine units, as SQL would have it: less than one is cut off; None: it is no length at all."""
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
        """A session ends when nothing comes for ``gap``.

        Raises:
            InvalidWindowError: ``gap`` is not positive.
        """
        return cls(to_micros(gap, "gap"))

    @classmethod
    def with_dynamic_gap(cls: type[Self], gap_of: Callable[[Any], Duration]) -> Self:  # noqa: PYI019
        """A session ends when nothing comes for the gap that its elements ask for.

        Args:
            gap_of: called with each element; returns a duration, e.g. ``"30 minutes"``. One that is not positive fails the
                query. The constructor takes a function that returns engine units instead.

        Raises:
            InvalidWindowError: it is no function of one argument.
        """
        check_function(gap_of, GAP, error=InvalidWindowError)
        return cls(_GapOf(gap_of))

    @classmethod
    def with_gap_column(cls: type[Self], expr: Expression, unit: str | None = None) -> Self:  # noqa: PYI019
        """As :meth:`with_dynamic_gap`, with the gap in a column: no Python is called, so the query runs on columns.

        Args:
            expr: a column, SQL over the columns, or a Column, of an interval type (days to seconds; a day is 24 hours in every
                time zone), or a number with ``unit``, of which whole microseconds count. A row whose gap is null, NaN, not
                positive, or 140,000 years and more fails the query.
            unit: of a number: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"``.

        Raises:
            InvalidWindowError: no expression, or an unknown unit.

        >>> EventTimeSessionWindows.with_gap_column("if(mobile, 5, 30) * 60", unit="seconds")
        EventTimeSessionWindows.with_gap_column('if(mobile, 5, 30) * 60', 'seconds')
        """
        return cls(GapColumn(text_of(expr), unit))

    @property
    def longest(self) -> int | None:
        """How long a session may be, in engine units; None: as long as rows come."""
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

    Windows that overlap **or touch** merge: a distance of exactly the gap is one session. The end never moves back; the
    start may, by an element that comes late but still touches the session.

    >>> EventTimeSessionWindows.with_gap("30 minutes")
    EventTimeSessionWindows.with_gap('30 minutes')
    """

    is_event_time = True

    def max_duration(self, longest: Duration) -> EventTimeSessionWindows:
        """The same sessions, cut at every multiple of ``longest`` since the epoch (UTC): none is longer.

        A session that goes on past a cut ends there, and another begins with the next row. So ``"1 day"`` ends sessions at
        midnight. Short sessions are cut too where they lie across one. Which rows are together depends on the rows alone, not on
        the order in which they come.

        Args:
            longest: how far the cuts lie apart.

        Raises:
            InvalidWindowError: it is not positive.

        >>> EventTimeSessionWindows.with_gap("30 minutes").max_duration("4 hours")
        EventTimeSessionWindows.with_gap('30 minutes').max_duration('4 hours')
        """
        return LimitedEventTimeSessionWindows(self.gap, to_micros(longest, "longest session"))

    def closed_by(self, end: Expression) -> PredicateWindows:
        """Sessions that end at once behind a row for which ``end`` is true, such as a logout; the next row begins another.

        Such a session fires when the watermark has passed that row. Sessions on both sides of it do not merge, whatever comes
        later: a row is late as soon as the watermark has reached it.

        Args:
            end: SQL over the columns, or a Column, of booleans.

        Raises:
            InvalidWindowError: the gap is one for each row, or sessions have a longest duration.

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
    """What :meth:`EventTimeSessionWindows.max_duration` makes. Flink has nothing like it.

    An element's own window is ``[ts, ts + gap)``, or less where a cut comes first; windows on both sides of a cut do not merge.

    >>> sessions = LimitedEventTimeSessionWindows(30, 100)
    >>> sessions.assign_windows(None, 90, 0)
    (TimeWindow(start=90, end=100),)
    """

    limit: int = 0

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is not the class that super() without arguments means.
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
    """Sessions of the clock. Flink: ``ProcessingTimeSessionWindows``.

    When the clock stands at a session's end the session has just fired: a distance of exactly the gap gives two.

    >>> ProcessingTimeSessionWindows.with_gap("30 seconds")
    ProcessingTimeSessionWindows.with_gap('30 seconds')
    """

    is_event_time = False
