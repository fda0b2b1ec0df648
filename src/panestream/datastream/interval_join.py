"""Interval joins: each row of one stream joined with the rows of another around its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from panestream.datastream.co_grouped import CoGroupedStream, CoGroupedWindows, JoinedResult, kind_of_join
from panestream.datastream.options import Options, check_options
from panestream.datastream.result import WindowedResult
from panestream.engine.explain import ReprHtml, parts_of
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.runtime.sides import INNER, OF_PAIRS, SIDES
from panestream.errors import InvalidPlanError
from panestream.spark.columns import type_of
from panestream.spark.types import to_arrow
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.time import Duration, format_duration, to_micros

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LONGEST = 2**60
"""In microseconds, some 36,000 years. The limit keeps sums of times and bounds from overflowing."""


@dataclass(frozen=True, eq=False, repr=False)
class IntervalJoin(ReprHtml):
    """Two keyed streams to join by time, created by :meth:`KeyedStream.interval_join`. Flink: ``IntervalJoin``."""

    streams: CoGroupedStream

    def between(self, lower: Duration, upper: Duration) -> IntervalPairs:
        """Join right rows from ``lower`` to ``upper`` after a left row's time, both inclusive. Flink: ``between``.

        E.g. ``"-1 hour"`` and ``"0 seconds"``. Raises InvalidPlanError without event time, or if ``lower`` is after ``upper``.
        """
        bounds = to_micros(lower, "lower bound"), to_micros(upper, "upper bound")
        if bounds[0] > bounds[1]:
            raise InvalidPlanError(f"between: the lower bound {lower!r} is after the upper bound {upper!r}. Swap them")
        if max(map(abs, bounds)) > _LONGEST:
            raise InvalidPlanError(f"between: bounds are at most 36,000 years, got {lower!r} and {upper!r}")
        if self.streams.keyed.source.event_time is None:
            raise InvalidPlanError(
                "interval_join needs event time. Call .assign_timestamps(column, strategy) on both streams first"
            )
        return IntervalPairs(self.streams.window(GlobalWindows()), *bounds)

    def _parts(self) -> Mapping[str, str]:
        return parts_of(self.streams)


@dataclass(frozen=True, eq=False, repr=False)
class IntervalPairs(ReprHtml):
    """An interval join with bounds, which still needs the kind of join. Flink: ``IntervalJoined``."""

    windows: CoGroupedWindows
    lower: int
    upper: int

    def lower_bound_exclusive(self) -> IntervalPairs:
        """Exclude rows exactly at the lower bound. Flink: ``lowerBoundExclusive``."""
        return replace(self, lower=self.lower + 1)

    def upper_bound_exclusive(self) -> IntervalPairs:
        """Exclude rows exactly at the upper bound. Flink: ``upperBoundExclusive``."""
        return replace(self, upper=self.upper - 1)

    def side_output_late_data(self, tag: str) -> IntervalPairs:
        """Send late rows to ``tag_left`` and ``tag_right`` instead of counting and dropping them.

        Rows before the watermark are late, since their partners may already be deleted. Flink: ``sideOutputLeftLateData``,
        ``sideOutputRightLateData``.
        """
        return replace(self, windows=self.windows.side_output_late_data(tag))

    def options(self, **options: Unpack[Options]) -> IntervalPairs:
        """Set ``key_groups``, ``tasks`` or ``memory_limit``; see :class:`~panestream.datastream.Options`.

        Raises:
            InvalidPlanError: an unknown option, one of windows, or a value that it does not take.
        """
        check_options(options, dict.fromkeys(("key_groups", "tasks", "memory_limit")))
        return replace(self, windows=self.windows.options(**options))

    def pairs(self, how: str = INNER, *, suffixes: tuple[str, str] = ("", "")) -> WindowedResult:
        """Emit each pair once, in the micro-batch in which the later row comes. Flink: ``process``.

        A row with a null in its key does not have partners, as in SQL. ``.main`` has the key columns, then the columns of the
        left stream and of the right stream without their keys.

        Args:
            how: ``"inner"``, or ``"left"``, ``"right"`` or ``"full"`` to also emit rows without a partner, in the micro-batch
                that moves the watermark past their interval. A checkpoint is tied to it.
            suffixes: appended to the left and right column names that both streams have.

        Raises:
            InvalidPlanError: the kind of join is unknown, two columns of the results have the same name, or the bounds are empty.
        """
        if self.lower > self.upper:
            raise InvalidPlanError("interval_join: the interval is empty. Include its bounds, or move one")
        kind, windows = kind_of_join(how, OF_PAIRS), self.windows
        values = {side: F.expr(windows.values_of(side)) for side in SIDES}
        df = windows.keyed.source.df
        left, right = (to_arrow(type_of(df, values[side]), f"the rows of the {side} stream") for side in SIDES)
        operator = IntervalSpec(self.lower, self.upper, kind, left, right, windows.keyed.key_schema)
        return JoinedResult(windows, operator, values, joined=windows.paired(kind, suffixes))

    def _parts(self) -> Mapping[str, str]:
        return {"between": f"{format_duration(self.lower)} and {format_duration(self.upper)}", **parts_of(self.windows.keyed)}


__all__ = ["IntervalJoin", "IntervalPairs"]
