"""Queries in plain words that the reference model understands as well, and their schedules: made from a seed, or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from panestream.testing.simulation.schedule import MicroBatch, Row, Settings, with_closing_rows

FAR = 1_000_000
"""Beyond all windows."""
LEFT, RIGHT = SIDES = ("left", "right")
"""The two streams of a join."""
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")
"""The kinds of joins."""
TWO_STREAMS = ("joins", "co-groups", "intervals")
"""The operators that have two."""


@dataclass(frozen=True)
class Query:
    """A windowed query.

    Attributes:
        operator: which one runs it.
        assigner, trigger, evictor: in the words of the reference model. Of
            interval joins ``lower`` and ``upper``; of look-backs ``of``, a size and what follows for each; of predicates
            ``start`` and ``end``, the values that begin and end a window, and ``gap``.
        function: ``declared`` aggregates; ``list``, ``aggregate`` or ``context``: functions of a user's own. Of two streams
            ``pairs``; ``lists`` or ``tables``: functions over the rows of both.
        settings: of the first run.
        partitions: whether each source partition has a watermark of its own.
        idle: after how long a partition is idle; None: never.
        late, invalid: whether there are such outputs.
        groups: how many key groups there are.
        exchanges: whether the file system can exchange two folders in one step.
        how: the kind of join.
        behind: how much further the watermark of the right stream is behind.
        exact: whether every single firing of a join is wanted, which the row operator gives.
    """

    operator: str
    assigner: Mapping[str, Any]
    trigger: Mapping[str, Any] | None = None
    evictor: Mapping[str, Any] | None = None
    function: str = "declared"
    settings: Settings = Settings()  # noqa: RUF009 - it is frozen
    partitions: bool = False
    idle: int | None = None
    late: bool = False
    invalid: bool = False
    groups: int = 1
    exchanges: bool = True
    how: str = "inner"
    behind: int = 0
    exact: bool = False

    @property
    def by_clock(self) -> bool:
        """Whether the clock makes windows fire."""
        return self.assigner.get("time") == "processing" or "processing" in str(self.trigger)

    @property
    def of_event_time(self) -> bool:
        """Whether windows end by event time."""
        return self.assigner.get("time") != "processing" and self.assigner["type"] not in ("global", "count")

    @property
    def of_time(self) -> bool:
        """Whether rows must have an event time."""
        return self.assigner.get("time") != "processing"

    @property
    def closes(self) -> bool:
        """Whether every window is over at some time."""
        kind = self.assigner["type"]
        return kind not in ("global", "count") and (kind != "predicates" or self.assigner["gap"] is not None)

    @property
    def of_two(self) -> bool:
        """Whether its rows are of two streams."""
        return self.operator in TWO_STREAMS

    @property
    def sources(self) -> tuple[str, ...]:
        """The partitions that rows come from."""
        if not self.of_two:
            return ("p0", "p1")
        return ("left/p0", "left/p1", "right/p0") if self.partitions else SIDES

    def source_of(self, row: Row) -> str:
        """What has a watermark of its own."""
        if self.partitions:
            return row.partition
        return row.side if self.of_two else ""

    @property
    def tells_every_firing(self) -> bool:
        """Whether a window may be told more than once in a micro-batch."""
        if self.operator == "co-groups":
            # All others run as panes of whole rows.
            return self.exact or self.trigger is not None or not self.of_event_time or self.assigner["type"] == "session"
        return self.exact or self.operator in ("counts", "row")

    @property
    def of_growing_columns(self) -> bool:
        """Whether it has sessions of which only those are told that are left when a micro-batch is over."""
        return self.assigner["type"] == "session" and self.of_event_time and not self.tells_every_firing


@dataclass(frozen=True)
class QuerySchedule:
    """A query and its micro-batches."""

    query: Query
    batches: tuple[MicroBatch, ...]

    def closed(self) -> QuerySchedule:
        """Add the rows that close all windows."""
        query = self.query
        return replace(self, batches=with_closing_rows(self.batches, query.sources, FAR, by_clock=query.by_clock))


def join_of(query: Query, settings: Settings) -> str:
    """The kind of join under some settings: in windows it may be another one when the query is started again."""
    if query.operator == "intervals":
        return query.how
    return HOWS[(HOWS.index(query.how) + settings.code) % len(HOWS)]
