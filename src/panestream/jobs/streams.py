"""The streams of a job file: ``[left]`` and ``[right]``, their times and watermarks, and the joins of their rows."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.engine.runtime.sides import HOWS, OF_PAIRS, join_called
from panestream.jobs.schema import (
    DocumentPlace,
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
from panestream.jobs.source import SourceSection
from panestream.windowing.time import to_micros
from panestream.windowing.watermarks import WatermarkStrategy

_OF_JOB = ("window", "windows", "firing", "aggregate", "process", "apply", "apply_arrow", "join", "interval_join", "trigger")
_OFFSET = re.compile(r"Z|(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{2}){0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """``[event_time]``: the time at which a row happened.

    Attributes:
        column: a column of timestamps, of strings (with ``format``) or of numbers since 1970-01-01 UTC (with ``unit``).
        format: a Spark datetime pattern.
        timezone: zone of strings without one, e.g. ``Asia/Shanghai``.
        unit: seconds, milliseconds or microseconds.
        invalid: treatment of rows whose event time is null or unreadable, "fail" or "side_output" (to [sinks.invalid]).
    """

    column: str = field(metadata=reads(column))
    format: str | None = field(default=None, metadata=reads(pattern))
    timezone: str | None = field(default=None, metadata=reads(text))
    unit: str | None = field(default=None, metadata=reads(choice("seconds", "milliseconds", "microseconds")))
    invalid: str = field(default="fail", metadata=reads(choice("fail", "side_output")))

    def check(self, place: DocumentPlace) -> None:
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
        """The column, or SQL that parses its strings to timestamps, null for strings that do not match."""
        if self.format is None:
            return self.column
        value, pattern = "`" + self.column.replace("`", "``") + "`", self.format
        if self.timezone is not None:
            # The zone becomes part of the text, so that the zone of the session does not matter.
            value, pattern = f"concat({value}, {_quoted(' ' + self.timezone)})", f"{self.format} VV"
        return f"CAST(try_to_timestamp({value}, {_quoted(pattern)}) AS TIMESTAMP)"


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unknown_zone(name: str) -> str | None:
    """Return the error for a time zone name; None if it is valid or this machine lacks a zone database (Spark has its own).

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
    """``[watermark]``: the progress of event time.

    Attributes:
        strategy: "bounded" (by ``delay``), "monotonous", or "none".
        delay: maximum delay of rows relative to the newest event time.
        per_partition: a column that has a separate watermark for each of its values.
        idleness: time without rows after which a partition no longer holds the others back.
        max_ahead: rows further ahead than this are treated as rows without event time.
        max_ahead_of: reference for ``max_ahead``, the "clock" of Spark (live data) or the other "rows" (old data).
        closing_after: time without any input after which the watermark follows the clock. Needs ``trigger.every``.
    """

    strategy: str = field(default="bounded", metadata=reads(choice("bounded", "monotonous", "none")))
    delay: str | None = field(default=None, metadata=reads(duration()))
    per_partition: str | None = field(default=None, metadata=reads(column))
    idleness: str | None = field(default=None, metadata=reads(duration(zero=False)))
    max_ahead: str | None = field(default=None, metadata=reads(duration()))
    max_ahead_of: str | None = field(default=None, metadata=reads(choice("clock", "rows")))
    closing_after: str | None = field(default=None, metadata=reads(duration(zero=False)))

    def check(self, place: DocumentPlace) -> None:
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
    """``[processing_time]``: takes the clock from a column, e.g. the time a row was received, instead of from Spark.

    Attributes:
        column: a column of timestamps or of numbers since 1970-01-01 UTC (with ``unit``), or SQL.
        unit: seconds, milliseconds or microseconds.
    """

    column: str = field(metadata=reads(column))
    unit: str | None = field(default=None, metadata=reads(choice("seconds", "milliseconds", "microseconds")))


suffix = name_like(re.compile(r"\w+", re.ASCII), "letters, digits and underscores", "letters, digits and underscores")


