"""Two keyed streams together: joins in windows, interval joins, and functions over the rows of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa
from pyspark.sql import functions as F

from panestream.datastream.events import KeyedEvents, Options, check_options
from panestream.datastream.result import WindowedResult
from panestream.datastream.starting import checked_tag
from panestream.datastream.two_streams import check_apart
from panestream.datastream.windowed import Schema, WindowedStream, with_schema
from panestream.engine.co_groups import OfLists, OfTables
from panestream.engine.explain import ReprHtml, parts_of
from panestream.engine.operators.intervals import IntervalSpec
from panestream.engine.plan import MAIN, RESERVED, WindowPlan
from panestream.engine.runtime.sides import HOWS, INNER, LEFT, LEFT_ANTI, OF_PAIRS, RIGHT, SIDES, Pairs, Sides, join_called
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import Names, quoted, type_of
from panestream.spark.sinks.base import Sink
from panestream.spark.types import to_arrow
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import GlobalWindows, WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.assigners.rolling import RollingWindows
from panestream.windowing.foreign_names import advised
from panestream.windowing.functions import WindowFunction
from panestream.windowing.signatures import CO_GROUP_APPLY, CO_GROUP_ARROW, CO_GROUP_IN_PANDAS, check_function
from panestream.windowing.time import Duration, format_duration, to_micros

if TYPE_CHECKING:
    from pyspark.sql import Column
    from typing_extensions import Self, Unpack


def kind_of_join(how: object, known: Sequence[str]) -> str:
    """Return the kind of join with this Spark or Flink name; raise InvalidPlanError if it is not in ``known``."""
    kind = join_called(str(how))
    if kind is None:
        raise InvalidPlanError(f"pairs: there is no join {how!r}; {did_you_mean(str(how), known)}")
    if kind not in known:
        instead = (
            "take pairs('left') and keep the rows whose right columns are null, e.g. where('paid_at IS NULL')"
            if kind == LEFT_ANTI
            else "take pairs('inner'), which has a row for each partner"
        )
        raise InvalidPlanError(f"pairs: {how!r} is of joins in windows; here there are {', '.join(map(repr, known))}: {instead}")
    return kind


class _Windowing(Protocol):
    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Put events into windows."""


@dataclass(frozen=True, eq=False, repr=False)
class CoGroupedStream(ReprHtml):
    """Two keyed streams as one, created by :meth:`KeyedStream.join` and :meth:`KeyedStream.co_group`.

    Flink: ``CoGroupedStreams.Where.EqualTo``, ``JoinedStreams.Where.EqualTo``.

    >>> keyed.join(views).window(pst.tumbling("1 hour")).pairs(suffixes=("", "_view")).main.columns
    ['user', 'window_start', 'window_end', 'page', 'price', 'ts', 'page_view', 'price_view', 'ts_view']
    """

    keyed: KeyedEvents
    _windowing: _Windowing = field(repr=False)

    def window(self, assigner: WindowAssigner) -> CoGroupedWindows:
        """Put the rows of both streams into the same windows, by key; see :meth:`KeyedStream.window`. Both extend sessions."""
        windowed = self._windowing.window(assigner)
        return CoGroupedWindows(windowed.keyed, windowed.windowing, gap=windowed.gap)

    def _parts(self) -> dict[str, str]:
        return {"streams": " and ".join(SIDES), **parts_of(self.keyed)}


