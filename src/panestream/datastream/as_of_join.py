"""As-of joins: each row of one stream joined with the row of another that is nearest in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from panestream.datastream.co_grouped import LONGEST, CoGroupedStream, JoinByTime, JoinedResult, kind_of_join
from panestream.datastream.result import WindowedResult
from panestream.datastream.two_streams import DELETES
from panestream.engine.explain import parts_of
from panestream.engine.operators.as_of_join import BACKWARD, DIRECTIONS, AsOfSpec
from panestream.engine.runtime.sides import INNER, LEFT_OUTER, OF_PAIRS
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.windowing.assigners import GlobalWindows
from panestream.windowing.time import Duration, format_duration, to_micros


@dataclass(frozen=True, eq=False, repr=False)
class AsOfJoin(JoinByTime):
    """An as-of join, created by :meth:`KeyedStream.asof_join`, which still needs the kind of join: :meth:`pairs`.

    >>> join = keyed.asof_join(views, direction="backward", tolerance="1 hour")
    >>> join.pairs("left", suffixes=("", "_view")).main.columns
    ['user', 'page', 'price', 'ts', 'page_view', 'price_view', 'ts_view']
    """

    direction: str
    tolerance: int | None
    deletes: bool

    @classmethod
    def of(cls, streams: CoGroupedStream, direction: str, tolerance: Duration | None, *, deletes: bool) -> AsOfJoin:
        """Check the arguments of :meth:`KeyedStream.asof_join`, and raise InvalidPlanError if they are wrong."""
        if direction not in DIRECTIONS:
            raise InvalidPlanError(f"asof_join: there is no direction {direction!r}; {did_you_mean(str(direction), DIRECTIONS)}")
        if deletes and direction != BACKWARD:
            raise InvalidPlanError(
                f"asof_join: deletes is about values that are valid from the time of their row on, and direction {direction!r} "
                "also takes later rows: leave out the direction, or drop such rows before pst.stream(df)"
            )
        micros = None if tolerance is None else to_micros(tolerance, "tolerance")
        if micros is not None and not 0 <= micros <= LONGEST:
            raise InvalidPlanError(f"asof_join: the tolerance is from 0 to 36,000 years, got {tolerance!r}")
        if streams.keyed.source.event_time is None:
            raise InvalidPlanError("asof_join goes by event time: .assign_timestamps(column, strategy) on both streams first")
        return cls(streams.window(GlobalWindows()), direction, micros, deletes)

    def pairs(self, how: str = INNER, *, suffixes: tuple[str, str] = ("", "")) -> WindowedResult:
        """Emit each row of the left stream with its partner, once.

        A row with a null in its key does not have a partner, as in SQL. ``.main`` has the key columns, then the columns of the
        left stream and of the right stream without their keys.

        Args:
            how: ``"inner"``, or ``"left"`` to also emit rows without a partner. A checkpoint is tied to it.
            suffixes: appended to the left and right column names that both streams have.

        Raises:
            InvalidPlanError: the kind of join is unknown, or two columns of the results have the same name.
        """
        kind, windows = kind_of_join(how, OF_PAIRS), self.windows
        if kind not in (INNER, LEFT_OUTER):
            raise InvalidPlanError(
                f"pairs: {how!r} would also emit right rows without a partner, and an as-of join is of left rows: take 'inner' "
                "or 'left', or exchange the streams"
            )
        values, types = self._stored_rows(*([DELETES] if self.deletes else []))
        operator = AsOfSpec(self.direction, self.tolerance, kind, self.deletes, **types, keys=windows.keyed.key_schema)
        return JoinedResult(windows, operator, values, joined=windows.paired(kind, suffixes))

    def _parts(self) -> Mapping[str, str]:
        within = "" if self.tolerance is None else f", at most {format_duration(self.tolerance)} away"
        return {"as of": f"{self.direction}{within}", **parts_of(self.windows.keyed)}


__all__ = ["AsOfJoin"]
