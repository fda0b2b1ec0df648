"""How far event time is, written down from what watermarks are and not from what keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from panestream.testing.simulation.definition import MIN
from panestream.testing.simulation.schedule import Query, Row


@dataclass
class Times:
    """The watermark of a query.

    Attributes:
        query: whose.
        watermark: how far it has come.
        largest: the largest event time of each partition.
        silent: since when each partition has been asked in vain in this run, and for how long that counts.
        asked: when the source was last asked.
    """

    query: Query
    watermark: int = MIN
    largest: dict[str, int] = field(default_factory=dict)
    silent: dict[str, int | None] = field(default_factory=dict)
    asked: int = 0

    def start_again(self) -> None:
        """Another run has asked for nothing yet."""
        self.silent = dict.fromkeys(self.silent)

    def advance(self, rows: Sequence[Row], delay: int, clock: int) -> int:
        """The rows of a micro-batch have come; returns the watermark after them."""
        came = {row.partition if self.query.partitions else "" for row in rows if row.time is not None}
        idle = self.query.idle
        if idle is not None:
            counts = min(clock - self.asked, (idle + 1) // 2)
            for name in self.largest:
                before = self.silent.get(name)
                self.silent[name] = None if name in came else 0 if before is None else before + counts
        self.asked = max(self.asked, clock)
        for row in rows:
            if row.time is not None:
                name = row.partition if self.query.partitions else ""
                self.largest[name] = max(row.time, self.largest.get(name, MIN))
        silences = {name: self.silent.get(name) for name in self.largest}
        awake = [name for name, silence in silences.items() if idle is None or silence is None or silence < idle]
        if awake:
            self.watermark = max(self.watermark, min(self.largest[name] for name in awake) - delay - 1)
        return self.watermark
