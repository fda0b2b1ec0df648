"""What a running query warns of, micro-batch by micro-batch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from panestream.engine.plan import WindowPlan
from panestream.errors import PanestreamWarning
from panestream.spark.event_time import instant
from panestream.spark.progress import BatchProgress, LateRows
from panestream.windowing.time import format_duration

_MUCH = 24 * 3600 * 1_000_000
"""A micro-batch that moves the watermark by more is worth a word: a day, in microseconds."""


@dataclass(slots=True)
class Jumps:
    """Warns of the first micro-batch of a run that takes the watermark more than a day ahead, where nothing forbids that.

    It may be a backlog, or one row with a wrong time: then all that comes after it is late.
    """

    plan: WindowPlan
    warned: bool = False

    def look(self, progress: BatchProgress) -> None:
        """Call it with each micro-batch."""
        before, after = progress.watermark_before, progress.watermark
        if self.warned or self.plan.watermark.max_ahead_by is not None or before is None or after is None:
            return
        if after - before <= _MUCH:
            return
        self.warned = True
        moved = format_duration((after - before) // 1_000_000 * 1_000_000)
        warnings.warn(
            f"micro-batch {progress.batch_id} moved the watermark by {moved}, to {instant(after)}: if a row with a wrong event "
            "time did that, all that comes after it is late, for ever. WatermarkStrategy.max_ahead('1 hour') makes such rows "
            "invalid (of='rows' for data of the past). (Said once for each start.)",
            PanestreamWarning,
            stacklevel=2,
        )


@dataclass(frozen=True, slots=True)
class Notices:
    """All of them."""

    late_rows: LateRows
    jumps: Jumps

    @classmethod
    def of(cls, plan: WindowPlan, *, kept: bool) -> Notices:
        """For one start of a query.

        Args:
            plan: the query.
            kept: whether late rows have an output and a sink.
        """
        return cls(LateRows(plan, kept), Jumps(plan))

    def look(self, progress: BatchProgress) -> None:
        """Call it with each micro-batch."""
        self.jumps.look(progress)
        self.late_rows.look(progress)