class CoGroupedWindows(WindowedStream):
    """The rows of two streams in windows. Flink: ``CoGroupedStreams.WithWindow``, ``JoinedStreams.WithWindow``.

    It is a windowed stream whose rows have the columns ``left`` and ``right``: a row has its columns on its side and null on the
    other. Triggers, evictors, lateness and aggregates work as for every windowed stream.

    >>> both = keyed.co_group(views).window(pst.tumbling("1 hour"))
    >>> counts = both.aggregate(agg.count("left").alias("clicks"), agg.count("right").alias("views"))
    >>> counts.main.columns
    ['user', 'window_start', 'window_end', 'clicks', 'views']
    """

    def pairs(self, how: str = INNER, *, suffixes: tuple[str, str] = ("", "")) -> WindowedResult:
        """Join each row of the left stream with each right row of the same key and window.

        A window that fires again, early or for a late row, emits all its pairs again, as in Flink
        (:meth:`WindowedResult.with_firing` identifies the firing). Rows without a partner are emitted when their window fires. A
        row with a null in its key does not have partners, as in SQL; for functions and aggregates such rows form one key.
        Flink: ``join(...).where(...).equalTo(...).window(...).apply(...)``, which supports ``inner`` only.

        Args:
            how: ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"left_semi"`` or ``"left_anti"``, or Spark's other names for
                them. It may be changed on an existing checkpoint.
            suffixes: appended to the left and right column names that both streams have.

        Returns:
            ``.main`` has the key columns, ``window_start``, ``window_end``, then the columns of the left stream and of the right
            stream, without their keys.

        Raises:
            InvalidPlanError: the kind of join is unknown, or two columns of the results have the same name.

        Examples:
            >>> joined = keyed.join(views).window(pst.tumbling("1 hour")).pairs("left", suffixes=("", "_view"))
            >>> joined.main.columns
            ['user', 'window_start', 'window_end', 'page', 'price', 'ts', 'page_view', 'price_view', 'ts_view']
        """
        kind = kind_of_join(how, HOWS)
        if look_backs_of(self.windowing.assigner) is not None:
            raise InvalidPlanError(
                "pairs: look-backs work on one stream. To join rows of two streams that are near in time, write "
                "left.interval_join(right).between('-1 hour', '0 seconds')"
            )
        if isinstance(self.windowing.assigner, RollingWindows):
            raise InvalidPlanError("pairs: rolling windows compute aggregates: write .aggregate(agg.count('left.price'), ...)")
        pairs = self.paired(kind, suffixes)
        lists = [agg.collect_list(self.values_of(side)).alias(side) for side in SIDES]
        made = self.aggregate(*lists)
        return JoinedResult(**{name: getattr(made, name) for name in WindowedResult.__dataclass_fields__}, joined=pairs)

    @advised(with_schema)
    def apply(self, function: WindowFunction | Callable[..., Any], schema: Schema) -> WindowedResult:
        """Run a function over the rows of both streams of each firing window. Flink: ``coGroup(...)...apply``.

        Args:
            function: takes key, window, and the lists of left and right rows, one of which may be empty. Returns zero or more
                results.
            schema: the columns of the results. A result is a tuple, a dict, or the bare value of a single column.
        """
        check_function(function, CO_GROUP_APPLY)
        return super().apply(OfLists(cast("Callable[..., Any]", function), self._sides), schema)

    @advised(with_schema)
    def apply_arrow(self, function: Callable[..., Any], schema: Schema, *, all_windows: bool = False) -> WindowedResult:
        """Run a function over the rows of both streams of each firing window, as Arrow tables.

        Args:
            function: takes key, window and two ``pyarrow.Table`` (one may be empty), and returns a table with ``schema``, rows,
                or None.
            schema: the columns of the results, without keys and window.
            all_windows: refused, since it works for one stream only.
        """
        if all_windows:
            raise InvalidPlanError("all_windows works on one stream. For pairs of all windows at once use .pairs(...)")
        check_function(function, CO_GROUP_ARROW)
        return super().apply_arrow(OfTables(function, self._sides), schema)

    @advised(with_schema)
    def apply_in_pandas(self, function: Callable[..., Any], schema: Schema) -> WindowedResult:
        """Run a function over the rows of both streams of each firing window, as pandas frames.

        Like :meth:`apply_arrow`, but the function takes two ``pandas.DataFrame``, and returns a frame, rows, or None.
        """
        check_function(function, CO_GROUP_IN_PANDAS)
        return super().apply_arrow(OfTables(function, self._sides, pandas=True), schema)

    def side_output_late_data(self, tag: str) -> Self:
        """Send late rows, as in their stream, to ``tag_left`` and ``tag_right`` instead of dropping them. Not in Flink."""
        for each in Sides.late_tags(checked_tag(tag)):
            self._check_free(checked_tag(each), [*self._sides.invalid, *self.side_outputs])
        return replace(self, late_tag=tag)

    @property
    def _sides(self) -> Sides:
        sides = self.keyed.source.sides
        assert sides is not None  # noqa: S101 - the streams were put together
        return sides

    def _own_columns(self, side: str) -> list[pa.Field]:
        """Return the columns of a side without its keys, which results have anyway."""
        names, sides = Names.of(self._df.sparkSession), self._sides
        schema, keys = (sides.left, sides.keys[0]) if side == LEFT else (sides.right, sides.keys[1])
        find_key = names.finder(keys)
        return [column for column in schema if find_key(column.name) is None]

    def values_of(self, side: str, *more: str) -> str:
        """Return the SQL for the columns of a row of one side, null for rows of the other; the checkpoint stores this text.

        ``more`` are columns of the rows of both streams to add.
        """
        fields = [f"`{side}`.{quoted(column.name)}" for column in self._own_columns(side)]
        fields += map(quoted, more)
        # A struct must have at least one field.
        return f"CASE WHEN `{side}` IS NOT NULL THEN struct({', '.join(fields or ['true AS is'])}) END"

    def paired(self, how: str, suffixes: tuple[str, str]) -> Pairs:
        """Return how a join combines the rows of a window; the arguments are those of :meth:`pairs`."""
        if not (isinstance(suffixes, tuple) and len(suffixes) == 2 and all(isinstance(one, str) for one in suffixes)):
            raise InvalidPlanError(f"pairs: suffixes are two texts, e.g. ('', '_right'), got {suffixes!r}")
        names = Names.of(self._df.sparkSession)
        columns = {side: self._own_columns(side) for side in SIDES}
        finders = [names.finder(column.name for column in columns[other]) for other in (RIGHT, LEFT)]
        shared = [
            {column.name for column in columns[side] if find(column.name) is not None}
            for side, find in zip(SIDES, finders, strict=True)
        ]
        of_right = how in OF_PAIRS
        called = {
            side: [one.with_name(one.name + suffix) if of_right and one.name in both else one for one in columns[side]]
            for side, suffix, both in zip(SIDES, suffixes, shared, strict=True)
        }
        schemas = {side: pa.schema([one.with_nullable(True) for one in called[side]]) for side in SIDES}
        reserved = (*self.keyed.key_schema.names, *RESERVED)
        check_apart(schemas[LEFT].names, schemas[RIGHT].names if of_right else [], reserved, names)
        return Pairs(how, schemas[LEFT], schemas[RIGHT], len(self.keyed.key_schema))


