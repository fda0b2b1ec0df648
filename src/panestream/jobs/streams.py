"""The streams of a job file: ``[event_time]``, ``[watermark]`` and ``[processing_time]`` of each, and how two of them meet.

``[left]`` and ``[right]`` are two streams, ``[join]`` and ``[interval_join]`` their pairs of rows.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.engine.runtime.sides import HOWS, OF_PAIRS, join_called
from panestream.jobs.schema import (
    Place,
    Reader,
    array,
    boolean,
    choice,
    column,
    duration,
    name_like,
    pattern,
    reads,
    section,
    shown,
    text,
)
from panestream.jobs.source import Source
from panestream.windowing.time import to_micros
from panestream.windowing.watermarks import WatermarkStrategy

_OF_JOB = ("window", "windows", "firing", "aggregate", "process", "apply", "apply_arrow", "join", "interval_join", "trigger")
_OFFSET = re.compile(r"Z|(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{2}){0,2}")


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


def unknown_zone(name: str) -> str | None:
    """What is wrong with the name of a time zone; None where nothing is, or this machine knows no zones (Spark brings its own).

    >>> unknown_zone("Asia/Shanghai"), unknown_zone("+08:00"), unknown_zone("UTC+8")
    (None, None, None)
    >>> unknown_zone("Asia/Shangai")
    "there is no time zone 'Asia/Shangai'; did you mean 'Asia/Shanghai'?"
    """
    if _OFFSET.fullmatch(name):
        return None
    known = zoneinfo.available_timezones()
    if name in known or not known:
        return None
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else "write one such as 'Asia/Shanghai', 'UTC' or '+08:00'"
    return f"there is no time zone {name!r}; {hint}"


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


suffix = name_like(re.compile(r"\w+", re.ASCII), "letters, digits and underscores", "letters, digits and underscores")
"""What is added to names of columns."""


def kind_of_join(*known: str) -> Reader:
    """A kind of joins. What Spark and Flink call one otherwise is known: the error says its name here."""

    def explain(word: str) -> str | None:
        kind = join_called(word)
        if kind is None or kind in known:
            return kind and f"is not known; it is called {kind!r} here"
        return f"is of joins in windows, [join]; here there are {', '.join(map(repr, known))}"

    return choice(*known, explain=explain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """``[left]`` and ``[right]``: one of two streams; which rows, of what time, by which key.

    Attributes:
        source: as [source].
        event_time: as [event_time].
        watermark: as [watermark]; the smaller watermark of the two streams counts.
        processing_time: as [processing_time].
        key: the columns by which rows of the two streams meet, or SQL with a name: as many on both sides, of the same types.
            Results have the names of the left ones.
    """

    source: Source = field(metadata=reads(section(Source)))
    event_time: EventTime | None = field(default=None, metadata=reads(section(EventTime)))
    watermark: Watermark | None = field(default=None, metadata=reads(section(Watermark)))
    processing_time: ProcessingTime | None = field(default=None, metadata=reads(section(ProcessingTime)))
    key: tuple[str, ...] = field(metadata=reads(array(column)))

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        """A better answer for a section of both streams."""
        return f"unknown key here; it is of both streams: write [{name}]" if name in _OF_JOB else None

    @staticmethod
    def needs(given: Mapping[str, Any]) -> set[str]:
        """An event time has a watermark."""
        return {"watermark"} if "event_time" in given else set()

    def check(self, place: Place) -> None:
        """Rows meet by a key."""
        if not self.key:
            place.at("key").note("is empty: rows of two streams meet by a key")


class _OfBoth:
    """What has columns of both streams."""

    __slots__ = ()
    left_suffix: str | None
    right_suffix: str | None

    @property
    def suffixes(self) -> tuple[str, str]:
        """Of the left columns, and of the right ones."""
        return self.left_suffix or "", self.right_suffix or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_OfBoth):
    """``[join]``: each row of the left stream with each row of the right one of the same key and window.

    Attributes:
        how: "inner"; "left", "right" or "full": rows of that side (or of both) without a partner come, too; "left_semi",
            "left_anti": the rows of the left that have a partner, that have none. May be changed on an existing checkpoint.
        left_suffix: what is added to the name of a left column, where the right stream has one of that name.
        right_suffix: what is added to the name of a right column, where the left stream has one of that name.
    """

    how: str = field(default="inner", metadata=reads(kind_of_join(*HOWS)))
    left_suffix: str | None = field(default=None, metadata=reads(suffix))
    right_suffix: str | None = field(default=None, metadata=reads(suffix))


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoin(_OfBoth):
    """``[interval_join]``: each row of the left stream with the rows of the right one around its time; there are no windows.

    Attributes:
        lower: from how long after the time of the left row on; before it: "-1 hour".
        upper: until how long after it; "0 seconds": its own time.
        lower_exclusive: whether a row exactly at the lower bound is left out.
        upper_exclusive: whether a row exactly at the upper bound is left out.
        how: "inner"; "left", "right" or "full": rows of that side (or of both) without a partner come, too. A checkpoint is tied
            to it.
        left_suffix: as of [join].
        right_suffix: as of [join].
    """

    lower: str = field(metadata=reads(duration(negative=True)))
    upper: str = field(metadata=reads(duration(negative=True)))
    lower_exclusive: bool = field(default=False, metadata=reads(boolean))
    upper_exclusive: bool = field(default=False, metadata=reads(boolean))
    how: str = field(default="inner", metadata=reads(kind_of_join(*OF_PAIRS)))
    left_suffix: str | None = field(default=None, metadata=reads(suffix))
    right_suffix: str | None = field(default=None, metadata=reads(suffix))

    def check(self, place: Place) -> None:
        """Something lies between the bounds."""
        lower, upper = to_micros(self.lower), to_micros(self.upper)
        if lower > upper:
            place.at("lower").note(f"{self.lower!r} is after the upper bound, {self.upper!r}: exchange them")
        elif lower + self.lower_exclusive > upper - self.upper_exclusive:
            place.at("lower").note("nothing lies between the bounds: include them, or move one")


__all__ = ["EventTime", "IntervalJoin", "Join", "ProcessingTime", "Stream", "Watermark"]
