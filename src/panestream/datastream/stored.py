"""Tiles: a query that stores them, and the longer windows and point-in-time answers computed from stored ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.datastream.events import WindowedEvents
from panestream.datastream.inputs import check_collations, no_aggregate, resolve_inputs
from panestream.datastream.result import WindowedResult
from panestream.engine.aggregates import Aggregation
from panestream.engine.explain import ReprHtml, listed
from panestream.engine.kernels.panes import EvenGrid
from panestream.engine.operators.panes.rule import pane_grid, why_not_aligned
from panestream.engine.plan import WindowPlan
from panestream.engine.planner import choose
from panestream.engine.rule import DeclaredAggregates
from panestream.engine.tiles.as_of import AsOf
from panestream.engine.tiles.format import END, ROWS, START, check_whole, partial_columns, recipes_of_tiles, schema_of_windows
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.catalyst import pane_of
from panestream.spark.columns import Names, column_of, key_of, micros_of, quoted, shown_names, type_of, types_of
from panestream.spark.session import check_version, chosen_partitions, default_parallelism
from panestream.spark.tiles import (
    MANIFEST,
    QUESTION,
    ROW,
    TILE,
    ReadAnswers,
    ReadWindows,
    TilesManifest,
    inspect_tiles,
    map_partitions,
    partitioned_by_key,
    rows_of_kind,
)
from panestream.spark.types import spark_schema, sql_name, to_arrow
from panestream.windowing import aggregates as recipes
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.aggregates.base import ColumnText
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.time import Duration, format_duration, to_micros
from panestream.windowing.triggers import EventTimeTrigger


@dataclass(frozen=True, slots=True)
class RawRows:
    """The rows that tiles were made from. ``unit`` is the unit of a numeric event time."""

    df: DataFrame
    event_time: str | Column
    unit: str | None


@dataclass(frozen=True, eq=False, repr=False)
class StoredPanes(ReprHtml):
    """Stored tiles of a query with :meth:`WindowedStream.panes`; :func:`from_panes` creates it.

    Attributes:
        tiles: the tiles.
        slices: the windows of the tiles.
        aggregation: what to compute, over the keys of the tiles.
        until: the end of the last slice that has a tile, in microseconds.
        rows: the rows that the tiles were made from, or None if there are only tiles.
        partitions: the number of reading tasks, or None for as many as run at a time.
        few: whether the tiles are in files and few enough for one task to read them faster than a shuffle would distribute them.

    Examples:
        >>> tiles = hours.panes(agg.sum("price").alias("total"))
        >>> stored = pst.from_panes(tiles.main, agg.sum("price").alias("total"))
        >>> stored.window(pst.sliding("2 hours", "1 hour")).columns
        ['user', 'window_start', 'window_end', 'total']
    """

    tiles: DataFrame
    slices: WindowAssigner
    aggregation: Aggregation
    until: int
    rows: RawRows | None = None
    partitions: int | None = None
    few: bool = False

    def window(self, assigner: WindowAssigner) -> DataFrame:
        """Return the results of longer windows: key columns, ``window_start``, ``window_end``, a column for each aggregate.

        They equal the results of the same windows over the rows, except for rounding in sums of floats. Every window with a row
        is included, even if it has not ended. If ``rows`` were given, rows after the last tile are included. The batch is
        computed when it is read.

        Args:
            assigner: tumbling, sliding, cumulating or calendar event-time windows that begin and end at slice bounds.

        Raises:
            InvalidPlanError: other windows, or windows that begin or end within a slice. For calendar windows and slices the
                latter is raised when the batch is computed.
        """
        if not isinstance(assigner, WindowAssigner):
            raise InvalidPlanError(
                f"window needs an assigner such as SlidingEventTimeWindows.of('30 days', '1 day'), got {assigner!r}"
            )
        reasons = why_not_aligned(assigner)
        if isinstance(assigner, SeveralWindows):
            reasons = ["they are several: call window once for each"]
        elif not reasons and not assigner.is_event_time:
            reasons = ["they depend on the clock"]
        if reasons:
            raise InvalidPlanError(f"{assigner!r} cannot be combined from slices of time: {reasons[0]}")
        grid = pane_grid(assigner)
        check_whole(pane_grid(self.slices), grid)
        parts = [self._tiles_part()]
        if self._raw is not None:
            parts.append(self._rows_from(self._raw.where(F.col("time") >= F.lit(self.until))))
        schema = spark_schema(schema_of_windows(self.aggregation))
        return map_partitions(self._in_one_task() or self._together(parts), ReadWindows(self.aggregation, grid), schema)

    def _in_one_task(self) -> DataFrame | None:
        """Return the tiles for a single task without a shuffle, or None if there are rows, too many tiles, or set partitions."""
        if not self.few or self.rows is not None or self.partitions or chosen_partitions(self.tiles.sparkSession):
            return None
        types = [kind for partial in self.aggregation.partial_aggregates for _, kind in partial.columns]
        if not all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in types):
            return None  # A few tiles with sketches or lists may still be many bytes.
        return self._tiles_part().coalesce(1)

    def as_of(
        self,
        questions: DataFrame,
        *,
        at: str | Column,
        windows: Mapping[str, Duration],
        on: Mapping[str, str | Column] | None = None,
        unit: str | None = None,
        exact_start: bool = True,
    ) -> DataFrame:
        """Join each question with the aggregates of its key's rows before an instant (a point-in-time join).

        Rows at or after the instant are never included. With ``rows`` a window is exactly ``[instant - length, instant)``, to the
        microsecond. Tiles cover whole slices, and rows cover the remainders at both ends and the slices after the last tile.
        Without ``rows`` windows end where the slice of the instant begins, so an answer is up to one slice old.

        An answer depends only on its question, the tiles and the rows, so training and serving can use the same function.

        Args:
            questions: a batch with the keys, an instant, and any other columns. All its columns stay.
            at: the instant, as a timestamp (UTC by default), SQL, a Column, or a number with ``unit``. If it is null, the answer
                covers no rows.
            windows: window lengths by the suffix of their result columns, e.g. ``{"30d": "30 days"}``. Without ``rows`` they must
                be multiples of a slice.
            on: the question's column for each key of the tiles. By default the names are the same.
            unit: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"`` since the epoch, for a numeric instant.
            exact_start: whether windows begin to the microsecond. If false, a window begins at the start of its first slice, and
                ``rows`` are only needed for the slices of the instants and after the last tile.

        Returns:
            The columns of the questions, then for each window a column for each aggregate, named ``<aggregate>_<window>``. A
            question without rows gets a count of 0 and null for other aggregates.

        Raises:
            InvalidPlanError: a key or a column is missing or has another type, the slices are not tumbling windows, or a length
                is not a multiple of a slice.
        """
        _check_batch(questions, "questions", "as_of")
        slices = even_slices(self.slices)
        lengths = window_lengths(windows, slices, with_rows=self.rows is not None)
        self._check_on(on)
        asked_keys = [self._asked_key(questions, name, (on or {}).get(name, name)) for name in self._keys.names]
        time = micros_of(questions, at, unit)
        named = [f"{name}_{label}" for label in windows for name in self.aggregation.output_schema.names]
        names = Names.of(questions.sparkSession)
        own = names.doubled(questions.columns)
        if own is not None:
            raise InvalidPlanError(f"the questions have more than one column {shown_names(*own)}: rename or drop one")
        for column in questions.schema:
            if not isinstance(column.dataType, T.UserDefinedType):  # Spark converts user-defined types to their storage type.
                to_arrow(column.dataType, f"the column {column.name!r} of the questions")
        doubled = names.doubled([*questions.columns, *named])
        if doubled is not None:
            raise InvalidPlanError(f"the answers would have two columns {doubled[1]!r}. Rename the window")
        given = [F.col(quoted(name)) for name in questions.columns]
        parts = [self._tiles_part(), rows_of_kind(questions, QUESTION, asked_keys, [time, *given])]
        if self._raw is not None:
            ends = [time, *(time - F.lit(length) for length in lengths if exact_start)]
            parts.append(self._rows_from(self._rows_at(self._raw, questions.where(time.isNotNull()), asked_keys, ends, slices)))
        results = [field for _ in windows for field in spark_schema(self.aggregation.output_schema)]
        answers = [T.StructField(name, field.dataType) for name, field in zip(named, results, strict=True)]
        computation = AsOf(self.aggregation, slices, lengths, self.until, exact_start)
        function = ReadAnswers(computation, tuple(named), tuple(questions.columns))
        return map_partitions(self._together(parts), function, T.StructType([*questions.schema.fields, *answers]))

    @property
    def _keys(self) -> pa.Schema:
        return self.aggregation.key_schema

    def _check_on(self, on: Mapping[str, str | Column] | None) -> None:
        if on is not None and not isinstance(on, Mapping):
            raise InvalidPlanError(
                f"on is the column of the questions for each key of the tiles, {{'user': 'visitor'}}, got {on!r}"
            )
        for name in on or {}:
            if name not in self._keys.names:
                raise InvalidPlanError(f"on: the tiles have no key {name!r}; {did_you_mean(name, self._keys.names)}")

    def _asked_key(self, df: DataFrame, name: str, given: str | Column) -> Column:
        """Return the key column of questions or rows, cast to its type in the tiles."""
        _, column = key_of(df, given)
        kind, wanted = type_of(df, column), spark_schema(self._keys)[name].dataType
        if kind != wanted and not (isinstance(kind, T.IntegralType) and isinstance(wanted, T.IntegralType)):
            raise InvalidPlanError(
                f"the key {name!r} is a {kind.simpleString()}, in the tiles it is a {wanted.simpleString()}: cast it"
            )
        return column.cast(wanted)

    def _tiles_part(self) -> DataFrame:
        """Return the tiles that existed when the store was inspected; later tiles are ignored."""
        tiles = self.tiles
        start, end = micros_of(tiles, START, None), micros_of(tiles, END, None)
        partials = [F.col(quoted(name)) for name in partial_columns(self.aggregation)]
        columns = [start, end, F.col(ROWS).cast("bigint"), *partials]
        return rows_of_kind(
            tiles.where(end <= F.lit(self.until)), TILE, [key_of(tiles, name)[1] for name in self._keys.names], columns
        )

    def _rows_at(
        self, raw: DataFrame, questions: DataFrame, keys: Sequence[Column], ends: Sequence[Column], slices: EvenGrid
    ) -> DataFrame:
        """Return the rows of slices in which windows begin or end, and all rows after the last tile."""
        named = [key.alias(f"asked_{place}") for place, key in enumerate(keys)]
        asked = questions.select(*named, F.explode(F.array(*(pane_of(end, slices) for end in ends))).alias("asked")).distinct()
        same = [F.col(f"key_{place}").eqNullSafe(F.col(f"asked_{place}")) for place in range(len(keys))]
        earlier, later = raw.where(F.col("time") < F.lit(self.until)), raw.where(F.col("time") >= F.lit(self.until))
        here = earlier.join(asked, [pane_of(F.col("time"), slices) == F.col("asked"), *same], "left_semi")
        return here.unionAll(later)

    def check_rows(self) -> None:
        """Check that the rows have the keys and inputs of the tiles, and raise InvalidPlanError otherwise."""
        _ = self._raw

    @cached_property
    def _raw(self) -> DataFrame | None:
        """The rows as key, instant and value columns, or None without rows."""
        if self.rows is None:
            return None
        df, names = self.rows.df, self._keys.names
        time = micros_of(df, self.rows.event_time, self.rows.unit)
        keys = [self._asked_key(df, name, name).alias(f"key_{place}") for place, name in enumerate(names)]
        values = []
        own = zip(self.aggregation.inputs, self.aggregation.input_types, strict=True)
        for place, (text, wanted) in enumerate(own):
            column = column_of(df, text, "the input of an aggregate")
            given_type = to_arrow(type_of(df, column), f"the input {text!r}")
            if given_type != wanted:
                raise InvalidPlanError(
                    f"{text!r} is of type {sql_name(given_type)} in the rows, but the tiles had {sql_name(wanted)}: cast it"
                )
            values.append(column.alias(f"value_{place}"))
        # As in a query, rows without event time are in no window.
        return df.select(*keys, time.alias("time"), *values).where(F.col("time").isNotNull())

    def _rows_from(self, raw: DataFrame) -> DataFrame:
        """Convert rows to a part of the task input."""
        keys = [F.col(f"key_{place}") for place in range(len(self._keys))]
        return rows_of_kind(
            raw, ROW, keys, [F.col("time"), *(F.col(f"value_{place}") for place in range(len(self.aggregation.inputs)))]
        )

    def _together(self, parts: Sequence[DataFrame]) -> DataFrame:
        spark = self.tiles.sparkSession
        partitions = self.partitions or chosen_partitions(spark) or default_parallelism(spark)
        return partitioned_by_key(parts, len(self._keys), partitions)

    def _parts(self) -> Mapping[str, str]:
        return {
            "slices": repr(self.slices),
            "key": listed(self._keys.names) or "none",
            "results": listed([f"{one.name} {one.type}" for one in self.aggregation.output_schema]),
            "rows": "" if self.rows is None else "beside the tiles",
        }


def from_panes(
    tiles: DataFrame,
    *aggregates: Aggregate,
    rows: DataFrame | None = None,
    event_time: str | Column | None = None,
    unit: str | None = None,
    partitions: int | None = None,
) -> StoredPanes:
    """Read tiles written by a query with :meth:`WindowedStream.panes`, to compute longer windows from them.

    A small job over two columns reads the description of the tiles. A store to which tiles are appended may have several tiles of
    one key and slice, since a late row emits the tile again. The tile with the most rows counts, which is the latest.

    Args:
        tiles: a batch with all columns that the query wrote, e.g. ``spark.read.parquet("tiles")``, filtered or not.
        *aggregates: aggregates that the tiles were made for, or others with the same partials (``mean`` from ``sum``). Write
            their inputs exactly as in the query.
        rows: the rows that the tiles were made from, a batch with the keys and inputs. Rows after the last tile are then
            included, and :meth:`StoredPanes.as_of` is exact. It must have all rows after the last tile and those that ``as_of``
            needs. Rows without usable event time are ignored, as in the tiles.
        event_time: the event time of ``rows``, as for :meth:`DataStream.assign_timestamps`.
        unit: the unit of a numeric event time.
        partitions: the number of reading tasks. Each holds the tiles, rows and questions of its keys in memory. The default is
            the value that ``spark.sql.shuffle.partitions`` was set to, or as many as run at a time.

    Raises:
        InvalidPlanError: the tiles are missing, lack something that an aggregate needs, or have several slices or keys, or the
            rows have other types.

    Examples:
        >>> tiles = hours.panes(agg.sum("price")).main  # a query writes them to files
        >>> totals = pst.from_panes(tiles, agg.sum("price").alias("total")).window(pst.sliding("2 hours", "1 hour"))
        >>> totals.select("user", "total").sort("user", "total").show()
        +----+-----+
        |user|total|
        +----+-----+
        | ann|  3.0|
        | ann|  5.0|
        | ann|  8.0|
        | bob|  1.0|
        | bob|  1.0|
        +----+-----+
        <BLANKLINE>
    """
    _check_given(tiles, aggregates, rows, event_time)
    if partitions is not None and (not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1):
        raise InvalidPlanError(f"partitions is how many tasks read, from 1 on, got {partitions!r}")
    check_version(tiles.sparkSession)
    missing = [name for name in (MANIFEST, START, END, ROWS) if name not in tiles.columns]
    if missing:
        raise InvalidPlanError(
            f"the tiles have no column {missing[0]!r}: from_panes reads what .window(slices).panes(...) wrote, all its columns"
        )
    store = inspect_tiles(tiles)
    manifests = store.manifests
    types = {name: to_arrow(tiles.schema[name].dataType, f"the key {name!r}") for name in keys_in(tiles.columns, manifests[0])}
    aggregation = aggregation_of(manifests, aggregates, types, tiles.columns)
    raw = None if rows is None or event_time is None else RawRows(rows, event_time, unit)
    stored = StoredPanes(tiles, manifests[0].slices, aggregation, store.until, raw, partitions, store.few)
    stored.check_rows()
    return stored


def _check_batch(df: object, what: str, who: str) -> None:
    if not isinstance(df, DataFrame):
        raise InvalidPlanError(f"{who} needs a DataFrame of {what}, got {df!r}")
    if df.isStreaming:
        raise InvalidPlanError(f"{who} reads a batch: the DataFrame of {what} is a stream, take spark.read")


def _check_given(
    tiles: DataFrame, aggregates: Sequence[Aggregate], rows: DataFrame | None, event_time: str | Column | None
) -> None:
    _check_batch(tiles, "tiles", "from_panes")
    if rows is not None:
        _check_batch(rows, "rows", "from_panes")
    if (rows is None) != (event_time is None):
        raise InvalidPlanError("from_panes: rows and event_time go together, e.g. rows=clicks, event_time='ts'")
    check_aggregates("from_panes", aggregates)


def check_aggregates(who: str, aggregates: Sequence[Aggregate]) -> None:
    """Raise InvalidPlanError, with the name of the caller, unless tiles can have partials of all these aggregates."""
    if not aggregates:
        raise InvalidPlanError(f"{who} needs at least one aggregate, e.g. agg.sum('price')")
    for one in aggregates:
        if isinstance(one, AggregateFunction):
            raise InvalidPlanError(
                f"tiles hold partials of declared aggregates, but {type(one).__name__} is not one. See agg.user(...)"
            )
        if not isinstance(one, Aggregate):
            raise InvalidPlanError(f"{who} needs aggregates such as agg.sum('price'), got {one!r}")
        column = next((text for text in one.inputs if isinstance(text, ColumnText)), None)
        if column is not None:
            raise InvalidPlanError(f"tiles identify inputs by their text. Write the name or SQL instead of the Column {column!s}")


def aggregation_of(
    manifests: Sequence[TilesManifest], aggregates: Sequence[Aggregate], keys: Mapping[str, pa.DataType], columns: Sequence[str]
) -> Aggregation:
    """Return the aggregates over tiles with these manifests and columns. Raise InvalidPlanError if the tiles lack something."""
    for other in manifests[1:]:
        _check_alike(manifests[0], other)
    inputs = {text: type_ for manifest in manifests for text, type_ in manifest.inputs.items()}
    absent = next((text for aggregate in aggregates for text in aggregate.inputs if text not in inputs), None)
    if absent is not None:
        raise InvalidPlanError(f"the tiles do not contain {absent!r} ({did_you_mean(absent, inputs)}): {_held(manifests)}")
    aggregation = Aggregation.build(aggregates, inputs, pa.schema(list(keys.items())))
    lacking = [name for name in partial_columns(aggregation) if name not in columns]
    if lacking:
        raise InvalidPlanError(f"the tiles have no column {lacking[0]!r}, which an aggregate needs: {_held(manifests)}")
    return aggregation


def window_lengths(windows: Mapping[str, Duration], slices: EvenGrid, *, with_rows: bool) -> tuple[int, ...]:
    """Return the lengths of windows in microseconds. Without rows they must be multiples of a slice."""
    if not isinstance(windows, Mapping) or not windows:
        raise InvalidPlanError(
            f"windows needs the lengths of windows by name, e.g. windows={{'30d': '30 days'}}, got {windows!r}"
        )
    lengths = tuple(to_micros(length, f"the window {label!r}") for label, length in windows.items())
    for label, length in zip(windows, lengths, strict=True):
        if length <= 0:
            raise InvalidPlanError(f"the window {label!r} must be positive, got {windows[label]!r}")
        if not with_rows and length % slices.period:
            raise InvalidPlanError(
                f"the window {label!r} is not a multiple of the slice of {format_duration(slices.period)}. Use a multiple, "
                f"or from_panes(..., rows=...), which makes windows exact"
            )
    return lengths


def even_slices(slices: WindowAssigner) -> EvenGrid:
    """Return the panes of slices of equal length, or raise InvalidPlanError."""
    grid = pane_grid(slices)
    if not isinstance(grid, EvenGrid):
        raise InvalidPlanError(f"as_of and lookup need slices of equal length, but these are {slices!r}. Use .window(...)")
    return grid


def _check_alike(one: TilesManifest, other: TilesManifest) -> None:
    """Check that tiles have the same slices, keys and input types."""
    if one.slices != other.slices:
        raise InvalidPlanError(
            f'the tiles have different slices, {one.slices!r} and {other.slices!r}: read the tiles of one query, .where("tile '
            f"= '...'\"), or keep them in separate stores"
        )
    if one.keys != other.keys:
        raise InvalidPlanError(f"the tiles have different keys, {list(one.keys)} and {list(other.keys)}: read them one by one")
    for text in one.inputs.keys() & other.inputs.keys():
        if one.inputs[text] != other.inputs[text]:
            ours, theirs = (sql_name(each.inputs[text]) for each in (one, other))
            raise InvalidPlanError(f"{text!r} is of type {ours} in some tiles, of {theirs} in others: read them one by one")


def keys_in(columns: Sequence[str], manifest: TilesManifest) -> tuple[str, ...]:
    """Return the key columns of the tiles, or raise InvalidPlanError if one is missing."""
    for name in manifest.keys:
        if name not in columns:
            raise InvalidPlanError(f"the tiles have no column {name!r}, which is a key of theirs; {did_you_mean(name, columns)}")
    return manifest.keys


def _held(manifests: Sequence[TilesManifest]) -> str:
    held = dict.fromkeys(text for manifest in manifests for text in manifest.aggregates)
    return f"they were made for {', '.join(held)}"


@dataclass(frozen=True, eq=False, repr=False)
class PanesResult(WindowedResult):
    """The tiles of a windowed query, and its other outputs. ``manifest`` is the description that each tile carries, as text."""

    manifest: str = field(default="")

    @cached_property
    def plan(self) -> WindowPlan:
        return replace(super().plan, constants={MANIFEST: self.manifest})


def panes_of(windowed: WindowedEvents, aggregates: Sequence[recipes.Aggregate]) -> PanesResult:
    """Return the tiles of time slices, or raise InvalidPlanError for other windows and for partials that cannot be stored."""
    _check_slices(windowed)
    keyed = windowed.keyed
    df, keys = keyed.source.df, keyed.key_schema
    for aggregate in aggregates:
        if isinstance(aggregate, AggregateFunction):
            raise InvalidPlanError(
                f"panes keeps partials of declared aggregates, and {type(aggregate).__name__} is a function over rows: write it "
                f"over columns with agg.user(...), whose partials can be kept"
            )
        if not isinstance(aggregate, recipes.Aggregate):
            raise no_aggregate(df, aggregate)
    reserved = [name for name in (ROWS, MANIFEST) if Names.of(df.sparkSession).find(name, keys.names) is not None]
    if reserved:
        raise InvalidPlanError(f"tiles have a column {reserved[0]!r}. Rename the key with AS")
    declared, inputs = resolve_inputs(df, aggregates)
    kinds = types_of(df, inputs)
    check_collations(declared, kinds)
    types = {text: to_arrow(kind, text) for text, kind in kinds.items()}
    aggregation = Aggregation.build(declared, types, keys)
    request = DeclaredAggregates(recipes_of_tiles(declared, aggregation), types, keys)
    operator = choose(windowed.windowing, request)
    # A partial of a type that Spark does not have is refused now, not when rows come.
    spark_schema(operator.result_schema)
    manifest = TilesManifest.of(windowed.windowing.assigner, keys.names, declared, aggregation).text()
    return PanesResult(windowed, operator, inputs, asked=request, manifest=manifest)


def _check_slices(windowed: WindowedEvents) -> None:
    """Refuse windows that are not time slices."""
    windowing, write = windowed.windowing, "write .window(TumblingEventTimeWindows.of('1 hour')).panes(...)"
    assigner = windowing.assigner
    reasons = why_not_aligned(assigner)
    if isinstance(assigner, SeveralWindows):
        reasons = ["there are several kinds of windows: the slices of one are enough for all"]
    elif not reasons and not assigner.is_event_time:
        reasons = ["windows of the clock depend on when rows were read"]
    elif not reasons and pane_grid(assigner).overlaps:
        reasons = ["they overlap, but a row must be in one tile"]
    if reasons:
        raise InvalidPlanError(f"{assigner!r} cannot be slices for panes ({reasons[0]}): {write}")
    if windowing.trigger is not None and not isinstance(windowing.trigger, EventTimeTrigger):
        raise InvalidPlanError(
            f"a tile is emitted when its slice ends, and again for late rows. Leave out the trigger {windowing.trigger!r}; to "
            f"include rows of open slices, read them with from_panes(..., rows=...)"
        )
    if windowing.evictor is not None:
        raise InvalidPlanError(f"a tile holds all rows of its slice. Leave out the evictor {windowing.evictor!r}")