def kind_of_join(*known: str) -> Reader:
    """Return a reader of join types; for a name from Spark or Flink, the error gives the name used here."""

    def explain(word: str) -> str | None:
        kind = join_called(word)
        if kind is None or kind in known:
            return kind and f"is not known; it is called {kind!r} here"
        return f"is of joins in windows, [join]; here there are {', '.join(map(repr, known))}"

    return choice(*known, explain=explain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """``[left]`` and ``[right]``: one of two streams, with its rows, time and key.

    Attributes:
        source: as [source].
        event_time: as [event_time].
        watermark: as [watermark]. The smaller watermark of the two streams counts.
        processing_time: as [processing_time].
        key: columns on which the streams are joined, or SQL with a name. Both sides have the same number and types of
            columns. Results use the left names.
    """

    source: SourceSection = field(metadata=reads(section(SourceSection)))
    event_time: EventTime | None = field(default=None, metadata=reads(section(EventTime)))
    watermark: Watermark | None = field(default=None, metadata=reads(section(Watermark)))
    processing_time: ProcessingTime | None = field(default=None, metadata=reads(section(ProcessingTime)))
    key: tuple[str, ...] = field(metadata=reads(array(column)))

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        return f"unknown key here; it is of both streams: write [{name}]" if name in _OF_JOB else None

    @staticmethod
    def needs(given: Mapping[str, Any]) -> set[str]:
        return {"watermark"} if "event_time" in given else set()

    def check(self, place: DocumentPlace) -> None:
        if not self.key:
            place.at("key").note("is empty: rows of two streams meet by a key")


class _OfBoth:
    """A section whose results have columns of both streams."""

    __slots__ = ()
    left_suffix: str | None
    right_suffix: str | None

    @property
    def suffixes(self) -> tuple[str, str]:
        """The suffixes of left and right columns."""
        return self.left_suffix or "", self.right_suffix or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_OfBoth):
    """``[join]``: pairs each left row with each right row of the same key and window.

    Attributes:
        how: "inner", or "left", "right" or "full", which also emit rows of that side (or both) without a partner. "left_semi" and
            "left_anti" emit the left rows with or without a partner. May be changed on an existing checkpoint.
        left_suffix: suffix of a left column if the right stream has a column of the same name.
        right_suffix: suffix of a right column if the left stream has a column of the same name.
    """

    how: str = field(default="inner", metadata=reads(kind_of_join(*HOWS)))
    left_suffix: str | None = field(default=None, metadata=reads(suffix))
    right_suffix: str | None = field(default=None, metadata=reads(suffix))


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinSection(_OfBoth):
    """``[interval_join]``: pairs each left row with the right rows around its time, without windows.

    Attributes:
        lower: start of the interval relative to the time of the left row, e.g. "-1 hour" for an hour before it.
        upper: end of the interval relative to the time of the left row, e.g. "0 seconds" for this time.
        lower_exclusive: whether a row exactly at the lower bound is excluded.
        upper_exclusive: whether a row exactly at the upper bound is excluded.
        how: "inner", or "left", "right" or "full", which also emit rows of that side (or both) without a partner. An existing
            checkpoint cannot change it.
        left_suffix: as in [join].
        right_suffix: as in [join].
    """

    lower: str = field(metadata=reads(duration(negative=True)))
    upper: str = field(metadata=reads(duration(negative=True)))
    lower_exclusive: bool = field(default=False, metadata=reads(boolean))
    upper_exclusive: bool = field(default=False, metadata=reads(boolean))
    how: str = field(default="inner", metadata=reads(kind_of_join(*OF_PAIRS)))
    left_suffix: str | None = field(default=None, metadata=reads(suffix))
    right_suffix: str | None = field(default=None, metadata=reads(suffix))

    def check(self, place: DocumentPlace) -> None:
        lower, upper = to_micros(self.lower), to_micros(self.upper)
        if lower > upper:
            place.at("lower").note(f"{self.lower!r} is after the upper bound, {self.upper!r}: exchange them")
        elif lower + self.lower_exclusive > upper - self.upper_exclusive:
            place.at("lower").note("nothing lies between the bounds: include them, or move one")


__all__ = ["EventTime", "IntervalJoinSection", "Join", "ProcessingTime", "Stream", "Watermark"]
