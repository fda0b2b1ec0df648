"""The watermark of one key group: what the partitions reported, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy


@dataclass(slots=True)
class SourcePartition:
    """What is known of one source partition.

    Attributes:
        max_timestamp: its largest event time.
        last_active: when it last had a row, by the clock.
        emitted: the largest watermark that the user's own generator emitted for it.
    """

    max_timestamp: int
    last_active: int
    emitted: int = MIN_TIMESTAMP


@dataclass(slots=True)
class WatermarkTracker:
    """Turns the largest event times seen per source partition into one watermark that never goes back.

    Every key group is handed every report, so all groups of a query agree after every micro-batch.
    """

    strategy: WatermarkStrategy
    watermark: int = MIN_TIMESTAMP
    partitions: dict[str, SourcePartition] = field(default_factory=dict)

    def advance(self, seen: Mapping[str, int], batch_time: int, generated: Mapping[str, int] | None = None) -> int:
        """Takes in what this micro-batch says of each source partition; returns the watermark.

        Args:
            seen: the largest event time of each partition that had rows.
            batch_time: processing time.
            generated: what the user's own generator emitted for each partition, where the strategy has one.
        """
        for name in sorted(seen):
            known = self.partitions.get(name)
            largest = seen[name] if known is None else max(known.max_timestamp, seen[name])
            emitted = MIN_TIMESTAMP if known is None else known.emitted
            emitted = max(emitted, (generated or {}).get(name, MIN_TIMESTAMP))
            self.partitions[name] = SourcePartition(largest, batch_time, emitted)
        counted = [known for known in self.partitions.values() if not self._is_idle(known, batch_time)]
        if counted:
            self.watermark = max(self.watermark, min(self._watermark_of(known) for known in counted))
        return self.watermark

    def _watermark_of(self, known: SourcePartition) -> int:
        if self.strategy.generator is not None:
            return known.emitted
        if self.strategy.delay is None:
            return MIN_TIMESTAMP
        # Flink's minus one: a row with exactly the largest event time seen may still come.
        return known.max_timestamp - self.strategy.delay - 1

    def _is_idle(self, known: SourcePartition, batch_time: int) -> bool:
        timeout = self.strategy.idle_timeout
        return timeout is not None and batch_time - known.last_active >= timeout

    def to_json(self) -> dict[str, Any]:
        """What the meta record keeps."""
        return {
            "watermark": self.watermark,
            "partitions": {name: list(astuple(known)) for name, known in sorted(self.partitions.items())},
        }

    @classmethod
    def from_json(cls, strategy: WatermarkStrategy, saved: Mapping[str, Any]) -> WatermarkTracker:
        partitions = {name: SourcePartition(*values) for name, values in saved["partitions"].items()}
        return cls(strategy, saved["watermark"], partitions)
