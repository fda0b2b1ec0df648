"""Two keyed streams as one stream, whose rows have the key, the event time, and their own columns on their side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from panestream.datastream.events import Events, KeyedEvents, United
from panestream.engine.plan import WAY_OUT
from panestream.engine.runtime.sides import LEFT, RIGHT, SIDE_COLUMN, SIDES, Sides
from panestream.errors import InvalidPlanError
from panestream.spark.columns import (
    Names,
    all_usable,
    column_of,
    micros_of,
    or_raise,
    order_of,
    quoted,
    shown_names,
    struct_of,
    text_of,
    type_of,
)
from panestream.spark.types import arrow_schema, sql_name
from panestream.windowing.watermarks import WatermarkStrategy

_CLOCK = "__clock"
_ORDER = "__order_"
DELETES = "__deletes"
"""The column that says whether a row of the right stream deletes the value of its key."""


def merge_streams(
    left: KeyedEvents, right: object, what: str, *, deletes: str | Column | None = None, follower: str | None = None
) -> tuple[Events, tuple[Column, ...]]:
    """Return two streams as one, and its keys, or raise InvalidPlanError.

    Args:
        left: a stream.
        right: the other.
        what: the called method, for errors.
        deletes: an expression over the right stream, whose values become the column :data:`DELETES`.
        follower: the side that need not have watermarks, or None.
    """
    if not isinstance(right, KeyedEvents):
        raise InvalidPlanError(
            f"{what} needs another keyed stream, pst.stream(views).assign_timestamps(...).key_by('user'), got {right!r}"
        )
    _check_keys(left, right, what)
    for given, said in _BOTH_OR_NEITHER:
        if (getattr(left.source, given) is None) != (getattr(right.source, given) is None):
            raise InvalidPlanError(f"{what}: one stream has {said} and the other does not. Give it to both, or to neither")
    tags = (left.source.invalid_tag, right.source.invalid_tag)
    if tags[0] is not None and tags[0] == tags[1]:
        raise InvalidPlanError(f"{what}: both streams have an output {tags[0]!r}, and their rows differ: choose two tags")
    times, orders = _time_name(left, right), _orders(left, right, what)
    rows = [
        _Side(name, one, times, order, strict=any(tags) and one.source.invalid_tag is None).columns(left.key_schema.names)
        for name, one, order in zip(SIDES, (left, right), orders, strict=True)
    ]
    if deletes is not None:
        # Before the last column, which is the row itself.
        rows[0].insert(-1, F.lit(False).alias(DELETES))
        rows[1].insert(-1, F.coalesce(_condition(right.source.df, deletes, what), F.lit(False)).alias(DELETES))
    upstreams = left.source.upstream, right.source.upstream
    united = replace(_united(left.source.df, right.source.df, *rows), upstreams=upstreams)
    df = united.rows_of(united.left, united.right)
    ours, theirs = (arrow_schema(one.source.df.schema) for one in (left, right))
    keys = tuple(left.key_schema.names), tuple(right.key_schema.names)
    source = left.source
    events = Events(
        df,
        event_time=None if source.event_time is None else F.col(quoted(times)),
        watermark=WatermarkStrategy.no_watermarks() if source.event_time is None else _strategy(left, right, follower),
        invalid_tag=next((tag for tag in tags if tag is not None), None),
        processing_time=None if source.processing_time is None else F.col(_CLOCK),
        processing_time_unit=None if source.processing_time is None else "microseconds",
        order=tuple(f"{_ORDER}{place}" for place in range(len(orders[0]))),
        way_out=WAY_OUT,
        sides=Sides(ours, theirs, keys, tags),
        united=united,
    )
    return events, tuple(F.col(quoted(name)) for name in left.key_schema.names)


def _condition(df: DataFrame, given: str | Column, what: str) -> Column:
    """Return a condition over the rows of a stream; raise InvalidPlanError for anything else."""
    column = column_of(df, given, f"{what}: deletes")
    kind = type_of(df, column)
    if not isinstance(kind, BooleanType):
        raise InvalidPlanError(
            f"{what}: deletes is {kind.simpleString()}, not true or false: write a condition, e.g. deletes=\"op = 'delete'\""
        )
    return column


_BOTH_OR_NEITHER = (
    ("event_time", "event time (assign_timestamps)"),
    ("processing_time", "its own clock (processing_time_from)"),
)


def _check_keys(left: KeyedEvents, right: KeyedEvents, what: str) -> None:
    ours, theirs = left.key_schema, right.key_schema
    if not len(ours):
        raise InvalidPlanError(f"{what} needs keys: .key_by(...) on both streams")
    if len(ours) != len(theirs):
        raise InvalidPlanError(
            f"{what}: the left stream has the key ({', '.join(ours.names)}), the right one ({', '.join(theirs.names)}): give "
            "both as many columns, in the same order"
        )
    for one, other in zip(ours, theirs, strict=True):
        if one.type != other.type:
            raise InvalidPlanError(
                f"{what}: the key {one.name!r} of the left stream is {sql_name(one.type)}, {other.name!r} of the right one is "
                f"{sql_name(other.type)}: cast both to a common type, {_casts(one, other)}"
            )
    names = Names.of(left.source.df.sparkSession)
    for name in ours.names:
        if names.find(name, SIDES) is not None or name.startswith("__"):
            raise InvalidPlanError(
                f"{what}: a key cannot be called {name!r} if two streams are joined. Give it another name, "
                f".key_by('{name} AS my_key')"
            )
    df, other_df = left.source.df, right.source.df
    if df.isStreaming != other_df.isStreaming:
        raise InvalidPlanError(
            f"{what}: one side is a stream and the other a batch. Join a table that does not change before the windows, "
            f"clicks.join(table, 'user'); otherwise read both as streams, or both as batches"
        )


def _casts(left: pa.Field, right: pa.Field) -> str:
    """Return the code that casts two keys to one type without a loss."""
    wider = _wider(left.type, right.type)
    calls = [
        f"on the {side} .key_by('cast({key.name} AS {wider}) AS {key.name}')"
        for side, key in zip(SIDES, (left, right), strict=True)
        if sql_name(key.type) != wider
    ]
    return " and ".join(calls)


def _wider(left: pa.DataType, right: pa.DataType) -> str:
    """Return a SQL type that has the values of two types.

    >>> _wider(pa.int32(), pa.int64()), _wider(pa.int32(), pa.string()), _wider(pa.float32(), pa.int64())
    ('bigint', 'string', 'double')
    >>> _wider(pa.decimal128(10, 2), pa.decimal128(12, 0)), _wider(pa.date32(), pa.timestamp("us", "UTC"))
    ('decimal(14,2)', 'timestamp')
    """
    kinds = (left, right)
    if all(map(pa.types.is_integer, kinds)):
        return sql_name(max(kinds, key=lambda kind: kind.bit_width))
    digits = [
        (19, 0) if pa.types.is_integer(kind) else (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else None
        for kind in kinds
    ]
    if None not in digits:
        whole, fraction = (max(part) for part in zip(*digits, strict=True))
        return f"decimal({min(whole + fraction, 38)},{fraction})"
    if all(map(_is_number, kinds)):
        return "double"
    times = [pa.types.is_timestamp(kind) or pa.types.is_date(kind) for kind in kinds]
    return "timestamp" if all(times) else "string"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _time_name(left: KeyedEvents, right: KeyedEvents) -> str:
    """Return the name of the event time, for errors and ``explain()``."""
    texts = [
        "event time"
        if keyed.source.event_time is None
        else text_of(keyed.source.df, keyed.source.event_time, "the event time")
        + ("" if keyed.source.unit is None else f" in {keyed.source.unit}")
        for keyed in (left, right)
    ]
    name = texts[0] if texts[0] == texts[1] else f"{texts[0]} ({LEFT}), {texts[1]} ({RIGHT})"
    other = Names.of(left.source.df.sparkSession).find(name, (*left.key_schema.names, *SIDES))
    return name if other is None else f"event time {name}"


def _orders(left: KeyedEvents, right: KeyedEvents, what: str) -> list[list[Column]]:
    """Return the columns that order each stream. A stream without an order has nulls, so its rows come last, in Spark's order."""
    (ours, kinds), (theirs, others) = (order_of(one.source.df, one.source.order) for one in (left, right))
    if not ours or not theirs:
        df, given = (left.source.df, ours) if ours else (right.source.df, theirs)
        nothing = [F.lit(None).cast(type_of(df, column)) for column in given]
        return [ours or nothing, theirs or nothing]
    if kinds.types != others.types:
        raise InvalidPlanError(
            f"{what}: the arrival orders have the types ({', '.join(map(str, kinds.types))}) and "
            f"({', '.join(map(str, others.types))}): rows of both streams get one order. Give columns of the same types"
        )
    return [ours, theirs]


