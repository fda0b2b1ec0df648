"""The watermark, written from its definition and not from the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from panestream.testing.simulation.schedule import Row, Settings
from tests.testing.simulation.campaign.queries import RIGHT, SIDES, Query
from tests.testing.simulation.campaign.reference_model.definition import MIN


@dataclass
class Times:
    """The watermark of a query.

    Attributes:
        query: the query.
        watermark: the current watermark.
        largest: the largest event time of each source that was seen or is awaited.
        silent: the start and length of each source's silence in this run.
        asked: the time of the last request to the sources.
    """

    query: Query
    watermark: int = MIN
    largest: dict[str, int] = field(default_factory=dict)
    silent: dict[str, int | None] = field(default_factory=dict)
    asked: int = 0

    def start_again(self) -> None:
        """Start another run, which has not requested rows yet."""
        self.silent = dict.fromkeys(self.silent)

    def advance(self, rows: Sequence[Row], settings: Settings, clock: int) -> int:
        """Add the rows of a micro-batch, and return the watermark after them."""
        timed = [row for row in rows if row.time is not None]
        came = {self.query.source_of(row) for row in timed}
        self._wait_for_sides()
        idle = self.query.idle
        if idle is not None:
            counts = min(clock - self.asked, (idle + 1) // 2)
            for name in self.largest:
                before = self.silent.get(name)
                self.silent[name] = None if name in came else 0 if before is None else before + counts
        self.asked = max(self.asked, clock)
        for row in timed:
            name = self.query.source_of(row)
            self.largest[name] = max(row.at, self.largest.get(name, MIN))
        self._wait_for_sides()
        silences = {name: self.silent.get(name) for name in self.largest}
        awake = [name for name, silence in silences.items() if idle is None or silence is None or silence < idle]
        reached = [self._of(name, settings) for name in awake or silences]
        # Idle sources hold nothing back. If all are idle, the largest time counts.
        self.watermark = max(self.watermark, (min if awake else max)(reached, default=MIN))
        return self.watermark

    def _wait_for_sides(self) -> None:
        """Let a side without rows hold the watermark. Once one of its partitions has rows, its partitions do."""
        for side in SIDES if self.query.of_two else ():
            if not any(name.startswith(f"{side}/") for name in self.largest):
                self.largest.setdefault(side, MIN)
            else:
                self.largest.pop(side, None)

    def _of(self, name: str, settings: Settings) -> int:
        """Return the watermark of a source, or the minimum if it had no rows."""
        if self.largest[name] == MIN:
            return MIN
        behind = self.query.behind if name.partition("/")[0] == RIGHT else 0
        return self.largest[name] - settings.delay - behind - 1


__all__ = ["Times"]
