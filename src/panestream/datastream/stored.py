"""Stored panes, read: windows put together from tiles, and answers as of an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panestream.engine.aggregates import Aggregation
from panestream.engine.explain import Shown, listed
from panestream.engine.kernels.slicing import EvenGrid
from panestream.engine.operators.panes.spec import pane_grid, why_not_aligned
from panestream.engine.tiles.as_of import AsOf
from panestream.engine.tiles.format import END, ROWS, START, partial_columns
from panestream.engine.tiles.windows import check_whole, schema_of_windows
from panestream.errors import InvalidPlanError, did_you_mean
from panestream.spark.catalyst import pane_of
from panestream.spark.columns import column_of, key_of, micros_of, quoted, type_of
from panestream.spark.names import Names, shown
from panestream.spark.session import check_version, chosen_partitions, default_parallelism
from panestream.spark.tiles.looking import look
from panestream.spark.tiles.manifest import MANIFEST, Manifest
from panestream.spark.tiles.reading import QUESTION, ROW, TILE, ReadAnswers, ReadWindows, mapped, part, together
from panestream.spark.types import spark_schema, sql_name, to_arrow
from panestream.windowing.aggregate_function import AggregateFunction
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.aggregates.base import ColumnText
from panestream.windowing.assigners import WindowAssigner
from panestream.windowing.assigners.several import SeveralWindows
from panestream.windowing.time import Duration, format_duration, to_micros


@dataclass(frozen=True, slots=True)
class RawRows:
    """The rows that tiles are made of.

    Attributes:
        df: the rows.
        event_time: where their event time is.
        unit: of one that is a number.
    """

    df: DataFrame
    event_time: str | Column
    unit: str | None


@dataclass(frozen=True, eq=False, repr=False)
class StoredPanes(Shown):
    """Tiles that a query with :meth:`WindowedStream.panes` wrote, to be put together; :func:`from_panes` makes it.

    Attributes:
        tiles: the tiles.
        slices: the windows whose partials they are.
        aggregation: what to compute, over the keys of the tiles.
        until: the end of the last slice that has a tile, in microseconds.
        rows: the rows that tiles are made of; None: there are tiles alone.
        partitions: how many tasks read; None: as many as run at a time.
        few: whether the tiles lie in files and are so few that one task reads them sooner than a shuffle deals them out.
    """

    tiles: DataFrame
    slices: WindowAssigner
    aggregation: Aggregation
    until: int
    rows: RawRows | None = None
    partitions: int | None = None
    few: bool = False

    def window(self, assigner: WindowAssigner) -> DataFrame:
        """The results of longer windows: key columns, ``window_start``, ``window_end``, a column for each aggregate.

        They are those of the same windows over the rows (of sums of floats up to rounding): every window that has a row, also one
        that has not ended. Where ``rows`` were given, those after the last tile are in them.

        Args:
            assigner: tumbling, sliding, cumulating or calendar windows of event time that begin and end where slices do.

        Returns:
            A batch, which is computed when it is read.

        Raises:
            InvalidPlanError: other windows, or such as begin or end within a slice. Of windows and slices of a calendar that
                shows when it is computed.
        """
        if not isinstance(assigner, WindowAssigner):
            raise InvalidPlanError(
                f"window wants an assigner such as SlidingEventTimeWindows.of('30 days', '1 day'), got {assigner!r}"
            )
        reasons = why_not_aligned(assigner)
        if isinstance(assigner, SeveralWindows):
            reasons = ["they are several: call window once for each"]
        elif not reasons and not assigner.is_event_time:
            reasons = ["they go by the clock"]
        if reasons:
            raise InvalidPlanError(f"{assigner!r} cannot be put together from slices of time: {reasons[0]}")
        grid = pane_grid(assigner)
        check_whole(pane_grid(self.slices), grid)
        parts = [self._tiles_part()]
        if self._raw is not None:
            parts.append(self._rows_from(self._raw.where(F.col("time") >= F.lit(self.until))))
        schema = spark_schema(schema_of_windows(self.aggregation))
        return mapped(self._in_one_task() or self._together(parts), ReadWindows(self.aggregation, grid), schema)

    def _in_one_task(self) -> DataFrame | None:
        """The tiles as one task reads them, without a shuffle; None: there are too many, rows besides, or a number of tasks."""
        if not self.few or self.rows is not None or self.partitions or chosen_partitions(self.tiles.sparkSession):
            return None
        kept = [kind for partial in self.aggregation.partial_aggregates for _, kind in partial.columns]
        if not all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in kept):
            return None  # sketches and lists: of few tiles they may be many bytes
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
        """A point-in-time join: for each question the aggregates of the rows of its key in some time before its instant.

        Nothing that lies at the instant or after it is in an answer. With ``rows`` a window is ``[instant - length, instant)``,
        to the microsecond: tiles are taken for whole slices, rows for what is left at both ends, and for slices after the last
        tile. Without them windows end where the slice of the instant begins: an answer is up to a slice old.

        An answer follows from its question, the tiles and the rows alone: the same function gives features for training and for
        serving.

        Args:
            questions: a batch with the keys, an instant, and whatever else; all its columns stay.
            at: the instant: a timestamp (without zone: UTC), SQL that gives one, or a Column; a number with ``unit``. Where it is
                null there are no rows.
            windows: how long the windows are, by a name that ends those of their columns: ``{"30d": "30 days"}``. Without
                ``rows`` multiples of a slice.
            on: for each key of the tiles the column of the questions; None: they are called the same.
            unit: of a number: ``"seconds"``, ``"milliseconds"`` or ``"microseconds"`` since the epoch.
            exact_start: whether windows begin to the microsecond. False: they begin with the slice that they would begin in, and
                ``rows`` need only be there for the slices of the instants, and after the last tile.

        Returns:
            The columns of the questions, then for each window a column for each aggregate, called ``<aggregate>_<window>``. A
            question without rows has what no rows give: a count of 0, else null.

        Raises:
            InvalidPlanError: a key or a column is missing, or is of another type; slices that are no tumbling windows; a length
                that is no multiple of a slice.
        """
        _check_batch(questions, "questions", "as_of")
        slices = pane_grid(self.slices)
        if not isinstance(slices, EvenGrid):
            raise InvalidPlanError(
                f"as_of takes slices that are as long as one another, these are {self.slices!r}: use .window(...)"
            )
        lengths = self._lengths(windows, slices)
        self._check_on(on)
        asked_keys = [self._asked_key(questions, name, (on or {}).get(name, name)) for name in self._keys.names]
        time = micros_of(questions, at, unit)
        named = [f"{name}_{label}" for label in windows for name in self.aggregation.output_schema.names]
        names = Names.of(questions.sparkSession)
        own = names.doubled(questions.columns)
        if own is not None:
            raise InvalidPlanError(f"the questions have more than one column {shown(*own)}: rename or drop one")
        for field in questions.schema:
            if not isinstance(field.dataType, T.UserDefinedType):  # which Spark takes for what it is made of
                to_arrow(field.dataType, f"the column {field.name!r} of the questions")
        doubled = names.doubled([*questions.columns, *named])
        if doubled is not None:
            raise InvalidPlanError(f"the answers have a column {doubled[1]!r}, there is one already: name the window otherwise")
        given = [F.col(quoted(name)) for name in questions.columns]
        parts = [self._tiles_part(), part(questions, QUESTION, asked_keys, [time, *given])]
        if self._raw is not None:
            ends = [time, *(time - F.lit(length) for length in lengths if exact_start)]
            parts.append(self._rows_from(self._rows_at(self._raw, questions.where(time.isNotNull()), asked_keys, ends, slices)))
        results = [field for _ in windows for field in spark_schema(self.aggregation.output_schema)]
        answers = [T.StructField(name, field.dataType) for name, field in zip(named, results, strict=True)]
        asked = AsOf(self.aggregation, slices, lengths, self.until, exact_start)
        function = ReadAnswers(asked, tuple(named), tuple(questions.columns))
        return mapped(self._together(parts), function, T.StructType([*questions.schema.fields, *answers]))

    def _lengths(self, windows: Mapping[str, Duration], slices: EvenGrid) -> tuple[int, ...]:
        if not isinstance(windows, Mapping) or not windows:
            raise InvalidPlanError(
                f"as_of wants the lengths of windows by name, e.g. windows={{'30d': '30 days'}}, got {windows!r}"
            )
        lengths = tuple(to_micros(length, f"the window {label!r}") for label, length in windows.items())
        for label, length in zip(windows, lengths, strict=True):
            if length <= 0:
                raise InvalidPlanError(f"the window {label!r} must be longer than nothing, got {windows[label]!r}")
            if self.rows is None and length % slices.period:
                raise InvalidPlanError(
                    f"the window {label!r} is no multiple of a slice of {format_duration(slices.period)}: take one that is, or "
                    "from_panes(..., rows=...), which makes windows exact"
                )
        return lengths

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
        """The key of questions or rows, of the type that the tiles have."""
        _, column = key_of(df, given)
        kind, wanted = type_of(df, column), spark_schema(self._keys)[name].dataType
        if kind != wanted and not (isinstance(kind, T.IntegralType) and isinstance(wanted, T.IntegralType)):
            raise InvalidPlanError(
                f"the key {name!r} is a {kind.simpleString()}, in the tiles it is a {wanted.simpleString()}: cast it"
            )
        return column.cast(wanted)

    def _tiles_part(self) -> DataFrame:
        """The tiles up to what was known of them when they were looked at: what comes meanwhile is for the next time."""
        tiles = self.tiles
        start, end = micros_of(tiles, START, None), micros_of(tiles, END, None)
        kept = [F.col(quoted(name)) for name in partial_columns(self.aggregation)]
        columns = [start, end, F.col(ROWS).cast("bigint"), *kept]
        return part(tiles.where(end <= F.lit(self.until)), TILE, [key_of(tiles, name)[1] for name in self._keys.names], columns)

    def _rows_at(
        self, raw: DataFrame, questions: DataFrame, keys: Sequence[Column], ends: Sequence[Column], slices: EvenGrid
    ) -> DataFrame:
        """The rows of the slices in which windows begin or end, and all after the last tile."""
        named = [key.alias(f"asked_{place}") for place, key in enumerate(keys)]
        asked = questions.select(*named, F.explode(F.array(*(pane_of(end, slices) for end in ends))).alias("asked")).distinct()
        same = [F.col(f"key_{place}").eqNullSafe(F.col(f"asked_{place}")) for place in range(len(keys))]
        earlier, later = raw.where(F.col("time") < F.lit(self.until)), raw.where(F.col("time") >= F.lit(self.until))
        here = earlier.join(asked, [pane_of(F.col("time"), slices) == F.col("asked"), *same], "left_semi")
        return here.unionAll(later)

    def check_rows(self) -> None:
        """Refuses rows that have not what the tiles are made of.

        Raises:
            InvalidPlanError: a key or an input is missing, or of another type.
        """
        _ = self._raw

    @cached_property
    def _raw(self) -> DataFrame | None:
        """The rows as they are read: keys, instant, values; None: there are none."""
        if self.rows is None:
            return None
        df, names = self.rows.df, self._keys.names
        time = micros_of(df, self.rows.event_time, self.rows.unit)
        keys = [self._asked_key(df, name, name).alias(f"key_{place}") for place, name in enumerate(names)]
        values = []
        own = zip(self.aggregation.inputs, self.aggregation.input_types, strict=True)
        for place, (text, wanted) in enumerate(own):
            column = column_of(df, text, "the input of an aggregate")
            found = to_arrow(type_of(df, column), f"the input {text!r}")
            if found != wanted:
                raise InvalidPlanError(
                    f"{text!r} is of type {sql_name(found)} in the rows, of which the tiles had {sql_name(wanted)}: cast it"
                )
            values.append(column.alias(f"value_{place}"))
        # As in a query: what has no event time is in no window.
        return df.select(*keys, time.alias("time"), *values).where(F.col("time").isNotNull())

    def _rows_from(self, raw: DataFrame) -> DataFrame:
        """Rows as a part of what tasks read."""
        keys = [F.col(f"key_{place}") for place in range(len(self._keys))]
        return part(raw, ROW, keys, [F.col("time"), *(F.col(f"value_{place}") for place in range(len(self.aggregation.inputs)))])

    def _together(self, parts: Sequence[DataFrame]) -> DataFrame:
        spark = self.tiles.sparkSession
        partitions = self.partitions or chosen_partitions(spark) or default_parallelism(spark)
        return together(parts, len(self._keys), partitions)

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
    """Reads tiles, which a query with :meth:`WindowedStream.panes` wrote, to put longer windows together from them.

    What the tiles are of is asked for here, by a small job over two columns. A store to which tiles are appended may hold several
    of one key and slice, since a late row makes a tile anew: the one of the most rows counts, which is the last.

    Args:
        tiles: a batch with all columns that the query wrote: ``spark.read.parquet("tiles")``, filtered or not.
        *aggregates: what to compute: those that the tiles were made for, some of them, or others that keep the same (of ``sum``
            also ``mean``). Inputs are written as they were there.
        rows: the rows that the tiles are made of, a batch with the keys and inputs: then rows after the last tile count, and
            :meth:`StoredPanes.as_of` is exact. Needed are all rows after the last tile, and what ``as_of`` says. Rows without
            usable event time are in no window, as they are in no tile.
        event_time: where their event time is, as :meth:`DataStream.assign_timestamps` takes it.
        unit: of one that is a number.
        partitions: how many tasks read; each holds the tiles, rows and questions of its keys in memory. None: what
            ``spark.sql.shuffle.partitions`` was set to, or as many as run at a time.

    Raises:
        InvalidPlanError: there are no tiles; they do not have what an aggregate needs, or are of several slices or keys; the rows
            have other types.

    Examples:
        >>> stored = pst.from_panes(spark.read.parquet("tiles"), agg.sum("price"))  # doctest: +SKIP
        >>> stored.window(pst.SlidingEventTimeWindows.of("30 days", "1 day")).show()  # doctest: +SKIP
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
    found = look(tiles)
    manifests = found.manifests
    first = manifests[0]
    for other in manifests[1:]:
        _check_alike(first, other)
    inputs = {text: type_ for one in manifests for text, type_ in one.inputs.items()}
    absent = next((text for one in aggregates for text in one.inputs if text not in inputs), None)
    if absent is not None:
        raise InvalidPlanError(f"the tiles know nothing of {absent!r} ({did_you_mean(absent, inputs)}): {_held(manifests)}")
    keys = pa.schema(
        [pa.field(name, to_arrow(tiles.schema[name].dataType, f"the key {name!r}")) for name in _keys_in(tiles, first)]
    )
    aggregation = Aggregation.build(aggregates, inputs, keys)
    lacking = [name for name in partial_columns(aggregation) if name not in tiles.columns]
    if lacking:
        raise InvalidPlanError(f"the tiles have no column {lacking[0]!r}, which an aggregate needs: {_held(manifests)}")
    raw = None if rows is None or event_time is None else RawRows(rows, event_time, unit)
    stored = StoredPanes(tiles, first.slices, aggregation, found.until, raw, partitions, found.few)
    stored.check_rows()
    return stored


