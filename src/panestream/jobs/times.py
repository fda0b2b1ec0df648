"""``[event_time]``, ``[watermark]`` and ``[processing_time]`` of a job file: what time it is for a row."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from panestream.jobs.schema import Place, choice, column, duration, pattern, reads, shown, text
from panestream.jobs.zones import unknown_zone
from panestream.windowing.time import to_micros
from panestream.windowing.watermarks import WatermarkStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """``[event_time]``: when a row happened.

    Attributes:
        column: a column of timestamps; of strings, with ``format``; or of numbers since 1970-01-01 UTC, with ``unit``.
        format: a Spark datetime pattern.
        timezone: the zone of strings that name none, e.g. ``Asia/Shanghai``.
        unit: seconds, milliseconds or microseconds.
        invalid: what to do with rows whose event time is null or cannot be read: "fail", or "side_output" (to [sinks.invalid]).
    """

    column: str = field(metadata=reads(column))
    format: str | None = field(default=None, metadata=reads(pattern))
    timezone: str | None = field(default=None, metadata=reads(text))
    unit: str | None = field(default=None, metadata=reads(choice("seconds", "milliseconds", "microseconds")))
    invalid: str = field(default="fail", metadata=reads(choice("fail", "side_output")))

    def check(self, place: Place) -> None:
        """``format`` and ``unit`` exclude each other."""
        if self.format is not None and self.unit is not None:
            place.at("unit").note("'unit' is for numbers and 'format' for strings: keep one of them")
        if self.timezone is not None:
            if self.format is None:
                place.at("timezone").note("is for strings: it needs 'format'")
            elif not re.fullmatch(r"[A-Za-z0-9_+:/-]+", self.timezone):
                place.at("timezone").note(f"must be a zone such as 'Asia/Shanghai' or '+08:00', not {shown(self.timezone)}")
            elif (unknown := unknown_zone(self.timezone)) is not None:
                place.at("timezone").note(unknown)

    @property
    def expression(self) -> str:
        """The event time as the library takes it: the column, or SQL that reads its strings (null where it cannot)."""
        if self.format is None:
            return self.column
        value, pattern = "`" + self.column.replace("`", "``") + "`", self.format
        if self.timezone is not None:
            # The zone goes into the text, so that the zone of the session does not matter.
            value, pattern = f"concat({value}, {_quoted(' ' + self.timezone)})", f"{self.format} VV"
        return f"CAST(try_to_timestamp({value}, {_quoted(pattern)}) AS TIMESTAMP)"


def _quoted(value: str) -> str:
    """``value`` as a SQL string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """``[watermark]``: how far event time has come.

    Attributes:
        strategy: "bounded" (by ``delay``), "monotonous", or "none".
        delay: how far rows may be behind the newest event time.
        per_partition: a column whose values each keep a watermark of their own.
        idleness: after how long without rows a partition stops holding the others back.
        max_ahead: rows further ahead than that are as rows without event time.
        max_ahead_of: of what: "clock" (Spark's, for live data), or "rows" (the others, for data of the past).
        closing_after: once all input has been silent for so long, the watermark follows the clock; needs ``trigger.every``.
    """

    strategy: str = field(default="bounded", metadata=reads(choice("bounded", "monotonous", "none")))
    delay: str | None = field(default=None, metadata=reads(duration()))
    per_partition: str | None = field(default=None, metadata=reads(column))
    idleness: str | None = field(default=None, metadata=reads(duration(zero=False)))
    max_ahead: str | None = field(default=None, metadata=reads(duration()))
    max_ahead_of: str | None = field(default=None, metadata=reads(choice("clock", "rows")))
    closing_after: str | None = field(default=None, metadata=reads(duration(zero=False)))

    def check(self, place: Place) -> None:
        """``delay`` goes with "bounded" and only with it."""
        if self.strategy == "bounded" and self.delay is None:
            place.note("'delay' is missing: strategy 'bounded' must know how far rows may be behind, e.g. delay = '5 seconds'")
        if self.strategy != "bounded" and self.delay is not None:
            place.at("delay").note(f"is for strategy 'bounded', not for {self.strategy!r}")
        if self.strategy == "none" and (self.per_partition or self.idleness):
            place.at("strategy").note("'none' makes no watermarks: 'per_partition' and 'idleness' have no meaning")
        if self.closing_after is not None and to_micros(self.closing_after) % 1000:
            place.at("closing_after").note(f"must be whole milliseconds, as Spark's clock is, not {shown(self.closing_after)}")
        if self.strategy == "none" and self.closing_after is not None:
            place.at("closing_after").note("moves the watermark, and strategy 'none' makes none")
        if self.max_ahead_of is not None and self.max_ahead is None:
            place.at("max_ahead_of").note("says of what 'max_ahead' is: how far is missing, e.g. max_ahead = '1 hour'")

    @property
    def recipe(self) -> WatermarkStrategy:
        """What the library calls it."""
        recipe = WatermarkStrategy.for_monotonous_timestamps()
        if self.strategy == "none":
            recipe = WatermarkStrategy.no_watermarks()
        if self.strategy == "bounded":
            recipe = WatermarkStrategy.for_bounded_out_of_orderness(self.delay or "0 seconds")
        if self.per_partition is not None:
            recipe = recipe.per_partition(self.per_partition)
        if self.idleness is not None:
            recipe = recipe.with_idleness(self.idleness)
        if self.closing_after is not None:
            recipe = recipe.closing_after(self.closing_after)
        return recipe if self.max_ahead is None else recipe.max_ahead(self.max_ahead, of=self.max_ahead_of or "clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingTime:
    """``[processing_time]``: takes the clock from a column (when each row was received, say) instead of from Spark.

    Attributes:
        column: a column of timestamps, or of numbers since 1970-01-01 UTC, with ``unit``; or SQL.
        unit: seconds, milliseconds or microseconds.
    """

    column: str = field(metadata=reads(column))
    unit: str | None = field(default=None, metadata=reads(choice("seconds", "milliseconds", "microseconds")))
