"""Interval joins: each row of one stream with the rows of another around its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from panestream.datastream.co_grouped import CoGroupedStream, CoGroupedWindows, JoinedResult, kind_of_join
from panestream.datastream.options import Options, check_options
from panestream.datastream.result import WindowedResult
from panestream.engine.explain import Shown, parts_of
from panestream.engine.operators.intervals.spec import IntervalSpec
from panestream.engine.runtime.sides import INNER, OF_PAIRS, SIDES
from panestream.errors import InvalidPlanError
from panestream.spark.columns import type_of
from panestream.spark.types import to_arrow
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.time import Duration, format_duration, to_micros

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LONGEST = 2**60
"""In microseconds, some 36,000 years: times and bounds together must not overflow."""


@dataclass(frozen=True, eq=False, repr=False)
class IntervalJoin(Shown):
    """Two keyed streams whose rows are to meet by time. Made by :meth:`KeyedStream.interval_join`. Flink: ``IntervalJoin``."""

    streams: CoGroupedStream

    def between(self, lower: Duration, upper: Duration) -> IntervalPairs:
        """Rows of the right meet a row of the left from ``lower`` to ``upper`` after its time, both included. Flink: ``between``.

        Args:
            lower: e.g. ``"-1 hour"``: from an hour before it on.
            upper: e.g. ``"0 seconds"``: to its own time.

        Raises:
            InvalidPlanError: the streams have no event time; or ``lower`` is after ``upper``.
        """
        bounds = to_micros(lower, "lower bound"), to_micros(upper, "upper bound")
        if bounds[0] > bounds[1]:
            raise InvalidPlanError(f"between: the lower bound {lower!r} is after the upper one {upper!r}: exchange them")
        if max(map(abs, bounds)) > _LONGEST:
            raise InvalidPlanError(f"between: bounds are at most 36,000 years, got {lower!r} and {upper!r}")
        if self.streams.keyed.source.event_time is None:
            raise InvalidPlanError("interval_join goes by event time: .assign_timestamps(column, strategy) on both streams first")
        return IntervalPairs(self.streams.window(GlobalWindows()), *bounds)

    def _parts(self) -> Mapping[str, str]:
        return parts_of(self.streams)


@dataclass(frozen=True, eq=False, repr=False)
class IntervalPairs(Shown):
    """An interval join: what is left to say is what becomes of rows without a partner, and of late ones.

    Flink: ``IntervalJoined``.
    """

    windows: CoGroupedWindows
    lower: int
    upper: int

    def lower_bound_exclusive(self) -> IntervalPairs:
        """Leaves out rows exactly at the lower bound. Flink: ``lowerBoundExclusive``."""
        return replace(self, lower=self.lower + 1)

    def upper_bound_exclusive(self) -> IntervalPairs:
        """Leaves out rows exactly at the upper bound. Flink: ``upperBoundExclusive``."""
        return replace(self, upper=self.upper - 1)

    def side_output_late_data(self, tag: str) -> IntervalPairs:
        """Sends late rows to two outputs, those of the left to ``tag_left`` and those of the right to ``tag_right``.

        A row is late if its time is before the watermark: rows that it could meet may be gone. Without this they are counted and
        dropped. Flink: ``sideOutputLeftLateData``, ``sideOutputRightLateData``.
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
        """The pairs, each once: in the micro-batch in which the later row comes. Flink: ``process``.

        A row whose key has a null meets none, as in SQL.

        Args:
            how: ``"inner"``, ``"left"``, ``"right"`` or ``"full"``: which rows come without a partner too, in the micro-batch
                that moves the watermark past their interval. A checkpoint is tied to it.
            suffixes: what is added to the names of the left and of the right columns, where both streams have one of that name.

        Returns:
            ``.main`` has the key columns, then the columns of the left stream and those of the right one, without their keys.

        Raises:
            InvalidPlanError: no such kind of join; a column of both streams, or one of the results', is called the same; the
                bounds leave nothing between them.
        """
        if self.lower > self.upper:
            raise InvalidPlanError("interval_join: nothing lies between the bounds: include them, or move one")
        kind, windows = kind_of_join(how, OF_PAIRS), self.windows
        values = {side: F.expr(windows.values_of(side)) for side in SIDES}
        df = windows.keyed.source.df
        left, right = (to_arrow(type_of(df, values[side]), f"the rows of the {side} stream") for side in SIDES)
        operator = IntervalSpec(self.lower, self.upper, kind, left, right, windows.keyed.key_schema)
        return JoinedResult(windows, operator, values, joined=windows.paired(kind, suffixes))

    def _parts(self) -> Mapping[str, str]:
        return {"between": f"{format_duration(self.lower)} and {format_duration(self.upper)}", **parts_of(self.windows.keyed)}


__all__ = ["IntervalJoin", "IntervalPairs"]
