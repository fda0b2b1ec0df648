"""The immutable data of a windowed query's steps: events, their key, their windows, options. The streams add the methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from panestream.datastream.chain import ChainedOperator, ChainRun, Upstream
from panestream.engine.explain import ReprHtml, listed, parts_of
from panestream.engine.plan import WAY_OUT, WindowQuery, stable_repr
from panestream.engine.runtime.sides import SIDES, Sides
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.columns import as_written, key_of, text_of, type_of
from panestream.spark.savepoint.history import rows_like
from panestream.spark.types import arrow_schema, to_arrow
from panestream.windowing.time import format_duration
from panestream.windowing.watermarks import WatermarkStrategy

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, eq=False)
class United:
    """How the rows of two streams become the rows of one.

    ``of_left`` and ``of_right`` are the columns to select from each, in the same order: key, times, order, side, the row itself.
    ``upstreams`` are the operators of the same query that make the rows of each, or None.
    """

    left: DataFrame
    right: DataFrame
    of_left: tuple[Column, ...]
    of_right: tuple[Column, ...]
    upstreams: tuple[Upstream | None, Upstream | None] = (None, None)

    def rows_of(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Return the rows of both as one, without a query to Spark. The arguments have the columns of the streams."""
        return left.select(*self.of_left).unionAll(right.select(*self.of_right))


@dataclass(frozen=True, eq=False, repr=False)
class Events(ReprHtml):
    """Events and their times.

    Attributes:
        event_time: a column, SQL or a Column, or None without event time. ``unit`` is the unit of a number.
        invalid_tag: the output for rows without usable event time. If None, such rows fail the query.
        processing_time: the column that replaces Spark's clock, or None. ``processing_time_unit`` is the unit of a number.
        order: the columns that order the arrival of rows. Empty means Spark's order.
        way_out: the solution that errors suggest for rows without usable event time.
        sides, united: the two streams of which these events are the union and how to unite them, or None for a single stream.
        upstream: the operator of the same query whose results these events are, or None.
    """

    df: DataFrame
    event_time: str | Column | None = None
    unit: str | None = None
    watermark: WatermarkStrategy = field(default_factory=WatermarkStrategy.no_watermarks)
    invalid_tag: str | None = None
    processing_time: str | Column | None = None
    processing_time_unit: str | None = None
    order: tuple[str | Column, ...] = ()
    way_out: str = WAY_OUT
    sides: Sides | None = None
    united: United | None = None
    upstream: Upstream | None = None

    @property
    def upstreams(self) -> tuple[Upstream | None, ...]:
        """The operators before these events in the same query, or None for a stream without one."""
        return (self.upstream,) if self.united is None else self.united.upstreams

    @property
    def origin(self) -> DataFrame:
        """The rows before all operators of the query. Rows of two streams are those after the union."""
        return self.df if self.upstream is None else self.upstream.operator.origin

    def rows_in(self, run: ChainRun) -> DataFrame:
        """Return the rows in a run of the whole query."""
        if not any(self.upstreams):
            return run.rows_of(self.df)
        if self.united is None:
            return self.upstream.rows_in(run) if self.upstream is not None else self.df
        streams = zip((self.united.left, self.united.right), self.united.upstreams, strict=True)
        return self.united.rows_of(*(df if upstream is None else upstream.rows_in(run) for df, upstream in streams))

    def with_operators(self, change: Callable[[ChainedOperator], ChainedOperator]) -> Self:
        """Return the events with changed operators before them, or the same events if nothing changes."""
        changed = tuple(None if each is None else each.changed(change) for each in self.upstreams)
        if changed == self.upstreams:
            return self
        if self.united is None:
            return replace(self, upstream=changed[0])
        return replace(self, united=replace(self.united, upstreams=(changed[0], changed[1])))

    @cached_property
    def row_schema(self) -> pa.Schema:
        """The columns of whole rows. For two streams these are one column for each."""
        rows = arrow_schema(self.df.schema)
        return rows if self.sides is None else pa.schema([rows.field(name) for name in SIDES])

    def _parts(self) -> Mapping[str, str]:
        unit = "" if self.unit is None else f" in {self.unit}"
        return {
            "event time": "none" if self.event_time is None else f"{as_written(self.event_time)}{unit}, {self.watermark!r}",
            "clock": "" if self.processing_time is None else as_written(self.processing_time),
        }


