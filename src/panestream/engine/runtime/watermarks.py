"""The watermark of one key group: what the partitions reported, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy

if TYPE_CHECKING:
    from panestream.engine.runtime.group_io import GroupInput, GroupMetrics


@dataclass(slots=True)
class SourcePartition:
    """What is known of one source partition.

    Attributes:
        max_timestamp: its largest event time.
        emitted: the largest watermark that the user's own generator emitted for it.
        silent: for how long it has been silent, in engine units; None: it had rows when the source was last asked, or nobody has
            asked in this run.
    """

    max_timestamp: int
    emitted: int = MIN_TIMESTAMP
    silent: int | None = None


@dataclass(slots=True)
class WatermarkTracker:
    """Turns the largest event times seen per source partition into one watermark that never goes back.

    Every key group is handed every report, so all groups of a query agree after every micro-batch.

    Attributes:
        strategy: the recipe.
        watermark: how far event time has come.
        partitions: the source partitions that were seen.
        run: of the query, in which the source was last asked; empty: unknown.
        asked: the time of that micro-batch.
        before: the watermark before this micro-batch.
    """

    strategy: WatermarkStrategy
    watermark: int = MIN_TIMESTAMP
    partitions: dict[str, SourcePartition] = field(default_factory=dict)
    run: str = ""
    asked: int = 0
    before: int = field(default=MIN_TIMESTAMP, compare=False)

    def take_in(self, batch: GroupInput) -> int:
        """What a micro-batch reports; returns the watermark.

        A key group that is woken up by the clock gets no reports: the source was not asked.
        """
        self.before = self.watermark
        if not (batch.input_rows or batch.seen):
            return self.watermark
        return self.advance(batch.seen, batch.batch_time, batch.watermarks, batch.run)

    def advance(self, seen: Mapping[str, int], batch_time: int, generated: Mapping[str, int] | None = None, run: str = "") -> int:
        """Takes in what this micro-batch says of each source partition; returns the watermark.

        Args:
            seen: the largest event time of each partition that had rows.
            batch_time: processing time.
            generated: what the user's own generator emitted for each partition, where the strategy has one.
            run: which run of the query this is; another one than before starts the idle timers anew.
        """
        self._note_silence(seen, batch_time, run)
        for name in sorted(seen):
            known = self.partitions.get(name)
            largest = seen[name] if known is None else max(known.max_timestamp, seen[name])
            emitted = MIN_TIMESTAMP if known is None else known.emitted
            emitted = max(emitted, (generated or {}).get(name, MIN_TIMESTAMP))
            self.partitions[name] = SourcePartition(largest, emitted)
        counted = [known for known in self.partitions.values() if not self._is_idle(known)]
        if counted:
            self.watermark = max(self.watermark, min(self._watermark_of(known) for known in counted))
        return self.watermark

    def measure(self, batch: GroupInput, metrics: GroupMetrics) -> None:
        """Fills in what is the same in all key groups."""
        metrics.input_rows, metrics.invalid_rows = batch.input_rows, batch.invalid_rows
        metrics.watermark_before = None if self.before == MIN_TIMESTAMP else self.before
        metrics.watermark = None if self.watermark == MIN_TIMESTAMP else self.watermark
        metrics.max_event_time = max((known.max_timestamp for known in self.partitions.values()), default=None)

    def _watermark_of(self, known: SourcePartition) -> int:
        if self.strategy.generator is not None:
            return known.emitted
        if self.strategy.delay is None:
            return MIN_TIMESTAMP
        # Flink's minus one: a row with exactly the largest event time seen may still come.
        return known.max_timestamp - self.strategy.delay - 1

    def _note_silence(self, seen: Mapping[str, int], batch_time: int, run: str) -> None:
        """Counts how long the partitions without rows have been silent: by the micro-batches that asked for them in vain.

        What went by while nobody asked is not silence: the time before the first of these micro-batches, and before a run began.
        Between two of them it is, for half the timeout at most: one slow micro-batch makes nobody idle.
        """
        timeout = self.strategy.idle_timeout
        gap = 0 if timeout is None else min(max(batch_time - self.asked, 0), (timeout + 1) // 2)
        for name, known in self.partitions.items():
            if timeout is None or run != self.run:
                known.silent = None
            if timeout is not None and name not in seen:
                known.silent = 0 if known.silent is None else known.silent + gap
        self.run, self.asked = run, max(batch_time, self.asked)

    def _is_idle(self, known: SourcePartition) -> bool:
        timeout = self.strategy.idle_timeout
        return timeout is not None and known.silent is not None and known.silent >= timeout

    def to_json(self) -> dict[str, Any]:
        """What the meta record keeps."""
        return {
            "watermark": self.watermark,
            "partitions": {name: list(astuple(known)) for name, known in sorted(self.partitions.items())},
            "by": _folded(self.strategy.partition_column),
            "run": self.run,
            "asked": self.asked,
        }

    @classmethod
    def from_json(cls, strategy: WatermarkStrategy, saved: Mapping[str, Any]) -> WatermarkTracker:
        """What the meta record kept, under a strategy that may be another one by now.

        What another column told apart is forgotten: such a partition has no rows any more, and would hold the watermark for ever.
        """
        same = saved["by"] == _folded(strategy.partition_column)
        partitions = {name: SourcePartition(*values) for name, values in saved["partitions"].items() if same}
        return cls(strategy, saved["watermark"], partitions, saved["run"], saved["asked"], saved["watermark"])


def _folded(column: str | None) -> str | None:
    """A column's name in whatever case it was written."""
    return None if column is None else column.casefold()
