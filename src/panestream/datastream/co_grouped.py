"""Two streams in the same windows: joins, and functions that see the rows of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from panestream.datastream.events import KeyedEvents
from panestream.datastream.names import RESERVED, checked_tag
from panestream.datastream.result import WindowedResult
from panestream.datastream.two_streams import check_apart
from panestream.datastream.windowed import Schema, WindowedStream, with_schema
from panestream.engine.co_groups import OfLists, OfTables
from panestream.engine.explain import Shown, parts_of
from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.sides import (
    HOWS,
    INNER,
    LEFT,
    LEFT_ANTI,
    OF_PAIRS,
    RIGHT,
    SIDES,
    Pairs,
    Sides,
    join_called,
)
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import quoted
from panestream.spark.names import Names
from panestream.spark.sinks.base import Sink
from panestream.windowing import aggregates as agg
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.assigners.look_back import look_backs_of
from panestream.windowing.foreign_names import advised
from panestream.windowing.functions import WindowFunction
from panestream.windowing.signatures import CO_GROUP_APPLY, CO_GROUP_ARROW, CO_GROUP_IN_PANDAS, check_function

if TYPE_CHECKING:
    from typing_extensions import Self


def kind_of_join(how: object, known: Sequence[str]) -> str:
    """A kind of joins, by the name that Spark or Flink has for it.

    Raises:
        InvalidPlanError: it is none of those that are known.
    """
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
    """A keyed stream, as far as it is needed here."""

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """Puts its events into windows."""


@dataclass(frozen=True, eq=False, repr=False)
class CoGroupedStream(Shown):
    """Two keyed streams that are one. Made by :meth:`KeyedStream.join` and :meth:`KeyedStream.co_group`.

    Flink: ``CoGroupedStreams.Where.EqualTo``, ``JoinedStreams.Where.EqualTo``.
    """

    keyed: KeyedEvents
    _windowing: _Windowing = field(repr=False)

    def window(self, assigner: WindowAssigner) -> CoGroupedWindows:
        """Puts the rows of both streams into windows: rows of one key and window meet.

        A session goes on with rows of either stream.

        Args:
            assigner: any, e.g. ``TumblingEventTimeWindows.of("1 hour")``, or one of your own.

        Raises:
            InvalidPlanError: it is no assigner, or needs event time and none was assigned.
        """
        made = self._windowing.window(assigner)
        return CoGroupedWindows(made.keyed, made.windowing, gap=made.gap)

    def _parts(self) -> dict[str, str]:
        return {"streams": " and ".join(SIDES), **parts_of(self.keyed)}


class CoGroupedWindows(WindowedStream):
    """The rows of two streams in windows. Flink: ``CoGroupedStreams.WithWindow``, ``JoinedStreams.WithWindow``.

    It is a windowed stream whose rows have two columns, ``left`` and ``right``: each row's own columns on its side, null on the
    other. Triggers, evictors, lateness and aggregates are those of every windowed stream.
    """

    def pairs(self, how: str = INNER, *, suffixes: tuple[str, str] = ("", "")) -> WindowedResult:
        """Joins the streams: each row of the left with each row of the right of the same key and window.

        A window that fires again, for a late row or early, emits all its pairs again, as in Flink
        (:meth:`WindowedResult.with_firing` says which firing a row is of). Rows without a partner come when their window fires.
        A row whose key has a null has none, as in SQL; of functions and aggregates over both sides such rows are one key.
        Flink: ``join(...).where(...).equalTo(...).window(...).apply(...)``, which knows ``inner`` only.

        Args:
            how: ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"left_semi"`` or ``"left_anti"``, or what else Spark calls
                these. It may be changed on an existing checkpoint.
            suffixes: what is added to the names of the left and of the right columns, where both streams have one of that name.

        Returns:
            ``.main`` has the key columns, ``window_start``, ``window_end``, then the columns of the left stream and those of the
            right one, without their keys.

        Raises:
            InvalidPlanError: no such kind of join; a column of both streams, or one of the results', is called the same.

        Examples:
            >>> clicks.join(views).window(hours).pairs("left", suffixes=("", "_view"))  # doctest: +SKIP
        """
        kind = kind_of_join(how, HOWS)
        if look_backs_of(self.windowing.assigner) is not None:
            raise InvalidPlanError(
                "pairs: look-backs are of the rows of one stream; rows of two streams that are near in time meet by "
                "left.interval_join(right).between('-1 hour', '0 seconds')"
            )
        pairs = self.paired(kind, suffixes)
        lists = [agg.collect_list(self.values_of(side)).alias(side) for side in SIDES]
        made = self.aggregate(*lists)
        return JoinedResult(**{name: getattr(made, name) for name in WindowedResult.__dataclass_fields__}, joined=pairs)

    @advised(with_schema)
    def apply(self, function: WindowFunction | Callable[..., Any], schema: Schema) -> WindowedResult:
        """Runs a function over the rows of both streams of each firing window. Flink: ``coGroup(...)...apply``.

        Args:
            function: of key, window, the rows of the left and those of the right, two lists of which one may be empty; returns
                results, none to many.
            schema: their columns. A result is a tuple or dict of such, or the bare value where there is one column.
        """
        check_function(function, CO_GROUP_APPLY)
        return super().apply(OfLists(cast("Callable[..., Any]", function), self._sides), schema)

    @advised(with_schema)
    def apply_arrow(self, function: Callable[..., Any], schema: Schema, *, all_windows: bool = False) -> WindowedResult:
        """Runs a function over the rows of both streams of each firing window, as Arrow tables.

        Args:
            function: of key, window and two ``pyarrow.Table``, of which one may be empty; returns a table with the columns of
                ``schema``, rows, or None.
            schema: the columns of the results, besides keys and window.
            all_windows: of one stream only; refused here.
        """
        if all_windows:
            raise InvalidPlanError("all_windows is of one stream; for pairs of all windows at once take .pairs(...)")
        check_function(function, CO_GROUP_ARROW)
        return super().apply_arrow(OfTables(function, self._sides), schema)

    @advised(with_schema)
    def apply_in_pandas(self, function: Callable[..., Any], schema: Schema) -> WindowedResult:
        """Runs a function over the rows of both streams of each firing window, as pandas frames.

        Args:
            function: of key, window and two ``pandas.DataFrame``, of which one may be empty; returns a frame with the columns of
                ``schema``, rows, or None.
            schema: the columns of the results, besides keys and window.
        """
        check_function(function, CO_GROUP_IN_PANDAS)
        return super().apply_arrow(OfTables(function, self._sides, pandas=True), schema)

    def side_output_late_data(self, tag: str) -> Self:
        """Sends late rows to two outputs, those of the left to ``tag_left`` and those of the right to ``tag_right``.

        Each has the columns of its stream. Without it they are counted and dropped. Flink has no counterpart for two streams.
        """
        for one in Sides.late_tags(checked_tag(tag)):
            self._check_free(checked_tag(one), [*self._sides.invalid, *self.side_outputs])
        return replace(self, late_tag=tag)

    @property
    def _sides(self) -> Sides:
        sides = self.keyed.source.sides
        assert sides is not None  # noqa: S101 - the streams were put together
        return sides

    def _own_columns(self, side: str) -> list[pa.Field]:
        """The columns of a side that are not called as its keys: results have these anyway."""
        names, sides = Names.of(self._df.sparkSession), self._sides
        schema, keys = (sides.left, sides.keys[0]) if side == LEFT else (sides.right, sides.keys[1])
        find_key = names.finder(keys)
        return [column for column in schema if find_key(column.name) is None]

    def values_of(self, side: str) -> str:
        """What a join keeps of a row of a side, as SQL; null of rows of the other. The checkpoint knows it by this text."""
        fields = [f"`{side}`.{quoted(column.name)}" for column in self._own_columns(side)]
        # A struct needs a field.
        return f"CASE WHEN `{side}` IS NOT NULL THEN struct({', '.join(fields or ['true AS is'])}) END"

    def paired(self, how: str, suffixes: tuple[str, str]) -> Pairs:
        """What a join makes of the rows of a window; the arguments are those of :meth:`pairs`."""
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
        taken = (*self.keyed.key_schema.names, *RESERVED)
        check_apart(schemas[LEFT].names, schemas[RIGHT].names if of_right else [], taken, names)
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
        # The operator has a list for each side, the results have the columns of their rows.
        assert self.joined is not None  # noqa: S101 - made with it
        return self.joined.names

    def _sinks(
        self, method: str, outputs: Mapping[str, Sink] | None, keywords: Mapping[str, Sink], options: Mapping[str, object]
    ) -> dict[str, Sink]:
        sinks = super()._sinks(method, outputs, keywords, options)
        sink = sinks.get(MAIN)
        if sink is not None and sink.keeps_last:
            raise InvalidPlanError(
                f"the output {MAIN!r} ({sink.describe()}) keeps one row of each key and window, and a join has many: append "
                "them, e.g. to a ParquetSink or TableSink"
            )
        return sinks

    def changelog(self) -> WindowedResult:
        """Refused: no row of a join is the only one of its key and window, so none is changed by another."""
        raise InvalidPlanError(
            "changelog says what takes the place of the one row of a key and window, and a join has many: take .with_firing(), "
            "and of each key and window the rows of the newest firing"
        )

    def top(self, n: int, by: str) -> WindowedResult:
        """Refused: it is of results that are one row for each key and window."""
        raise InvalidPlanError(
            "top is of one result for each key and window, and a join has many: rank the rows of .main yourself"
        )


__all__ = ["CoGroupedStream", "CoGroupedWindows", "JoinedResult", "kind_of_join"]
