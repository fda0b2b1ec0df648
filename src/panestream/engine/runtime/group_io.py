"""The input and the output of an operator for a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(slots=True)
class GroupInput:
    """The rows of a micro-batch for one key group, all in arrival order.

    Attributes:
        parts: the tables that the operator packed, by kind.
        origins: the source partition of each part, by kind. Empty if all have the same.
        invalid: whole rows without usable event time.
        seen: the largest event time of each source partition that had rows (the same for all groups).
        oldest: the smallest event time of the rows over all groups, or None if there is none or the plan does not need it.
        watermarks: the watermarks of the user-defined generators per source partition, if any.
        input_rows, invalid_rows: the rows of the micro-batch and the invalid ones among them, over all groups.
        history_rows: additional rows in the history from which the query started.
        batch_time: processing time, or 0 if the plan does not need it.
        run: the run of the query, from start to stop, or empty if unknown.
        planned_in: the run that planned the micro-batch and read its time (earlier if it is repeated). If empty, ``run`` counts.
        end_of_input: whether the input has ended, so that every window fires. (Batch.)
        end_of_available: whether nothing more is available, which counts as silence. Open windows close if no rows came.
    """

    parts: dict[str, list[pa.Table]] = field(default_factory=dict)
    origins: dict[str, list[int]] = field(default_factory=dict)
    invalid: list[pa.Table] = field(default_factory=list)
    seen: Mapping[str, int] = field(default_factory=dict)
    oldest: int | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)
    input_rows: int = 0
    invalid_rows: int = 0
    history_rows: int = 0
    batch_time: int = 0
    run: str = ""
    planned_in: str = ""
    end_of_input: bool = False
    end_of_available: bool = False

    @property
    def has_reports(self) -> bool:
        """True if the source had rows for any key group."""
        return bool(self.input_rows or self.seen)

    def of(self, kind: str) -> list[pa.Table]:
        return self.parts.get(kind, [])


MOST_PARTITIONS = 1000
"""The largest number of source partitions in the metrics."""


@dataclass(slots=True)
class GroupMetrics:
    """The metrics of one micro-batch of one key group, JSON-able. Event times are in engine units, or None if unknown yet.

    ``input_rows``, ``invalid_rows``, ``history_rows``, ``watermark_before`` (the micro-batch), ``watermark`` (after it),
    ``max_event_time``, ``partition_count`` and ``idle_partitions`` are the same in all groups; everything else concerns this
    group. ``windowed_rows`` are the rows that at least one window took, ``late_rows`` those that no window takes any more,
    ``outside_rows`` those outside all windows that are not late. Every row is counted in exactly one of them: over all groups,
    ``input_rows`` = ``windowed_rows`` + ``late_rows`` + ``outside_rows`` + ``invalid_rows``.

    ``key_group`` is its number, ``state_of`` the micro-batch that had written its state before (or -1), the same in all groups
    unless the clock wakes them. ``fired_windows`` are the windows' numbers (in JSON as
    :func:`runs`), ``open_windows`` the first and last that still have
    open panes here; ``kept_windows`` counts (key, window) pairs in state for windows without such numbers (None if unknown).
    ``firings`` are counted for each key and window, ``outputs`` rows by tag. ``partitions`` are the source partitions (name,
    largest event time, watermark, whether it is idle), the furthest behind first, :data:`MOST_PARTITIONS` at most; only key group
    0 has them, because all groups agree. ``woken`` means that the clock called without rows. ``operator_us`` (microseconds) is
    set by callers with a clock.
    """

    input_rows: int = 0
    invalid_rows: int = 0
    history_rows: int = 0
    watermark_before: int | None = None
    watermark: int | None = None
    max_event_time: int | None = None
    late_rows: int = 0
    windowed_rows: int = 0
    outside_rows: int = 0
    fired_rows: int = 0
    fired_windows: list[int] = field(default_factory=list)
    open_windows: tuple[int, int] | None = None
    kept_windows: int | None = 0
    firings: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    partitions: list[tuple[str, int | None, int | None, bool]] | None = None
    partition_count: int = 0
    idle_partitions: int = 0
    blocks: int = 0
    key_group: int = 0
    woken: bool = False
    state_of: int = -1
    state_bytes: int = 0
    state_calls: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    operator_us: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the metrics with the fired windows as :func:`runs`."""
        return {**asdict(self), "fired_windows": runs(self.fired_windows)}


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of consecutive numbers, ascending.

    >>> runs([7, 3, 4, 5, 4])
    [(3, 5), (7, 7)]
    """
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number <= found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def count_in_runs(given: Iterable[tuple[int, int]]) -> int:
    """Return how many numbers are in at least one of the runs.

    >>> count_in_runs([(3, 5), (4, 6), (9, 9)])
    5
    """
    count, beyond = 0, -(1 << 63)
    for first, last in sorted(given):
        start, beyond = max(first, beyond), max(last + 1, beyond)
        count += beyond - start
    return count


@dataclass(slots=True)
class GroupOutput:
    """A micro-batch's output for one key group: tables by tag, metrics, and the time at which the clock must call, or None."""

    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    metrics: GroupMetrics = field(default_factory=GroupMetrics)
    wake_up: int | None = None

    def emit(self, tag: str, table: pa.Table, rows: int | None = None) -> None:
        """Add rows to an output; ``rows`` is their final number there if it differs from the table's."""
        if table.num_rows:
            self.tables.append((tag, table))
            self.metrics.outputs[tag] = self.metrics.outputs.get(tag, 0) + (table.num_rows if rows is None else rows)
