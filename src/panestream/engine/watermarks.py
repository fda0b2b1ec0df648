"""The watermark of one key group: what the partitions reported, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.watermarks import WatermarkStrategy


@dataclass(slots=True)
class SourcePartition:
    """What is known of one source partition: its largest event time, and when it last had a row (processing time)."""

    max_timestamp: int
    last_active: int


@dataclass(slots=True)
class WatermarkTracker:
    """Turns the largest event times seen per source partition into one watermark that never goes back.

    Every key group is handed every report, so all groups of a query agree after every micro-batch.
    """

    strategy: WatermarkStrategy
    watermark: int = MIN_TIMESTAMP
    partitions: dict[str, SourcePartition] = field(default_factory=dict)

    def advance(self, seen: Mapping[str, int], batch_time: int) -> int:
        """Takes in the largest event time of each partition that had rows in this micro-batch; returns the watermark."""
        for name in sorted(seen):
            known = self.partitions.get(name)
            largest = seen[name] if known is None else max(known.max_timestamp, seen[name])
            self.partitions[name] = SourcePartition(largest, batch_time)
        if self.strategy.delay is None:
            return self.watermark
        counted = [known.max_timestamp for known in self.partitions.values() if not self._is_idle(known, batch_time)]
        if counted:
            # Flink's minus one: a row with exactly the largest event time seen may still come.
            self.watermark = max(self.watermark, min(counted) - self.strategy.delay - 1)
        return self.watermark

    def _is_idle(self, known: SourcePartition, batch_time: int) -> bool:
        timeout = self.strategy.idle_timeout
        return timeout is not None and batch_time - known.last_active >= timeout

    def to_json(self) -> dict[str, Any]:
        """What the meta record keeps."""
        return {
            "watermark": self.watermark,
            "partitions": {name: [known.max_timestamp, known.last_active] for name, known in sorted(self.partitions.items())},
        }

    @classmethod
    def from_json(cls, strategy: WatermarkStrategy, saved: Mapping[str, Any]) -> WatermarkTracker:
        partitions = {name: SourcePartition(*values) for name, values in saved["partitions"].items()}
        return cls(strategy, saved["watermark"], partitions)