@dataclass(frozen=True, eq=False, repr=False)
class JoinedResult(WindowedResult):
    """The outputs of a join."""

    joined: Pairs | None = None

    @cached_property
    def plan(self) -> WindowPlan:
        return replace(super().plan, pairs=self.joined)

    @property
    def _result_names(self) -> Sequence[str]:
        # The operator has a list for each side, while the results have the columns of their rows.
        assert self.joined is not None  # noqa: S101 - made with it
        return self.joined.names

    def _sinks(
        self, method: str, outputs: Mapping[str, Sink] | None, keywords: Mapping[str, Sink], options: Mapping[str, object]
    ) -> dict[str, Sink]:
        sinks = super()._sinks(method, outputs, keywords, options)
        sink = sinks.get(MAIN)
        if sink is not None and sink.keeps_last:
            raise InvalidPlanError(
                f"the output {MAIN!r} ({sink.describe()}) keeps one row of each key and window, but a join has many. Append "
                f"them, e.g. to a ParquetSink or TableSink"
            )
        return sinks

    def changelog(self) -> WindowedResult:
        """Refuse, since a join has many rows for a key and window and a change could not identify its row."""
        raise InvalidPlanError(
            "changelog replaces the single row of a key and window, but a join has many rows. Use .with_firing(), and keep the "
            "rows of the newest firing of each key and window"
        )

    def top(self, n: int, by: str) -> WindowedResult:
        """Refuse, since it needs results with one row for each key and window."""
        raise InvalidPlanError(
            "top needs one result for each key and window, but a join has many. Rank the rows of .main yourself"
        )


LONGEST = 2**60
"""In microseconds, some 36,000 years. The limit keeps sums of times and bounds from overflowing."""


