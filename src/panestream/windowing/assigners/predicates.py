"""Windows that begin and end at rows with certain properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from panestream.errors import InvalidPlanError, InvalidWindowError
from panestream.windowing.aggregates.base import Expression, text_of
from panestream.windowing.assigners.base import WindowAssigner
from panestream.windowing.time import Duration, format_duration, to_micros
from panestream.windowing.windows import TimeWindow

LONGEST_GAP = 2**61
"""In microseconds. A time and a gap together must fit int64."""


@dataclass(frozen=True, slots=True, repr=False)
class PredicateWindows(WindowAssigner):
    """Windows from a row with a true ``start`` to a row with a true ``end``, or until before the next start.

    The rows of each key are processed in the order of their event times; those with the same time are one step. A window ends:

    - after a row with a true ``end``: ``window_end`` is an instant after it, and the row is in the window;
    - before the next row with a true ``start``, which begins another: ``window_end`` is the time of that row;
    - a ``gap`` after its last row, if no other row of the key has come until then.

    Rows between two windows are in none. Without ``start``, every row outside a window begins one. Flink only has patterns of
    ``MATCH_RECOGNIZE``.

    >>> PredicateWindows.of(start="state = 'on'", end="state = 'off'")
    PredicateWindows.of(start="state = 'on'", end="state = 'off'")
    >>> PredicateWindows.of(end="action = 'logout'", gap="30 minutes")
    PredicateWindows.of(end="action = 'logout'", gap='30 minutes')
    """

    start: str | None = None
    end: str | None = None
    gap: int | None = None

    is_event_time = True
    columns_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for what, predicate in (("start", self.start), ("end", self.end)):
            if predicate is not None and (not isinstance(predicate, str) or not predicate.strip()):
                raise InvalidWindowError(f"{what} of windows must be SQL over the columns, or a Column, got {predicate!r}")
        if self.start is None and self.end is None:
            raise InvalidWindowError(
                "windows by predicates need one, start='…' or end='…'; with a gap alone they are "
                "EventTimeSessionWindows.with_gap('30 minutes')"
            )
        if self.gap is not None and (isinstance(self.gap, bool) or not isinstance(self.gap, int)):
            raise InvalidWindowError(
                f"the constructor takes whole microseconds, not {self.gap!r}: write PredicateWindows.of(...)"
            )
        if self.gap is not None and not 0 < self.gap < LONGEST_GAP:
            raise InvalidWindowError(f"the gap must be positive, and less than 70,000 years: got {format_duration(self.gap)!r}")

    @classmethod
    def of(
        cls, *, start: Expression | None = None, end: Expression | None = None, gap: Duration | None = None
    ) -> PredicateWindows:
        """Return windows by predicates, at least one, or raise InvalidWindowError. ``gap`` must be positive.

        ``start`` and ``end`` are boolean SQL expressions or Columns for the first and last row; null counts as false. ``gap`` is
        the time without rows of the key that ends a window. Without it a window waits for its end forever and stays in the state;
        in a batch a window without end is not emitted.
        """
        texts = [None if one is None else text_of(one) for one in (start, end)]
        return cls(texts[0], texts[1], None if gap is None else to_micros(gap, "gap"))

    @property
    def predicates(self) -> tuple[str, ...]:
        """The given predicates."""
        return tuple(one for one in (self.start, self.end) if one is not None)

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> Sequence[TimeWindow]:
        raise InvalidPlanError(f"{self!r}: the window of a row depends on earlier rows, so they run on columns only")

    def __repr__(self) -> str:
        given = [f"{what}={one!r}" for what, one in (("start", self.start), ("end", self.end)) if one is not None]
        given += [] if self.gap is None else [f"gap={format_duration(self.gap)!r}"]
        return f"PredicateWindows.of({', '.join(given)})"
