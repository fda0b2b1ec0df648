"""``[left]`` and ``[right]`` of a job file, and what becomes of the two: ``[join]`` and ``[interval_join]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.engine.runtime.sides import HOWS, OF_PAIRS, join_called
from panestream.jobs.schema import Place, Reader, array, boolean, choice, column, duration, name_like, reads, section
from panestream.jobs.source import Source
from panestream.jobs.times import EventTime, ProcessingTime, Watermark
from panestream.windowing.time import to_micros

_OF_JOB = ("window", "windows", "firing", "aggregate", "process", "apply", "apply_arrow", "join", "interval_join", "trigger")

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


__all__ = ["IntervalJoin", "Join", "Stream"]
