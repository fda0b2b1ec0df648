"""What goes into an operator with a micro-batch, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(slots=True)
class GroupInput:
    """What a micro-batch has for one key group, everything in arrival order.

    Attributes:
        parts: what the operator packed, by kind.
        origins: the source partition of each part, by kind; empty: all are of one.
        invalid: whole rows without usable event time.
        seen: the largest event time of each source partition that had rows (the same for all groups).
        watermarks: the watermark that the user's own generator gave for each source partition, where the strategy has one.
        input_rows: how many rows the micro-batch has, over all groups.
        invalid_rows: how many of them are invalid, over all groups.
        history_rows: how many came besides that are in the history from which the query started.
        batch_time: processing time, 0 where the plan does not need it.
        run: which run of the query it is, from start to stop; empty: unknown.
        planned_in: the run that planned it, in which its time was read: of a micro-batch that is run again an earlier one.
            Empty: unknown, and ``run`` stands for it.
        end_of_input: no more will come: every window fires. (Batch.)
        end_of_available: nothing more is there now, and that is to count for silence: what is open closes, if no rows came.
    """

    parts: dict[str, list[pa.Table]] = field(default_factory=dict)
    origins: dict[str, list[int]] = field(default_factory=dict)
    invalid: list[pa.Table] = field(default_factory=list)
    seen: Mapping[str, int] = field(default_factory=dict)
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
        """Whether the source had rows, for whichever key group."""
        return bool(self.input_rows or self.seen)

    def of(self, kind: str) -> list[pa.Table]:
        """The parts of one kind."""
        return self.parts.get(kind, [])


MOST_PARTITIONS = 1000
"""Of so many source partitions the metrics tell."""


@dataclass(slots=True)
class GroupMetrics:
    """What happened in one micro-batch of one key group; JSON-able. Event times are in engine units, None: unknown yet.

    ``input_rows``, ``invalid_rows``, ``history_rows``, ``watermark_before`` (the micro-batch), ``watermark`` (after it) and
    ``max_event_time`` are the same in all groups; all else is of this group.
    ``windowed_rows`` are the rows that at least one window took, ``late_rows`` those that no window takes any more,
    ``outside_rows`` those that lie in no window and are not late. A row is one of these three: over all groups, ``input_rows`` =
    ``windowed_rows`` + ``late_rows`` + ``outside_rows`` + ``invalid_rows``.
    ``key_group`` is its number, ``state_of`` the micro-batch that had written its state before (-1: none), the same in all groups
    unless they are woken by the clock. ``fired_windows`` are the windows' numbers, ``open_windows`` the first and last that still
    have open panes here; ``kept_windows`` how many windows of keys are kept, where they have no such numbers (None: unknown).
    ``firings`` are counted for each key and window, ``outputs`` rows by tag.
    ``partitions`` are the source partitions (name, largest event time, watermark, whether it is idle), the furthest behind first,
    :data:`MOST_PARTITIONS` at most; of key group 0 only, since all know the same. ``woken``: the clock called, no rows came.
    ``operator_us`` (microseconds) is for who has a clock.
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
        return asdict(self)


@dataclass(slots=True)
class GroupOutput:
    """What a micro-batch emits for one key group: tables by tag, what happened, and by when it wants the clock (None: never)."""

    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    metrics: GroupMetrics = field(default_factory=GroupMetrics)
    wake_up: int | None = None

    def emit(self, tag: str, table: pa.Table, rows: int | None = None) -> None:
        """Adds rows to an output; ``rows``: how many they will be there, where the table stands for more or fewer."""
        if table.num_rows:
            self.tables.append((tag, table))
            self.metrics.outputs[tag] = self.metrics.outputs.get(tag, 0) + (table.num_rows if rows is None else rows)
