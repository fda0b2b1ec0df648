"""Plain descriptions of queries and their schedules, which the reference model can read too. They are random or written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from panestream.testing.simulation.schedule import MicroBatch, Row, Settings, with_closing_rows

FAR = 1_000_000
"""An event time beyond all windows."""
LEFT, RIGHT = SIDES = ("left", "right")
"""The two streams of a join."""
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")
"""The kinds of joins."""
TWO_STREAMS = ("joins", "co-groups", "intervals")
"""The operators with two streams."""


@dataclass(frozen=True)
class Query:
    """A windowed query.

    Attributes:
        operator: the operator to run it.
        assigner, trigger, evictor: in the terms of the reference model. An interval join has ``lower`` and ``upper``. Look-backs
            have ``of``, with a size and following time for each. Predicate windows have ``start`` and ``end``, the values that
            start and end a window, and ``gap``.
        function: ``declared`` aggregates, or a user function: ``list``, ``aggregate`` or ``context``. For two streams, ``pairs``,
            or a function over the rows of both: ``lists`` or ``tables``.
        settings: the settings of the first run.
        partitions: whether each source partition has a separate watermark.
        idle: the idle timeout of a partition, or None.
        late, invalid: whether there are such outputs.
        groups: the number of key groups.
        exchanges: whether the file system can exchange two folders in one step.
        how: the kind of join.
        behind: the extra delay of the right stream's watermark.
        exact: whether every firing of a join is compared, which needs the row operator.
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
        """Return whether windows fire in processing time."""
        return self.assigner.get("time") == "processing" or "processing" in str(self.trigger)

    @property
    def of_event_time(self) -> bool:
        """Return whether windows end in event time."""
        return self.assigner.get("time") != "processing" and self.assigner["type"] not in ("global", "count")

    @property
    def of_time(self) -> bool:
        """Return whether rows must have an event time."""
        return self.assigner.get("time") != "processing"

    @property
    def closes(self) -> bool:
        """Return whether every window ends at some time."""
        kind = self.assigner["type"]
        return kind not in ("global", "count") and (kind != "predicates" or self.assigner["gap"] is not None)

    @property
    def of_two(self) -> bool:
        """Return whether the query has two streams."""
        return self.operator in TWO_STREAMS

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the partitions of the rows."""
        if not self.of_two:
            return ("p0", "p1")
        return ("left/p0", "left/p1", "right/p0") if self.partitions else SIDES

    def source_of(self, row: Row) -> str:
        """Return the source with a separate watermark that a row belongs to."""
        if self.partitions:
            return row.partition
        return row.side if self.of_two else ""

    @property
    def tells_every_firing(self) -> bool:
        """Return whether a window may fire more than once in a micro-batch."""
        if self.operator == "co-groups":
            # All others run as panes of whole rows.
            return self.exact or self.trigger is not None or not self.of_event_time or self.assigner["type"] == "session"
        return self.exact or self.operator in ("counts", "row")

    @property
    def of_growing_columns(self) -> bool:
        """Return whether it has sessions that are emitted only in their final form of a micro-batch."""
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
    """Return the kind of join under some settings. A window join may change its kind when the query starts again."""
    if query.operator == "intervals":
        return query.how
    return HOWS[(HOWS.index(query.how) + settings.code) % len(HOWS)]
