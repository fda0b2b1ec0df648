"""What a windowed query says of its events: where they come from, their key, their windows. No steps: the streams have these.

Each is immutable, and holds the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from panestream.engine.explain import Shown, listed, parts_of
from panestream.engine.plan import WAY_OUT, stable_repr
from panestream.engine.query import WindowSpec
from panestream.engine.runtime.sides import SIDES, Sides
from panestream.spark.columns import key_of, type_of
from panestream.spark.expressions import as_written, text_of
from panestream.spark.types import arrow_schema, to_arrow
from panestream.windowing.time import format_duration
from panestream.windowing.watermarks import WatermarkStrategy


@dataclass(frozen=True, eq=False)
class United:
    """How the rows of two streams become those of one.

    Attributes:
        left: the rows of the left stream, as it was given.
        right: those of the right one.
        of_left: what is taken of a row of the left: key, times and order, as both streams have them, its side, the row itself.
        of_right: the same of the right, in the same order.
    """

    left: DataFrame
    right: DataFrame
    of_left: tuple[Column, ...]
    of_right: tuple[Column, ...]

    def rows_of(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """The rows of both as one. Asks Spark nothing.

        Args:
            left: rows with the columns of the left stream.
            right: rows with the columns of the right one.
        """
        return left.select(*self.of_left).unionAll(right.select(*self.of_right))


@dataclass(frozen=True, eq=False, repr=False)
class Events(Shown):
    """Events, and what is known of their times.

    Attributes:
        df: the rows.
        event_time: a column, SQL or a Column; None: there is none.
        unit: of an event time that is a number.
        watermark: how it follows from the event times.
        invalid_tag: the output for rows without usable event time; None: they fail the query.
        processing_time: what stands in for Spark's clock; None: nothing does.
        processing_time_unit: of a processing time that is a number.
        order: what says in which order rows arrive; empty: as Spark has them.
        way_out: what to do about rows without usable event time, for the error.
        sides: the two streams that these are, or None: it is one.
        united: how the rows of the two become these; None: it is one.
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
        """The columns of whole rows: of two streams a column for each, and no more."""
        rows = arrow_schema(self.df.schema)
        return rows if self.sides is None else pa.schema([rows.field(name) for name in SIDES])

    def _parts(self) -> Mapping[str, str]:
        unit = "" if self.unit is None else f" in {self.unit}"
        return {
            "event time": "none" if self.event_time is None else f"{as_written(self.event_time)}{unit}, {self.watermark!r}",
            "clock": "" if self.processing_time is None else as_written(self.processing_time),
        }


@dataclass(frozen=True, eq=False, repr=False)
class KeyedEvents(Shown):
    """Events with a key; with none of them, all together.

    Attributes:
        source: the events.
        keys: columns, SQL or Columns.
    """

    source: Events
    keys: tuple[str | Column, ...]

    def _parts(self) -> Mapping[str, str]:
        return {"key": listed([as_written(key) for key in self.keys]) or "none", **parts_of(self.source)}

    @cached_property
    def key_texts(self) -> tuple[str, ...]:
        """The keys as the plan knows them: text as it was written, Columns as Spark calls them."""
        return tuple([text_of(self.source.df, key, "the key") for key in self.keys])

    @cached_property
    def key_columns(self) -> list[tuple[str, Column]]:
        """The keys' names in the results, and the columns."""
        return [key_of(self.source.df, key) for key in self.keys]

    @cached_property
    def key_schema(self) -> pa.Schema:
        """The keys' names and types."""
        df = self.source.df
        return pa.schema(
            [pa.field(name, to_arrow(type_of(df, column), f"the key {name!r}")) for name, column in self.key_columns]
        )


@dataclass(frozen=True, eq=False, repr=False)
class WindowedEvents(Shown):
    """Events in windows.

    Attributes:
        keyed: the events and their key.
        windowing: the windows, and when they fire.
        late_tag: the output for late rows; None: they are counted.
        side_outputs: the columns of what window functions send to side outputs, by tag.
        key_groups, tasks, memory_limit, split_distinct: options that the user set, or None.
        gap: the gap of sessions, where the user gave a Column.
        predicates: those of windows that the user gave as Columns, by their texts.
        kept: the columns of the row that results of look-backs have, or None for all.
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