def _strategy(left: KeyedEvents, right: KeyedEvents, follower: str | None) -> WatermarkStrategy:
    sides = {LEFT: left.source.watermark, RIGHT: right.source.watermark}
    return WatermarkStrategy.of_sides(sides, SIDE_COLUMN, follower=follower)


def _united(left: DataFrame, right: DataFrame, of_left: Sequence[Column], of_right: Sequence[Column]) -> United:
    """Return the rows of both, each with a null for the other side; the last column is the row itself."""
    whole = of_left[-1], of_right[-1]
    nothing = [F.lit(None).cast(type_of(df, row)).alias(name) for df, row, name in zip((left, right), whole, SIDES, strict=True)]
    return United(left, right, (*of_left, nothing[1]), (*of_right[:-1], nothing[0], whole[1]))


@dataclass(frozen=True, slots=True)
class _Side:
    """One stream prepared for the union. If ``strict``, rows without usable event time fail here, since no later step would."""

    name: str
    keyed: KeyedEvents
    time: str
    order: Sequence[Column]
    strict: bool

    def columns(self, keys: Sequence[str]) -> list[Column]:
        """Return key, times and order, as both streams have them, and the row itself; ``keys`` are the key names."""
        source, df = self.keyed.source, self.keyed.source.df
        own = [column for _, column in self.keyed.key_columns]
        columns = [column.alias(name) for column, name in zip(own, keys, strict=True)]
        if source.event_time is not None:
            time = micros_of(df, source.event_time, source.unit)
            event_time = _SaidEventTime(
                text_of(df, source.event_time, "the event time"), source.unit, source.way_out, source.invalid_tag
            )
            time = (all_usable if self.strict else or_raise)(time, df, event_time)
            columns.append(F.timestamp_micros(time).alias(self.time))
        if source.processing_time is not None:
            columns.append(micros_of(df, source.processing_time, source.processing_time_unit).alias(_CLOCK))
        columns += [column.alias(f"{_ORDER}{place}") for place, column in enumerate(self.order)]
        partition = source.watermark.partition_column
        side = F.lit(self.name)
        if partition is not None:
            side = F.concat(F.lit(f"{self.name}/"), F.coalesce(F.col(quoted(partition)).cast("string"), F.lit("")))
        whole = struct_of(df.columns)
        return [*columns, side.alias(SIDE_COLUMN), whole.alias(self.name)]


