"""Warnings of a running query. The method ``look`` checks each micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from panestream.engine.exchange.packing import instant
from panestream.engine.plan import WindowPlan
from panestream.errors import warn
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.windowing.time import format_duration

_MUCH = 24 * 3600 * 1_000_000
"""The change of the watermark in one micro-batch that causes a warning: a day, in microseconds."""


@dataclass(slots=True)
class LateRows:
    """A warning about the first dropped late rows of a run. ``kept``: whether late rows have an output and a sink."""

    plan: WindowPlan
    kept: bool
    warned: bool = False

    def look(self, progress: BatchProgress) -> None:
        if self.kept or self.warned or not progress.late_rows:
            return
        self.warned = True
        way_out = (
            f"they have an output, {' and '.join(map(repr, tags))}, but no sink: start({', '.join(f'{tag}=...' for tag in tags)})"
            if (tags := self.plan.late_tags)
            else "keep them with .side_output_late_data('late') and start(late=...), or wait longer for them: more delay of the "
            "watermark, .allowed_lateness(...)"
        )
        warn(
            f"micro-batch {progress.batch_id} dropped {progress.late_rows:,} late "
            f"{'row' if progress.late_rows == 1 else 'rows'}: {way_out}. (Shown once for each start; the "
            f"counts of every micro-batch are in query.recent_progress.)"
        )


@dataclass(slots=True)
class Jumps:
    """A warning about the first jump of the watermark by more than a day in one micro-batch, if the plan does not limit jumps.

    The cause may be a backlog, or one row with a wrong time, after which all later rows are late. The distance is from the
    previous watermark or, in the very first micro-batch, from the driver's clock.
    """

    plan: WindowPlan
    warned: bool = False
    clock: Callable[[], float] = time.time

    def look(self, progress: BatchProgress) -> None:
        before, after = progress.watermark_before, progress.watermark
        if self.warned or self.plan.watermark.limits_ahead or after is None:
            return
        if not (progress.rows or progress.history_rows):
            return  # silence moved it, not a row
        ahead = after - (int(self.clock()) * 1_000_000 if before is None else before)
        if ahead <= _MUCH:
            return
        self.warned = True
        far = format_duration(ahead // 1_000_000 * 1_000_000)
        moved = f"by {far}, to {instant(after)}" if before is not None else f"to {instant(after)}, {far} ahead of the clock"
        warn(
            f"micro-batch {progress.batch_id} moved the watermark {moved}: if a row with a wrong event time caused this, all "
            f"later rows will be late. WatermarkStrategy.max_ahead('1 hour') makes such rows "
            "invalid (of='rows' for data of the past). (Shown once for each start.)"
        )


@dataclass(slots=True)
class DroppedBySpark:
    """A warning about the first rows of a run that Spark's own operators in the same query dropped."""

    warned: bool = False

    def look(self, progress: BatchProgress) -> None:
        if self.warned or not progress.spark_dropped_rows:
            return
        self.warned = True
        rows = f"{progress.spark_dropped_rows:,} {'row' if progress.spark_dropped_rows == 1 else 'rows'}"
        warn(
            f"in micro-batch {progress.batch_id} Spark's own operators in this query (joins, dropDuplicates, groupBy) "
            f"dropped {rows} as late, before or after the windows: more delay in withWatermark(...) keeps "
            "them. (Shown once for each start; the counts of every micro-batch are spark_dropped_rows in query.recent_progress.)"
        )


@dataclass(frozen=True, slots=True)
class Notices:
    """All warnings of one run."""

    late_rows: LateRows
    jumps: Jumps

    @classmethod
    def of(cls, plan: WindowPlan, *, kept: bool) -> Notices:
        """Return the warnings for one start of a query. ``kept``: whether late rows have an output and a sink."""
        return cls(LateRows(plan, kept), Jumps(plan))

    def look(self, progress: BatchProgress) -> None:
        self.jumps.look(progress)
        self.late_rows.look(progress)