@dataclass(frozen=True, eq=False, repr=False)
class KeyedEvents(ReprHtml):
    """Events with key columns (SQL or Columns too). Without keys, all events form one group."""

    source: Events
    keys: tuple[str | Column, ...]

    def _parts(self) -> Mapping[str, str]:
        return {"key": listed([as_written(key) for key in self.keys]) or "none", **parts_of(self.source)}

    @cached_property
    def key_texts(self) -> tuple[str, ...]:
        """The keys as the plan stores them: text as the user wrote it, Columns with Spark's name."""
        return tuple([text_of(self.source.df, key, "the key") for key in self.keys])

    @cached_property
    def key_columns(self) -> list[tuple[str, Column]]:
        """The names of the keys in the results, and their columns."""
        return [key_of(self.source.df, key) for key in self.keys]

    @cached_property
    def key_schema(self) -> pa.Schema:
        df = self.source.df
        return pa.schema(
            [pa.field(name, to_arrow(type_of(df, column), f"the key {name!r}")) for name, column in self.key_columns]
        )


@dataclass(frozen=True, eq=False, repr=False)
class WindowedEvents(ReprHtml):
    """Events in windows.

    Attributes:
        windowing: the windows, and when they fire.
        late_tag: the output for late rows, or None to count them only.
        side_outputs: the columns of the side outputs of window functions, by tag.
        key_groups, tasks, memory_limit, split_distinct, rows_per_pane: options that the user set, or None.
        gap: the gap of sessions if the user passed a Column.
        predicates: predicates of windows that the user passed as Columns, by their texts.
        kept: the input columns that results of look-backs include, or None for all.
    """

    keyed: KeyedEvents
    windowing: WindowQuery
    late_tag: str | None = None
    side_outputs: Mapping[str, pa.Schema] = field(default_factory=dict)
    key_groups: int | None = None
    tasks: int | None = None
    memory_limit: int | None = None
    split_distinct: int | None = None
    rows_per_pane: int | None = None
    gap: Column | None = None
    predicates: Mapping[str, Column] = field(default_factory=dict)
    kept: Sequence[str] | None = None

    def _parts(self) -> Mapping[str, str]:
        windowing = self.windowing
        lateness = format_duration(windowing.allowed_lateness) if windowing.allowed_lateness else ""
        outputs = [tag for tag in (self.late_tag, self.keyed.source.invalid_tag) if tag is not None]
        return {
            "windows": stable_repr(windowing.assigner),
            "trigger": "" if windowing.trigger is None else stable_repr(windowing.trigger),
            "evictor": "" if windowing.evictor is None else stable_repr(windowing.evictor),
            "allowed lateness": lateness,
            "fill": "" if windowing.fill is None else windowing.fill.described,
            **parts_of(self.keyed),
            "other outputs": ", ".join([*outputs, *self.side_outputs]),
        }


