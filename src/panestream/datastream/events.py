"""The immutable data of a windowed query's steps: events, their key, their windows. The streams add the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from panestream.engine.explain import ReprHtml, listed, parts_of
from panestream.engine.plan import WAY_OUT, stable_repr
from panestream.engine.query import WindowSpec
from panestream.engine.runtime.sides import SIDES, Sides
from panestream.spark.columns import as_written, key_of, text_of, type_of
from panestream.spark.types import arrow_schema, to_arrow
from panestream.windowing.time import format_duration
from panestream.windowing.watermarks import WatermarkStrategy


@dataclass(frozen=True, eq=False)
class United:
    """How the rows of two streams become the rows of one.

    ``of_left`` and ``of_right`` are the columns to select from each, in the same order: key, times, order, side, the row itself.
    """

    left: DataFrame
    right: DataFrame
    of_left: tuple[Column, ...]
    of_right: tuple[Column, ...]

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
        key_groups, tasks, memory_limit, split_distinct: options that the user set, or None.
        gap: the gap of sessions if the user passed a Column.
        predicates: predicates of windows that the user passed as Columns, by their texts.
        kept: the input columns that results of look-backs include, or None for all.
    """

    keyed: KeyedEvents
    windowing: WindowSpec
    late_tag: str | None = None
    side_outputs: Mapping[str, pa.Schema] = field(default_factory=dict)
    key_groups: int | None = None
    tasks: int | None = None
    memory_limit: int | None = None
    split_distinct: int | None = None
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
            **parts_of(self.keyed),
            "other outputs": ", ".join([*outputs, *self.side_outputs]),
        }


__all__ = ["Events", "KeyedEvents", "United", "WindowedEvents"]