@dataclass(frozen=True, slots=True)
class _SaidEventTime:
    """The event time of one side, as errors show it."""

    text: str
    unit: str | None
    way_out: str
    invalid_tag: str | None

    @property
    def event_time(self) -> str:
        return self.text if self.unit is None else f"{self.text} in {self.unit}"


def check_apart(left: Sequence[str], right: Sequence[str], taken: Sequence[str], names: Names) -> None:
    """Check that the result columns of both sides and those in ``taken`` have different names."""
    find_left, find_taken = names.finder(left), names.finder(taken)
    for column in right:
        other = find_left(column)
        if other is not None:
            raise InvalidPlanError(
                f"pairs: a column of each stream would be called {shown_names(other, column)} in the results. Distinguish them "
                f"with "
                f".pairs(suffixes=('', '_right')), or rename one before pst.stream(df), df.withColumnRenamed({column!r}, ...)"
            )
    for side, columns in ((LEFT, left), (RIGHT, right)):
        twice = names.doubled(columns)
        if twice is not None:
            raise InvalidPlanError(
                f"pairs: the {side} stream would have two columns {shown_names(*twice)} in the results, one of them because of "
                f"its suffix. Use another suffix"
            )
    for column in (*left, *right):
        if find_taken(column) is not None:
            raise InvalidPlanError(
                f"pairs: a column is called {column!r}, but results have a column of this name. Rename it before pst.stream(df)"
            )
