"""How long all input has been silent, and where event time stands then: from its last rows on it goes as the clock does.

Silence is what the source was asked for in vain. A key group that has no rows learns of that when the clock wakes it. So that
all key groups know the same, all are woken at the same times, whatever they hold: :attr:`Silence.due` follows from what all were
told.

A restart loses the time between the last look of a run and the first look of the next run. So the first looks of a run are
close to each other: each pause is at most twice the time that the look before it counted. A run that stops soon still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

STEPS = 10
"""The longest pause between two looks is the silence that closes windows, divided by this number."""


@dataclass(slots=True)
class Silence:
    """What is known of pauses, of one key group.

    Attributes:
        up: for how long the query has been asking its source, over all runs: the time that it was down is not in it.
        rows: of that time, when rows last came.
        heard: the same for each source partition.
        asked: the clock when the source was last asked; None: never yet.
        run: of the query, in which it was.
        due: the clock at which it is to be known next whether the input is silent.
    """

    up: int = 0
    rows: int = 0
    heard: dict[str, int] = field(default_factory=dict)
    asked: int | None = None
    run: str = ""
    due: int = 0

    def hear(self, partitions: Iterable[str], clock: int, run: str, after: int, tick: int) -> None:
        """Rows came.

        Args:
            partitions: those that they are of.
            clock: processing time.
            run: of the query, that planned the micro-batch.
            after: how long the silence must be that matters.
            tick: the smallest step of the clock.
        """
        now = self._go_on(clock, run)
        self.rows = self.up
        self.heard.update(dict.fromkeys(partitions, self.up))
        self.due = now + _max_pause(after, tick)

    def ask(self, clock: int, run: str, after: int, tick: int) -> bool:
        """The source was asked in vain; returns whether all has been silent for long enough.

        Args:
            clock: processing time.
            run: of the query, that planned the micro-batch.
            after: how long the silence must be.
            tick: the smallest step of the clock.
        """
        before = self.up
        now = self._go_on(clock, run)
        silent = self.up - self.rows
        pause = min(max(2 * (self.up - before), tick), _max_pause(after, tick))
        self.due = now + (pause if silent >= after else min(pause, after - silent))
        return silent >= after

    def of(self, partition: str) -> int:
        """For how long a source partition has been silent."""
        return self.up - self.heard.setdefault(partition, self.up)

    def _go_on(self, clock: int, run: str) -> int:
        """Time between two questions counts, within a run. A clock that is set back stands still until it is as far again."""
        before = clock if self.asked is None else self.asked
        if run == self.run:
            self.up += max(clock - before, 0)
        self.run, self.asked = run, max(clock, before)
        return self.asked

    def to_json(self) -> dict[str, Any]:
        """What the meta record keeps."""
        return {**asdict(self), "heard": dict(sorted(self.heard.items()))}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any] | None) -> Silence:
        """What it kept; None: nothing yet, as where silence matters from now on only."""
        return cls() if saved is None else cls(**{**saved, "heard": dict(saved["heard"])})


def _max_pause(after: int, tick: int) -> int:
    return max(after // STEPS // tick * tick, tick)


__all__ = ["STEPS", "Silence"]
