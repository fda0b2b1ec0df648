"""The data of a summary, shared by text, JSON, pages and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Any
"""A value that ``json.dumps`` accepts."""


Counts = tuple[int, ...]
"""The counts in one bin."""


@dataclass(frozen=True, slots=True)
class BinCounts:
    """Counts by bin number, which is the start of the bin divided by ``width``, its width in microseconds."""

    width: int
    counts: Mapping[int, Counts]

    def at(self, width: int) -> BinCounts:
        """Return the same counts in wider bins."""
        if width == self.width:
            return self
        factor, wider = width // self.width, dict[int, Counts]()
        for number, counts in self.counts.items():
            place = number // factor
            wider[place] = tuple(a + b for a, b in zip(wider[place], counts, strict=True)) if place in wider else counts
        return BinCounts(width, wider)


@dataclass(frozen=True, slots=True)
class PlanShown:
    """The query.

    Attributes:
        lateness: how long a window takes rows after its end, in microseconds.
        words: the whole plan in words, as in ``explain``.
        split: whether rows of one key are in several key groups. A window then counts in each.
    """

    windows: str
    operator: str
    key: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    labels: tuple[str, ...]
    groups: int
    lateness: int
    words: str
    by_processing_time: bool
    split: bool


@dataclass(frozen=True, slots=True)
class SourceTimes:
    """A source partition, named unless it is the only one. Times are in microseconds since 1970, or None before the first row."""

    name: str
    newest: int | None
    watermark: int | None
    idle: bool


@dataclass(frozen=True, slots=True)
class SameBounds:
    """All windows with the same bounds, over all keys. Times are in microseconds since 1970.

    ``key`` is set if there is only one, and ``rows`` unless the operator does not count them. ``due`` and ``closes`` are when the
    first of these windows fires and is removed. ``due`` assumes that rows stop coming, and is None if no window fires by itself.
    """

    label: str | None
    start: int | None
    end: int | None
    keys: int
    key: Json
    rows: int | None
    bytes: int
    due: int | None
    closes: int | None


@dataclass(frozen=True, slots=True)
class KeyShown:
    """Totals over the open windows of a key, which is None if the query is not keyed."""

    key: Json
    windows: int
    rows: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupShown:
    """Totals of a key group; ``elements`` are the rows stored for functions and evictors."""

    group: int
    keys: int
    windows: int
    rows: int | None
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StateShown:
    """The number of users' states with one descriptor name and one kind of owner (trigger, window, key)."""

    of: str
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class TimersShown:
    """Timers of one kind (event or processing time), with times in microseconds since 1970."""

    kind: str
    count: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """The contents of a state after one micro-batch. Times are in microseconds since 1970.

    Attributes:
        path: the checkpoint, or the folder of the savepoint.
        batch_id: the micro-batch, or None if the state was made from history.
        planned: when Spark planned it, by the clock of the driver, or None if unknown.
        taken: when the state was read, by the clock of the reader.
        filters: the filters by name, empty for the whole state.
        watermark: the watermark, or None before the first one.
        newest: the largest event time of all source partitions.
        clock: processing time, if windows follow it.
        sources: the source partitions, furthest behind first, at most a thousand.
        source_count: number of source partitions.
        windows, keys, rows: number of open windows, of their keys, and of their rows. A row counts in each of its windows. Rows
            are None if the operator does not count them.
        bytes: size of the state as tables.
        due: number of windows that will fire without further rows.
        timeless: number of windows without an end, as count windows and global windows have.
        elements: number of rows stored for functions and evictors.
        late_dropped: number of dropped late rows, if the operator counts them in its state.
        ends: number of windows and rows by the end of the window.
        oldest, next: windows sorted by start and by next firing.
        most_rows, most_bytes: the largest keys. The first is empty if the operator does not count rows.
        groups: the key groups. With a filter, only groups with matches.
        user_state, timers: states by descriptor and timers by kind.
        listed: with a filter, the first rows of each view as JSON.
        closed: windows whose last instant is at or before this are closed for good. None if none are closed.
    """

    path: str
    batch_id: int | None
    planned: int | None
    taken: int
    plan: PlanShown
    filters: Mapping[str, tuple[str, ...]]
    watermark: int | None
    newest: int | None
    clock: int | None
    sources: tuple[SourceTimes, ...]
    source_count: int
    windows: int
    keys: int
    rows: int | None
    bytes: int
    due: int
    timeless: int
    elements: int
    late_dropped: int | None
    ends: BinCounts
    oldest: tuple[SameBounds, ...]
    next: tuple[SameBounds, ...]
    most_rows: tuple[KeyShown, ...]
    most_bytes: tuple[KeyShown, ...]
    groups: tuple[GroupShown, ...]
    user_state: tuple[StateShown, ...]
    timers: tuple[TimersShown, ...]
    listed: Mapping[str, tuple[Mapping[str, Json], ...]] | None = field(default=None)
    closed: int | None = None

    def __repr__(self) -> str:
        which = "" if self.batch_id is None else f" after micro-batch {self.batch_id}"
        return f"<Summary of {self.path}{which}: {self.windows:,} windows, {self.bytes:,} bytes>"

    def skew(self, what: str) -> float | None:
        """Return the size of the largest key group divided by the mean (1 if all are equal), or None if all are empty.

        Args:
            what: ``keys``, ``windows``, ``rows``, ``elements`` or ``bytes``.
        """
        values = [int(getattr(group, what) or 0) for group in self.groups]
        total = sum(values)
        return max(values) * len(values) / total if total else None
