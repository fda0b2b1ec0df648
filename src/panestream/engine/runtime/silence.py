"""The duration of silence of all input, after which event time advances with the clock from the last rows on.

Silence is the time during which the source was polled without result. A key group without rows learns of it when the clock wakes
it. All key groups wake at the same times, whatever their state, because :attr:`Silence.due` depends only on shared data.

A restart loses the time between the last check of a run and the first check of the next run. So the first checks of a run are
close to each other: each pause is at most twice the time that the check before it counted. Even a short run counts then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

STEPS = 10
"""The longest pause between two checks is the silence that closes windows, divided by this number."""


@dataclass(slots=True)
class Silence:
    """The pauses known to one key group.

    Attributes:
        up: how long the query has polled its source, over all runs, excluding the time when it was down.
        rows: the value of ``up`` when rows last came.
        heard: the value of ``up`` when each source partition last had rows.
        asked: the clock when the source was last polled, or None.
        run: the run of the query at that time.
        due: the clock at which the next check for silence is due.
    """

    up: int = 0
    rows: int = 0
    heard: dict[str, int] = field(default_factory=dict)
    asked: int | None = None
    run: str = ""
    due: int = 0

    def hear(self, partitions: Iterable[str], clock: int, run: str, after: int, tick: int) -> None:
        """Record rows from some source partitions. ``clock`` is processing time, and ``tick`` its smallest step.

        ``run`` is the query's run that planned the micro-batch, and ``after`` the silence that closes windows.
        """
        now = self._go_on(clock, run)
        self.rows = self.up
        self.heard.update(dict.fromkeys(partitions, self.up))
        self.due = now + _max_pause(after, tick)

    def ask(self, clock: int, run: str, after: int, tick: int) -> bool:
        """Record a poll without rows, with arguments as in :meth:`hear`; return whether the silence was long enough."""
        before = self.up
        now = self._go_on(clock, run)
        silent = self.up - self.rows
        pause = min(max(2 * (self.up - before), tick), _max_pause(after, tick))
        self.due = now + (pause if silent >= after else min(pause, after - silent))
        return silent >= after

    def of(self, partition: str) -> int:
        return self.up - self.heard.setdefault(partition, self.up)

    def _go_on(self, clock: int, run: str) -> int:
        """Count the time between two polls within a run. If the clock is set back, time stops until it catches up."""
        before = clock if self.asked is None else self.asked
        if run == self.run:
            self.up += max(clock - before, 0)
        self.run, self.asked = run, max(clock, before)
        return self.asked

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "heard": dict(sorted(self.heard.items()))}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any] | None) -> Silence:
        """Restore the values; None if silence matters only from now on."""
        return cls() if saved is None else cls(**{**saved, "heard": dict(saved["heard"])})


def _max_pause(after: int, tick: int) -> int:
    return max(after // STEPS // tick * tick, tick)


__all__ = ["STEPS", "Silence"]