class Options(TypedDict, total=False):
    """The options of ``.options(...)``.

    Attributes:
        key_groups: the number of key groups, 1 to 32768, which is the parallelism of the state and fixed when a checkpoint is
            created. A stream on an existing checkpoint takes the checkpoint's number. Otherwise a stream has as many as
            ``spark.sql.shuffle.partitions`` was set to, or 4, and a batch as many as tasks run at a time.
        tasks: the number of tasks of a stream, 1 to 32768, among which each micro-batch distributes the key groups. It may change
            from run to run. By default it is the number of tasks that the session runs at a time, if that number is known and
            fixed.
        memory_limit: the most bytes of rows that a worker reads into memory at once, at least 1,000,000. The default is 1 GiB.
            More rows are an error that names the key and window, or the key group. Bytes are counted in the format of exchange
            and state. In memory they take three times as much, as Python objects (``apply``, ``process``) ten to thirty times.
        split_distinct: the number of parts (2 to 32768) into which ``agg.count_distinct`` splits the distinct values. Each part
            is in its own key group, so that a key with very many values does not fill one. Works for windows that fire once, with
            ``count_distinct`` of one expression, ``count``, ``sum``, ``min`` and ``max``. Flink SQL:
            ``table.optimizer.distinct-agg.split.enabled``.
        rows_per_pane: how many rows a key has in a pane on average, if you know. A pane is a window, or the part of it that no
            slide cuts. A batch aggregates rows in Python if there are fewer than 20, and by Spark otherwise. The wrong way takes
            up to twice as long. By default a batch that only reads files takes a sample, and all others aggregate by Spark. A
            stream takes no notice. Results are the same with any number.
        every_firing: whether the row operator emits every single firing, as Flink does. Columnar operators emit at most one for
            each key, window and micro-batch, which is the last.
        allow_pickled_state: whether accumulators and states of user classes are stored as pickles. Numbers, strings, times,
            tuples, lists, sets, dicts and rows are always stored as columns. Reading a pickle runs code, so allow it only if
            nobody else can write to the checkpoint.

    Examples:
        >>> Options(key_groups=8, tasks=2)
        {'key_groups': 8, 'tasks': 2}
    """

    key_groups: int
    tasks: int
    memory_limit: int
    split_distinct: int
    rows_per_pane: int
    every_firing: bool
    allow_pickled_state: bool


_RANGES = {
    "key_groups": (1, 32768),
    "tasks": (1, 32768),
    "memory_limit": (1_000_000, 1 << 62),
    "split_distinct": (2, 32768),
    "rows_per_pane": (1, 1 << 62),
}
"""The smallest and the largest value of each numeric option."""


def check_options(options: Mapping[str, Any], known: Mapping[str, object] = Options.__annotations__) -> None:
    """Refuse unknown options and wrong values with an InvalidPlanError; ``known`` are the accepted names."""
    if not options:
        raise InvalidPlanError(f"options needs at least one option: {', '.join(known)}; write e.g. .options(key_groups=8)")
    for name, value in options.items():
        if name not in known:
            raise InvalidPlanError(f"there is no option {name!r}; {did_you_mean(name, known)}")
        low, high = _RANGES.get(name, (False, True))
        is_kind = isinstance(value, bool) if isinstance(low, bool) else isinstance(value, int) and not isinstance(value, bool)
        if not is_kind or not low <= value <= high:
            wanted = "True or False" if isinstance(low, bool) else _range(low, high)
            raise InvalidPlanError(f"the option {name} must be {wanted}, got {value!r}")


def _range(low: int, high: int) -> str:
    return f"a whole number from {low:,} on" if high > 1 << 60 else f"a whole number from {low} to {high}"


History: TypeAlias = DataFrame | tuple[DataFrame, DataFrame]
"""A batch, or for two streams a pair of batches, the left one first."""

Position: TypeAlias = Mapping[str, Mapping[str, int]]
"""The first Kafka offset of each partition that the stream reads, by topic."""

Positions: TypeAlias = Position | tuple[Position | None, Position | None] | None
"""The positions of one or two streams; None if the user did not pass any."""


def history_rows(history: object, events: Events) -> DataFrame:
    """Return history as rows of the query; raise InvalidPlanError unless it has the streams' columns and one batch for each."""
    united = events.united
    if united is None:
        return rows_like(history, events.df)
    if not isinstance(history, tuple) or len(history) != len(SIDES):
        raise InvalidPlanError(
            "bootstrap: this query has two streams, and each needs its own history: bootstrap((views, clicks), ...), left "
            "stream first. For a stream without history give an empty DataFrame with its columns, spark.createDataFrame([], "
            "schema)"
        )
    streams = zip(history, (united.left, united.right), SIDES, strict=True)
    return united.rows_of(*(rows_like(one, stream, f"the {side} stream") for one, stream, side in streams))