def _check_batch(df: object, what: str, who: str) -> None:
    if not isinstance(df, DataFrame):
        raise InvalidPlanError(f"{who} wants a DataFrame of {what}, got {df!r}")
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
    if not aggregates:
        raise InvalidPlanError("from_panes wants at least one aggregate, e.g. agg.sum('price')")
    for one in aggregates:
        if isinstance(one, AggregateFunction):
            raise InvalidPlanError(f"tiles hold partials of declared aggregates, {type(one).__name__} is none: see agg.user(...)")
        if not isinstance(one, Aggregate):
            raise InvalidPlanError(f"from_panes wants aggregates such as agg.sum('price'), got {one!r}")
        column = next((text for text in one.inputs if isinstance(text, ColumnText)), None)
        if column is not None:
            raise InvalidPlanError(f"tiles know inputs by their text: write the name or SQL in place of the Column {column!s}")


def _check_alike(one: Manifest, other: Manifest) -> None:
    """Refuses tiles that do not go together."""
    if one.slices != other.slices:
        raise InvalidPlanError(
            f"the tiles are of different slices, {one.slices!r} and {other.slices!r}: read those of one query, "
            ".where(\"tile = '...'\"), or keep them in stores of their own"
        )
    if one.keys != other.keys:
        raise InvalidPlanError(f"the tiles have different keys, {list(one.keys)} and {list(other.keys)}: read them one by one")
    for text in one.inputs.keys() & other.inputs.keys():
        if one.inputs[text] != other.inputs[text]:
            ours, theirs = (sql_name(each.inputs[text]) for each in (one, other))
            raise InvalidPlanError(f"{text!r} is of type {ours} in some tiles, of {theirs} in others: read them one by one")


def _keys_in(tiles: DataFrame, manifest: Manifest) -> tuple[str, ...]:
    for name in manifest.keys:
        if name not in tiles.columns:
            raise InvalidPlanError(
                f"the tiles have no column {name!r}, which is a key of theirs; {did_you_mean(name, tiles.columns)}"
            )
    return manifest.keys


def _held(manifests: Sequence[Manifest]) -> str:
    held = dict.fromkeys(text for one in manifests for text in one.aggregates)
    return f"they were made for {', '.join(held)}"


__all__ = ["StoredPanes", "from_panes"]