@dataclass(frozen=True, eq=False, repr=False)
class IntervalJoin(ReprHtml):
    """Two keyed streams to join by time, created by :meth:`KeyedStream.interval_join`. Flink: ``IntervalJoin``.

    >>> join = keyed.interval_join(views).between("-10 minutes", "0 seconds")
    >>> join.pairs("left", suffixes=("", "_view")).main.columns
    ['user', 'page', 'price', 'ts', 'page_view', 'price_view', 'ts_view']
    """

    streams: CoGroupedStream

    def between(self, lower: Duration, upper: Duration) -> IntervalPairs:
        """Join right rows from ``lower`` to ``upper`` after a left row's time, both inclusive. Flink: ``between``.

        E.g. ``"-1 hour"`` and ``"0 seconds"``. Raises InvalidPlanError without event time, or if ``lower`` is after ``upper``.
        """
        bounds = to_micros(lower, "lower bound"), to_micros(upper, "upper bound")
        if bounds[0] > bounds[1]:
            raise InvalidPlanError(f"between: the lower bound {lower!r} is after the upper bound {upper!r}. Swap them")
        if max(map(abs, bounds)) > LONGEST:
            raise InvalidPlanError(f"between: bounds are at most 36,000 years, got {lower!r} and {upper!r}")
        if self.streams.keyed.source.event_time is None:
            raise InvalidPlanError(
                "interval_join needs event time. Call .assign_timestamps(column, strategy) on both streams first"
            )
        return IntervalPairs(self.streams.window(GlobalWindows()), *bounds)

    def _parts(self) -> Mapping[str, str]:
        return parts_of(self.streams)


@dataclass(frozen=True, eq=False, repr=False)
class JoinByTime(ReprHtml):
    """A join without windows, which still needs its kind, :meth:`pairs`.

    >>> join = keyed.asof_join(views).side_output_late_data("late").options(key_groups=4)
    >>> isinstance(join, pst.datastream.JoinByTime), join.pairs(suffixes=("", "_view")).output("late_left").columns
    (True, ['user', 'page', 'price', 'ts'])
    """

    windows: CoGroupedWindows

    def side_output_late_data(self, tag: str) -> Self:
        """Send late rows to ``tag_left`` and ``tag_right`` instead of counting and dropping them.

        Rows before the watermark are late, since their partners may already be deleted. Flink: ``sideOutputLeftLateData``,
        ``sideOutputRightLateData``.
        """
        return replace(self, windows=self.windows.side_output_late_data(tag))

    def options(self, **options: Unpack[Options]) -> Self:
        """Set ``key_groups``, ``tasks`` or ``memory_limit``; see :class:`~panestream.datastream.Options`.

        Raises:
            InvalidPlanError: an unknown option, one of windows, or a value that it does not take.
        """
        check_options(options, dict.fromkeys(("key_groups", "tasks", "memory_limit")))
        return replace(self, windows=self.windows.options(**options))

    def _stored_rows(self, *of_right: str) -> tuple[dict[str, Column], dict[str, pa.DataType]]:
        """Return the stored part of each side's rows, and its type; ``of_right`` are columns to add to the right one."""
        texts = {side: self.windows.values_of(side, *(of_right if side == RIGHT else ())) for side in SIDES}
        values = {side: F.expr(text) for side, text in texts.items()}
        df = self.windows.keyed.source.df
        return values, {side: to_arrow(type_of(df, values[side]), f"the rows of the {side} stream") for side in SIDES}


@dataclass(frozen=True, eq=False, repr=False)
class IntervalPairs(JoinByTime):
    """An interval join with bounds, which still needs the kind of join. Flink: ``IntervalJoined``.

    >>> join = keyed.interval_join(views).between("-10 minutes", "0 seconds").lower_bound_exclusive()
    >>> join.pairs(suffixes=("", "_view")).main.columns
    ['user', 'page', 'price', 'ts', 'page_view', 'price_view', 'ts_view']
    """

    lower: int
    upper: int

    def lower_bound_exclusive(self) -> IntervalPairs:
        """Exclude rows exactly at the lower bound. Flink: ``lowerBoundExclusive``."""
        return replace(self, lower=self.lower + 1)

    def upper_bound_exclusive(self) -> IntervalPairs:
        """Exclude rows exactly at the upper bound. Flink: ``upperBoundExclusive``."""
        return replace(self, upper=self.upper - 1)

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
        values, types = self._stored_rows()
        operator = IntervalSpec(self.lower, self.upper, kind, **types, keys=windows.keyed.key_schema)
        return JoinedResult(windows, operator, values, joined=windows.paired(kind, suffixes))

    def _parts(self) -> Mapping[str, str]:
        return {"between": f"{format_duration(self.lower)} and {format_duration(self.upper)}", **parts_of(self.windows.keyed)}
