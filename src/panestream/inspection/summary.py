"""What is shown of a state: plain data, the same for text, JSON, pages and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from panestream.inspection.bins import Counted
from panestream.inspection.values import Json


@dataclass(frozen=True, slots=True)
class PlanShown:
    """The query.

    Attributes:
        windows: the assigner, as it is written.
        operator: what runs it.
        key: the key columns: names and types.
        results: the names of the results.
        labels: the kinds of windows, where there are several.
        groups: the number of key groups.
        lateness: for how long after its end a window takes rows, microseconds.
        words: the whole plan in words, as ``explain`` tells it.
        by_processing_time: whether windows follow the clock.
        split: whether the rows of a key lie in several key groups: a window counts in each.
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
class Source:
    """A source partition; times in microseconds since 1970.

    Attributes:
        name: of the partition; empty where the input is one.
        newest: the largest event time seen; None: it had no rows yet.
        watermark: its own.
        idle: whether it holds the watermark back no more.
    """

    name: str
    newest: int | None
    watermark: int | None
    idle: bool


@dataclass(frozen=True, slots=True)
class SameBounds:
    """The windows of all keys that have the same bounds; times in microseconds since 1970.

    Attributes:
        label: the kind of windows.
        start, end: None: the window has none.
        keys: how many keys have such a window.
        key: the key, where there is but one.
        rows, bytes: of all of them; rows: None where the operator does not count them.
        due: when the first of them fires next, if no row comes; None: none will by itself.
        closes: when the first of them goes.
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
    """A key and its open windows.

    Attributes:
        key: its columns by name; None: the query has no key.
        windows, rows, bytes: of its windows together.
    """

    key: Json
    windows: int
    rows: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupShown:
    """A key group.

    Attributes:
        group: its number.
        keys, windows, rows: what is open in it.
        elements: rows that are kept for functions and evictors.
        bytes: of its state as tables.
    """

    group: int
    keys: int
    windows: int
    rows: int | None
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StateShown:
    """Users' states of one descriptor: whose (trigger, window, key), its name, how many there are."""

    of: str
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class TimersShown:
    """Timers of one kind (event or processing): how many, the first and the last, microseconds since 1970."""

    kind: str
    count: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """What a state holds after one micro-batch; times in microseconds since 1970.

    Attributes:
        path: the checkpoint, or the savepoint's folder.
        batch_id: the micro-batch; None: it was made of history.
        planned: when Spark planned it, by the clock of its driver; None: unknown.
        taken: when this was looked at, by the clock of whoever looked.
        plan: the query.
        filters: what was asked for, by the filter's name; empty: all.
        watermark: how far event time has come; None: nowhere yet, or there is none.
        newest: the largest event time of all source partitions.
        clock: how far processing time has come, where windows follow it.
        sources: the source partitions, the furthest behind first, at most a thousand.
        source_count: how many there are.
        windows, keys, rows: open windows, the keys that have some, and the rows in them: a row counts in each of its windows.
            Rows: None where the operator does not count them.
        bytes: of the state as tables.
        due: windows that will fire if no row comes.
        timeless: windows without an end: count windows and global windows.
        elements: rows that are kept for functions and evictors.
        late_dropped: late rows that were dropped, where the operator counts them in its state.
        ends: how many windows, and rows, by the end of the window.
        oldest: by start.
        next: by when they fire.
        most_rows, most_bytes: keys; none by rows where the operator does not count them.
        groups: the key groups; with a filter those that have something of what was asked for.
        user_state: by descriptor.
        timers: by kind.
        listed: with a filter the first rows of each view, as JSON has them.
        closed: windows whose last instant is this or before are closed for good; None: none are.
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
    sources: tuple[Source, ...]
    source_count: int
    windows: int
    keys: int
    rows: int | None
    bytes: int
    due: int
    timeless: int
    elements: int
    late_dropped: int | None
    ends: Counted
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
        """How much larger the largest key group is than their mean: 1 where all are alike; None: there is nothing.

        Args:
            what: ``keys``, ``windows``, ``rows``, ``elements`` or ``bytes``.
        """
        values = [int(getattr(group, what) or 0) for group in self.groups]
        total = sum(values)
        return max(values) * len(values) / total if total else None


__all__ = ["GroupShown", "KeyShown", "PlanShown", "SameBounds", "Source", "StateShown", "Summary", "TimersShown"]
